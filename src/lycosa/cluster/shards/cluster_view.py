"""A view of a crawl on many machines, from Kafka and object storage, on any machine.

Each shard is its newest snapshot, caught up with the commits behind it (``snapshot_view``), and its
segments in object storage. A shard is opened when something in it is first asked for, so looking
up one URL downloads one shard. ``open_shards`` opens several at once.

**Order:** sealed segments are listed before a shard's log is read. A segment that is neither in
that list nor named by the last commit read was begun later, so the state does not contain it, and
it is left out. A segment that the commit names is read up to the committed length, also if it was
sealed meanwhile. So each shard's segments have exactly the captures of its state. Shards may be
some commits apart while the crawl runs.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.base.model.capture import ELSEWHERE
from lycosa.state.commit import NOTHING, Commit
from lycosa.state.kv.kv_port import Opener, SavedTable
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.cached_snapshots import CachedSnapshots, new_work_folder
from lycosa.state.shard.snapshot_view import SnapshotView
from lycosa.state.shard.view import (
    CommitReader,
    CrawlOrigin,
    LastCommits,
    ShardPosition,
    ViewSummary,
)
from lycosa.state.store import layout
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.stored_data import RecordError, StoredRecord

_AT_ONCE = 4  # shards that are opened at the same time


class ShardLog(CommitReader, Protocol):
    """The log of a shard of a cluster, for reading."""

    newest_term: int
    owner_term: int

    def end(self) -> None:
        """End a wait in another thread."""
        ...

    def close(self) -> None: ...


class ReadingProgress(msgspec.Struct):
    """The work of opening shards: shards, bytes of snapshots, commits."""

    shards: int = 0
    opened: int = 0
    bytes_here: int = 0
    bytes_all: int = 0
    commits: int = 0


OnReading = Callable[[ReadingProgress], None]


class ClusterView:
    """A ``CrawlView`` of all shards of a crawl.

    Shard and partition numbers are the same. ``seen`` says of which shards the last commits are:
    only of those that are open. ``open_log`` gives the log of a shard. ``open_table`` opens a table
    for reading and writing; ``cache`` is a local folder of this crawl that may be kept. Raises the
    errors of ``SnapshotView``, ``ObjectError``, ``OSError``, when a shard is opened.
    """

    def __init__(
        self,
        origin: CrawlOrigin,
        objects: ObjectStore,
        open_log: Callable[[int], ShardLog],
        open_table: Opener,
        cache: Path,
        told: OnReading = lambda progress: None,
    ) -> None:
        self._origin, self._objects, self._told = origin, objects, told
        self._open_log, self._open_table = open_log, open_table
        self._cache, self._work = cache, new_work_folder(cache)
        self._views: dict[int, SnapshotView] = {}
        self._logs: list[ShardLog] = []
        self._progress, self._lock = ReadingProgress(), threading.Lock()
        self._segments: dict[int, ObjectSegments] = {}
        self.shards: dict[int, ShardPosition] = {}
        """The shards that are open."""
        self.seen = self._summary()

    def _summary(self) -> ViewSummary:
        return ViewSummary(
            self._origin,
            range(self._origin.manifest.identity.partitions),
            LastCommits.joined([view.seen.last for view in self._views.values()]),
            shards=dict(sorted(self.shards.items())),
        )

    def open_shards(self, wanted: Collection[int] | None = None) -> None:
        """Open these shards, or all."""
        partitions = range(self._origin.manifest.identity.partitions)
        missing = [
            number
            for number in (partitions if wanted is None else wanted)
            if number not in self._views
        ]
        if not missing:
            return
        self._progress.shards += len(missing)
        closed = sealed_segments(self._objects)
        pool = ThreadPoolExecutor(min(_AT_ONCE, len(missing)), thread_name_prefix="lycosa-shard")
        try:
            list(pool.map(lambda number: self._open(number, closed), missing))
        except BaseException:
            # Reading a log waits for Kafka without a limit, so the other threads would keep the
            # command from its end.
            pool.shutdown(wait=False, cancel_futures=True)
            for log in list(self._logs):
                log.end()
            raise
        finally:
            pool.shutdown()

    def open_table(self, partition: int) -> SavedTable:
        self.open_shards([partition])
        return self._views[partition].open_table(partition)

    def copy_table(self, partition: int, folder: Path) -> None:
        """Copy the table of a partition, without cold records, into a new folder.

        Files are linked where that is possible. Raises ``TypeError`` if it cannot be copied, or
        ``OSError``.
        """
        self.open_shards([partition])
        self._views[partition].copy_table(partition, folder)

    def list_segments(self) -> list[StoredSegment]:
        """The segments of the open shards."""
        found = [segment for view in self._views.values() for segment in view.list_segments()]
        return sorted(found, key=lambda segment: segment.name)

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        return self._segments_of(segment.name).read_rows(segment, having)

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        """See ``CrawlView``. The segment's shard need not be open."""
        if segment.startswith(ELSEWHERE):
            raise RecordError(f"{segment}, byte {offset}, is in an archive of an earlier crawl")
        return self._segments_of(layout.stem_of(segment)).read_record(segment, offset)

    def read_warc(self, segment: str, start: int, end: int) -> bytes:
        """The bytes of a segment's WARC between two offsets. Raises ``ObjectError``."""
        return self._segments_of(segment).read_warc(segment, start, end)

    def read_journal(self, segment: StoredSegment) -> Iterator[bytes]:
        """The committed bytes of a segment's journal, in pieces. Raises ``ObjectError``."""
        return self._segments_of(segment.name).read_journal(segment)

    def close(self) -> None:
        """Also deletes the tables of this view; the cache stays."""
        while self._views:
            self._views.popitem()[1].close()
        while self._logs:
            self._logs.pop().close()
        shutil.rmtree(self._work, ignore_errors=True)

    def __repr__(self) -> str:
        return f"ClusterView({self._origin.name}, open={sorted(self._views)})"

    def _open(self, number: int, closed: Mapping[str, StoredSegment]) -> None:
        commits = here = 0
        log = self._open_log(number)
        self._logs.append(log)

        def have(done: int, total: int) -> None:
            nonlocal here
            # Shards are opened by several threads, and the progress is of all of them.
            with self._lock:
                self._progress.bytes_all += total if not here else 0
                self._progress.bytes_here += done - here
                here = done
                self._told(self._progress)

        def read(commit: Commit) -> None:
            nonlocal commits
            commits += 1
            with self._lock:
                self._progress.commits += 1
                self._told(self._progress)

        snapshots = CachedSnapshots(
            self._objects, number, log, self._cache, self._work, self._open_table, have
        )
        segments = _ShardSegments(
            self._segments_at(number), closed, number, self._origin.manifest.identity.partitions
        )
        view = SnapshotView(self._origin, log, segments, snapshots, [number], read, self._objects)
        last, term = view.newest, log.newest_term
        # Its consumer has a dozen descriptors and some threads, and a crawl may have a thousand
        # shards.
        log.close()
        state = ShardPosition(
            shard=number,
            owner_term=term,
            last=last.mark if last else NOTHING,
            wall=last.wall if last else 0.0,
            time=(last.time or last.wall) if last else 0.0,
            inbox=last.inbox if last else 0,
            settings=last.settings if last else 0,
            # An owner that claimed and made no commit yet has begun again what the last one ended.
            is_final=last is not None and last.is_final and last.term == log.owner_term,
            snapshot=snapshots.restored or NOTHING,
            needed=snapshots.needed,
            commits=commits,
        )
        with self._lock:
            self._views[number], self.shards[number] = view, state
            self.seen = self._summary()
            self._progress.opened += 1
            self._told(self._progress)

    def _segments_of(self, name: str) -> ObjectSegments:
        number = layout.segment_worker(name)
        if number < 0:
            raise RecordError(f"{name} is not a segment of this crawl")
        return self._segments_at(number)

    def _segments_at(self, number: int) -> ObjectSegments:
        return self._segments.setdefault(number, ObjectSegments(self._objects, number, self._work))


class _ShardSegments:
    """The segments of one shard up to a commit; a ``SegmentReader``.

    ``closed`` are the segments that were sealed before the shard's log was read. A machine may have
    had more workers than there are ``shards`` now; each of their segments belongs to one of these.
    """

    def __init__(
        self, segments: ObjectSegments, closed: Mapping[str, StoredSegment], shard: int, shards: int
    ) -> None:
        self._segments = segments
        self._closed = {
            name: each
            for name, each in closed.items()
            if layout.segment_worker(name) % shards == shard
        }
        self.read_rows, self.read_record = segments.read_rows, segments.read_record

    def list_segments(self, lengths: Mapping[str, int]) -> list[StoredSegment]:
        found = dict(self._closed)
        for name in {layout.stem_of(each) for each in lengths}:
            warc, rows = (
                lengths.get(layout.file_name(kind, name) + layout.OPEN, 0)
                for kind in (layout.WARC, layout.JOURNAL)
            )
            found[name] = StoredSegment(name, False, warc, rows)
        return sorted(found.values(), key=lambda segment: segment.name)


def sealed_segments(objects: ObjectStore) -> dict[str, StoredSegment]:
    """The sealed segments of all shards, by name. Raises ``ObjectError``."""
    sizes = {
        kind: {layout.stem_of(each.key): each.size for each in objects.list(f"{kind}/")}
        for kind in (layout.JOURNAL, layout.WARC)  # a journal is stored after its WARC
    }
    return {
        name: StoredSegment(name, True, sizes[layout.WARC].get(name, 0), rows)
        for name, rows in sizes[layout.JOURNAL].items()
    }
