"""The port from which a projector reads a crawl: the state whole, and the commits after it.

    view      ──► every row as of some commit of each partition
    commits   ──► the rows that each later commit wrote
    captures  ──► the lines of the row journals, for the crawl log

A log is trimmed, so a projector may find that the commits after its position are gone. It then
reads the state whole, as it does when its target is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from lycosa.commit import Commit
from lycosa.shard.view import CrawlOrigin, CrawlView


class CaptureLines(NamedTuple):
    """New lines of one segment's row journal; they end at byte ``end`` of it."""

    segment: str
    end: int
    lines: Iterator[bytes]


class CommitSource(Protocol):
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

    def captures(self, read: Mapping[str, int]) -> Iterator[CaptureLines]:
        """Committed lines of journals; ``read`` has for each segment the byte up to which it was
        read. Raises ``JournalError`` or ``OSError``.
        """
        ...

    def count_waiting(self) -> int:
        """The number of commits in the log that were not given yet."""
        ...
