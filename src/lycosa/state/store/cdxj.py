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
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from lycosa.state.store import languages
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow, SegmentHeader
from lycosa.state.store.layout import WARC, file_name

_RUN = 50_000  # lines
_MAX_RUNS = 128  # open files


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
    """One line with its line end; ``None`` for a capture that cannot be shown."""
    return None if row.revisit == UNCHANGED else line_of(row, entry(row))


def line_of(row: JournalRow, found: CdxjEntry) -> bytes:
    """The line of a capture with the JSON object ``found``."""
    return f"{row.surt} {timestamp(row.date_us)} ".encode() + _encoder.encode(found) + b"\n"


class SortedLines:
    """Any number of lines, sorted by their bytes.

    Lines are sorted in runs that fit in memory (50,000 are about 20 MB). The runs are kept in
    unnamed files in ``folder``, whose free space is monitored, and merged at the end. An unnamed
    file leaves nothing behind when the process is killed.
    """

    def __init__(self, folder: Path, run: int = _RUN) -> None:
        self._folder, self._run, self._lines = folder, run, list[bytes]()
        self._runs: list[IO[bytes]] = []

    def add_line(self, line: bytes) -> None:
        """Add a line with its line end."""
        self._lines.append(line)
        if len(self._lines) >= self._run:
            self._lines.sort()
            self._runs.append(self._written(self._lines))
            self._lines = []
            if len(self._runs) >= _MAX_RUNS:
                merged = self._written(heapq.merge(*map(_rewound, self._runs)))
                self.close()
                self._runs = [merged]

    def merged(self) -> Iterator[bytes]:
        """All lines in order; once, at the end."""
        self._lines.sort()
        return heapq.merge(*map(_rewound, self._runs), self._lines)

    def close(self) -> None:
        """Delete the runs."""
        for run in self._runs:
            run.close()

    def _written(self, lines: Iterable[bytes]) -> IO[bytes]:
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (closed by ``close``)
        file.writelines(lines)
        return file


class CdxjBuilder:
    """Builds the index of one segment, which may have a million lines of small captures."""

    def __init__(self, path: Path, header: SegmentHeader, run: int = _RUN) -> None:
        self._path, self._lines = path, SortedLines(path.parent, run)

    def add_row(self, row: JournalRow) -> None:
        if (found := line(row)) is not None:
            self._lines.add_line(found)

    def close(self) -> None:
        """Write the file."""
        try:
            with self._path.open("wb") as file:
                file.writelines(self._lines.merged())
        finally:
            self._lines.close()


def _rewound(run: IO[bytes]) -> IO[bytes]:
    run.seek(0)
    return run
