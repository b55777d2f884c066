"""A view of a shard from within the process of its running worker.

The view shows what is committed in the worker's tables, while the worker continues. If the tables
can be frozen (``viewable_table``), all reads see the moment at which the view was made, however
long they take; meanwhile the worker's writes save the values that they replace. Tables that cannot
be frozen are read as they are, so a view of them is valid only until the next commit is applied.

Making a view waits for a write to the tables that is in progress, and reading blocks. So both
belong on another thread, or on the loop in slices: scans stream, and reading one key costs some
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from lycosa.state.cold.whole_table import whole_table
from lycosa.state.commit import MARK_KEY, Commit, Mark
from lycosa.state.kv.kv_port import KeyValue, SavedTable
from lycosa.state.kv.viewable_table import ViewableTable
from lycosa.state.shard.opened_shard import PartitionData, Shard
from lycosa.state.shard.view import CrawlOrigin, LastCommits, SegmentView, ViewSummary
from lycosa.state.store.segments_port import SegmentReader


def viewable(shard: Shard) -> Shard:
    """The shard with tables that can be frozen. Its worker must use only this shard value."""
    return msgspec.structs.replace(
        shard,
        data={
            number: PartitionData(ViewableTable(d.table), d.seen)
            for number, d in shard.data.items()
        },
    )


class LiveView(SegmentView):
    """A ``CrawlView`` of a running worker's shard.

    ``segments`` reads the segments of the shard. ``last`` is the last commit that the worker
    applied; without it, it is found in the log. Raises ``LogDamaged``.
    """

    def __init__(
        self, origin: CrawlOrigin, shard: Shard, segments: SegmentReader, last: Commit | None = None
    ) -> None:
        self._frozen = [
            table.freeze() for table in shard.tables.values() if isinstance(table, ViewableTable)
        ]
        frozen = iter(self._frozen)
        self._tables = {
            number: Borrowed(next(frozen) if isinstance(table, ViewableTable) else table)
            for number, table in shard.tables.items()
        }
        self._segments, self._objects = segments, shard.storage.cold
        try:
            last = last or self._last_applied(shard)
        except BaseException:
            self.close()
            raise
        self.seen = ViewSummary(
            origin, tuple(self._tables), LastCommits.of_commit(last), is_live=True
        )

    def open_table(self, partition: int) -> SavedTable:
        return whole_table(self._tables[partition], self._objects)

    def close(self) -> None:
        """Release the frozen tables. The worker's tables stay open."""
        for table in self._frozen:
            table.close()

    def _last_applied(self, shard: Shard) -> Commit | None:
        """The last commit in the tables; the log may already contain the next one."""
        marks = {number: Mark.unpack(table.get(MARK_KEY)) for number, table in self._tables.items()}
        last = shard.last
        for commit in shard.storage.log.read():
            if any(
                commit.mark > marks.get(batch.partition, commit.mark) for batch in commit.batches
            ):
                break
            last = commit
        return last


class Borrowed:
    """A table that another object closes."""

    def __init__(self, table: KeyValue | SavedTable) -> None:
        self.get = table.get
        self.scan: Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]] = table.scan

    def close(self) -> None:
        """Do nothing: the owner closes the table."""
