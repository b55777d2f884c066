"""``lycosa extension``: digests of user code, what a crawl runs, and its updates.

User code is read as bytes, and compared by its SHA-256. Only ``update`` imports what its command
names, in a process of the kind that will run it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.cli.callable_crawl import ask_crawl, crawl_runs, remark_options
from lycosa.cli.cluster_parts import CLUSTER_FILE, object_store, reachable_cluster, tell_line
from lycosa.cli.cluster_status import ask_coordinator
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace
from lycosa.cli.option_sets import json_option, option_set
from lycosa.cli.output import Column, ExitCode, clean, emit, emit_columns, emit_json, human_time

if TYPE_CHECKING:
    from lycosa.base.config.cluster_file import ClusterFile
    from lycosa.base.config.sections import Config
    from lycosa.base.messages.coordinator_messages import ClusterStatus
    from lycosa.base.model.code_version import CodeVersion
    from lycosa.processes.folder_code import NamedCode
    from lycosa.state.objects.objects_port import ObjectStore
    from lycosa.state.objects.stored_code import CodeRecord

_AGAIN_S = 1.0
_EPILOG = """
\b
Examples:
  lycosa extension digest ./shop.py:products             the SHA-256 that a node must allow
  lycosa extension list crawls/shop.example              what the crawl runs and ran, since when
  lycosa extension update --cluster cluster.toml ./shop.py:products

\b
To change code on a cluster while it crawls:
  1. look at the new code, and take its digest: lycosa extension digest ./shop.py:products
  2. on each node, add it to allow of [extensions] in cluster.toml (a node reads that again within
     seconds), or start the node again with --allow SHA256
  3. lycosa extension update --cluster cluster.toml ./shop.py:products
The third step is refused while a connected node has not reported the digest. A node that joins
later without it gets no shards, and `lycosa cluster status` says why. Which code made the rows of a
page is in the header of its segment: `lycosa explain`.

The crawl of a folder runs what its command names: stop it, and start it again with --extension.

\b
Exit codes: 0 done, 1 the crawl does not answer, 2 bad usage, or a node does not allow the code
"""


@click.group(
    "extension",
    epilog=_EPILOG,
    short_help="Digests of your code, what a crawl runs, and its updates.",
)
def command() -> None:
    """Digests of your code, what a crawl runs, and its updates."""


_place = option_set(
    click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False)),
    click.option(
        "--cluster", type=CLUSTER_FILE, help="The crawl of this cluster.toml; leave DIR out."
    ),
)


@command.command("digest", short_help="The SHA-256 of code, by which machines allow it.")
@click.argument("codes", nargs=-1, required=True, metavar="FILE.py:NAME...")
@json_option
def digest(codes: tuple[str, ...], as_json: bool) -> int:
    """Print the SHA-256 of the code that FILE.py:NAME, FOLDER:NAME or module:NAME names.

    That of a file is its own; that of a package is of an archive of all its .py files. What the
    code imports from elsewhere is not part of it. The code is read and not run.
    """
    from lycosa.processes.folder_code import read_named_code

    found = read_named_code(codes)
    if as_json:
        emit_json(
            [{"name": each.name, "code": each.given, "sha256": each.code.digest} for each in found]
        )
    else:
        for each in found:
            emit(f"{each.code.digest}  {clean(each.given)}")
    return ExitCode.FINISHED


@command.command("list", cls=CrawlCommand, short_help="The code of a crawl, and since when.")
@_place
@json_option
def list_code(folder: Path, cluster: Path | None, as_json: bool) -> int:
    """List the code that the crawl runs, and what each name stood for before.

    On a cluster the coordinator tells what is in force, and what the nodes allow. DIR is the crawl
    folder; leave it out with --cluster.
    """
    from lycosa.state.objects.folder import FolderStore
    from lycosa.state.objects.stored_code import code_records, present_code

    status = None
    if cluster is not None:
        given = reachable_cluster(cluster)
        records, status = code_records(object_store(given)), ask_coordinator(given)
    else:
        from lycosa.state.folder.manifest import load_manifest

        load_manifest(folder)
        records = code_records(FolderStore(str(folder), folder))
    present = status.code if status is not None else present_code(records)
    if as_json:
        emit_json(_values(records, present, status))
        return ExitCode.FINISHED
    if not present:
        emit("the crawl runs no extension")
    for name, each in sorted(present.items()):
        emit(f"{clean(name)}: SHA-256 {each.digest}, {_since(name, each, records)}")
        if status is not None:
            emit(f"  {_allowed_by(status, each.digest)}")
    if records:
        emit_columns(_RECORDS, records)
    return ExitCode.FINISHED


@command.command("update", cls=CrawlCommand, short_help="Run other code from now on.")
@_place
@click.argument("codes", nargs=-1, metavar="[FILE.py:NAME]...")
@click.option("--end", "ended", multiple=True, metavar="NAME", help="Run NAME no longer.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=10.0,
    metavar="SECONDS",
    help="How long to wait until all nodes have reported the code [10].",
)
@remark_options
@json_option
def update(
    folder: Path,
    cluster: Path | None,
    codes: tuple[str, ...],
    ended: tuple[str, ...],
    wait_s: float,
    why: str,
    by: str,
    as_json: bool,
) -> int:
    """Let the crawl run the code that FILE.py:NAME names in place of what has that name now.

    It is imported here once, in a process of its kind, so that code with an error is refused. It is
    stored with the crawl under its SHA-256, and takes effect when all connected nodes have
    reported that they allow it, as a version of the settings: every commit says which version it
    was made with, and a segment ends at the change. DIR is the folder of a crawl that runs; leave
    it out with --cluster.
    """
    from lycosa.processes.folder_code import read_named_code

    if not (codes or ended):
        raise click.UsageError("give FILE.py:NAME, or --end NAME")
    named = read_named_code(codes)
    digests = {**{each.name: each.code.digest for each in named}, **dict.fromkeys(ended, "")}
    place = CrawlPlace(folder, cluster)
    if cluster is not None:
        found = _update_cluster(reachable_cluster(cluster), named, digests, (by, why), wait_s)
    else:
        found = _update_running(place, named, digests, (by, why))
    if as_json:
        emit_json({"settings_version": found.settings_version, "code": _shown(found.code)})
        return ExitCode.FINISHED
    for name in digests:
        now = found.code.get(name)
        emit(f"{name}: {f'SHA-256 {now.digest}' if now else 'not run any more'}")
    emit(f"in force from version {found.settings_version} of the settings on")
    return ExitCode.FINISHED


def store_first_code(store: ObjectStore, given: ClusterFile, config: Config) -> None:
    """Store the code that a new crawl of a cluster is created with.

    That of a crawl which exists is changed by its coordinator. Raises ``SettingsError``.
    """
    from lycosa.base.config.sources import SettingsError
    from lycosa.cluster.shards.stored_crawl import stored_config
    from lycosa.processes.folder_code import check_named, read_named_code
    from lycosa.state.objects.stored_code import keep_code, note_code

    before = stored_config(store, given)
    if before is not None:
        if before.extensions.code != config.extensions.code:
            raise SettingsError(
                [
                    "extensions.code: the crawl exists: `lycosa extension update --cluster"
                    f" {given.path} FILE.py:NAME` changes its code"
                ]
            )
        return
    named = read_named_code(config.extensions.code)
    check_named(named, config.extensions)
    for each in named:
        keep_code(store, each.code)
    note_code(store, _records(named, (), 0))


def _records(named: Sequence[NamedCode], ended: Sequence[str], since: int) -> list[CodeRecord]:
    from lycosa.state.objects.stored_code import CodeRecord

    now = time.time()
    return [
        *(CodeRecord(each.name, each.code.digest, each.given, since, wall=now) for each in named),
        *(CodeRecord(name, "", since=since, wall=now) for name in ended),
    ]


def _update_cluster(
    given: ClusterFile,
    named: Sequence[NamedCode],
    digests: dict[str, str],
    who: tuple[str, str],
    wait_s: float,
) -> ClusterStatus:
    """Store the code, and ask until all nodes have it. Raises ``RequestRefused``."""
    from lycosa.base.config.sections import Config
    from lycosa.base.messages.coordinator_messages import ChangeCode
    from lycosa.cluster.serve.caller import RequestRefused
    from lycosa.cluster.shards.stored_crawl import stored_config
    from lycosa.processes.folder_code import check_named
    from lycosa.state.objects.stored_code import keep_code, note_code

    store, deadline = object_store(given), time.monotonic() + wait_s
    check_named(named, (stored_config(store, given) or Config()).extensions)
    for each in named:
        keep_code(store, each.code)
    while True:
        try:
            found = ask_coordinator(given, ChangeCode(digests, *who))
            break
        except RequestRefused as error:
            # a node takes the code from the bucket within seconds, if it allows it
            if time.monotonic() >= deadline:
                raise
            tell_line(f"{clean(str(error))}; trying again")
            time.sleep(_AGAIN_S)
    ended = [name for name, digest in digests.items() if not digest]
    note_code(store, _records(named, ended, found.settings_version))
    return found


def _update_running(
    place: CrawlPlace, named: Sequence[NamedCode], digests: dict[str, str], who: tuple[str, str]
) -> ClusterStatus:
    """Change the code of a folder's crawl that runs, to code that its command allowed."""
    from lycosa.base.messages.coordinator_messages import ChangeCode
    from lycosa.processes.folder_code import check_named
    from lycosa.state.folder.folder_notes import settings_of
    from lycosa.state.folder.manifest import load_manifest
    from lycosa.state.objects.folder import FolderStore
    from lycosa.state.objects.stored_code import keep_code, note_code

    load_manifest(place.folder)
    again = " ".join(f"--extension {each.given}" for each in named)
    again = f"lycosa crawl --dir {place.folder} {again or '--set extensions.code='}"
    if not crawl_runs(place):
        raise click.UsageError(f"the crawl does not run; its next run has what it names: {again}")
    store = FolderStore(str(place.folder), place.folder)
    allowed = {each for node in ask_crawl(place).nodes for each in node.code}
    if lacking := [each.given for each in named if each.code.digest not in allowed]:
        raise click.UsageError(
            f"this run does not allow {', '.join(lacking)}: stop the crawl and name the code"
            f" again ({again}), or name its digest in extensions.allow of a run"
        )
    check_named(named, settings_of(place.folder).extensions)
    for each in named:
        keep_code(store, each.code)
    found = ask_crawl(place, ChangeCode(digests, *who))
    ended = [name for name, digest in digests.items() if not digest]
    note_code(store, _records(named, ended, found.settings_version))
    return found


def _since(name: str, present: CodeVersion, records: Sequence[CodeRecord]) -> str:
    """Since when a name stands for its code: a run of a folder, or a version of the settings."""
    runs = [x.term for x in records if x.name == name and x.digest == present.digest]
    if runs and runs[-1]:
        return f"since run {runs[-1]} of the crawl"
    if not present.since:
        return "since the beginning of the crawl"
    return f"since version {present.since} of the settings"


def _allowed_by(status: ClusterStatus, digest: str) -> str:
    there = [node for node in status.nodes if not node.is_lost]
    lacking = [node.name for node in there if digest not in node.code]
    if not lacking:
        return f"allowed by {', '.join(node.name for node in there) or 'no node yet'}"
    return f"not allowed by {', '.join(lacking)}, which get no new shards"


def _shown(present: Any) -> dict[str, Any]:
    return {
        name: {"sha256": each.digest, "since": each.since} for name, each in sorted(present.items())
    }


def _values(
    records: Sequence[CodeRecord], present: Any, status: ClusterStatus | None
) -> dict[str, Any]:
    nodes = {node.name: list(node.code) for node in status.nodes} if status is not None else {}
    return {
        "code": _shown(present),
        "nodes": nodes,
        "history": [
            {
                "name": each.name,
                "sha256": each.digest,
                "code": each.given,
                "since": each.since,
                "term": each.term,
                "date": human_time(each.wall),
            }
            for each in records
        ],
    }


_RECORDS: tuple[Column[Any], ...] = (
    Column("name", lambda x: clean(x.name)),
    Column("sha256", lambda x: x.digest[:12] or "ended"),
    Column("given as", lambda x: clean(x.given)),
    Column("settings", lambda x: x.since),
    Column("run", lambda x: x.term or ""),
    Column("date", lambda x: human_time(x.wall)),
)
