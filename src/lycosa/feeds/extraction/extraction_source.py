"""What is extracted again: captures of closed segments, in the order of their records.

A segment is the unit of work and of result: its captures make one table. There are two sources: a
crawl (``stored_captures``), and WARC files of other programs (``foreign_captures``), of which each
file is a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from lycosa.stages.extract.code_messages import GivenDocument
from lycosa.state.store.journal_rows import Extractor, JournalRow


class SourceCapture(msgspec.Struct, frozen=True):
    """A capture of which items may be made.

    ``load`` reads what user code gets of it. It raises ``RecordError`` or ``OSError``.
    """

    row: JournalRow
    load: Callable[[], GivenDocument]


class ExtractionSource(Protocol):
    """Captures by segment. Calls block."""

    name: str
    """What is read, for people."""

    def closed_segments(self) -> list[str]:
        """The names of the segments that will not change any more, in order."""
        ...

    def count_open(self) -> int:
        """The number of segments that are not closed yet."""
        ...

    def extractors(self, segment: str) -> Sequence[Extractor]:
        """The extractors whose items the crawl itself stored with a segment.

        Raises ``JournalError`` or ``OSError``.
        """
        ...

    def captures(self, segment: str) -> Iterator[SourceCapture]:
        """The captures of which items may be made. Raises ``JournalError`` or ``OSError``."""
        ...
