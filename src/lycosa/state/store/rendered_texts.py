"""Which captures have a better text in a render, for readers that read a crawl row by row.

So each page comes once. Memory: about 150 bytes for each render that has the better text; nothing
is read of a segment without renders but the first line of its journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from lycosa.state.store.journal_rows import JournalRow, source_capture
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.state.store.segments_port import StoredSegment


class RowReader(Protocol):
    """The part of a view that this needs."""

    def list_segments(self) -> list[StoredSegment]: ...
    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]: ...


def better_renders(source: RowReader) -> dict[str, int]:
    """When the newest render with the better text was made (microseconds), by the record ID of the
    capture. Raises ``JournalError`` or ``OSError``.
    """
    found: dict[str, int] = {}
    for segment in source.list_segments():
        if segment.journal_length is None:
            continue
        for row in source.read_rows(segment, RENDER_LINE):
            if row.render is not None and row.render.is_better:
                _, record_id = source_capture(row)
                found[record_id] = max(row.date_us, found.get(record_id, 0))
    return found


def has_text_of_page(row: JournalRow, better: Mapping[str, int]) -> bool:
    """Whether readers get the text of this row, of all rows of its capture."""
    _, record_id = source_capture(row)
    newest = better.get(record_id)
    return newest is None if row.render is None else newest == row.date_us
