"""Writes Parquet files in bounded memory, in row groups of about 64 MB.

With many tiny row groups a Parquet writer uses ever more memory for metadata, and readers are slow.
With one huge group both need a whole segment in memory. So small batches are gathered. Columns are
zstd-compressed. Times are UTC in microseconds, without a zone in their type, as in Common Crawl's
index. So DuckDB needs no time zone data to show them.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

GROUP_BYTES = 64 * 1024 * 1024
GROUP_ROWS = 1_000_000


class TableWriter:
    """One Parquet file.

    ``add_batch`` takes record batches of the schema; ``close`` completes the file.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0
        # The Arrow schema is not stored, because readers would then get dictionary types instead of
        # strings.
        self._writer = pq.ParquetWriter(
            path, schema, compression="zstd", store_schema=False, write_statistics=True
        )

    def add_batch(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._bytes += batch.nbytes
        self._rows += batch.num_rows
        if self._bytes >= GROUP_BYTES or self._rows >= GROUP_ROWS:
            self._write_group()

    def close(self) -> None:
        """Write the remaining rows and the footer."""
        if self._batches:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._batches, self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._batches, self._bytes, self._rows = [], 0, 0

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class RowWriter:
    """One Parquet file of rows: tuples with a value for each column of the schema.

    ``batch_rows`` of them are gathered before they become columns. So the fewer, the less memory
    rows with much text take.
    """

    def __init__(self, path: Path, schema: pa.Schema, batch_rows: int) -> None:
        self._writer, self._schema, self._batch_rows = TableWriter(path, schema), schema, batch_rows
        self._rows: list[tuple[Any, ...]] = []

    def add_row(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) >= self._batch_rows:
            self._write_batch()

    def close(self) -> None:
        """Complete the file."""
        if self._rows:
            self._write_batch()
        self._writer.close()

    def _write_batch(self) -> None:
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._writer.add_batch(pa.record_batch(arrays, schema=self._schema))
        self._rows = []
