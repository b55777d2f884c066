"""A view of several shards of one crawl as one crawl.

Each partition, segment and record is read from the view that contains it. Each shard is shown as
after some commit of that shard, so they may be some commits apart, as the workers of a running
crawl are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.shard.view import CrawlOrigin, CrawlView, LastCommits, ViewSummary
from lycosa.state.store import layout
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.stored_data import RecordError, StoredRecord


class JoinedView:
    """A ``CrawlView`` over several views, which are closed with it.

    They must be of the same crawl and have no partition in common.
    """

    def __init__(self, origin: CrawlOrigin, views: Sequence[CrawlView]) -> None:
        self._views = views
        self._owners = {number: view for view in views for number in view.seen.partitions}
        self._by_segment: dict[str, CrawlView] = {}
        self.seen = ViewSummary(
            origin,
            sorted(self._owners),
            LastCommits.joined([view.seen.last for view in views]),
            is_live=any(view.seen.is_live for view in views),
        )

    def open_table(self, partition: int) -> SavedTable:
        return self._owners[partition].open_table(partition)

    def list_segments(self) -> list[StoredSegment]:
        found = {
            segment.name: (segment, view)
            for view in self._views
            for segment in view.list_segments()
        }
        self._by_segment = {name: view for name, (_, view) in found.items()}
        return [segment for _, (segment, _) in sorted(found.items())]

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        return self._of(segment.name).read_rows(segment, having)

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        return self._of(layout.stem_of(segment)).read_record(segment, offset)

    def close(self) -> None:
        for view in self._views:
            view.close()

    def __repr__(self) -> str:
        return f"JoinedView({list(self._views)})"

    def _of(self, name: str) -> CrawlView:
        """The view that contains a segment; segments are listed again for an unknown one."""
        if name not in self._by_segment:
            self.list_segments()
        if name not in self._by_segment:
            raise RecordError(f"{name} is not a segment of the shards in this view")
        return self._by_segment[name]
