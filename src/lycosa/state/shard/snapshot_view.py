"""A view of a shard from its newest snapshot and the commits after it.

The shard's owner may run anywhere, or not at all. The snapshot is restored into a private table,
and the writes of later commits are applied to it as the owner applied them. Nothing is claimed,
trimmed or saved, so the owner is not disturbed. It may trim the log and take new snapshots
meanwhile; when the log no longer continues the restored snapshot, the newer one is restored.

This is for stores whose ``restore_partition`` creates a new table each time, as in a cluster. The
tables of a crawl folder belong to their owner; ``folder_view`` reads those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.state.cold.whole_table import whole_table
from lycosa.state.commit import NOTHING, Commit, LogTrimmed, marked
from lycosa.state.folder.names import mark_of
from lycosa.state.kv.kv_port import CheckpointTable, KeyValue, SavedTable
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.live_view import Borrowed
from lycosa.state.shard.opened_shard import PartitionData
from lycosa.state.shard.view import CommitReader, CrawlOrigin, LastCommits, SegmentView, ViewSummary
from lycosa.state.store.segments_port import SegmentReader

_TRIES = 20


class RestorablePartitions(Protocol):
    """Snapshots as a reader needs them."""

    def restore_partition(self, partition: int) -> PartitionData:
        """See ``Snapshots``. The table is new and belongs to the caller."""
        ...


class LogMovedOn(Exception):
    """The owner repeatedly trimmed its log faster than a snapshot could be restored."""


class SnapshotView(SegmentView):
    """A ``CrawlView`` of a shard's snapshot.

    The constructor blocks until the partitions are restored and up to date; ``told`` is called
    with each commit that is read. ``objects`` have the cold records. Raises the errors of
    ``Snapshots.restore_partition`` and ``Log.read``, and ``LogMovedOn``.
    """

    def __init__(
        self,
        origin: CrawlOrigin,
        log: CommitReader,
        segments: SegmentReader,
        snapshots: RestorablePartitions,
        partitions: Iterable[int],
        told: Callable[[Commit], None] = lambda commit: None,
        objects: ObjectStore | None = None,
    ) -> None:
        self._segments, self._told, self._objects = segments, told, objects
        self.newest: Commit | None = None
        """The last commit that the view contains, without its writes."""
        self._tables: dict[int, KeyValue] = {}
        wanted = tuple(partitions)
        for _ in range(_TRIES):
            try:
                for number in wanted:
                    data = snapshots.restore_partition(number)
                    self._tables[number] = data.table
                    data.seen.close()
                is_whole, last = self._catch_up(log)
            except LogTrimmed:
                # The owner took a snapshot and trimmed the log while it was read. Begin again from
                # that snapshot.
                is_whole, last = False, None
            except BaseException:
                self.close()
                raise
            if is_whole:
                self.seen = ViewSummary(origin, wanted, LastCommits.of_commit(last))
                self.newest = msgspec.structs.replace(last, batches=[]) if last else None
                return
            self.close()
        raise LogMovedOn(
            f"{origin.name}: the log did not continue the snapshot that had just been restored,"
            f" {_TRIES} times in a row"
        )

    def open_table(self, partition: int) -> SavedTable:
        return whole_table(Borrowed(self._tables[partition]), self._objects)

    def copy_table(self, partition: int, folder: Path) -> None:
        """Copy the table, without cold records, into a new folder.

        Raises ``TypeError`` if that is not possible.
        """
        table = self._tables[partition]
        if not isinstance(table, CheckpointTable):
            raise TypeError(f"{table!r} cannot be copied while it is open")
        folder.parent.mkdir(parents=True, exist_ok=True)
        table.checkpoint(folder)

    def close(self) -> None:
        while self._tables:
            self._tables.popitem()[1].close()

    def _catch_up(self, log: CommitReader) -> tuple[bool, Commit | None]:
        """Apply the commits that the tables lack.

        Returns whether the log continues the tables, and its last commit.
        """
        marks = {number: mark_of(table) for number, table in self._tables.items()}
        first = last = None
        for last in log.read():
            self._told(last)
            if first is None:
                first = last
                if any(
                    before > marks.get(number, before) for number, before in first.before.items()
                ):
                    return False, None
            for batch in last.batches:
                if batch.partition in marks and last.mark > marks[batch.partition]:
                    self._tables[batch.partition].write(marked(batch, last.mark, last.shard))
                    marks[batch.partition] = last.mark
        # a reader may be behind the owner for a moment
        ends = last.mark if last is not None else NOTHING
        return all(mark <= ends for mark in marks.values()), last
