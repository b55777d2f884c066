"""Derived files of closed segments (CDXJ, pages, links, text) against the journal that they were built from, row by row.

What each should hold is computed again from the rows and compared in the order of the file; nothing is taken from the file that could
make a missing row look right. CDXJ lines of one segment are held for sorting, as when they were built; the other files stream.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lycosa.inspect.audit_report import Check
from lycosa.inspect.audit_segments import Segment, members
from lycosa.store import cdxj, layout, links, pages, wet
from lycosa.store.closing import missing_files
from lycosa.store.rows import Row

_ROWS = 500
_LINKS = 50_000


class DerivedChecks:
    """Checks the derived files of one closed segment after the other. ``begin``, ``row`` for all of its rows, ``end``."""

    def __init__(self) -> None:
        self.cdxj = Check("cdxj", "CDXJ lines against the journal, both ways")
        self.pages = Check("pages", "rows of pages/ against the journal, every column")
        self.links = Check("links", "rows of links/ against the journal, every column")
        self.text = Check("text", "text records against the journal")
        self._segment: Segment | None = None

    def all(self) -> list[Check]:
        return [self.cdxj, self.pages, self.links, self.text]

    def begin(self, folder: Path, segment: Segment) -> None:
        """Takes a segment; an open one has no derived files."""
        self._segment = segment if segment.is_closed else None
        if self._segment is None:
            return
        missing = missing_files(folder, segment.header)
        for path in missing.values():
            self._check_of(path.parent.name).note(f"{path.parent.name}/{path.name} is not built yet; the next start builds it")
        self._lines: list[bytes] | None = None if layout.CDXJ in missing else []
        self._cdxj_path = folder / layout.file_name(layout.CDXJ, segment.name)
        has = segment.header
        self._pages = None if layout.PAGES in missing else _Table(folder / layout.file_name(layout.PAGES, segment.name))
        self._links = None if layout.LINKS in missing or not has.links else _Table(folder / layout.file_name(layout.LINKS, segment.name))
        self._text = None if layout.TEXT in missing or not has.text else members(folder / layout.file_name(layout.TEXT, segment.name))
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
            if self._link_count >= _LINKS:
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
            self._end_table(self.pages, self._pages)
        if self._links is not None:
            self._compare_links(self._links)
            self._end_table(self.links, self._links)
        if self._text is not None:
            left = self._next_text(self._text)
            self.text.expect(left is None, f"{self._segment.name}: text records that no row has")

    def _check_of(self, kind: str) -> Check:
        return {layout.CDXJ: self.cdxj, layout.PAGES: self.pages, layout.LINKS: self.links, layout.TEXT: self.text}[kind]

    def _end_table(self, check: Check, table: _Table) -> None:
        left = table.left()
        check.expect(left == 0, f"{table.path.parent.name}/{table.path.name} has {left} rows more than the journal")

    def _compare_lines(self, wanted: list[bytes]) -> None:
        self.cdxj.checked += len(wanted)
        at = 0
        with self._cdxj_path.open("rb") as file:
            for found in file:
                if at >= len(wanted) or found != wanted[at]:
                    what = wanted[at][:200].decode(errors="replace").rstrip() if at < len(wanted) else "its end"
                    return self.cdxj.breach(f"{self._cdxj_path.name}, line {at + 1}: should be {what}")
                at += 1
        if at < len(wanted):
            self.cdxj.breach(f"{self._cdxj_path.name} ends after {at} lines of {len(wanted)}")
        return None

    def _compare_pages(self, table: _Table) -> None:
        if self._values:
            columns = [pa.array(column, field.type) for column, field in zip(zip(*self._values, strict=True), pages.SCHEMA, strict=True)]
            self._compare(self.pages, table, pa.table(columns, schema=pages.SCHEMA), "url")
            self._values.clear()

    def _compare_links(self, table: _Table) -> None:
        if self._rows:
            assert self._segment is not None
            wanted = pa.Table.from_batches([links.batch(self._rows, self._segment.name)])
            self._compare(self.links, table, wanted, "source_url")
            self._rows, self._link_count = [], 0

    def _compare(self, check: Check, table: _Table, wanted: pa.Table, label: str) -> None:
        check.checked += wanted.num_rows
        try:
            found = table.take(wanted.num_rows)
        except (pa.ArrowException, OSError) as error:
            return check.breach(f"{table.path.parent.name}/{table.path.name}: {error}")
        name = f"{table.path.parent.name}/{table.path.name}"
        if found.num_rows < wanted.num_rows:
            return check.breach(f"{name} ends {wanted.num_rows - found.num_rows} rows before the journal")
        for column in wanted.column_names:
            if column not in found.column_names:
                check.breach(f"{name} has no column {column}")
                continue
            one, other = _plain(wanted[column]), _plain(found[column])
            if not one.equals(other.cast(one.type)):
                at = next(at for at, pair in enumerate(zip(one.to_pylist(), other.to_pylist(), strict=True)) if pair[0] != pair[1])
                check.breach(f"{name}: {column} of {wanted[label][at]} is {other[at]}, by the journal {one[at]}")
        return None

    def _next_text(self, stream: Iterator[bytes]) -> bytes | None:
        try:
            return next(stream, None)
        except (zlib.error, EOFError) as error:
            self.text.breach(str(error))
            return None

    def _compare_text(self, stream: Iterator[bytes], row: Row) -> None:
        found = self._next_text(stream)
        head, _, rest = found.partition(b"\r\n\r\n") if found else (b"", b"", b"")
        is_same = f"WARC-Target-URI: {row.url}\r\n".encode() in head and rest == row.text.encode("utf-8", "replace") + b"\r\n\r\n"
        self.text.expect(is_same, f"the text record of {row.url} is missing or another")


class _Table:
    """A Parquet file read from its beginning, a number of rows at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._waiting: pa.Table | None = None

    def take(self, rows: int) -> pa.Table:
        """The next rows; fewer at the end."""
        if self._batches is None:
            file = pq.ParquetFile(self.path)
            self._batches = file.iter_batches(batch_size=_LINKS)
            self._waiting = file.schema_arrow.empty_table()
        assert self._waiting is not None
        while self._waiting.num_rows < rows and (batch := next(self._batches, None)) is not None:
            self._waiting = pa.concat_tables([self._waiting, pa.Table.from_batches([batch])])
        taken, self._waiting = self._waiting.slice(0, rows), self._waiting.slice(rows)
        return taken

    def left(self) -> int:
        """Rows that were not taken."""
        try:
            total = 0
            while (rows := int(self.take(_LINKS).num_rows)) > 0:
                total += rows
            return total
        except (pa.ArrowException, OSError):
            return 0


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """One array, dictionaries decoded."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
