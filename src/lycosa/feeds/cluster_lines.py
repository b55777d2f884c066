"""The lines of the journals of a cluster's crawl, each committed one once: ``JournalLines``.

An owner writes one segment after the other and numbers them, and a segment that it has sealed gets
no more rows. So the rows of a worker have an order that never changes: term, number of the segment,
row. A position names the last of them.

What must not happen is that a segment is given before an earlier one has been read to its end. An
earlier one is either named by the last commits that were read, or sealed: commits name a segment
until it is. So a segment waits while an earlier one of its worker is named and not read whole, and
where a number is missing the sealed segments are listed again: it may have been begun and sealed
since they were listed. A number that a listing lacks that is later than the commits was never
stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lycosa.feeds.cluster_source import ClusterSource
from lycosa.feeds.journal_lines import LinePosition
from lycosa.feeds.projector_source import UNREAD, CaptureLines, JournalPosition
from lycosa.state.store import layout
from lycosa.state.store.journal_rows import SegmentHeader
from lycosa.state.store.segments_port import StoredSegment

_Order = tuple[int, int]  # term and number of a segment
_BEGINNING = LinePosition(0, 0, 0)


class ClusterLines:
    """The lines of ``source``, which belongs to the caller."""

    has_terms = True

    def __init__(self, source: ClusterSource) -> None:
        self._source = source
        self.crawl = source.origin.manifest.crawl
        self._read: dict[int, LinePosition] = {}
        self._places: dict[str, JournalPosition] = {}  # of segments that were read in part
        self._headers: dict[str, SegmentHeader] = {}
        self._is_due = True

    @property
    def is_behind(self) -> bool:
        return self._is_due or bool(self._source.count_waiting())

    def begin(self, read: Mapping[int, LinePosition]) -> None:
        """See ``JournalLines``."""
        self._read = dict(read)

    def read(self) -> dict[int, LinePosition]:
        return dict(self._read)

    def new_lines(self) -> Iterator[tuple[bytes, SegmentHeader]]:
        """See ``JournalLines``. Raises ``ObjectError``, ``JournalError`` or ``OSError``."""
        for _ in self._source.commits():
            pass
        self._is_due = False
        stopped = set[int]()  # workers whose other segments have to wait
        for capture in self._source.captures(_Given(self)):
            worker = layout.segment_worker(capture.segment)
            if worker < 0:
                continue
            if worker in stopped or self._has_earlier(worker, capture.segment):
                stopped.add(worker)
                self._is_due = True
                continue
            yield from self._lines(worker, capture)

    def headers(self) -> Iterator[SegmentHeader]:
        """See ``JournalLines``."""
        for _ in self._source.commits():
            pass
        for name in sorted(self._source.names(), key=lambda each: each.rpartition("-")[2])[::-1]:
            yield self._header(name)

    # -- order

    def given(self, segment: str) -> JournalPosition:
        """How far a segment was given."""
        worker, order = layout.segment_worker(segment), _order(segment)
        read = self._read.get(worker, _BEGINNING)
        if order < (read.term, read.number):
            return JournalPosition(is_closed=True)
        if order > (read.term, read.number):
            return UNREAD
        return self._places.get(segment, JournalPosition(read.rows, 0))

    def _has_earlier(self, worker: int, segment: str) -> bool:
        """Whether an earlier segment of the worker may still have rows to give."""
        order = _order(segment)
        for name, length in self._source.named_journals().items():
            if layout.segment_worker(name) == worker and _order(name) < order:
                place = self.given(name)
                if not place.is_closed and place.bytes < length:
                    return True
        return self._has_gap(worker, order)

    def _has_gap(self, worker: int, order: _Order) -> bool:
        """Whether segments may be missing before this one that the last listing did not have.

        The last segments of an earlier term have no number that would show it.
        """
        if self._source.has_listed:
            return False
        read = self._read.get(worker, _BEGINNING)
        term, number = order
        before = read.number if term == read.term else -1
        if number <= before + 1:
            return False
        self._source.list_again()
        return True

    # -- reading

    def _lines(self, worker: int, capture: CaptureLines) -> Iterator[tuple[bytes, SegmentHeader]]:
        place, (term, number) = self.given(capture.segment), _order(capture.segment)
        # A closed journal is given behind the rows, an open one behind the bytes of the position.
        count = place.rows if capture.is_closed or place.bytes else 0
        header = self._header(capture.segment)
        for line in capture.lines:
            count += 1
            if count > place.rows:
                self._read[worker] = LinePosition(term, number, count)
                yield line, header
        rows = max(count, place.rows)
        self._read[worker] = LinePosition(term, number, rows)
        self._places[capture.segment] = JournalPosition(rows, capture.end, capture.is_closed)

    def _header(self, segment: str) -> SegmentHeader:
        if segment not in self._headers:
            items = self._source.origin.items
            assert items is not None  # of a cluster they can be read
            is_closed = segment not in self._source.named_journals()
            length = self._source.named_journals().get(segment)
            self._headers[segment] = items.read_header(StoredSegment(segment, is_closed, 0, length))
        return self._headers[segment]


class _Given(dict[str, JournalPosition]):
    """The positions of all segments, which need not be listed for it."""

    def __init__(self, lines: ClusterLines) -> None:
        super().__init__()
        self._lines = lines

    def get(self, name: str, default: object = None) -> JournalPosition:
        """How far a segment was given."""
        return self._lines.given(name)


def _order(segment: str) -> _Order:
    return layout.segment_term(segment), layout.segment_number(segment)
