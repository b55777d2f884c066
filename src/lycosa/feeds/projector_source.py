"""The port from which a projector reads a crawl: the whole state, and the commits after it.

    view      ──► every row as of some commit of each partition
    commits   ──► the rows that each later commit wrote
    captures  ──► the lines of the row journals, for the crawl log

A log is trimmed, so a projector may find that the commits after its position are gone. It then
reads the state whole, as it does when its target is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from lycosa.state.commit import Commit
from lycosa.state.shard.view import CrawlOrigin, CrawlView


class JournalPosition(NamedTuple):
    """How far a segment's row journal was read: rows, and the byte after them.

    Sealing a segment may rewrite its journal: the same rows in the same order, at other bytes.
    ``is_closed`` says that the closed journal was read to its end.
    """

    rows: int = 0
    bytes: int = 0
    is_closed: bool = False


UNREAD = JournalPosition()


class CaptureLines(NamedTuple):
    """New lines of one segment's row journal; they end at byte ``end`` of it."""

    segment: str
    end: int
    is_closed: bool
    lines: Iterator[bytes]


class ProjectorSource(Protocol):
    """A crawl that a projector follows. All calls block; nothing in the crawl is changed."""

    origin: CrawlOrigin

    def view(self) -> CrawlView:
        """The newest committed state whole. Close it after use."""
        ...

    def commits(self) -> Iterator[Commit]:
        """The commits that were not given yet, in the order of their marks, to the present end.

        The first call begins with the oldest commit that is kept. If the log was trimmed beyond
        what was given, the iterator continues with the oldest kept commit: ``Commit.before`` shows
        which partitions miss something. Raises ``LogDamaged`` or ``OSError``.
        """
        ...

    def rewind(self) -> None:
        """Begin again with the oldest commit that is kept."""
        ...

    def captures(self, read: Mapping[str, JournalPosition]) -> Iterator[CaptureLines]:
        """Committed lines of journals after the positions ``read``.

        Raises ``JournalError`` or ``OSError``.
        """
        ...

    def count_waiting(self) -> int:
        """The number of commits in the log that were not given yet."""
        ...
