"""``lycosa cluster status``: nodes, shards and progress, as the coordinator knows them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.cli.cluster_parts import CLUSTER_FILE, reachable_cluster, tell_line
from lycosa.cli.output import (
    Column,
    ExitCode,
    counted,
    emit,
    emit_columns,
    emit_json,
    emit_pairs,
    human_bytes,
    human_duration,
)

if TYPE_CHECKING:
    from lycosa.base.config.cluster_file import ClusterFile
    from lycosa.base.messages.coordinator_messages import (
        CallerMessage,
        ClusterStatus,
        NodeStatus,
        ShardStatus,
    )
    from lycosa.base.messages.progress import Progress
    from lycosa.base.model.progress_parts import PoolUse

SEARCH_S = 10.0
"""How long a command looks for a coordinator."""
_EVERY_S = 2.0


@click.command("status", short_help="Nodes, shards and progress of the crawl.")
@click.argument("file", type=CLUSTER_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--watch", is_flag=True, help="Print it again every two seconds, until Ctrl-C.")
def status(file: Path, as_json: bool, watch: bool) -> int:
    """Print what the coordinator knows about the crawl of FILE (cluster.toml)."""
    given = reachable_cluster(file)
    while True:
        found = ask_coordinator(given)
        if as_json:
            emit_json(status_values(found))
        else:
            print_status(found)
        if not watch:
            return ExitCode.FINISHED
        sys.stdout.flush()
        time.sleep(_EVERY_S)
        if not as_json:
            emit("")


def ask_coordinator(given: ClusterFile, *messages: CallerMessage) -> ClusterStatus:
    """Make requests of the coordinator of a ``cluster.toml``; returns the status after them.

    Raises ``NoCoordinator``.
    """
    from lycosa.cluster.network.credentials import credentials_of
    from lycosa.cluster.serve.caller import call_coordinator

    return asyncio.run(
        call_coordinator(given, credentials_of(given), list(messages), tell_line, SEARCH_S)
    )


def status_values(found: ClusterStatus) -> dict[str, Any]:
    """The status as values for JSON."""
    import msgspec

    from lycosa.base.messages.progress import progress_values

    values: dict[str, Any] = msgspec.to_builtins(found)
    values.pop("type", None)
    values["progress"] = progress_values(found.progress)
    return values


def state_line(found: ClusterStatus) -> str:
    """What the crawl does, in one line."""
    if found.end:
        ends = {"finished": "finished", "limit": "ended by a limit", "stopped": "stopped"}
        said = ends.get(found.end, found.end)
        return said if found.is_over else f"ending ({said})"
    if found.waits_for:
        return f"the coordinator waits: {found.waits_for}"
    if found.is_quiet:
        return "the coordinator has just started and waits for the reports of nodes"
    if found.is_paused:
        return "paused by an operator (`lycosa cluster resume FILE` continues it)"
    if not found.nodes:
        return "waiting for nodes (`lycosa node --cluster FILE`)"
    if found.open_requests:
        return "giving seeds to the workers"
    if found.expects_asks and not found.progress.discovered:
        return "waiting for seeds (`lycosa crawl URL --cluster FILE`)"
    return "crawling"


def shards_line(found: ClusterStatus) -> str:
    """``16 shards: 14 running, 2 without a node``."""
    states = Counter(map(_state_of_shard, found.shards))
    parts = ", ".join(f"{number} {state}" for state, number in states.most_common())
    return f"{counted(len(found.shards), 'shard')}: {parts}"


def pool_line(use: PoolUse | None) -> str:
    """How Redis is used for the limits of IP addresses; empty where it is not configured."""
    if use is None:
        return ""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(use.since))
    meaning = {
        "shared": "used: all machines share the limits of IP addresses",
        "divided": "answers, but each machine uses its part of the limits",
        "away": "away: each machine uses its part of the limits",
    }
    why = f"; {use.why}" if use.why else ""
    return f"{meaning[use.state.value]}, since {since}{why}"


def renderers_line(found: ClusterStatus) -> str:
    """Which machines render, and how many pages at a time; empty where no page is to be rendered.

    ``b: 2 of 4 pages in work, HeadlessChrome/150; c: no browser: ...``
    """
    progress = found.progress
    if progress.renderers:
        return "; ".join(each.line() for each in progress.renderers)
    waits = sum(progress.meter.table("lycosa_render_queue_depth").values())
    if not waits or found.is_over:
        return ""
    return f"none asked for pages in the last minute, and {waits} wait (`lycosa node --renders N`)"


def damage_line(progress: Progress) -> str:
    """How many segments are damaged, and where to read more; empty if none is."""
    if not progress.damaged_segments:
        return ""
    return (
        f"{counted(progress.damaged_segments, 'segment')} damaged when sealed; damaged/ in the"
        " object storage names their parts, which are kept"
    )


def foreign_line(progress: Progress) -> str:
    """How many records in topics were stepped over; empty when there was none."""
    counts = progress.meter.table("lycosa_foreign_records_total")
    parts = ", ".join(f"{number} in {topic}" for topic, number in sorted(counts.items()) if number)
    if not parts:
        return ""
    return f"{parts}: another program writes to the topics of this crawl; see the logs"


def print_status(found: ClusterStatus) -> None:
    """Print the status for a person."""
    emit_pairs(
        [
            ("crawl", found.crawl),
            ("state", state_line(found)),
            ("coordinator", f"number {found.coordinator}"),
            ("clocks", found.clock_alarm),
            ("formats", _formats(found)),
            ("shards", shards_line(found)),
            *_totals(found),
            (
                "requests",
                f"{found.open_requests} of callers are not answered" if found.open_requests else "",
            ),
            ("damage", damage_line(found.progress)),
            ("renderers", renderers_line(found)),
            ("redis", pool_line(found.progress.pool)),
            ("foreign records", foreign_line(found.progress)),
            ("settings", ", ".join(f"{key}={value}" for key, value in found.settings.items())),
        ]
    )
    emit_columns(_NODES, found.nodes)
    emit_columns(_SHARDS, found.shards)


def _formats(found: ClusterStatus) -> str:
    """The formats in force, if something must be known about them."""
    if found.formats == found.protocol:
        return ""
    return (
        f"number {found.formats} are in force; `lycosa cluster upgrade` raises them to"
        f" {found.protocol}, when all nodes read these"
    )


def _totals(found: ClusterStatus) -> list[tuple[str, str]]:
    if found.is_over and not found.progress.discovered:
        return [
            ("totals", "not known to this coordinator; `lycosa status --cluster FILE` has them")
        ]
    from lycosa.cli.progress_rows import progress_rows

    return progress_rows(found.progress)


def _note_of_node(node: NodeStatus) -> str:
    return "lost" if node.is_lost else "; ".join(filter(None, (node.refusal, node.trouble)))


def _note_of_shard(shard: ShardStatus) -> str:
    notes = (
        shard.why,
        "its node cannot run it, and tries again" if shard.is_unable else "",
        f"waits for {shard.waits_for}" if shard.waits_for else "",
        "leaving its node" if shard.is_leaving else "",
        f"wanted on {shard.wanted}" if shard.wanted and shard.wanted != shard.node else "",
    )
    return "; ".join(filter(None, notes))


def _state_of_shard(shard: ShardStatus) -> str:
    return shard.state or ("starting" if shard.node else "without a node")


_NODES: tuple[Column[NodeStatus], ...] = (
    Column("node", lambda x: x.name),
    Column("shards", lambda x: len(x.shards)),
    Column("report", lambda x: f"{human_duration(x.silent_s)} ago"),
    Column("clock", lambda x: f"{x.ahead_s:+.1f} s"),
    Column("disk free", lambda x: human_bytes(x.free_disk)),
    Column("memory free", lambda x: human_bytes(x.free_memory)),
    Column("note", _note_of_node),
)
_SHARDS: tuple[Column[ShardStatus], ...] = (
    Column("shard", lambda x: x.shard),
    Column("node", lambda x: x.node or "-"),
    Column("state", _state_of_shard),
    Column("term", lambda x: x.term if x.term >= 0 else ""),
    Column("captures", lambda x: x.captures),
    Column("queued", lambda x: x.queued),
    Column("commits", lambda x: x.commits),
    Column("note", _note_of_shard),
)
