"""The content table: one row per page whose content was read and may be used.

The visible text of a page is in the WET file and not here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from lycosa.base.model.page_content import NO_CONTENT
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader, source_capture
from lycosa.state.store.parquet import RowWriter

_HEADING = pa.struct([pa.field("level", pa.int8()), pa.field("text", pa.string())])
_ALTERNATE = pa.struct([pa.field("language", pa.string()), pa.field("url", pa.string())])
CONTENT_SCHEMA = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("fetch_time", pa.timestamp("us"), nullable=False),
        pa.field("fetch_number", pa.int32(), nullable=False),
        pa.field("warc_record_id", pa.string(), nullable=False),
        pa.field("title", pa.string()),
        pa.field("description", pa.string()),
        pa.field("author", pa.string()),
        pa.field("published", pa.string()),
        pa.field("modified", pa.string()),
        pa.field("language", pa.string()),
        pa.field("language_certainty", pa.float32()),
        pa.field("main_text", pa.string()),
        pa.field("markdown", pa.string()),
        pa.field("headings", pa.list_(_HEADING)),
        pa.field("alternates", pa.list_(_ALTERNATE)),
        pa.field("structured", pa.string()),
        pa.field("render_time", pa.timestamp("us")),
    ]
)
_ROWS = 200


class ContentBuilder:
    """Builds the content file of one segment."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self._writer, self._policy = RowWriter(path, CONTENT_SCHEMA, _ROWS), header.policy

    def add_row(self, row: JournalRow) -> None:
        """Add a capture, if it has content."""
        if (found := content_values(row, self._policy)) is not None:
            self._writer.add_row(found)

    def close(self) -> None:
        """Complete the file."""
        self._writer.close()


def content_values(row: JournalRow, policy: UsePolicy) -> tuple[Any, ...] | None:
    """The columns of a capture, in order; ``None`` when it has no row.

    A revisit has none: that of its original has the content. With a purpose it has one, because
    the site may have refused the use of the original. A render has one if its text is the better
    one; it names the capture that was rendered.
    """
    content = row.content
    if content is None or content == NO_CONTENT or (row.revisit and policy.records_only):
        return None
    if row.render is not None and not row.render.is_better:
        return None
    fetched, record_id = source_capture(row)
    return (
        row.url,
        fetched,
        row.fetch_number,
        record_id,
        _text(row.title),
        _text(row.description),
        _text(content.author),
        content.published or None,
        content.modified or None,
        row.language or None,
        content.certainty if content.certainty >= 0 else None,
        _text(content.main_text(row.text)),
        _text(content.markdown),
        [{"level": each.level, "text": _text(each.text)} for each in content.headings],
        [{"language": _text(each.language), "url": each.url} for each in content.alternates],
        _text(content.structured),
        row.date_us if row.render is not None else None,
    )


def _text(text: str) -> str | None:
    return text.encode("utf-8", "replace").decode() or None
