"""The list of changed pages as a feed: new, changed, gone and back, each row once.

Rows are numbered in each partition, so the position is that of ``lycosa changes`` (a cursor, see
``changed_list``): it names the generation of the crawl and stays valid over imports.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from lycosa.base.calls import ChangesQuery, ListedChange
from lycosa.base.model.capture import TOLD_CHANGES
from lycosa.base.urls.identity import Canonicalizer
from lycosa.feeds.export_port import ExportTable
from lycosa.feeds.export_tables import changes_table
from lycosa.feeds.feed_position import BadPosition
from lycosa.feeds.folder_source import FolderSource
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.queries.changed_list import (
    BadCursor,
    ChangesCursor,
    ChangesPage,
    changes_in,
    cursor_text,
    generation_of,
    merged_changes,
    read_cursor,
)
from lycosa.inspect.saved_settings import load_saved_settings

if TYPE_CHECKING:
    from lycosa.cluster.shards.cluster_view import ClusterView
    from lycosa.cluster.shards.opened_cluster import OpenedCluster

_PAGE = 1000
CLUSTER_POLL_S = 10.0
_SETTLE_S = 15.0  # the last commit of a killed crawl counts after some seconds

NewestReader = Callable[[], tuple[CrawlReader | None, bool]]
"""Gives a reader of the newest state, and whether there are commits that it may lack.

``None`` while nothing is new, or the last commit could still be taken back.
"""


class WantedChanges(NamedTuple):
    """Which rows of the list: kinds of changes (empty = all), a host (empty = all)."""

    kinds: tuple[str, ...] = ()
    host: str = ""


class FolderReaders:
    """Readers of a folder as a ``NewestReader``, opened only for new commits that last."""

    def __init__(self, folder: Path) -> None:
        self._source = FolderSource(folder)
        self._is_new, self._began = True, time.monotonic()

    def __call__(self) -> tuple[CrawlReader | None, bool]:
        self._is_new |= bool(sum(1 for _ in self._source.commits()))
        if not self._is_new:
            return None, False
        view = self._source.view()
        # Read again after the view was opened: it may have a commit that is not on disk yet. What
        # a reader was told of such a commit would be wrong if it is taken back.
        for _ in self._source.commits():
            pass
        # A busy crawl has a new commit at any moment. Then the view is taken after some tries: only
        # a power failure in the next milliseconds could make it wrong.
        is_late = time.monotonic() - self._began > _SETTLE_S
        if self._source.count_waiting() and not is_late:
            return None, True
        self._is_new, self._began = False, time.monotonic()
        return CrawlReader(view), False


class ClusterReaders:
    """Readers of a cluster as a ``NewestReader``: a new one every ten seconds.

    They share the folder for downloads, so one thread at a time fills it, under ``downloading``.
    """

    def __init__(self, opened: OpenedCluster, downloading: Lock | None = None) -> None:
        self._opened, self._downloading = opened, downloading or Lock()
        self._view: ClusterView | None = None
        self._due = 0.0

    def __call__(self) -> tuple[CrawlReader | None, bool]:
        if time.monotonic() < self._due:
            return None, False
        if self._view is not None:
            self._view.close()
        with self._downloading:
            self._view = self._opened.again()
            self._view.open_shards()
        self._due = time.monotonic() + CLUSTER_POLL_S
        return CrawlReader(self._view), False


def change_pages(
    reader: CrawlReader, cursor: ChangesCursor, wanted: WantedChanges, left: int | None = None
) -> Iterator[ChangesPage]:
    """The pages behind a cursor, of at most ``left`` rows in all; the last one may be short.

    Raises ``BadCursor``.
    """
    has_more = True
    query = ChangesQuery(
        read=cursor.read,
        since_s=cursor.since_s,
        changes=tuple(int(each) for each in TOLD_CHANGES if each.label in wanted.kinds),
        host=_host_named(reader, wanted.host),
        most=_PAGE,
    )
    while has_more and left != 0:
        most = min(_PAGE, left) if left is not None else _PAGE
        query = msgspec.structs.replace(query, read=cursor.read, since_s=cursor.since_s, most=most)
        answers = {}
        for number in range(reader.partitions):
            with reader.partition_view(number) as view:
                answers[number] = changes_in(view, generation_of(reader), query)
        page = merged_changes(answers, cursor, most, reader.partitions)
        cursor, has_more = page.cursor, page.has_more
        left = left - len(page.rows) if left is not None else None
        yield page


def _host_named(reader: CrawlReader, host: str) -> str:
    if not host:
        return ""
    return Canonicalizer(load_saved_settings(reader).config.canonical).host_named(host)


class ChangesFeed:
    """The changes of a crawl after a position, as an ``ExportFeed``. Raises ``BadPosition``."""

    def __init__(
        self,
        crawl: str,
        newest: NewestReader,
        after: str = "",
        wanted: WantedChanges = WantedChanges(),  # noqa: B008  immutable
    ) -> None:
        self.crawl, self._newest, self._wanted = crawl, newest, wanted
        try:
            self._cursor = read_cursor(crawl, after) if after else ChangesCursor()
        except BadCursor as error:
            raise BadPosition(str(error)) from error
        self._given: dict[int, int] = {}  # in the page that is being given, by partition
        self._generation = 0
        self.is_behind = True

    @property
    def table(self) -> ExportTable:
        return changes_table()

    @property
    def position(self) -> str:
        """The cursor behind the row that was given last; empty before the first one."""
        if not self._given:
            is_begun = self._cursor.read or self._cursor.since_s
            return cursor_text(self.crawl, self._cursor) if is_begun else ""
        read = self._cursor.read
        vector = {**read.get(self._generation, {}), **self._given}
        cursor = ChangesCursor({**read, self._generation: vector}, self._cursor.since_s)
        return cursor_text(self.crawl, cursor)

    def new_rows(self) -> Iterator[bytes]:
        """See ``RowFeed``. Raises ``BadPosition`` when rows behind it are no longer kept."""
        reader, self.is_behind = self._newest()
        if reader is None:
            return
        self._generation = generation_of(reader)
        try:
            for page in change_pages(reader, self._cursor, self._wanted):
                yield from self._rows(page.rows)
                self._cursor, self._given = page.cursor, {}
        except BadCursor as error:
            raise BadPosition(str(error)) from error

    def _rows(self, rows: list[ListedChange]) -> Iterator[bytes]:
        for row in rows:
            self._given[row.partition] = row.number
            yield msgspec.json.encode(row)


def folder_changes(folder: Path, after: str = "") -> ChangesFeed:
    """The changes of a crawl folder. Raises a ``ManifestError`` or ``BadPosition``."""
    crawl = FolderSource(folder).origin.manifest.crawl
    return ChangesFeed(crawl, FolderReaders(folder), after)
