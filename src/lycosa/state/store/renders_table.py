"""The table of renders: one row per render, with its text, what it loaded, and what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from lycosa.base.model.finished_render import RoundNote
from lycosa.base.model.rendered_page import PageRequest
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader
from lycosa.state.store.layout import WARC, file_name
from lycosa.state.store.parquet import RowWriter
from lycosa.state.store.render_facts import RenderRecord

_STRING, _COUNT, _TIME, _SECONDS = pa.string(), pa.int32(), pa.timestamp("us"), pa.float64()


def _structs(**fields: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([pa.field(name, kind) for name, kind in fields.items()]))


_COUNTED = _structs(name=_STRING, count=_COUNT)
RENDERS_SCHEMA = pa.schema(
    [
        pa.field("url", _STRING, nullable=False),
        pa.field("render_time", _TIME, nullable=False),
        pa.field("fetch_time", _TIME, nullable=False),
        pa.field("fetch_number", _COUNT, nullable=False),
        pa.field("page_record_id", _STRING, nullable=False),
        pa.field("warc_record_id", _STRING, nullable=False),
        pa.field("end", _STRING, nullable=False),
        pa.field("reason", _STRING),
        pa.field("detail", _STRING),
        pa.field("is_better", pa.bool_(), nullable=False),
        pa.field("title", _STRING),
        pa.field("description", _STRING),
        pa.field("canonical_url", _STRING),
        pa.field("language", _STRING),
        pa.field("text", _STRING),
        pa.field("text_characters", _COUNT, nullable=False),
        pa.field("page_characters", _COUNT, nullable=False),
        pa.field("outlinks", _COUNT, nullable=False),
        pa.field("page_links", _COUNT, nullable=False),
        pa.field("simhash", pa.uint64()),
        pa.field("shown_url", _STRING),
        pa.field("document_digest", _STRING),
        pa.field("steady_digest", _STRING),
        pa.field(
            "rounds",
            _structs(
                began=_TIME,
                end=_STRING,
                elapsed_s=_SECONDS,
                processor_s=_SECONDS,
                wants=_COUNT,
                found=_COUNT,
            ),
        ),
        pa.field(
            "requests",
            _structs(
                url=_STRING,
                destination=_STRING,
                status=pa.int16(),
                media_type=_STRING,
                record_id=_STRING,
                refusal=_STRING,
            ),
        ),
        pa.field("more_wants", _COUNT, nullable=False),
        pa.field("refused", _COUNTED),
        pa.field("changed", _COUNTED),
        pa.field("console", pa.list_(_STRING)),
        pa.field("errors", pa.list_(_STRING)),
        pa.field("browser", _STRING),
        pa.field("fonts", _STRING),
        pa.field("elapsed_s", _SECONDS, nullable=False),
        pa.field("processor_s", _SECONDS, nullable=False),
        pa.field("memory_bytes", pa.int64(), nullable=False),
        pa.field("warc_filename", _STRING, nullable=False),
        pa.field(
            "records",
            _structs(
                name=_STRING,
                offset=pa.int64(),
                length=pa.int64(),
                record_id=_STRING,
                digest=_STRING,
                media_type=_STRING,
            ),
        ),
    ]
)
_ROWS = 100


class RendersBuilder:
    """Builds the renders file of one segment."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self._writer = RowWriter(path, RENDERS_SCHEMA, _ROWS)

    def add_row(self, row: JournalRow) -> None:
        """Add a render; the rows of captures are left out."""
        if row.render is not None:
            self._writer.add_row(render_values(row))

    def close(self) -> None:
        """Complete the file."""
        self._writer.close()


def render_values(row: JournalRow) -> tuple[Any, ...]:
    """The columns of a render, in order."""
    facts, original = row.render, row.original
    assert facts is not None and original is not None, row.url
    return (
        row.url,
        row.date_us,
        original.date_us,
        row.fetch_number,
        original.record_id,
        row.record_id,
        facts.end,
        row.reason.label or None,
        _text(row.detail),
        facts.is_better,
        _text(row.title),
        _text(row.description),
        row.canonical or None,
        row.language or None,
        _text(row.text),
        row.text_characters,
        facts.page_characters,
        row.outlinks,
        facts.page_links,
        row.simhash or None,
        _text(facts.shown_url),
        row.digest if facts.steady_digest else None,
        facts.steady_digest or None,
        [_round(each) for each in facts.rounds],
        [_request(each) for each in facts.requests],
        facts.more_wants,
        _counted(facts.refused),
        _counted(facts.changed),
        [_text(each) for each in facts.console],
        [_text(each) for each in facts.errors],
        facts.browser or None,
        facts.fonts or None,
        facts.elapsed_s,
        facts.processor_s,
        facts.memory_bytes,
        file_name(WARC, row.segment),
        [_record(each, offset) for each, offset in facts.places(row.offset)],
    )


def _round(note: RoundNote) -> dict[str, Any]:
    return {
        "began": int(note.at * 1_000_000),
        "end": note.end,
        "elapsed_s": note.elapsed_s,
        "processor_s": note.processor_s,
        "wants": note.wants,
        "found": note.found,
    }


def _request(request: PageRequest) -> dict[str, Any]:
    return {
        "url": _text(request.url),
        "destination": request.destination or None,
        "status": request.status or None,
        "media_type": _text(request.media_type),
        "record_id": request.record or None,
        "refusal": request.refusal or None,
    }


def _record(record: RenderRecord, offset: int) -> dict[str, Any]:
    return {
        "name": record.name,
        "offset": offset,
        "length": record.length,
        "record_id": record.record_id,
        "digest": record.digest,
        "media_type": record.media_type,
    }


def _counted(counts: dict[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "count": count} for name, count in counts.items()]


def _text(text: str) -> str | None:
    return text.encode("utf-8", "replace").decode() or None
