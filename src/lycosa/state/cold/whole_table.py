"""A partition's table with its cold records: one table for everything that only reads.

Readers must not notice where a record is: explain, status, export, the audit, the registries and
the questions of callers read this table, in which a cold record stands where it stood before it
left. A row of the table hides a cold one with the same key, because its URL has returned since.

The files are those that the table itself names, so the two are always of the same commit. Where
there are none, readers get the table as it is, and nothing costs anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from lycosa.base.system.frames import UNREADABLE
from lycosa.state.cold.cold_rows import ColdFileRow, ScannedTable, cold_files
from lycosa.state.kv.kv_port import SavedTable, TableDamaged
from lycosa.state.kv.merged_table import KeyValuePair, laid_over
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.objects.objects_port import ObjectStore

if TYPE_CHECKING:
    from lycosa.state.cold.cold_table import ColdTable

_FIRST, _END = b"U", prefix_end(b"U")


@runtime_checkable
class HasColdFiles(Protocol):
    """A table that knows where its cold records are."""

    def find_cold_file(self, key: bytes) -> ColdFileRow | None:
        """The file that has the record with this key; ``None`` if the table itself has it."""
        ...


class MarkedRecord(NamedTuple):
    """A row of a record; ``is_cold``: only a file has it."""

    key: bytes
    value: bytes
    is_cold: bool


class WholeTable:
    """A table over the cold records of its partition; implements ``SavedTable`` and owns both.

    Reads of records may raise ``ColdDamaged`` and ``ObjectError`` too.
    """

    def __init__(self, live: SavedTable, cold: ColdTable) -> None:
        self._live, self._cold = live, cold

    def get(self, key: bytes) -> bytes | None:
        value = self._live.get(key)
        return self._cold.get(key) if value is None and _FIRST <= key < _END else value

    def scan(self, start: bytes, end: bytes) -> Iterator[KeyValuePair]:
        """Pairs with ``start <= key < end`` in order, streaming."""
        live = self._live.scan(start, end)
        if start < _END and end > _FIRST:
            return laid_over(self._cold.scan(start, end), live)
        return live

    def has_record(self, key: bytes) -> bool:
        """Whether there is a record with this key.

        For very many keys: from the first call on the hashes of all cold URLs are in memory, 8
        bytes each. Reading a record takes a millisecond, because its neighbours are read too.
        """
        return self._live.get(key) is not None or self._cold.has_hash(key[9:])

    def find_cold_file(self, key: bytes) -> ColdFileRow | None:
        """See ``HasColdFiles``."""
        return self._cold.find_file(key) if self._live.get(key) is None else None

    def scan_marked(self) -> Iterator[MarkedRecord]:
        """All records in order, each with whether it is only in a file."""
        cold = self._cold.scan(_FIRST, _END)
        below = next(cold, None)
        for key, value in self._live.scan(_FIRST, _END):
            while below is not None and below[0] < key:
                yield MarkedRecord(*below, True)
                below = next(cold, None)
            if below is not None and below[0] == key:
                below = next(cold, None)
            yield MarkedRecord(key, value, False)
        while below is not None:
            yield MarkedRecord(*below, True)
            below = next(cold, None)

    def find_damage(self) -> dict[int, str]:
        """What is wrong with cold files, in words, by their numbers; reads all of them."""
        return self._cold.find_damage()

    def leave_out(self, files: Collection[int]) -> None:
        """Read on as if these cold files had no records."""
        self._cold.rows = {n: row for n, row in self._cold.rows.items() if n not in files}

    def close(self) -> None:
        self._live.close()
        self._cold.close()

    def __repr__(self) -> str:
        return f"WholeTable({self._live!r}, {self._cold!r})"


def open_cold_records(table: ScannedTable, store: ObjectStore | None) -> ColdTable | None:
    """The cold records of a partition, in the files that its table names; ``None`` without any.

    ``store`` is the crawl's folder or object storage, ``None`` for a crawl that cannot have cold
    records, as one in memory. Raises ``TableDamaged``.
    """
    try:
        files = cold_files(table) if store is not None else {}
    except UNREADABLE as error:
        what = f"a row that names a cold file cannot be read: {error}"
        raise TableDamaged(f"{table!r}: {what}") from error
    if store is None or not files:
        return None
    # Imported here: most crawls have no cold files, and need not load Arrow.
    from lycosa.state.cold.cold_table import ColdTable

    return ColdTable(store, files)


def find_cold_file(table: SavedTable, key: bytes) -> ColdFileRow | None:
    """The cold file that has the record with this key; ``None`` if the table has it, or no file."""
    return table.find_cold_file(key) if isinstance(table, HasColdFiles) else None


def whole_table(table: SavedTable, store: ObjectStore | None) -> SavedTable:
    """The table with its cold records; ``store`` as in ``open_cold_records``."""
    cold = open_cold_records(table, store)
    return table if cold is None else WholeTable(table, cold)
