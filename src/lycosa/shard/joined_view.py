"""A view of several shards of one crawl as one crawl.

Each partition, segment and record is read from the view that contains it. Each shard is shown as
after some commit of that shard, so they may be some commits apart, as the workers of a running
crawl are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lycosa.kv.port import SavedTable
from lycosa.shard.view import LastCommits, Origin, Seen, View
from lycosa.store import RecordError, Row, StoredRecord, StoredSegment, layout


class JoinedView:
    """A ``View`` over several views, which are closed with it.

    They must be of the same crawl and have no partition in common.
    """

    def __init__(self, origin: Origin, views: Sequence[View]) -> None:
        self._views = views
        self._owners = {number: view for view in views for number in view.seen.partitions}
        self._by_segment: dict[str, View] = {}
        lasts = [view.seen.last for view in views]
        latest = max(lasts, key=lambda last: (last.time, last.wall), default=LastCommits())
        lengths = {name: length for last in lasts for name, length in last.lengths.items()}
        newest = max((last.newest for last in lasts), default=latest.newest)
        last = LastCommits(newest, latest.wall, latest.time, lengths)
        self.seen = Seen(
            origin, sorted(self._owners), last, is_live=any(view.seen.is_live for view in views)
        )

    def table(self, partition: int) -> SavedTable:
        return self._owners[partition].table(partition)

    def segments(self) -> list[StoredSegment]:
        found = {
            segment.name: (segment, view) for view in self._views for segment in view.segments()
        }
        self._by_segment = {name: view for name, (_, view) in found.items()}
        return [segment for _, (segment, _) in sorted(found.items())]

    def rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[Row]:
        return self._of(segment.name).rows(segment, having)

    def record(self, segment: str, offset: int) -> StoredRecord:
        return self._of(layout.stem_of(segment)).record(segment, offset)

    def close(self) -> None:
        for view in self._views:
            view.close()

    def __repr__(self) -> str:
        return f"JoinedView({list(self._views)})"

    def _of(self, name: str) -> View:
        """The view that contains a segment; segments are listed again for an unknown one."""
        if name not in self._by_segment:
            self.segments()
        if name not in self._by_segment:
            raise RecordError(f"{name} is not a segment of the shards in this view")
        return self._by_segment[name]
