"""CDXJ index: a sorted line for each capture that can be shown, for replay tools.

A line is SURT key, 14-digit time and a JSON object, as in pywb and in Common Crawl's index: digest
in base32 without prefix, numbers as strings, ``warc/revisit`` as the type of a revisit. File names
are relative to the crawl folder. Lines are sorted by their bytes, as binary search over the file
and ``sort -m`` of several files under ``LC_ALL=C`` expect.

A visit that the server answered with 304 has no line. A replay tool takes the line nearest to the
requested time, and pywb would show the empty 304 itself. Without the line it shows the capture that
the 304 confirmed.
"""

from __future__ import annotations

import heapq
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from lycosa.state.store import languages
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow, SegmentHeader
from lycosa.state.store.layout import WARC, file_name

_RUN = 50_000  # lines


class CdxjEntry(msgspec.Struct, frozen=True, omit_defaults=True, rename="kebab"):
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
    """One line with its line end; ``None`` for a capture that cannot be shown."""
    if row.revisit == UNCHANGED:
        return None
    return f"{row.surt} {timestamp(row.date_us)} ".encode() + _encoder.encode(entry(row)) + b"\n"


class CdxjBuilder:
    """Builds the index of one segment.

    A segment of small captures has a million lines. So lines are sorted in runs that fit in memory
    (about 20 MB). The runs are kept in unnamed files and merged at the end.
    """

    def __init__(self, path: Path, header: SegmentHeader, run: int = _RUN) -> None:
        self._path, self._run, self._lines = path, run, list[bytes]()
        self._runs: list[IO[bytes]] = []

    def add_row(self, row: JournalRow) -> None:
        if (found := line(row)) is None:
            return
        self._lines.append(found)
        if len(self._lines) >= self._run:
            self._lines.sort()
            # In the folder of the index, whose free space is monitored. An unnamed file leaves
            # nothing behind when the process is killed.
            file = tempfile.TemporaryFile(dir=self._path.parent)  # noqa: SIM115 (closed by ``close``)
            self._runs.append(file)
            file.writelines(self._lines)
            self._lines = []

    def close(self) -> None:
        """Write the file."""
        self._lines.sort()
        try:
            for run in self._runs:
                run.seek(0)
            with self._path.open("wb") as file:
                file.writelines(heapq.merge(*self._runs, self._lines))
        finally:
            for run in self._runs:
                run.close()
