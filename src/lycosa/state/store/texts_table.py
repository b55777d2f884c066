"""The table of texts: one row per capture whose text the purpose may use; renders have theirs in
another table (``renders_table``).

It is no file of a crawl: ``lycosa export`` and ``lycosa sql`` make it from the row journals, for
the purpose of the crawl or for another one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lycosa.state.store.derived_files import DerivedFile
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader
from lycosa.state.store.parquet import RowWriter
from lycosa.state.store.wet import has_text

TEXTS = "texts"
TEXTS_TABLE = DerivedFile(TEXTS, ".parquet", "lycosa.state.store.texts_table:TextsBuilder")
TEXTS_SCHEMA = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("fetch_time", pa.timestamp("us"), nullable=False),
        pa.field("fetch_number", pa.int32(), nullable=False),
        pa.field("warc_record_id", pa.string(), nullable=False),
        pa.field("language", pa.string()),
        pa.field("title", pa.string()),
        pa.field("text", pa.string(), nullable=False),
    ]
)
_ROWS = 200


class TextsBuilder:
    """Builds the texts of one segment."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self._writer, self._policy = RowWriter(path, TEXTS_SCHEMA, _ROWS), header.policy

    def add_row(self, row: JournalRow) -> None:
        """Add a capture, if its text belongs to it."""
        if row.render is None and has_text(row, self._policy):
            names = row.language or None, row.title or None
            text = row.text.encode("utf-8", "replace").decode()
            self._writer.add_row(
                (row.url, row.date_us, row.fetch_number, row.record_id, *names, text)
            )

    def close(self) -> None:
        """Complete the file."""
        self._writer.close()
