"""The table of items: a row for each item that an extractor made of a page that may be used.

It is built from the rows of the journal and the columns in its header, without the user's code. So
it has the same bytes whenever it is built. A row that does not fit the columns can only come from a
damaged journal or another program: it is left out, and the audit reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from lycosa.base.model.item_schema import ItemColumn, ItemSchema
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader
from lycosa.state.store.parquet import RowWriter

OWN_COLUMNS = (
    pa.field("_url", pa.string(), nullable=False),
    pa.field("_fetched", pa.timestamp("us"), nullable=False),
    pa.field("_capture", pa.string(), nullable=False),
    pa.field("_version", pa.int32(), nullable=False),
    pa.field("_item", pa.int32(), nullable=False),
)
"""Columns before those of the extractor: URL, start of the fetch, WARC record id of the capture,
version of the extractor, and number of the item in its capture, from 0.
"""
_ROWS = 500
_SCALARS = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "time": pa.timestamp("us"),
    "date": pa.date32(),
    "json": pa.string(),
}
_json = msgspec.json.Encoder()


def begin_items(path: Path, header: SegmentHeader, name: str, version: int) -> ItemsBuilder:
    """The builder of the items of one extractor in one segment.

    Raises ``ValueError`` if the header does not have the columns of this version.
    """
    return ItemsBuilder(path, schema_of(header, name, version))


class ItemsBuilder:
    """Builds a table of items from the rows of captures in the order of their journal.

    The caller leaves out pages that may not be used (``usable_rows``).
    """

    def __init__(self, path: Path, schema: ItemSchema) -> None:
        self._schema = schema
        self._writer = RowWriter(path, items_schema(schema), _ROWS)

    def add_row(self, row: JournalRow) -> None:
        """Add the items of a capture."""
        for each in item_values(row, self._schema):
            self._writer.add_row(each)

    def close(self) -> None:
        """Complete the file."""
        self._writer.close()


def schema_of(header: SegmentHeader, name: str, version: int) -> ItemSchema:
    """The columns of an extractor in the header of a segment. Raises ``BadSchema``."""
    for each in header.extractors:
        if (each.name, each.version) == (name, version):
            found = each.columns()
            assert found is not None, each  # such an extractor has no kind
            return found
    raise ValueError(f"{header.segment} has no items of version {version} of {name}")


def items_schema(schema: ItemSchema) -> pa.Schema:
    """The columns of a table of items."""
    return pa.schema([*OWN_COLUMNS, *(_field(each) for each in schema.columns)])


def item_values(row: JournalRow, schema: ItemSchema) -> Iterator[tuple[Any, ...]]:
    """The columns of each item of a capture, in order. Items that do not fit are left out."""
    for number, values in enumerate(row.items.get(schema.name, ())):
        if not schema.misfit(values):
            yield (
                row.url,
                row.date_us,
                row.record_id,
                schema.version,
                number,
                *map(_cell, schema.columns, values),
            )


def _field(column: ItemColumn) -> pa.Field:
    kind = column.type
    if kind.startswith("list["):
        made = pa.list_(pa.field("element", _SCALARS[kind[5:-1]], nullable=False))
    else:
        made = _SCALARS[kind]
    return pa.field(column.name, made, nullable=column.optional)


def _cell(column: ItemColumn, value: Any) -> Any:
    if value is None or column.type not in _CELLS:
        return value
    return _CELLS[column.type](value)


def _day(value: str) -> date:
    return date.fromisoformat(value)


_CELLS: dict[str, Callable[[Any], Any]] = {
    "number": float,
    "date": _day,
    "json": lambda value: _json.encode(value).decode(),
    "list[number]": lambda values: [float(each) for each in values],
    "list[date]": lambda values: [_day(each) for each in values],
}
