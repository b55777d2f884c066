"""A view of a shard whose worker runs, from within its process: what its tables hold is what is
committed.

The worker goes on. With tables that can be frozen (``viewable``) every look sees the same moment,
the one at which the view was made, however long it takes; the worker's writes meanwhile keep the
values that they replace. Tables that cannot be frozen are read as they are, so a view of them holds
only while no commit is applied.

Making a view waits for a write to the tables that is under way, and reading blocks, so both belong
on another thread, or on the loop in slices: scans stream, and what is read of one key costs some
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from lycosa.commit import MARK_KEY, Commit, Mark
from lycosa.kv.port import KeyValue, SavedTable
from lycosa.kv.viewable import ViewableTable
from lycosa.shard.opening import PartitionData, Shard
from lycosa.shard.view import LastCommits, Origin, Seen, SegmentView
from lycosa.store import SegmentReader


def viewable(shard: Shard) -> Shard:
    """The shard with tables that can be frozen. Its worker must use this one alone."""
    return msgspec.structs.replace(
        shard,
        data={
            number: PartitionData(ViewableTable(d.table), d.seen)
            for number, d in shard.data.items()
        },
    )


class LiveView(SegmentView):
    """See ``View``. ``segments`` reads those of the shard; ``last`` is the last commit that its
    worker applied, which is looked for in the log when it is not given. Raises ``LogDamaged``.
    """

    def __init__(
        self, origin: Origin, shard: Shard, segments: SegmentReader, last: Commit | None = None
    ) -> None:
        self._frozen = [
            table.freeze() for table in shard.tables.values() if isinstance(table, ViewableTable)
        ]
        frozen = iter(self._frozen)
        self._tables = {
            number: Borrowed(next(frozen) if isinstance(table, ViewableTable) else table)
            for number, table in shard.tables.items()
        }
        self._segments = segments
        try:
            last = last or self._last_applied(shard)
        except BaseException:
            self.close()
            raise
        self.seen = Seen(origin, tuple(self._tables), LastCommits.of(last), is_live=True)

    def table(self, partition: int) -> SavedTable:
        """See ``View``."""
        return self._tables[partition]

    def close(self) -> None:
        """See ``View``. The worker's tables stay open."""
        for table in self._frozen:
            table.close()

    def __repr__(self) -> str:
        return f"LiveView({self.seen.origin.name}, partitions={list(self._tables)})"

    def _last_applied(self, shard: Shard) -> Commit | None:
        """The last commit that the tables have; the one behind it may be in the log already."""
        marks = {number: Mark.unpack(table.get(MARK_KEY)) for number, table in self._tables.items()}
        last = shard.last
        for commit in shard.ground.log.read():
            if any(
                commit.mark > marks.get(batch.partition, commit.mark) for batch in commit.batches
            ):
                break
            last = commit
        return last


class Borrowed:
    """A table that is read here and closed elsewhere."""

    def __init__(self, table: KeyValue | SavedTable) -> None:
        self.get = table.get
        self.scan: Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]] = table.scan

    def close(self) -> None:
        """It is another's."""
