"""The port from which feeds read captures: the lines of a crawl's journals, each once.

``folder_lines`` reads a crawl folder, ``cluster_lines`` a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from lycosa.state.store.journal_rows import SegmentHeader


class LinePosition(NamedTuple):
    """How far the journals of a worker were given: term and number of a segment, and its rows.

    Segments of a folder have no term (0).
    """

    term: int
    number: int
    rows: int


class JournalLines(Protocol):
    """The lines of a crawl's journals, each once, in the order of each worker."""

    crawl: str
    """The UUID of the crawl."""
    has_terms: bool
    """Whether segments have terms, which the positions of the feed ``pages`` then name."""

    @property
    def is_behind(self) -> bool:
        """Whether there may be lines that were not given yet."""
        ...

    def begin(self, read: Mapping[int, LinePosition]) -> None:
        """Begin after these places."""
        ...

    def read(self) -> dict[int, LinePosition]:
        """How far the lines of each worker were given, with the last one."""
        ...

    def new_lines(self) -> Iterator[tuple[bytes, SegmentHeader]]:
        """The lines that were not given yet, to the present end, with the header of their segment.

        Raises ``LogDamaged``, ``JournalError``, ``ObjectError`` or ``OSError``.
        """
        ...

    def headers(self) -> Iterator[SegmentHeader]:
        """The headers of segments, those that were begun last first."""
        ...
