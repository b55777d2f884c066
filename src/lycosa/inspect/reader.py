"""A crawl's state as it is committed, read beside a running crawl or after one, without a lock and without writing anything.

State lies in two places: the partitions' table files, and for what the owners have not flushed yet, the commit logs. A view of a
partition is its table with the batches laid over it that the table lacks.

**Order:** the logs are read before a table is opened. An owner drops a log file only after flushing what it holds, so whatever is
missing from the logs is then surely in the table; batches that the table turned out to have are left out by its mark. A
view is therefore always the state after some commit of its owner: no commit in part, none out of order. Views of different
partitions may be some commits apart while the crawl runs.

**Memory**: what the tables lack, which the owners hold in memory as well, plus one block cache. Scans stream.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import msgspec

from lycosa.commit import MARK_KEY, Mark, PartitionBatch, read_logs
from lycosa.crawl_clock import ahead_s, time_at_start
from lycosa.folder import manifest as manifests
from lycosa.folder.names import crawl_sites
from lycosa.frontier.counters import Counters
from lycosa.frontier.visit_state import HostState, VisitRecord, decode_visit
from lycosa.kv.read_only import ReadOnlyTable, shared_cache
from lycosa.kv.records import UrlRecord, decode_url, host_key, meta_key, prefix_end, url_key
from lycosa.model.completed import UrlState
from lycosa.urls.identity import Sites, hash8, host_of, join_url, partition_of

_TRIES = 20
_COUNTERS = meta_key("counters")
_NO_HOST = "unknown.invalid"  # of a URL whose host's record is lost, which only damage can bring about


class UrlEntry(NamedTuple):
    """A known URL: where its record stands and what it says. ``state`` takes the host's into account (see ``UrlState``)."""

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
    """One partition, merged. ``mark`` is the last commit it contains, ``table_mark`` the last one that its table files contain."""

    def __init__(self, number: int, table: ReadOnlyTable, batches: list[tuple[Mark, PartitionBatch]]) -> None:
        self.number = number
        self._table = table
        self.mark = self.table_mark = Mark.unpack(table.get(MARK_KEY))
        self._over: dict[bytes, bytes | None] = {}
        for mark, batch in batches:
            if mark > self.mark:
                self._over.update(batch.writes)
                self.mark = mark
        self._keys = sorted(self._over)

    def get(self, key: bytes) -> bytes | None:
        """The value, or ``None``."""
        return self._over[key] if key in self._over else self._table.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < end`` in order, streaming."""
        over = iter([(key, self._over[key]) for key in self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]])
        upper = next(over, None)
        for key, value in self._table.scan(start, end):
            while upper is not None and upper[0] < key:
                if upper[1] is not None:
                    yield upper[0], upper[1]
                upper = next(over, None)
            if upper is not None and upper[0] == key:
                if upper[1] is not None:
                    yield key, upper[1]
                upper = next(over, None)
            else:
                yield key, value
        while upper is not None:
            if upper[1] is not None:
                yield upper[0], upper[1]
            upper = next(over, None)

    def counters(self) -> Counters:
        """The partition's counters; all zero when it has none yet."""
        value = self.get(_COUNTERS)
        return msgspec.msgpack.decode(value, type=Counters) if value else Counters()

    def visit(self, host8: bytes) -> VisitRecord | None:
        """What is remembered of a host."""
        value = self.get(host_key(host8))
        return decode_visit(value) if value is not None else None

    def record(self, host8: bytes, url8: bytes) -> UrlRecord | None:
        """What is remembered of a URL."""
        value = self.get(url_key(host8, url8))
        return decode_url(value) if value is not None else None

    def hosts(self) -> Iterator[HostEntry]:
        """Every known host, by key."""
        for key, value in self.scan(b"H", prefix_end(b"H")):
            yield HostEntry(self.number, key[1:9], decode_visit(value))

    def urls(self, host8: bytes = b"") -> Iterator[UrlEntry]:
        """Every known URL, or those of one host; the URLs of one host come together."""
        prefix = b"U" + host8
        end = prefix_end(prefix) if prefix[-1] != 0xFF else prefix + b"\xff" * 9
        last8, visit = b"", None
        for key, value in self.scan(prefix, end):
            if key[1:9] != last8:
                last8 = key[1:9]
                visit = self.visit(last8)
            record = decode_url(value)
            url = join_url("https" if record.secure else "http", visit.host if visit else _NO_HOST, record.target)
            yield UrlEntry(self.number, url, last8, key[9:], record, _state_of(record, visit))

    def close(self) -> None:
        self._table.close()

    def __enter__(self) -> TableView:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"TableView({self.number}, mark={self.mark}, over={len(self._over)})"


class CrawlReader:
    """A crawl folder, for reading.

    ``lengths`` gives the committed bytes of each open output file (path relative to the folder), ``last_commit`` the wall time of the
    last commit (0 = never), ``last_time`` its crawl time. Logs up to ``keep_bytes`` are kept whole. Raises a ``ManifestError`` when the
    folder is not a crawl, ``LogDamaged``, ``StoreDamaged``, ``OSError``.
    """

    def __init__(self, folder: Path, keep_bytes: int = 16 << 20) -> None:
        self.folder = folder
        self._keep_bytes = keep_bytes
        self.manifest = manifests.load(folder)
        self.partitions = self.manifest.identity.partitions
        self.lengths: Mapping[str, int] = {}
        self.newest = Mark(0, 0)
        """The last commit in any log."""
        self.last_commit = self.last_time = 0.0
        self._cache = shared_cache()
        self._batches: dict[int, list[tuple[Mark, PartitionBatch]]] = {}
        self._read_logs()

    @cached_property
    def sites(self) -> Sites:
        """Sites by the crawl's own public suffix list. Raises ``DamagedFile``."""
        return crawl_sites(self.folder, self.manifest.identity.suffixes)

    def ahead_s(self, now: float) -> float:
        """How far crawl time, in which waits are stored, is ahead of the wall time ``now``."""
        return ahead_s(time_at_start(now, self.last_commit, self.last_time), now)

    def view(self, partition: int) -> TableView:
        """One partition as it is now or was when the logs were read, whichever is later. Close it after use."""
        return TableView(partition, self._table(partition), self._batches.get(partition, []))

    def views(self) -> Iterator[TableView]:
        """Every partition in turn; each is closed when the next one is asked for."""
        for number in range(self.partitions):
            with self.view(number) as view:
                yield view

    def partition_of(self, url: str) -> int:
        """Which partition owns a canonical URL."""
        return partition_of(self.sites.site_of(host_of(url)), self.partitions)

    def find(self, url: str) -> UrlEntry | None:
        """What is known of a canonical URL."""
        host8, url8 = hash8(host_of(url)), hash8(url)
        with self.view(self.partition_of(url)) as view:
            record = view.record(host8, url8)
            if record is None:
                return None
            visit = view.visit(host8)
            return UrlEntry(view.number, url, host8, url8, record, _state_of(record, visit))

    def urls(self) -> Iterator[UrlEntry]:
        """Every known URL, partition by partition, host by host."""
        for view in self.views():
            yield from view.urls()

    def hosts(self) -> Iterator[HostEntry]:
        """Every known host."""
        for view in self.views():
            yield from view.hosts()

    def __repr__(self) -> str:
        return f"CrawlReader({str(self.folder)!r}, over={sum(map(len, self._batches.values()))})"

    def _table(self, partition: int) -> ReadOnlyTable:
        return ReadOnlyTable(self.folder / "state" / f"p{partition:05d}", self._cache)

    def _read_logs(self) -> None:
        for tried in range(_TRIES):
            try:
                return self._take_logs(self._marks())
            except FileNotFoundError:  # its owner flushed and dropped a log: what it held is in the tables now
                if tried == _TRIES - 1:
                    raise
        return None

    def _marks(self) -> dict[int, Mark]:
        """What the tables contain, so that of large logs only the rest is kept; of small ones all is, which is quicker.

        Marks only grow, so asking for them before the logs are read keeps too much at worst.
        """
        if sum(path.stat().st_size for path in (self.folder / "log").glob("commit-*.log")) <= self._keep_bytes:
            return {}
        marks: dict[int, Mark] = {}
        for number in range(self.partitions):
            table = self._table(number)
            marks[number] = Mark.unpack(table.get(MARK_KEY))
            table.close()
        return marks

    def _take_logs(self, marks: Mapping[int, Mark]) -> None:
        batches: dict[int, list[tuple[Mark, PartitionBatch]]] = {}
        lengths: dict[int, dict[str, int]] = {}
        self.newest = Mark(0, 0)
        self.last_commit = self.last_time = 0.0
        for worker, record in read_logs(self.folder / "log"):
            self.newest = max(self.newest, record.mark)
            lengths[worker] = record.lengths
            time = record.time or record.wall
            if time >= self.last_time:
                self.last_commit, self.last_time = record.wall, time
            for batch in record.batches:
                if record.mark > marks.get(batch.partition, Mark(0, 0)):
                    batches.setdefault(batch.partition, []).append((record.mark, batch))
        for waiting in batches.values():
            waiting.sort(key=lambda pair: pair[0])  # those of several workers, each of its own run
        self._batches = batches
        self.lengths = {name: length for each in lengths.values() for name, length in each.items()}


def _state_of(record: UrlRecord, visit: VisitRecord | None) -> UrlState:
    if record.state is not UrlState.QUEUED or visit is None:
        return record.state
    return {HostState.RETIRED: UrlState.RETIRED, HostState.PARKED: UrlState.PARKED}.get(visit.state, UrlState.QUEUED)
