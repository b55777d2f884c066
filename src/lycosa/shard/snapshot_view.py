"""A view of a shard from its newest snapshot and the commits behind it, wherever its owner is, and
whether it has one.

The snapshot is restored into a table of the looker's own and caught up from the log by the same
writes that its owner applied. Nothing is claimed, trimmed or saved, so the owner is not disturbed,
and it may trim the log and take new snapshots meanwhile: when the log then does not continue the
snapshot any more, the newer one is restored.

For stores whose ``restore`` makes a new table each time, as those of a cluster do. A crawl folder's
own tables belong to its owner; that one is looked at by ``folder_view``.
"""

from __future__ import annotations

from collections.abc import Iterable

from lycosa.commit import Commit, Log, marked
from lycosa.folder.names import mark_of
from lycosa.kv.port import KeyValue, SavedTable
from lycosa.shard.live_view import Borrowed
from lycosa.shard.opening import Snapshots
from lycosa.shard.view import LastCommits, Origin, Seen, SegmentView
from lycosa.store import SegmentReader

_TRIES = 20


class LogMovedOn(Exception):
    """The owner trimmed its log faster than a snapshot could be restored, again and again."""


class SnapshotView(SegmentView):
    """See ``View``. Blocks until the partitions are restored and caught up. Raises what
    ``Snapshots.restore`` and ``Log.read`` raise, and ``LogMovedOn``.
    """

    def __init__(
        self,
        origin: Origin,
        log: Log,
        segments: SegmentReader,
        snapshots: Snapshots,
        partitions: Iterable[int],
    ) -> None:
        self._segments = segments
        self._tables: dict[int, KeyValue] = {}
        wanted = tuple(partitions)
        for _ in range(_TRIES):
            try:
                for number in wanted:
                    data = snapshots.restore(number)
                    self._tables[number] = data.table
                    data.seen.close()
                is_whole, last = self._catch_up(log)
            except BaseException:
                self.close()
                raise
            if is_whole:
                self.seen = Seen(origin, wanted, LastCommits.of(last))
                return
            self.close()
        raise LogMovedOn(
            f"{origin.name}: {_TRIES} times the log did not continue the snapshot that was just"
            " restored"
        )

    def table(self, partition: int) -> SavedTable:
        """See ``View``."""
        return Borrowed(self._tables[partition])

    def close(self) -> None:
        """See ``View``."""
        while self._tables:
            self._tables.popitem()[1].close()

    def __repr__(self) -> str:
        return f"SnapshotView({self.seen.origin.name}, partitions={list(self._tables)})"

    def _catch_up(self, log: Log) -> tuple[bool, Commit | None]:
        """Applies what the tables lack; whether the log continues them, and its last commit."""
        marks = {number: mark_of(table) for number, table in self._tables.items()}
        first = last = None
        for last in log.read():
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
        return True, last
