"""CDXJ: one line per capture, sorted, by which replay tools find a URL's records.

A line is SURT key, 14-digit time and a JSON object, as pywb and Common Crawl's index have them: digest in base32 without prefix,
numbers as strings, ``warc/revisit`` as the type of a revisit. File names are relative to the crawl folder. Lines are sorted by
their bytes, which is what binary search over the file, and ``sort -m`` of several files under ``LC_ALL=C``, expect.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lycosa.store import languages
from lycosa.store.layout import WARC, file_name
from lycosa.store.rows import Row


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, rename="kebab"):
    """The JSON object of a line."""

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


_encoder = msgspec.json.Encoder()


def timestamp(date_us: int) -> str:
    """Fourteen digits, UTC, as CDX has it; the fraction of a second is dropped."""
    return f"{datetime.fromtimestamp(date_us // 1_000_000, UTC):%Y%m%d%H%M%S}"


def entry(row: Row) -> Entry:
    """What a line says about a capture."""
    return Entry(
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


def line(row: Row) -> bytes:
    """One line, with its end."""
    return f"{row.surt} {timestamp(row.date_us)} ".encode() + _encoder.encode(entry(row)) + b"\n"


class CdxjBuilder:
    """Builds the index of one segment. Its lines are held for sorting: about 400 bytes a capture, 30 MB for a gigabyte of WARC."""

    def __init__(self, path: Path) -> None:
        self._path, self._lines = path, list[bytes]()

    def add(self, row: Row) -> None:
        """One more capture."""
        self._lines.append(line(row))

    def close(self) -> None:
        """Writes the file."""
        self._lines.sort()
        with self._path.open("wb") as file:
            file.writelines(self._lines)
