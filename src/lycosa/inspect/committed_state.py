"""A crawl's committed state, read through a view: URLs, hosts and counters of its partitions.

The result is the same for every kind of view: the files of a folder, a running worker, a snapshot.
A view of a shard has only its own partitions, so URLs of other partitions are unknown to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import msgspec

from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import Sites, hash8, host_of, join_url, partition_of
from lycosa.stages.frontier.crawl_clock import ahead_s, time_at_start
from lycosa.stages.frontier.visit_state import HostState, VisitRecord, decode_visit
from lycosa.state.cold.cold_rows import ColdFileRow
from lycosa.state.cold.whole_table import MarkedRecord, WholeTable, find_cold_file
from lycosa.state.commit import MARK_KEY, Mark
from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.kv.table_records import (
    UrlRecord,
    decode_url,
    host_key,
    meta_key,
    prefix_end,
    url_key,
)
from lycosa.state.shard.counters import Counters
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.shard.view import CrawlView
from lycosa.state.store.journal_rows import JournalRow

_COUNTERS = meta_key("counters")
_NO_HOST = (  # of a URL whose host's record is lost, which only damage can cause
    "unknown.invalid"
)


class UrlEntry(NamedTuple):
    """A known URL: where its record is, and the record.

    ``state`` takes the host's state into account (see ``UrlState``).
    """

    partition: int
    url: str
    host8: bytes
    url8: bytes
    record: UrlRecord
    state: UrlState


class HostEntry(NamedTuple):
    """A known host."""

    partition: int
    host8: bytes
    record: VisitRecord


class TableView:
    """One partition. ``mark`` is the last commit it contains."""

    def __init__(self, number: int, table: SavedTable) -> None:
        self.number = number
        self._table = table
        self.mark = Mark.unpack(table.get(MARK_KEY))
        self.get, self.scan = table.get, table.scan

    def counters(self) -> Counters:
        """The partition's counters; all zero when it has none yet."""
        value = self.get(_COUNTERS)
        return msgspec.msgpack.decode(value, type=Counters) if value else Counters()

    def host_record(self, host8: bytes) -> VisitRecord | None:
        """The visit state of a host."""
        value = self.get(host_key(host8))
        return decode_visit(value) if value is not None else None

    def url_record(self, host8: bytes, url8: bytes) -> UrlRecord | None:
        """The record of a URL."""
        value = self.get(url_key(host8, url8))
        return decode_url(value) if value is not None else None

    def cold_file(self, host8: bytes, url8: bytes) -> ColdFileRow | None:
        """The cold file that has the record of a URL; ``None`` if the table has it, or no file.

        All other reads take in cold records.
        """
        return find_cold_file(self._table, url_key(host8, url8))

    def marked_records(self) -> Iterator[MarkedRecord]:
        """Every record in order, with whether only a cold file has it."""
        if self.whole is not None:
            return self.whole.scan_marked()
        return (MarkedRecord(*pair, False) for pair in self.scan(b"U", prefix_end(b"U")))

    @property
    def whole(self) -> WholeTable | None:
        """The table with its cold records; ``None`` if there are none."""
        return self._table if isinstance(self._table, WholeTable) else None

    def has_url(self, host8: bytes, url8: bytes) -> bool:
        """Whether a URL has a record: for callers that ask for very many of them."""
        key = url_key(host8, url8)
        return self.whole.has_record(key) if self.whole is not None else self.get(key) is not None

    def hosts(self) -> Iterator[HostEntry]:
        """Every known host, by key."""
        for key, value in self.scan(b"H", prefix_end(b"H")):
            yield HostEntry(self.number, key[1:9], decode_visit(value))

    def urls(self, host8: bytes = b"", after: bytes = b"") -> Iterator[UrlEntry]:
        """Every known URL, or those of one host; the URLs of one host come together.

        With ``after``, those of the host behind the URL with this hash.
        """
        prefix = b"U" + host8
        end = prefix_end(prefix) if prefix[-1] != 0xFF else prefix + b"\xff" * 9
        start = prefix + after + b"\0" if after else prefix
        last8, host = b"", None
        for key, value in self.scan(start, end):
            if key[1:9] != last8:
                last8 = key[1:9]
                host = self.host_record(last8)
            record = decode_url(value)
            url = join_url(
                "https" if record.secure else "http",
                host.host if host else _NO_HOST,
                record.target,
            )
            yield UrlEntry(self.number, url, last8, key[9:], record, _state_of(record, host))

    def close(self) -> None:
        self._table.close()

    def __enter__(self) -> TableView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"TableView({self.number}, mark={self.mark})"


class CrawlReader:
    """A crawl, or some of its partitions, read through a view.

    ``partitions`` is the number of partitions of the whole crawl, ``here`` lists those of the view.
    """

    def __init__(self, source: CrawlView) -> None:
        self.source = source
        seen = source.seen
        self.origin, self.manifest, self.name = seen.origin, seen.origin.manifest, seen.origin.name
        self.here, self.partitions = seen.partitions, seen.origin.manifest.identity.partitions
        self.left_out: dict[int, Collection[int]] = {}
        """Cold files by partition that are damaged, and that an audit reads on without."""
        self.gives_private = False
        """Whether an export may have private captures (``export --private``)."""

    def may_give(self, row: JournalRow) -> bool:
        """Whether an export may have a capture."""
        return self.gives_private or not row.is_private

    @property
    def last_commit(self) -> float:
        """The wall time of the last commit (0 = never)."""
        return self.source.seen.last.wall

    @property
    def last_time(self) -> float:
        """The crawl time of the last commit."""
        return self.source.seen.last.time

    @property
    def price(self) -> float:
        """The price of a refetch in the last commit, 0 without one."""
        return self.source.seen.last.price

    @property
    def ranks(self) -> str:
        """The digest of the ranks in the last commit, empty without any."""
        return self.source.seen.last.ranks

    @cached_property
    def sites(self) -> Sites:
        """Sites by the crawl's own public suffix list. Raises ``DamagedFile``."""
        return self.origin.sites()

    def ahead_s(self, now: float) -> float:
        """Seconds by which crawl time, in which waits are stored, is ahead of wall time ``now``."""
        return ahead_s(time_at_start(now, self.last_commit, self.last_time), now)

    def partition_view(self, partition: int) -> TableView:
        """Open one partition of the view. Close it after use."""
        view = TableView(partition, self.source.open_table(partition))
        if view.whole is not None:
            view.whole.leave_out(self.left_out.get(partition, ()))
        return view

    def partition_views(self) -> Iterator[TableView]:
        """Open every partition of the view in turn; each is closed before the next one opens."""
        for number in self.here:
            with self.partition_view(number) as view:
                yield view

    def partition_of(self, url: str) -> int:
        """The number of the partition that owns a canonical URL."""
        return partition_of(self.sites.site_of(host_of(url)), self.partitions)

    def find_url(self, url: str) -> UrlEntry | None:
        """The entry of a canonical URL; ``None`` when its partition is not in this view."""
        number = self.partition_of(url)
        if number not in self.here:
            return None
        host8, url8 = hash8(host_of(url)), hash8(url)
        with self.partition_view(number) as view:
            record = view.url_record(host8, url8)
            if record is None:
                return None
            host = view.host_record(host8)
            return UrlEntry(view.number, url, host8, url8, record, _state_of(record, host))

    def urls(self) -> Iterator[UrlEntry]:
        """Every known URL, partition by partition, host by host."""
        for view in self.partition_views():
            yield from view.urls()

    def hosts(self) -> Iterator[HostEntry]:
        """Every known host."""
        for view in self.partition_views():
            yield from view.hosts()


def read_folder(folder: Path, keep_bytes: int = 16 << 20) -> CrawlReader:
    """Read the files of a crawl folder. Raises like ``FolderView``."""
    return CrawlReader(FolderView(folder, keep_bytes))


def _state_of(record: UrlRecord, host: VisitRecord | None) -> UrlState:
    if record.state is not UrlState.QUEUED or host is None:
        return record.state
    return {HostState.RETIRED: UrlState.RETIRED, HostState.PARKED: UrlState.PARKED}.get(
        host.state, UrlState.QUEUED
    )
