"""What each version of user code made, by the headers of the segments."""

from __future__ import annotations

from collections.abc import Iterator

from lycosa.base.model.code_version import shown_digest
from lycosa.state.store.journal_rows import Extractor, JournalRow, SegmentHeader


class _Made:
    """What one version of an extractor made."""

    __slots__ = ("captures", "items", "segments")

    def __init__(self) -> None:
        self.captures = self.items = self.segments = 0


class ExtractorCounts:
    """Captures and items of each extractor, version and code. Segments come one after the other."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int, str], _Made] = {}
        self._present: dict[str, _Made] = {}

    def begin_segment(self, header: SegmentHeader) -> None:
        """Count to what this header names from now on."""
        self._present = {each.name: self._of(each) for each in header.extractors}
        for each in self._present.values():
            each.segments += 1

    def row(self, row: JournalRow) -> None:
        for name, items in row.items.items():
            if (made := self._present.get(name)) is not None:
                made.captures += 1
                made.items += len(items)

    def lines(self) -> Iterator[str]:
        """A line for each version of each extractor."""
        for (name, version, code), made in sorted(self._made.items()):
            said = f"SHA-256 {shown_digest(code)}" if code else "SHA-256 not stored"
            yield (
                f"{name} version {version} ({said}): items {made.items:,}, captures"
                f" {made.captures:,}, segments {made.segments:,}"
            )

    def _of(self, extractor: Extractor) -> _Made:
        key = extractor.name, extractor.version, extractor.code
        return self._made.setdefault(key, _Made())
