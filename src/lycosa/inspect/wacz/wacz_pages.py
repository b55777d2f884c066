"""The page lists of a WACZ: what a person opens first, with the text that a search looks through.

``pages/pages.jsonl`` has the pages of the seeds and ``pages/extraPages.jsonl`` all others, as
Browsertrix writes them, because a reader loads the first list before it shows anything. A page is
an HTML document or a PDF file that was answered with success and is not part of another page.
"""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import FetchKind
from lycosa.inspect.wacz.wacz_file import WaczFile
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow, source_capture

FIRST_LIST, FURTHER_LIST = "pages/pages.jsonl", "pages/extraPages.jsonl"
_TYPES = {"text/html", "application/xhtml+xml", "application/pdf"}
_OK = range(200, 300)
_PARTS = (LinkKind.FRAME, LinkKind.IFRAME)
_PIECE = 1 << 20


class _Page(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of a list: the names of WACZ 1.1.1, and those that Browsertrix adds."""

    id: str
    url: str
    ts: str
    title: str = ""
    seed: bool = False
    depth: int = 0
    status: int = 0
    mime: str = ""
    text: str = ""


_encoder = msgspec.json.Encoder()


class MainPage(NamedTuple):
    """The page with which a reader begins."""

    url: str
    time: str


class PageLists:
    """The lists while the archive is written: each is kept in an unnamed file in ``folder``.

    They may be as large as the text of the crawl, and only one entry of a ZIP file is written at a
    time.
    """

    def __init__(self, folder: Path) -> None:
        self._seeds, self._others = (_List(folder) for _ in range(2))
        self._first: MainPage | None = None
        self._first_seed: MainPage | None = None

    @property
    def main(self) -> MainPage | None:
        """The first page of a seed, or else the first page."""
        return self._first_seed or self._first

    @property
    def number(self) -> int:
        """How many pages are listed."""
        return self._seeds.number + self._others.number

    def add_capture(self, row: JournalRow) -> None:
        """List a capture, or the render that has its text, if it is a page."""
        if not is_page(row):
            return
        fetched_us, record_id = source_capture(row)
        is_seed = row.link_kind is LinkKind.SEED and not row.depth
        time = iso_second(fetched_us)
        page = _Page(
            record_id.rpartition(":")[2],
            row.url,
            time,
            row.title,
            is_seed,
            row.depth,
            row.status,
            row.media_type_detected or row.media_type,
            row.text,
        )
        (self._seeds if is_seed else self._others).add_line(_encoder.encode(page), bool(row.text))
        main = MainPage(row.url, time)
        self._first = self._first or main
        if is_seed:
            self._first_seed = self._first_seed or main

    def write(self, file: WaczFile) -> None:
        """Write the lists. Without the page of a seed all pages are in the first one."""
        seeds, others = self._seeds, self._others
        if not seeds.number:
            seeds, others = others, seeds
        seeds.write(file, FIRST_LIST, {"id": "pages", "title": "Pages"})
        if others.number:
            others.write(file, FURTHER_LIST, {"id": "extra-pages", "title": "Further pages"})

    def close(self) -> None:
        """Delete the unnamed files."""
        self._seeds.close()
        self._others.close()


class _List:
    """One list."""

    def __init__(self, folder: Path) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (see ``close``)
        self.number, self._has_text = 0, False

    def add_line(self, line: bytes, has_text: bool) -> None:
        self._file.write(line + b"\n")
        self.number += 1
        self._has_text |= has_text

    def write(self, file: WaczFile, path: str, names: dict[str, Any]) -> None:
        names = {"format": "json-pages-1.0", **names, "hasText": self._has_text}
        first = json.dumps(names).encode() + b"\n"
        with file.add_entry(path, len(first) + self._file.tell(), is_packed=False) as out:
            out.write(first)
            self._file.seek(0)
            while piece := self._file.read(_PIECE):
                out.write(piece)

    def close(self) -> None:
        self._file.close()


def is_page(row: JournalRow) -> bool:
    """Whether a capture is a page by itself."""
    return (
        row.kind is FetchKind.PAGE
        and row.status in _OK
        and row.revisit != UNCHANGED
        and not row.link_kind.is_requisite
        and row.link_kind not in _PARTS
        and (row.media_type_detected or row.media_type) in _TYPES
    )


def iso_second(date_us: int) -> str:
    """A time in RFC 3339 and whole seconds, which is that of the line in the index."""
    return f"{datetime.fromtimestamp(date_us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
