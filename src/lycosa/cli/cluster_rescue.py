"""``lycosa cluster rescue``: continue a crawl whose topics are lost, from its object storage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.cli.cluster_import import StepLine, cluster_places
from lycosa.cli.cluster_parts import CLUSTER_FILE, given_cluster
from lycosa.cli.output import ExitCode, counted, emit, emit_json, emit_table, human_time

if TYPE_CHECKING:
    from lycosa.base.config.cluster_file import ClusterFile
    from lycosa.cluster.kafka.kafka_clients import KafkaClient
    from lycosa.cluster.kafka.topics import Topics
    from lycosa.moves.rescue_run import RescueReport
    from lycosa.moves.rescued_shard import RescuedShard
    from lycosa.state.objects.objects_port import ObjectStore

_SEARCH_S = 2.0

_UNKNOWN = (
    "seeds and URLs behind a snapshot to which no stored page led: give all seeds again with"
    " `lycosa crawl`; known ones are skipped",
    "requests without a capture behind the snapshots (failures, errors that ask for a retry): these"
    " URLs are requested again",
    "what hosts asked for (Retry-After, back-off) behind the last attempt logs that were sent, and"
    " which hosts were parked or retired behind the snapshots: hosts with captures there wait at"
    " least the longest ordinary delay",
    "decisions about dead letters, and verdicts about near-duplicates, behind the snapshots",
    "rows of the topics pages and dlq, if these were lost: the captures are in pages/ and warc/",
    "settings of `lycosa cluster set`, drained nodes, and a stop, if the topic control was lost",
)
"""What no rescue can know, each with what follows from it."""

_EPILOG = """
\b
Examples:
  lycosa cluster rescue cluster.toml --dry-run   what would be found; changes nothing
  lycosa cluster rescue cluster.toml             rescue; repeat it if it was interrupted
  lycosa audit --cluster cluster.toml            check the result
  lycosa serve --cluster cluster.toml            then start coordinator and nodes, and
  lycosa crawl --seeds FILE --cluster cluster.toml   give the seeds again
"""


@click.command("rescue", epilog=_EPILOG, short_help="Continue a crawl whose topics are lost.")
@click.argument("file", type=CLUSTER_FILE)
@click.option("--dry-run", is_flag=True, help="Report what would be found; change nothing.")
@click.option(
    "--work",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Local folder for the tables of all shards; it must have room for all snapshots."
    " [default: in the user's cache folder]",
)
@click.option("--progress", is_flag=True, help="Print each step as a line on standard error.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def rescue(file: Path, dry_run: bool, folder: Path | None, progress: bool, as_json: bool) -> int:
    """Continue the crawl of FILE (cluster.toml) after its topics in Kafka were lost.

    Each shard begins with its newest complete snapshot in object storage. Captures behind it are
    read from the segments: their URLs are not requested again, and all their links are handed in
    again. Then the topics are made.

    End all nodes and the coordinator first. Refused while the topics have a log of the crawl. May
    be interrupted and repeated, also on another machine.
    """
    from lycosa.moves.rescue_run import rescue_crawl

    given, line = given_cluster(file), StepLine("rescue", progress)
    with _folder(given, folder) as work:
        _refuse_coordinator(given)
        try:
            report = asyncio.run(rescue_crawl(cluster_places(given, work, line), dry_run))
        finally:
            line.clear()
    if as_json:
        emit_json(_values(report))
    else:
        for text in _lines(report, file):
            emit(text)
    return ExitCode.FINISHED


@contextmanager
def _folder(given: ClusterFile, folder: Path | None) -> Iterator[Path]:
    """The local folder, locked. Raises ``CrawlInUse``."""
    from lycosa.cluster.shards.opened_cluster import default_cache
    from lycosa.state.folder.lock import CrawlLock

    path = folder or default_cache() / f"rescue-{given.name}"
    path.mkdir(parents=True, exist_ok=True)
    lock = CrawlLock(path)
    lock.take_lock()
    try:
        yield path
    finally:
        lock.release()


def refuse_lost_topics(
    given: ClusterFile, store: ObjectStore, client: KafkaClient, topics: Topics
) -> None:
    """Refuse to make topics of a crawl that has made commits: that would hide their loss.

    Raises ``click.UsageError``, ``KafkaAway`` or ``ObjectError``.
    """
    from lycosa.cluster.kafka.upkeep import missing_topics
    from lycosa.cluster.shards.stored_crawl import newest_manifest
    from lycosa.state.objects.generation import placed_objects
    from lycosa.state.objects.object_errors import ObjectMissing

    lost = [
        name for name in missing_topics(client, topics) if name in (topics.changelog, topics.inbox)
    ]
    if not lost:
        return
    try:
        placed = placed_objects(store, newest_manifest(store)[0].generation)
    except ObjectMissing:
        return
    kinds = ("snapshots", "parts", "attempts")
    if any(next(iter(placed.list(f"{kind}/")), None) is not None for kind in kinds):
        raise click.UsageError(
            f"the crawl at {given.objects} has commits, but topic {lost[0]} is missing: restore it,"
            f" or continue from the object storage by `lycosa cluster rescue {given.path}`"
        )


def _refuse_coordinator(given: ClusterFile) -> None:
    """Refuse while a coordinator runs: its nodes may run workers that own shards."""
    from lycosa.cluster.network.credentials import credentials_of
    from lycosa.cluster.serve.caller import NoCoordinator, call_coordinator

    if not given.coordinators:
        return
    try:
        found = asyncio.run(
            call_coordinator(given, credentials_of(given), [], lambda text: None, _SEARCH_S)
        )
    except NoCoordinator:
        return
    raise click.UsageError(
        f"a coordinator of this crawl runs, with {counted(len(found.nodes), 'node')}: end it and"
        " all nodes first (Ctrl-C or SIGTERM), so that no worker owns a shard"
    )


def _values(report: RescueReport) -> dict[str, Any]:
    state = report.state
    return {
        "id": state.id,
        "began": human_time(state.began),
        "dry_run": report.is_dry,
        "continued": report.is_again,
        "topics": report.topics,
        "warnings": [each.what for each in report.findings],
        "shards": [_shard_values(each) for _, each in sorted(state.shards.items())],
        "unknown": list(_UNKNOWN),
    }


def _shard_values(found: RescuedShard) -> dict[str, Any]:
    entered = found.entered
    return {
        "shard": found.shard,
        "snapshot": found.snapshot,
        "newest_snapshot": found.newest,
        "captures": entered.captures,
        "first": human_time(found.first_us / 1e6) or None,
        "last": human_time(found.last_us / 1e6) or None,
        "links": entered.links,
        "links_since": _since(found),
        "captures_known": found.known,
        "parsed_again": entered.parsed,
        "not_parsed": entered.unparsed,
        "robots": entered.robots,
        "parcels": found.parcels,
        "segments_closed": found.closed,
        "lost_parts": found.lost_parts,
        "captures_lost": found.lost,
    }


def _lines(report: RescueReport, file: Path) -> Iterator[str]:
    shards = [each for _, each in sorted(report.state.shards.items())]
    emit_table(
        ("shard", "snapshot", "captures behind it", "from", "to", "links", "since", "robots"),
        [_row(each) for each in shards],
    )
    for each in shards:
        yield from _remarks(each)
    captures = sum(each.entered.captures for each in shards)
    links = sum(each.entered.links for each in shards)
    yield f"{counted(captures, 'capture')} found behind the snapshots, {counted(links, 'link')}" + (
        " would be handed in again; nothing was changed" if report.is_dry else " handed in again"
    )
    yield "not known any more:"
    for text in _UNKNOWN:
        yield f"  {text}"
    for finding in report.findings:
        yield f"warning: {finding.what}"
    if not report.is_dry:
        yield f"The crawl can continue. `lycosa audit --cluster {file}` checks it."


def _row(found: RescuedShard) -> tuple[object, ...]:
    mark, entered = found.snapshot, found.entered
    return (
        found.shard,
        f"term {mark.term}, commit {mark.sequence}" if mark else "none",
        entered.captures,
        human_time(found.first_us / 1e6),
        human_time(found.last_us / 1e6),
        entered.links,
        _since(found),
        entered.robots,
    )


def _since(found: RescuedShard) -> str:
    """From where on links were handed in again."""
    from lycosa.moves.rescue_survey import PointOfView

    return (found.view if found.snapshot else PointOfView.NOTHING).value


def _remarks(found: RescuedShard) -> Iterator[str]:
    shard = f"shard {found.shard}"
    if found.snapshot is None:
        yield f"{shard}: it has no complete snapshot, so it was made from its captures alone"
    elif found.newest is not None and found.newest != found.snapshot:
        yield (
            f"{shard}: its newest snapshot (term {found.newest.term}, commit"
            f" {found.newest.sequence}) is not complete, so the one before was used"
        )
    if found.lost_parts:
        yield (
            f"{shard}: {counted(found.lost_parts, 'part')} of open segments missing, with"
            f" {counted(found.lost, 'capture')} that the snapshot knew; these URLs, and those of"
            " later captures in them, are requested again"
        )
    if found.entered.unparsed:
        yield (
            f"{shard}: {counted(found.entered.unparsed, 'page')} could not be parsed again; the"
            " next owner tries it"
        )
