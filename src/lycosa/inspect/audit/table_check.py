"""A derived Parquet file against the rows of its segment's journal, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lycosa.inspect.audit.audit_report import Check

BATCH_ROWS = 50_000
_UNREADABLE = (pa.ArrowException, OSError)


class TableCheck:
    """Compares one file from start to end.

    Call ``compare_rows`` with the expected rows, then ``end_file``. A table gets new columns only
    at its end. A file of an earlier version lacks the last columns, which is noted and no breach;
    the first ``needed`` columns are in every version. A difference is reported once for each
    column. ``kind`` is that of the file, if it is not the name of its folder.
    """

    def __init__(self, check: Check, path: Path, needed: int, kind: str = "") -> None:
        self._check, self._path, self._needed = check, path, needed
        self._name = f"{kind or path.parent.name}/{path.name}"
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._waiting: pa.Table | None = None
        self._is_broken = False
        self._told: set[str] = set()

    def compare_rows(self, wanted: pa.Table, label: str) -> None:
        """Compare the next rows of the file; ``label`` names the column that identifies a row."""
        self._check.checked += wanted.num_rows
        if self._is_broken:
            return None
        try:
            found = self._take(wanted.num_rows)
        except _UNREADABLE as error:
            # One breach for the file: behind damage every further row would differ.
            return self._give_up(f"cannot be read: {error}")
        if found.num_rows < wanted.num_rows:
            return self._give_up(f"ends {wanted.num_rows - found.num_rows} rows before the journal")
        self._lacks(found.column_names, wanted.column_names)
        for column in wanted.column_names:
            if column in found.column_names:
                self._column(column, _plain(wanted[column]), _plain(found[column]), wanted[label])
        return None

    def end_file(self) -> None:
        """Check that the file has no more rows."""
        if self._is_broken:
            return None
        left = 0
        try:
            while (rows := int(self._take(BATCH_ROWS).num_rows)) > 0:
                left += rows
        except _UNREADABLE as error:
            return self._give_up(f"cannot be read: {error}")
        self._check.expect(left == 0, f"{self._name} has {left} rows more than the journal")
        return None

    def _lacks(self, found: Sequence[str], wanted: Sequence[str]) -> None:
        missing = [column for column in wanted if column not in found]
        if (
            missing
            and missing == list(wanted[len(wanted) - len(missing) :])
            and len(wanted) - len(missing) >= self._needed
        ):
            self._check.add_note(
                f"{self._name} lacks {', '.join(missing)}: the version that wrote it had no such"
                " column"
            )
            return
        for column in missing:
            self._tell(column, f"has no column {column}")

    def _column(
        self, column: str, wanted: pa.Array, found: pa.Array, labels: pa.ChunkedArray
    ) -> None:
        try:
            found = found.cast(wanted.type)
        except _UNREADABLE:
            # A type that cannot be converted is a difference of the whole column, told once.
            return self._tell(
                column, f"column {column} has type {found.type}, expected {wanted.type}"
            )
        if wanted.equals(found):
            return None
        pairs = zip(wanted.to_pylist(), found.to_pylist(), strict=True)
        at, (one, other) = next(
            ((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1]), (0, (None, None))
        )
        return self._tell(column, f"{column} of {labels[at]} is {other}, but {one} in the journal")

    def _take(self, rows: int) -> pa.Table:
        """Read the next rows; fewer at the end. Raises ``pa.ArrowException`` or ``OSError``."""
        if self._batches is None:
            file = pq.ParquetFile(self._path)
            self._batches = file.iter_batches(batch_size=BATCH_ROWS)
            self._waiting = file.schema_arrow.empty_table()
        assert self._waiting is not None
        while self._waiting.num_rows < rows and (batch := next(self._batches, None)) is not None:
            self._waiting = pa.concat_tables([self._waiting, pa.Table.from_batches([batch])])
        taken, self._waiting = self._waiting.slice(0, rows), self._waiting.slice(rows)
        return taken

    def _give_up(self, what: str) -> None:
        """Report that the rest of the file cannot be compared."""
        self._is_broken = True
        self._check.add_breach(f"{self._name} {what}")

    def _tell(self, column: str, what: str) -> None:
        if column not in self._told:
            self._told.add(column)
            self._check.add_breach(f"{self._name}: {what}")


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """One array with dictionaries decoded."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
