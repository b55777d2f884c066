"""``lycosa cluster upgrade``: let programs write the formats of the version that all nodes have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.cluster_parts import CLUSTER_FILE, object_store, reachable_cluster
from lycosa.cli.cluster_status import ask_coordinator
from lycosa.cli.output import ExitCode, emit, emit_json

if TYPE_CHECKING:
    from lycosa.base.config.cluster_file import ClusterFile
    from lycosa.base.messages.coordinator_messages import ClusterStatus

_EPILOG = """
\b
To upgrade a cluster to a new version of lycosa while it crawls:
  1. install it where `lycosa serve` runs, and start that again
  2. install it on one node after the other: `lycosa cluster drain FILE NODE`, start the node again,
     `lycosa cluster drain FILE NODE --over`
  3. install it for everything that reads the crawl: `lycosa project`, export, audit
  4. lycosa cluster upgrade FILE
Until step 4 everything is stored as the version before reads it, so every step can be undone.

\b
Exit codes: 0 raised, or nothing to raise, 2 a program in the cluster cannot read the new formats
"""


@click.command(
    "upgrade", epilog=_EPILOG, short_help="Write new formats, when all nodes can read them."
)
@click.argument("file", type=CLUSTER_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def upgrade(file: Path, as_json: bool) -> int:
    """Let the crawl of FILE (cluster.toml) be stored in the formats of the installed version.

    Each version has a number of protocol and formats, and most have that of the version before.
    Programs whose numbers differ by one work together. Refused while a node cannot read the new
    formats. Afterwards programs of the older number are refused.
    """
    given = reachable_cluster(file)
    before = ask_coordinator(given)
    after = before if before.formats >= before.protocol else _raised(given, before)
    if as_json:
        emit_json(
            {
                "formats": after.formats,
                "before": before.formats,
                "coordinator": after.protocol,
                "nodes": {node.name: node.protocol for node in after.nodes},
            }
        )
    elif after.formats == before.formats:
        emit(
            f"formats of number {after.formats} are in force, the newest of the coordinator's"
            " version; nothing was changed"
        )
    else:
        emit(
            f"formats of number {after.formats} are in force; each worker writes them from its next"
            " start on"
        )
    return ExitCode.FINISHED


def _raised(given: ClusterFile, before: ClusterStatus) -> ClusterStatus:
    """Raise the format version by one; return the new status.

    Readers are informed first: programs that start meanwhile and could not read the new formats
    must not begin.
    """
    from lycosa.base.messages.coordinator_messages import UpgradeFormats
    from lycosa.cluster.serve.caller import RequestRefused
    from lycosa.cluster.shards.stored_crawl import store_formats

    number, store = before.formats + 1, object_store(given)
    store_formats(store, number)
    try:
        return ask_coordinator(given, UpgradeFormats(number))
    except RequestRefused:
        store_formats(store, before.formats)
        raise
