"""The lines of a folder's row journals after a position: each committed one once, in order.

The feed ``pages`` and programs that read stored pages share this. See ``folder_feed`` for why a
position says exactly what was given before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from lycosa.feeds.feed_position import BadPosition, position_text, read_position
from lycosa.feeds.folder_source import FolderSource, JournalEnd
from lycosa.state.store.feed_rows import PAGES
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import SegmentHeader


class _Read:
    """How far a worker's rows were given: segment and rows, and a place in its journal."""

    __slots__ = ("bytes", "bytes_rows", "number", "rows")

    def __init__(self, number: int, rows: int) -> None:
        self.number, self.rows = number, rows
        self.bytes = self.bytes_rows = 0  # an end of a frame, and the rows before it


class CommittedLines:
    """Lines of a crawl folder after a position of the feed ``pages`` (empty: from the beginning).

    ``read`` has the numbers of the position of another feed instead. The crawl may run. Raises a
    ``ManifestError`` or ``BadPosition``.
    """

    def __init__(
        self, folder: Path, after: str = "", read: Mapping[int, tuple[int, int]] | None = None
    ) -> None:
        self.source = FolderSource(folder)
        self._crawl = self.source.origin.manifest.crawl
        given = read if read is not None else read_position(PAGES, self._crawl, after, 2)
        self._read = {worker: _Read(*numbers) for worker, numbers in given.items()}

    @property
    def position(self) -> str:
        """The position after the line that was given last."""
        return position_text(PAGES, self._crawl, self.numbers())

    def numbers(self) -> dict[int, tuple[int, int]]:
        """The number of the segment and of the rows in it that were given, by worker."""
        return {worker: (each.number, each.rows) for worker, each in self._read.items()}

    @property
    def is_behind(self) -> bool:
        """Whether there are commits of which the lines were not given yet."""
        return bool(self.source.count_waiting())

    def new_lines(self) -> Iterator[tuple[bytes, SegmentHeader]]:
        """The lines that were not given yet, to the present end, with the header of their segment.

        Raises ``LogDamaged``, ``JournalError`` or ``OSError``.
        """
        for worker, end in self._ends():
            read = self._read[worker]
            self._refuse_gap(worker, end)
            yield from self._lines(read, end)

    def skip_lines(self) -> None:
        """Leave out all lines up to the present end. ``position`` does not count them."""
        for worker, end in self._ends():
            read = self._read[worker]
            read.number, read.bytes = end.number, end.bytes
            read.rows = read.bytes_rows = 0

    def _ends(self) -> Iterator[tuple[int, JournalEnd]]:
        """The journals that have lines after the position, and how far they may be read."""
        for _ in self.source.commits():
            pass
        for worker, ends in sorted(self.source.journal_ends().items()):
            read = self._read.setdefault(worker, _Read(ends[0].number, 0))
            yield from ((worker, end) for end in ends if end.number >= read.number)

    def _refuse_gap(self, worker: int, end: JournalEnd) -> None:
        """Raise ``JournalError`` for a missing journal: the position stays in front of it."""
        if end.is_missing:
            behind = {**self.numbers(), worker: (end.number + 1, 0)}
            raise JournalError(
                f"{self.source.journal_path(end.segment)} is missing, and its rows with it (a feed"
                f" with --after {position_text(PAGES, self._crawl, behind)} leaves them out)"
            )

    def _lines(self, read: _Read, end: JournalEnd) -> Iterator[tuple[bytes, SegmentHeader]]:
        if end.number > read.number:
            read.number, read.rows, read.bytes, read.bytes_rows = end.number, 0, 0, 0
        if end.bytes <= read.bytes:
            return
        count, header = read.bytes_rows, self.source.header_of(end.segment)
        for line in self.source.read_journal(end.segment, read.bytes, end.bytes):
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
