"""Derived files of closed segments against their journal, row by row.

The content of each file is computed again from the rows and compared in the order of the file; no
value of the file is used that could make a missing row look right. A kind in the table of
``store.derived_files`` that has no check here is built again into a temporary folder and compared
line by line.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from lycosa.base.preferences.use_policy import RECORD_ONLY
from lycosa.base.system.private_folder import private_folder
from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.audit.audited_segments import Segment, members
from lycosa.inspect.audit.extractor_counts import ExtractorCounts
from lycosa.inspect.audit.items_check import (
    OtherVersion,
    RowsFit,
    VersionCounts,
    check_extractors,
)
from lycosa.inspect.audit.table_check import BATCH_ROWS, TableCheck
from lycosa.state.store import (
    content_table,
    items_table,
    layout,
    links_table,
    pages_table,
    renders_table,
    wet,
)
from lycosa.state.store.closing import missing_files
from lycosa.state.store.derived_files import (
    CONTENT,
    DERIVED,
    DERIVED_KINDS,
    ITEMS,
    LINKS,
    PAGES,
    RENDERS,
    TEXT,
    begin_file,
    folders_of_kinds,
    item_version,
    kinds_of,
)
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader
from lycosa.state.store.renders_table import render_values
from lycosa.state.store.usable_rows import usable_row

_ROWS = 500
_PAGES_NEEDED = len(pages_table.COMMON_CRAWL_COLUMNS) + 1
_LINKS_NEEDED = 3


_Values = Iterable[tuple[Any, ...]]


class _FileCheck(Protocol):
    """Compares one file: ``row`` for all rows of its segment, then ``end``."""

    def row(self, row: JournalRow) -> None: ...
    def end(self) -> None: ...


class DerivedChecks:
    """Checks the derived files of closed segments, one segment after the other.

    ``are_sealed`` says that derived files are stored before their journal, as in a cluster.
    Call ``begin_segment``, ``check_row`` for all of its rows, then ``end_segment``.
    """

    def __init__(self, are_sealed: bool) -> None:
        self._are_sealed = are_sealed
        self._checks = {each.name: Check(each.name, _what(each.name)) for each in DERIVED}
        self._items = Check(ITEMS, "items of user code against the journal, every column")
        self._files: list[_FileCheck] = []
        self._policy = RECORD_ONLY
        self._elsewhere = dict.fromkeys((*self._checks, ITEMS), 0)
        self._has_items = self._has_renders = False
        self._made, self._others = ExtractorCounts(), VersionCounts()

    def all_checks(self) -> list[Check]:
        """Of crawls without extractors or renders there is nothing to say about items."""
        found = [
            each
            for each in self._checks.values()
            if each is not self._checks[RENDERS] or self._has_renders
        ]
        return [*found, self._items] if self._has_items else found

    def _check_of(self, kind: str) -> Check:
        return self._checks.get(kind, self._items)

    def begin_segment(self, segment: Segment) -> None:
        """Start a segment; an open one has no derived files."""
        self._files, self._policy = [], segment.header.policy
        self._made.begin_segment(segment.header)
        self._has_renders |= segment.header.options.get(RENDERS, False)
        self._begin_items(segment)
        if not segment.is_closed:
            return
        folder = segment.folder
        missing = missing_files(folder, segment.header)
        for kind in kinds_of(segment.header):
            check = self._check_of(kind)
            path = folder / layout.file_name(kind, segment.name)
            if kind in missing and self._are_sealed:
                check.add_breach(f"{kind}/{path.name} is missing")
            elif kind in missing:
                check.add_note(f"{kind}/{path.name} is not built yet; the next start builds it")
            elif not path.exists():
                self._elsewhere[check.name] += 1
            else:
                self._files.append(_file_check(kind, check, path, segment.header))

    def _begin_items(self, segment: Segment) -> None:
        """Check items of all versions: those of the journal, and those that were made later."""
        header, kinds = segment.header, set(kinds_of(segment.header))
        self._has_items |= bool(header.extractors)
        check_extractors(self._items, header)
        if header.extractors:
            self._files.append(RowsFit(self._items, header))
        for kind in folders_of_kinds(segment.folder):
            path = segment.folder / layout.file_name(kind, segment.name)
            if item_version(kind) and kind not in kinds and path.exists():
                self._has_items = True
                self._files.append(OtherVersion(self._items, path, kind, header, self._others))

    def check_row(self, row: JournalRow) -> None:
        """Check one capture of the segment."""
        self._made.row(row)
        row = usable_row(row, self._policy)
        for file in self._files:
            file.row(row)

    def end_segment(self) -> None:
        """Check the ends of the files, after all rows: more content there is a breach."""
        for file in self._files:
            file.end()

    def note_code(self) -> None:
        """Say which code made which items, and what was extracted again; after all segments."""
        for line in (*self._made.lines(), *self._others.lines()):
            self._items.add_note(line)

    def check_strangers(self, folder: Path, found: list[Segment]) -> None:
        """Find files that belong to no segment, or to one that has no such file.

        Readers of the folder would treat their rows as captures. The segments are listed after the
        files: a file is derived when its segment has its final names, so a running crawl has no
        derived file whose segment is missing from the list.
        """
        headers = {segment.name: segment.header for segment in found}
        for kind, number in self._elsewhere.items():
            if number:
                self._check_of(kind).add_note(
                    f"not compared: {number} file{'s' if number != 1 else ''} that"
                    f" {'were' if number != 1 else 'was'} removed here after the upload"
                )
        for kind in folders_of_kinds(folder):
            check, is_item = self._check_of(kind), item_version(kind) is not None
            paths = sorted((folder / kind).glob("[!.]*" + (".parquet" if is_item else "")))
            known = layout.segment_names(folder, layout.WARC, layout.JOURNAL)
            for path in paths:
                name = layout.stem_of(path)
                header = headers.get(name)
                if path != folder / layout.file_name(kind, name) or name not in known:
                    check.add_breach(
                        f"{kind}/{path.name} belongs to no segment of this crawl; move it elsewhere"
                    )
                elif header is not None and not is_item and kind not in kinds_of(header):
                    check.add_breach(
                        f"{kind}/{path.name}: its segment was stored without {kind}/, so this crawl"
                        " did not make it; move it elsewhere"
                    )


class _LinesCheck:
    """Compares a file of lines with one that is made now from the same rows."""

    def __init__(self, check: Check, path: Path, header: SegmentHeader) -> None:
        self._check, self._path = check, path
        self._stack = ExitStack()
        self._made = self._stack.enter_context(private_folder("audit")) / path.name
        self._builder = begin_file(path.parent.name, self._made, header)

    def row(self, row: JournalRow) -> None:
        self._builder.add_row(row)

    def end(self) -> None:
        self._builder.close()
        with self._stack, self._made.open("rb") as wanted, self._path.open("rb") as found:
            self._compare(wanted, found)

    def _compare(self, wanted: Iterator[bytes], found: Iterator[bytes]) -> None:
        """Report only the first difference: all lines after it would differ too."""
        lines, first, ends_after = 0, "", -1
        for number, (line, other) in enumerate(zip_longest(wanted, found), 1):
            lines += line is not None
            if line == other or first or ends_after >= 0:
                continue
            if other is None:
                ends_after = number - 1
            else:
                should = line[:200].decode(errors="replace").rstrip() if line else "its end"
                first = f", line {number}: should be {should}"
        self._check.checked += lines
        if ends_after >= 0:  # reported with the number of lines, which is known now
            first = f" ends after {ends_after} lines of {lines}"
        if first:
            self._check.add_breach(self._path.name + first)


class _RowsCheck:
    """Compares every column of a table, a few hundred rows at a time.

    ``values`` gives the columns of each row of a capture; ``label`` names the one that identifies
    a row.
    """

    def __init__(
        self,
        table: TableCheck,
        schema: pa.Schema,
        values: Callable[[JournalRow], _Values],
        label: str = "url",
    ) -> None:
        self._table, self._schema, self._values, self._label = table, schema, values, label
        self._rows: list[tuple[Any, ...]] = []

    def row(self, row: JournalRow) -> None:
        self._rows += self._values(row)
        if len(self._rows) >= _ROWS:
            self._compare()

    def end(self) -> None:
        self._compare()
        self._table.end_file()

    def _compare(self) -> None:
        if self._rows:
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
            ]
            self._table.compare_rows(pa.table(columns, schema=self._schema), self._label)
            self._rows.clear()


def _pages_check(check: Check, path: Path, header: SegmentHeader) -> _RowsCheck:
    table = TableCheck(check, path, _PAGES_NEEDED)
    return _RowsCheck(
        table,
        pages_table.PAGES_SCHEMA,
        lambda row: [pages_table.values(row, header)] if row.render is None else [],
    )


def _renders_check(check: Check, path: Path, header: SegmentHeader) -> _RowsCheck:
    schema = renders_table.RENDERS_SCHEMA
    table = TableCheck(check, path, len(schema))
    return _RowsCheck(
        table, schema, lambda row: [render_values(row)] if row.render is not None else []
    )


def _content_check(check: Check, path: Path, header: SegmentHeader) -> _RowsCheck:
    schema = content_table.CONTENT_SCHEMA
    table = TableCheck(check, path, len(schema) - 1)

    def values(row: JournalRow) -> _Values:
        found = content_table.content_values(row, header.policy)
        return [found] if found is not None else []

    return _RowsCheck(table, schema, values)


def _items_check(check: Check, path: Path, header: SegmentHeader, kind: str) -> _RowsCheck:
    of = item_version(kind)
    assert of is not None, kind
    schema = items_table.header_schema(header, *of)
    columns = items_table.items_schema(schema)
    table = TableCheck(check, path, len(columns), kind)
    return _RowsCheck(table, columns, lambda row: items_table.item_values(row, schema), "_url")


class _LinksCheck:
    """Compares every column of ``links/``, where a page has any number of rows."""

    def __init__(self, check: Check, path: Path, header: SegmentHeader) -> None:
        self._table = TableCheck(check, path, _LINKS_NEEDED)
        self._segment = header.segment
        self._rows: list[JournalRow] = []
        self._links = 0

    def row(self, row: JournalRow) -> None:
        if row.links.urls:
            self._rows.append(row)
            self._links += len(row.links.urls)
            if self._links >= BATCH_ROWS:
                self._compare()

    def end(self) -> None:
        self._compare()
        self._table.end_file()

    def _compare(self) -> None:
        if self._rows:
            wanted = pa.Table.from_batches([links_table.batch(self._rows, self._segment)])
            self._table.compare_rows(wanted, "source_url")
            self._rows, self._links = [], 0


class _TextCheck:
    """Compares the text of each record of ``text/`` and its URL.

    Other fields of the header are not compared: an earlier version may have written them in another
    form.
    """

    def __init__(self, check: Check, path: Path, header: SegmentHeader) -> None:
        self._check, self._segment, self._policy = check, header.segment, header.policy
        self._records = members(path)
        self._next()  # the warcinfo record

    def row(self, row: JournalRow) -> None:
        if not wet.has_text(row, self._policy):
            return
        found = self._next()
        head, _, rest = found.partition(b"\r\n\r\n") if found else (b"", b"", b"")
        is_same = (
            f"WARC-Target-URI: {row.url}\r\n".encode() in head
            and rest == row.text.encode("utf-8", "replace") + b"\r\n\r\n"
        )
        self._check.expect(is_same, f"the text record of {row.url} is missing or differs")

    def end(self) -> None:
        left = self._next()
        self._check.expect(left is None, f"{self._segment}: text records without a row")

    def _next(self) -> bytes | None:
        try:
            return next(self._records, None)
        except (zlib.error, EOFError) as error:
            # Behind damage no member can be found, so this file counts as ended.
            self._check.add_breach(str(error))
            return None


_CHECKS: dict[str, tuple[str, Callable[[Check, Path, SegmentHeader], _FileCheck]]] = {
    PAGES: ("rows of pages/ against the journal, every column", _pages_check),
    LINKS: ("rows of links/ against the journal, every column", _LinksCheck),
    TEXT: ("text records against the journal", _TextCheck),
    CONTENT: ("rows of content/ against the journal, every column", _content_check),
    RENDERS: ("rows of renders/ against the journal, every column", _renders_check),
}


def _file_check(kind: str, check: Check, path: Path, header: SegmentHeader) -> _FileCheck:
    if kind not in DERIVED_KINDS:
        return _items_check(check, path, header, kind)
    begin = _CHECKS[kind][1] if kind in _CHECKS else _LinesCheck
    return begin(check, path, header)


def _what(kind: str) -> str:
    if kind in _CHECKS:
        return _CHECKS[kind][0]
    return f"{kind.upper()} lines against the journal, both ways"
