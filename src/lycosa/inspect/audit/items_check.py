"""What the audit asks of items besides that their tables are those of the journal.

The header of a segment describes each extractor, and each stored row fits its columns. A version
that was extracted again (``lycosa extract``) is in no journal, so it is not built again. Each row
of it names a capture of the segment that may be used, in the order of the journal, and numbers the
items of a capture from 0. That code would make the same rows again is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lycosa.base.model.item_schema import BadSchema, ItemSchema
from lycosa.inspect.audit.audit_report import Check
from lycosa.state.store.derived_files import item_version
from lycosa.state.store.items_table import OWN_COLUMNS
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader

_OWN = [each.name for each in OWN_COLUMNS]
_BATCH = 10_000


def check_header(check: Check, header: SegmentHeader) -> None:
    """Check that the header describes each extractor, by the digest of its columns."""
    for each in header.extractors:
        what = f"{header.segment}: the header names {each.name}"
        try:
            schema = each.columns()
        except BadSchema as error:
            check.add_breach(f"{what} with columns that cannot be read: {error}")
            continue
        if schema is not None:
            check.expect(
                schema.digest == each.schema, f"{what} with other columns than their digest says"
            )


class RowsFit:
    """Checks that each row of user code is of an extractor in the header, and fits its columns."""

    def __init__(self, check: Check, header: SegmentHeader) -> None:
        self._check, self._schemas = check, dict[str, ItemSchema | None]()
        for each in header.extractors:
            try:
                self._schemas[each.name] = each.columns()
            except BadSchema:
                self._schemas[each.name] = None  # reported by ``check_header``

    def row(self, row: JournalRow) -> None:
        for name, items in row.items.items():
            if name not in self._schemas:
                self._check.add_breach(f"{row.url} has items of {name}, which the header lacks")
            elif (schema := self._schemas[name]) is not None:
                for number, values in enumerate(items):
                    why = schema.misfit(values)
                    self._check.expect(not why, f"item {number} of {name} of {row.url}: {why}")

    def end(self) -> None:
        """There is nothing left to check."""


class _Item(NamedTuple):
    """Our columns of a row."""

    url: str
    fetched_us: int
    capture: str
    version: int
    item: int


class OtherVersion:
    """Checks a table of a version that is not that of the journal."""

    def __init__(self, check: Check, path: Path, kind: str, header: SegmentHeader) -> None:
        self._check, self._name, self._policy = check, f"{kind}/{path.name}", header.policy
        found = item_version(kind)
        self._version = found[1] if found else 0
        self._items = _items_in(path)
        self._next: _Item | None = None
        self._is_broken = False
        self._advance()

    def row(self, row: JournalRow) -> None:
        """Take the items of this capture. ``items`` of its row are those of the journal."""
        number = 0
        while self._next is not None and self._next.capture == row.record_id:
            wanted = _Item(row.url, row.date_us, row.record_id, self._version, number)
            self._check.expect(
                self._next == wanted, f"{self._name}: an item of {row.url} is {self._next}"
            )
            self._check.expect(
                self._policy.allows(row.preferences),
                f"{self._name} has an item of {row.url}, which the purpose may not use",
            )
            number += 1
            self._advance()

    def end(self) -> None:
        if self._next is not None:
            self._check.add_breach(
                f"{self._name}: an item of {self._next.url} is of no capture of the segment, or"
                " not in the order of its captures"
            )

    def _advance(self) -> None:
        try:
            self._next = next(self._items, None)
        except (pa.ArrowException, OSError, KeyError) as error:
            # Behind damage nothing can be compared, so the file counts as ended.
            self._next = None
            self._check.add_breach(f"{self._name} cannot be read: {error}")


def _items_in(path: Path) -> Iterator[_Item]:
    for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH, columns=_OWN):
        columns = [batch.column(name) for name in _OWN]
        columns[1] = columns[1].cast(pa.timestamp("us")).cast(pa.int64())
        for values in zip(*(each.to_pylist() for each in columns), strict=True):
            yield _Item(*values)
