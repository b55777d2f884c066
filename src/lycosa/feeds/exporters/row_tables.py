"""Rows of a feed as an Arrow table, for Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lycosa.base.system.durable import publish
from lycosa.feeds.export_port import ExportRow, ExportTable
from lycosa.feeds.exporters.cell_values import (
    Convert,
    converter,
    day_of,
    moment_of,
    signed,
    text_of_json,
)

_TYPES: Mapping[str, pa.DataType] = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "json": pa.string(),
}
_CONVERT: Mapping[str, Convert] = {
    "integer": signed,
    "time": moment_of,
    "date": day_of,
    "json": text_of_json,
}


def arrow_schema(table: ExportTable) -> pa.Schema:
    """The columns of the table; JSON is a string with its text."""
    return pa.schema([pa.field(each.name, _arrow_type(each.type)) for each in table.columns])


def _arrow_type(kind: str) -> pa.DataType:
    return pa.list_(_TYPES[kind[5:-1]]) if kind.startswith("list[") else _TYPES[kind]


def arrow_table(table: ExportTable, rows: Sequence[ExportRow]) -> pa.Table:
    """The rows, in their order."""
    schema = arrow_schema(table)
    columns = [
        pa.array([_arrow_value(each.type, row.values[at]) for row in rows], schema.field(at).type)
        for at, each in enumerate(table.columns)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _arrow_value(kind: str, value: object) -> object:
    if isinstance(value, (list, tuple)) and kind.startswith("list["):
        convert = converter(kind[5:-1], _CONVERT)
        return [convert(each) for each in value]
    return converter(kind, _CONVERT)(value)


def write_parquet(path: Path, rows: pa.Table) -> None:
    """A Parquet file that is whole, and on disk when this returns."""
    unfinished = path.with_name(f".{path.name}.tmp")
    pq.write_table(rows, unfinished, compression="zstd")
    publish(unfinished, path)
