"""``lycosa feed ... --to TARGET``: exports a feed and prints what it does."""

from __future__ import annotations

import os
import select
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from lycosa.cli.cluster_parts import client_of
from lycosa.cli.crawl_reading import CrawlPlace, opened_cluster
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json
from lycosa.cli.report_lines import ReportLines

if TYPE_CHECKING:
    from pathlib import Path

    from lycosa.cluster.shards.opened_cluster import OpenedCluster
    from lycosa.feeds.cluster_source import ClusterSource
    from lycosa.feeds.export_run import ExportFeed, ExportReport
    from lycosa.feeds.journal_lines import JournalLines

    OpenFeed = Callable[[str], ExportFeed]


ITEMS_FEED = "items."
_POLL_S = 0.5


class ExportOptions(NamedTuple):
    """Where to export, and how. ``has_ended`` waits a moment and says whether to end."""

    to: str
    follows: bool = False
    as_json: bool = False
    has_ended: Callable[[], bool] | None = None


def export(kind: str, place: CrawlPlace, options: ExportOptions) -> int:
    """Export a feed; returns the exit code. Raises ``click.UsageError``."""
    from lycosa.base.model.item_schema import BadSchema
    from lycosa.feeds.export_port import TargetError
    from lycosa.feeds.feed_position import BadPosition

    try:
        with opened_feeds(kind, place) as open_feed:
            if kind.startswith(ITEMS_FEED) and not _await_items(kind, open_feed(""), options):
                return ExitCode.FINISHED
            code = _run(open_feed, options)
            if kind.startswith(ITEMS_FEED) and place.cluster is None:
                _tell_extracted_again(place.folder, kind.removeprefix(ITEMS_FEED))
            return code
    except (BadPosition, BadSchema, TargetError) as error:
        raise click.UsageError(clean(str(error))) from error


def _await_items(kind: str, feed: ExportFeed, options: ExportOptions) -> bool:
    """Wait until an extractor has a version; whether it has one.

    Raises ``click.UsageError`` for one that the crawl does not have, unless it is followed.
    """
    from lycosa.feeds.items_export import ItemsExport

    assert isinstance(feed, ItemsExport)
    if not feed.learn_versions():
        tell_no_items(kind, feed.names(), options.follows)
    while not feed.learn_versions():  # a crawl that has just begun has no segment
        if _wait(_POLL_S, options.has_ended):
            return False
    return True


def _tell_extracted_again(folder: Path, name: str) -> None:
    """Users who have corrected an extractor look for its rows here, and a feed lacks them."""
    from lycosa.state.shard.item_source import FolderItems

    items = FolderItems(folder)
    if version := items.current_version(items.list_tables(), name).version:
        click.echo(
            f"lycosa: what `lycosa extract` made again (version {version}) is in no feed;"
            f" `lycosa export {shlex.quote(str(folder))} {name}` has the items of all pages as they"
            " are now",
            err=True,
        )


def _run(open_feed: OpenFeed, options: ExportOptions) -> int:
    from lycosa.feeds.export_run import ExportRun
    from lycosa.feeds.exporters.target_texts import exporter_for, extra_of

    first = open_feed("")
    with client_of(*extra_of(options.to)):
        name = exporter_for(options.to, first.table, first.crawl).name
    shown = ReportLines(name, export_line, "the target is back", is_late=True)
    tell = shown.print_json if options.as_json and options.follows else shown.show
    run = ExportRun(
        open_feed,
        lambda table: exporter_for(options.to, table, first.crawl),
        tell,
        lambda seconds: _wait(seconds, options.has_ended),
    )
    try:
        report = run.follow(not options.follows)
    finally:
        shown.clear()
    if options.as_json:
        import msgspec

        emit_json({"target": name, **msgspec.to_builtins(report)})
    else:
        emit(clean(f"{name}: {export_line(report)}"))
    return ExitCode.FINISHED


@contextmanager
def opened_feeds(kind: str, place: CrawlPlace) -> Iterator[OpenFeed]:
    """Gives a feed after a position, any number of times; the one before is of no use then."""
    if place.cluster is not None:
        from lycosa.processes.changes_feed import ChangesFeed, ClusterReaders

        with opened_cluster(place) as opened, _Sources(opened) as sources:
            yield _feeds(
                kind,
                sources.new_lines,
                lambda after: ChangesFeed(opened.crawl, ClusterReaders(opened), after),
            )
        return
    from lycosa.feeds.dead_letter_feed import DeadLetterFeed
    from lycosa.feeds.folder_lines import FolderLines
    from lycosa.processes.changes_feed import folder_changes

    if kind == "dlq":
        yield lambda after: DeadLetterFeed(place.folder, after)
    else:
        yield _feeds(
            kind,
            lambda: FolderLines(place.folder),
            lambda after: folder_changes(place.folder, after),
        )


def _feeds(kind: str, new_lines: Callable[[], JournalLines], changes: OpenFeed) -> OpenFeed:
    """The feeds that folders and clusters have."""
    if kind == "changes":
        return changes
    if not kind.startswith(ITEMS_FEED):
        from lycosa.feeds.page_feed import PageFeed

        return lambda after: PageFeed(new_lines(), after)
    from lycosa.feeds.items_export import ItemsExport, KnownVersions

    known = KnownVersions(kind.removeprefix(ITEMS_FEED))
    return lambda after: ItemsExport(new_lines(), known, after)


def tell_no_items(kind: str, known: Sequence[str], follows: bool) -> None:
    """A crawl that has just begun has no segment yet, so only a reader of what is there is sent
    away. Raises ``click.UsageError``.
    """
    name = kind.removeprefix(ITEMS_FEED)
    there = (
        f"there are {', '.join(ITEMS_FEED + each for each in known)}" if known else "it has none"
    )
    if not follows:
        raise click.UsageError(
            f"no run of the crawl made items of an extractor {name}; {there}. What `lycosa extract`"
            f" made is in no feed: `lycosa export DIR {name}` has it"
        )
    click.echo(f"lycosa: no items of an extractor {name} yet; waiting for the first", err=True)


class _Sources:
    """Readers of a cluster's logs, of which one is open at a time."""

    def __init__(self, opened: OpenedCluster) -> None:
        self.opened = opened
        self._source: ClusterSource | None = None

    def __enter__(self) -> _Sources:
        return self

    def __exit__(self, *_: object) -> None:
        if self._source is not None:
            self._source.close()

    def new_lines(self) -> JournalLines:
        """The lines of all journals, from the beginning."""
        from lycosa.feeds.cluster_lines import ClusterLines
        from lycosa.feeds.cluster_source import ClusterSource

        if self._source is not None:
            self._source.close()
        self._source = ClusterSource(self.opened)
        return ClusterLines(self._source)


def _wait(seconds: float, has_ended: Callable[[], bool] | None) -> bool:
    if has_ended is None:
        time.sleep(seconds)
        return False
    until = time.monotonic() + seconds
    while not has_ended():
        if time.monotonic() >= until:
            return False
    return True


def input_has_ended(wait_s: float) -> bool:
    """Wait until standard input ends, for some seconds at most; whether it has ended."""
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], wait_s)
    return bool(readable) and not os.read(sys.stdin.fileno(), 1024)


def export_line(report: ExportReport) -> str:
    """What an export has done, in words."""
    done = f"{counted(report.rows, 'row')} written"
    return f"{done}; {'more to come' if report.is_behind else 'nothing behind'}"
