"""The items of an earlier version that ``--failed`` keeps, by capture.

They come from the journal, or from the table of a version that was extracted again. Both have them
in the order of the captures, so a table is read once, a batch at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lycosa.base.model.item_schema import ItemSchema
from lycosa.base.reasons import Reason
from lycosa.state.store.journal_rows import JournalRow, remarks_of

_BATCH = 2000
_Items = list[list[Any]]


def failed_in_crawl(row: JournalRow) -> bool:
    """Whether user code failed at a capture in the crawl."""
    return any(each.reason is Reason.EXTENSION_FAILED for each in remarks_of(row))


class JournalItems:
    """The items that the crawl itself made. ``None`` of a capture: user code failed at it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, row: JournalRow) -> _Items | None:
        found = row.items.get(self._name)
        # Another extractor may have failed: then this one's items are there, or it had none.
        return None if found is None and failed_in_crawl(row) else found or []


class TableItems:
    """The items in the table of a version that was extracted again, of which ``failed`` captures
    are missing.
    """

    def __init__(self, path: Path, schema: ItemSchema, failed: Collection[str]) -> None:
        self._failed, self._rows = frozenset(failed), _rows_in(path, schema)
        self._next = next(self._rows, None)

    def __call__(self, row: JournalRow) -> _Items | None:
        found: _Items = []
        while self._next is not None and self._next[0] == row.record_id:
            found.append(self._next[1])
            self._next = next(self._rows, None)
        return None if row.record_id in self._failed else found


def _rows_in(path: Path, schema: ItemSchema) -> Iterator[tuple[str, list[Any]]]:
    """The capture and the JSON values of each row."""
    names = [each.name for each in schema.columns]
    for batch in pq.ParquetFile(path).iter_batches(_BATCH, columns=["_capture", *names]):
        values_of = [_values(batch.column(each.name), each.type) for each in schema.columns]
        columns = [batch.column("_capture").to_pylist(), *values_of]
        for capture, *values in zip(*columns, strict=True):
            yield capture, values


def _values(column: pa.Array, kind: str) -> list[Any]:
    """The values of a column as they are in a journal."""
    if kind.startswith("list["):
        return [
            None if each is None else [_value(one, kind[5:-1]) for one in each]
            for each in _plain(column, kind[5:-1])
        ]
    return [None if each is None else _value(each, kind) for each in _plain(column, kind)]


def _plain(column: pa.Array, kind: str) -> list[Any]:
    if kind == "time":
        is_list = pa.types.is_list(column.type)
        column = column.cast(pa.list_(pa.int64()) if is_list else pa.int64())
    found: list[Any] = column.to_pylist()
    return found


def _value(value: Any, kind: str) -> Any:
    if kind == "date":
        return value.isoformat()
    return msgspec.json.decode(value) if kind == "json" else value
