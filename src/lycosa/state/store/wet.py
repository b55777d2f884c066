"""WET: the visible text of pages as WARC ``conversion`` records, as Common Crawl publishes it.

Record IDs are derived from the ID of the response, so that a rebuilt file is identical to the byte.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa

from lycosa.base.preferences.use_policy import RECORD_ONLY, UsePolicy
from lycosa.state.store import languages, warc
from lycosa.state.store.derived_files import DerivedFile
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader
from lycosa.state.store.layout import file_name
from lycosa.state.store.parquet import RowWriter

_LEVEL = 2


def has_text(row: JournalRow, policy: UsePolicy = RECORD_ONLY) -> bool:
    """Whether a capture gets a record.

    A revisit does not, because its text is stored with the original. With a purpose it does if it
    has a text: the site may have refused the use of the original. A render does if its text is the
    better one; its record refers to the rendered document.
    """
    if row.render is not None:
        return bool(row.text) and row.render.is_better
    return bool(row.text) and not (row.revisit and policy.records_only)


def conversion(row: JournalRow, warcinfo_id: str) -> bytes:
    """The text record of a capture as one gzip member."""
    fields = (
        ("WARC-Warcinfo-ID", warc.bracketed(warcinfo_id)),
        ("WARC-Refers-To", warc.bracketed(row.record_id)),
        ("WARC-Target-URI", row.url),
        ("WARC-Identified-Content-Language", languages.three_letter(row.language)),
        ("Content-Type", "text/plain"),
    )
    return warc.record(
        "conversion",
        derived_id(row.record_id, "text"),
        row.date_us,
        fields,
        (row.text.encode("utf-8", "replace"),),
        _LEVEL,
    )


def derived_id(record_id: str, what: str) -> str:
    """A record ID that depends only on another record's ID."""
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, record_id + '#' + what)}"


class WetBuilder:
    """Builds the text file of one segment."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self._file, self._policy = path.open("wb"), header.policy
        self._info_id = derived_id(header.warcinfo_id, "text")
        fields = (
            ("WARC-Filename", file_name("text", header.segment).partition("/")[2]),
            ("Content-Type", warc.WARC_FIELDS),
        )
        block = warc.named_fields(
            (("format", "WARC File Format 1.1"), ("isPartOf", header.crawl))
        ).encode()
        self._file.write(
            warc.record("warcinfo", self._info_id, header.created_us, fields, (block,), _LEVEL)
        )

    def add_row(self, row: JournalRow) -> None:
        """Add a capture, if it has text."""
        if has_text(row, self._policy):
            self._file.write(conversion(row, self._info_id))

    def close(self) -> None:
        """Write the rest."""
        self._file.close()


# The table of texts: one row per capture whose text the purpose may use; renders have theirs in
# another table (``renders_table``).
#
# It is no file of a crawl: ``lycosa export`` and ``lycosa sql`` make it from the row journals, for
# the purpose of the crawl or for another one.


TEXTS = "texts"
TEXTS_TABLE = DerivedFile(TEXTS, ".parquet", "lycosa.state.store.wet:TextsBuilder")
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
