"""The lines of a crawl folder's row journals: each committed one once, as ``JournalLines``.

The crawl may be running; it does no work for its readers and does not know them. Only lines of
commits that cannot be taken back are given. Lines of one worker have an order that never changes:
its segments by number, and the rows in each. So a position says exactly what was given before,
whatever was closed, trimmed or restarted since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from lycosa.feeds.feed_position import BadPosition, position_text
from lycosa.feeds.folder_source import FolderSource, JournalEnd
from lycosa.feeds.journal_lines import LinePosition
from lycosa.state.store import layout
from lycosa.state.store.feed_rows import PAGES
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import SegmentHeader


class _Read:
    """How far a worker's rows were given: segment and rows, and a place in its journal."""

    __slots__ = ("bytes", "bytes_rows", "number", "rows")

    def __init__(self, number: int, rows: int) -> None:
        self.number, self.rows = number, rows
        self.bytes = self.bytes_rows = 0  # an end of a frame, and the rows before it


class FolderLines:
    """The lines of a crawl folder, which may be running. Raises a ``ManifestError``."""

    has_terms = False

    def __init__(self, folder: Path) -> None:
        self._folder, self._source = folder, FolderSource(folder)
        self.crawl = self._source.origin.manifest.crawl
        self._read: dict[int, _Read] = {}

    @property
    def is_behind(self) -> bool:
        """See ``JournalLines``: whether there are commits of which the lines were not given."""
        return bool(self._source.count_waiting())

    def begin(self, read: Mapping[int, LinePosition]) -> None:
        """See ``JournalLines``."""
        self._read = {worker: _Read(each.number, each.rows) for worker, each in read.items()}

    def read(self) -> dict[int, LinePosition]:
        return {
            worker: LinePosition(0, each.number, each.rows) for worker, each in self._read.items()
        }

    def new_lines(self) -> Iterator[tuple[bytes, SegmentHeader]]:
        """See ``JournalLines``."""
        for worker, end in self._ends():
            read = self._read[worker]
            self._refuse_gap(worker, end)
            yield from self._lines(read, end)

    def headers(self) -> Iterator[SegmentHeader]:
        """See ``JournalLines``. Journals that cannot be read are left out."""
        names = layout.segment_names(self._folder, layout.JOURNAL)
        for name in sorted(names, key=lambda each: each.rpartition("-")[2], reverse=True):
            try:
                yield self._source.header_of(name)
            except (JournalError, FileNotFoundError):
                continue  # one that was begun and not committed has no header yet

    def skip_lines(self) -> None:
        """Leave out all lines up to the present end. ``read`` does not count them."""
        for worker, end in self._ends():
            read = self._read[worker]
            read.number, read.bytes = end.number, end.bytes
            read.rows = read.bytes_rows = 0

    def _ends(self) -> Iterator[tuple[int, JournalEnd]]:
        """The journals that have lines after the position, and how far they may be read."""
        for _ in self._source.commits():
            pass
        for worker, ends in sorted(self._source.journal_ends().items()):
            read = self._read.setdefault(worker, _Read(ends[0].number, 0))
            yield from ((worker, end) for end in ends if end.number >= read.number)

    def _refuse_gap(self, worker: int, end: JournalEnd) -> None:
        """Raise ``JournalError`` for a missing journal: the position stays in front of it."""
        if end.is_missing:
            behind = {key: (each.number, each.rows) for key, each in self._read.items()}
            behind[worker] = end.number + 1, 0
            raise JournalError(
                f"{self._source.journal_path(end.segment)} is missing, and its rows with it (a feed"
                f" with --after {position_text(PAGES, self.crawl, behind)} leaves them out)"
            )

    def _lines(self, read: _Read, end: JournalEnd) -> Iterator[tuple[bytes, SegmentHeader]]:
        if end.number > read.number:
            read.number, read.rows, read.bytes, read.bytes_rows = end.number, 0, 0, 0
        if end.bytes <= read.bytes:
            return
        count, header = read.bytes_rows, self._source.header_of(end.segment)
        for line in self._source.read_journal(end.segment, read.bytes, end.bytes):
            count += 1
            if count > read.rows:
                read.rows = count
                yield line, header
        if count < read.rows:
            raise BadPosition(
                f"the position names row {read.rows} of segment {end.segment}, which has {count}:"
                " the crawl was restored from an older copy"
            )
        read.bytes, read.bytes_rows = end.bytes, read.rows
