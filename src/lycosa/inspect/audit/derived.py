"""Derived files of closed segments (CDXJ, pages, links, text) against the journal that they were
built from, row by row.

What each should hold is computed again from the rows and compared in the order of the file; nothing
is taken from the file that could make a missing row look right. CDXJ lines of one segment are held
for sorting, as when they were built; the other files stream.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from lycosa.inspect.audit.report import Check
from lycosa.inspect.audit.segments import Segment, members
from lycosa.inspect.audit.tables import BATCH_ROWS, TableCheck
from lycosa.store import cdxj, layout, links, pages, wet
from lycosa.store.closing import missing_files, wanted_kinds
from lycosa.store.rows import Row

_ROWS = 500
_PAGES_NEEDED = len(pages.COMMON_CRAWL) + 1
_LINKS_NEEDED = 3


class DerivedChecks:
    """Checks the derived files of one closed segment after the other. ``begin``, ``row`` for all
    of its rows, ``end``.
    """

    def __init__(self) -> None:
        self.cdxj = Check("cdxj", "CDXJ lines against the journal, both ways")
        self.pages = Check("pages", "rows of pages/ against the journal, every column")
        self.links = Check("links", "rows of links/ against the journal, every column")
        self.text = Check("text", "text records against the journal")
        self._segment: Segment | None = None
        self._pages: TableCheck | None = None
        self._links: TableCheck | None = None
        self._text: Iterator[bytes] | None = None

    def all(self) -> list[Check]:
        return [self.cdxj, self.pages, self.links, self.text]

    def begin(self, folder: Path, segment: Segment) -> None:
        """Takes a segment; an open one has no derived files."""
        self._segment = segment if segment.is_closed else None
        if self._segment is None:
            return
        missing = missing_files(folder, segment.header)
        for path in missing.values():
            self._check_of(path.parent.name).note(
                f"{path.parent.name}/{path.name} is not built yet; the next start builds it"
            )
        self._lines: list[bytes] | None = None if layout.CDXJ in missing else []
        self._cdxj_path = folder / layout.file_name(layout.CDXJ, segment.name)
        self._pages = self._links = self._text = None
        wanted = set(wanted_kinds(segment.header)) - set(missing)
        paths = {kind: folder / layout.file_name(kind, segment.name) for kind in wanted}
        if layout.PAGES in wanted:
            self._pages = TableCheck(self.pages, paths[layout.PAGES], _PAGES_NEEDED)
        if layout.LINKS in wanted:
            self._links = TableCheck(self.links, paths[layout.LINKS], _LINKS_NEEDED)
        if layout.TEXT in wanted:
            self._text = members(paths[layout.TEXT])
        if self._text is not None:
            self._next_text(self._text)  # the warcinfo record
        self._rows: list[Row] = []
        self._values: list[tuple[Any, ...]] = []
        self._link_count = 0

    def row(self, row: Row) -> None:
        """One more capture of the segment."""
        if self._segment is None:
            return
        if self._lines is not None and cdxj.has_line(row):
            self._lines.append(cdxj.line(row))
        if self._pages is not None:
            self._values.append(pages.values(row, self._segment.header.crawl))
            if len(self._values) >= _ROWS:
                self._compare_pages(self._pages)
        if self._links is not None and row.links.urls:
            self._rows.append(row)
            self._link_count += len(row.links.urls)
            if self._link_count >= BATCH_ROWS:
                self._compare_links(self._links)
        if self._text is not None and wet.has_text(row):
            self._compare_text(self._text, row)

    def end(self) -> None:
        """All rows were given: what the files still hold is too much."""
        if self._segment is None:
            return
        if self._lines is not None:
            self._compare_lines(sorted(self._lines))
        if self._pages is not None:
            self._compare_pages(self._pages)
            self._pages.end()
        if self._links is not None:
            self._compare_links(self._links)
            self._links.end()
        if self._text is not None:
            left = self._next_text(self._text)
            self.text.expect(left is None, f"{self._segment.name}: text records that no row has")

    def strangers(self, folder: Path, found: list[Segment]) -> None:
        """Files that belong to no segment, or to one that has no such file: readers of the folder
        would take their rows for captures.

        The segments are listed after the files: a file is derived when its segment has its final
        names, so a running crawl has none that is missing there.
        """
        headers = {segment.name: segment.header for segment in found}
        for kind in layout.DERIVED:
            paths = sorted((folder / kind).glob("[!.]*"))
            known = layout.segment_names(folder, layout.WARC, layout.JOURNAL)
            for path in paths:
                name, check = layout.stem_of(path), self._check_of(kind)
                header = headers.get(name)
                if path != folder / layout.file_name(kind, name) or name not in known:
                    check.breach(
                        f"{kind}/{path.name} belongs to no segment of this crawl; move it elsewhere"
                    )
                elif header is not None and kind not in wanted_kinds(header):
                    check.breach(
                        f"{kind}/{path.name}: its segment was stored without {kind}/, so this crawl"
                        " did not make it; move it elsewhere"
                    )

    def _check_of(self, kind: str) -> Check:
        return {
            layout.CDXJ: self.cdxj,
            layout.PAGES: self.pages,
            layout.LINKS: self.links,
            layout.TEXT: self.text,
        }[kind]

    def _compare_lines(self, wanted: list[bytes]) -> None:
        self.cdxj.checked += len(wanted)
        at = 0
        with self._cdxj_path.open("rb") as file:
            for found in file:
                if at >= len(wanted) or found != wanted[at]:
                    what = (
                        wanted[at][:200].decode(errors="replace").rstrip()
                        if at < len(wanted)
                        else "its end"
                    )
                    return self.cdxj.breach(
                        f"{self._cdxj_path.name}, line {at + 1}: should be {what}"
                    )
                at += 1
        if at < len(wanted):
            self.cdxj.breach(f"{self._cdxj_path.name} ends after {at} lines of {len(wanted)}")
        return None

    def _compare_pages(self, table: TableCheck) -> None:
        if self._values:
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*self._values, strict=True), pages.SCHEMA, strict=True)
            ]
            table.compare(pa.table(columns, schema=pages.SCHEMA), "url")
            self._values.clear()

    def _compare_links(self, table: TableCheck) -> None:
        if self._rows:
            assert self._segment is not None
            wanted = pa.Table.from_batches([links.batch(self._rows, self._segment.name)])
            table.compare(wanted, "source_url")
            self._rows, self._link_count = [], 0

    def _next_text(self, stream: Iterator[bytes]) -> bytes | None:
        try:
            return next(stream, None)
        except (zlib.error, EOFError) as error:
            self.text.breach(str(error))
            return None

    def _compare_text(self, stream: Iterator[bytes], row: Row) -> None:
        found = self._next_text(stream)
        head, _, rest = found.partition(b"\r\n\r\n") if found else (b"", b"", b"")
        is_same = (
            f"WARC-Target-URI: {row.url}\r\n".encode() in head
            and rest == row.text.encode("utf-8", "replace") + b"\r\n\r\n"
        )
        self.text.expect(is_same, f"the text record of {row.url} is missing or another")
