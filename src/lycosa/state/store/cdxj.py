"""CDXJ index: a sorted line for each capture that can be shown, for replay tools.

A line is SURT key, 14-digit time and a JSON object, as in pywb and in Common Crawl's index: digest
in base32 without prefix, numbers as strings, ``warc/revisit`` as the type of a revisit. File names
are relative to the crawl folder. Lines are sorted by their bytes, as binary search over the file
and ``sort -m`` of several files under ``LC_ALL=C`` expect.

A visit that the server answered with 304 has no line. A replay tool takes the line nearest to the
requested time, and pywb would show the empty 304 itself. Without the line it shows the capture that
the 304 confirmed. A private capture has none either: what reads the index gives captures to others.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lycosa.base.model.fetched import Privacy
from lycosa.base.urls.surt import urn_key
from lycosa.state.store import languages
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow, SegmentHeader
from lycosa.state.store.layout import WARC, file_name
from lycosa.state.store.render_facts import DOCUMENT, RenderRecord
from lycosa.state.store.sorted_lines import SortedLines

_RUN = 50_000  # lines


class CdxjEntry(msgspec.Struct, frozen=True, omit_defaults=True, rename="kebab"):
    """The JSON object of a line. ``record_digest`` is of the compressed record, as WACZ has it."""

    url: str
    mime: str
    mime_detected: str = ""
    status: str = ""
    digest: str = ""
    length: str = ""
    offset: str = ""
    filename: str = ""
    charset: str = ""
    languages: str = ""
    truncated: str = ""
    redirect: str = ""
    record_digest: str = msgspec.field(default="", name="recordDigest")


_encoder = msgspec.json.Encoder()


def timestamp(date_us: int) -> str:
    """Fourteen digits, UTC, as in CDX; the fraction of a second is dropped."""
    return f"{datetime.fromtimestamp(date_us // 1_000_000, UTC):%Y%m%d%H%M%S}"


def entry(row: JournalRow) -> CdxjEntry:
    """The JSON object for a capture."""
    return CdxjEntry(
        url=row.url,
        mime="warc/revisit" if row.revisit else row.media_type or "unk",
        mime_detected=row.media_type_detected,
        status=str(row.status),
        digest=row.digest.removeprefix("sha1:"),
        length=str(row.length),
        offset=str(row.offset),
        filename=file_name(WARC, row.segment),
        charset=row.charset,
        languages=languages.three_letter(row.language),
        truncated=row.truncated,
        redirect=row.location,
    )


def line(row: JournalRow) -> bytes | None:
    """One line with its line end; ``None`` for a capture that cannot or may not be shown."""
    is_shown = row.revisit != UNCHANGED and row.privacy is not Privacy.PRIVATE
    return line_of(row, entry(row)) if is_shown else None


def lines(row: JournalRow) -> list[bytes]:
    """The lines of a capture or of a render."""
    if row.render is None:
        return [found] if (found := line(row)) is not None else []
    if row.is_private:
        return []
    return [
        record_line(row, record_entry(row, record, offset)) for record, offset in shown_records(row)
    ]


def record_entry(row: JournalRow, record: RenderRecord, offset: int) -> CdxjEntry:
    """The JSON object for a record of a render, at ``offset``."""
    return CdxjEntry(
        url=f"urn:{record.name}:{row.url}",
        mime=record.media_type,
        status="200",
        digest=record.digest.removeprefix("sha1:"),
        length=str(record.length),
        offset=str(offset),
        filename=file_name(WARC, row.segment),
    )


def record_line(row: JournalRow, found: CdxjEntry, key: str = "") -> bytes:
    """The line of a record of a render; without a key it is that of pywb."""
    key = key or urn_key(found.url.removesuffix(row.url), row.url)
    return f"{key} {timestamp(row.date_us)} ".encode() + _encoder.encode(found) + b"\n"


def shown_records(row: JournalRow) -> list[tuple[RenderRecord, int]]:
    """The records of a render that have a line, with their offsets.

    Its document has none: replay shows the page as it was received, and runs its scripts.
    """
    if row.render is None:
        return []
    return [each for each in row.render.places(row.offset) if each[0].name != DOCUMENT]


def line_of(row: JournalRow, found: CdxjEntry) -> bytes:
    """The line of a capture with the JSON object ``found``."""
    return f"{row.surt} {timestamp(row.date_us)} ".encode() + _encoder.encode(found) + b"\n"


class CdxjBuilder:
    """Builds the index of one segment, which may have a million lines of small captures."""

    def __init__(self, path: Path, header: SegmentHeader, run: int = _RUN) -> None:
        self._path, self._lines = path, SortedLines(path.parent, run)

    def add_row(self, row: JournalRow) -> None:
        if row.render is not None:
            for each in lines(row):
                self._lines.add_line(each)
        elif (found := line(row)) is not None:
            self._lines.add_line(found)

    def close(self) -> None:
        """Write the file."""
        try:
            with self._path.open("wb") as file:
                file.writelines(self._lines.merged())
        finally:
            self._lines.close()
