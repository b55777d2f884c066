"""The cold files of a partition as a table: the ``U`` rows that left the partition's own table.

Opening it reads the rows that name the files. A file is opened when it is first asked for, and the
last few stay open. Where several files have a record, the one with the greatest number counts.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lycosa.state.cold.cold_rows import (
    ColdDamaged,
    ColdFileRow,
    ScannedTable,
    cold_files,
    noted_state,
    object_key,
)
from lycosa.state.kv.table_records import decode_url, prefix_end
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore

if TYPE_CHECKING:
    from lycosa.state.cold.cold_file import ColdFile

_URLS = b"U"
_BEYOND = b"\xff" * 17  # behind each host8 url8
_OPEN = 32  # files that stay open: 100 kB each


class ColdTable:
    """The records in the files ``rows``, by number; implements ``SavedTable``.

    Keys are those of ``U`` rows; no other row is ever cold. Calls block; one thread calls them.
    They raise ``ColdDamaged`` for a file that is missing or damaged, or ``ObjectError``.
    """

    def __init__(self, store: ObjectStore, rows: Mapping[int, ColdFileRow]) -> None:
        self._store = store
        self.rows = dict(sorted(rows.items()))
        self._open: OrderedDict[int, ColdFile] = OrderedDict()
        self._hashes: NDArray[np.uint64] | None = None

    def __repr__(self) -> str:
        return f"<ColdTable files={len(self.rows)} open={len(self._open)}>"

    def get(self, key: bytes) -> bytes | None:
        """The value that the row ``key`` had, or ``None`` if it is not cold."""
        if key[:1] != _URLS:
            return None
        url = key[1:]
        for number, row in reversed(self.rows.items()):
            if row.first <= url <= row.last:
                value = self._file(number).get(url)
                if value is not None:
                    return value
        return None

    def get_of_day(self, key: bytes, day: int) -> bytes | None:
        """The same for a URL of which is known on which day since 1970 it became cold last.

        So only the files of about that day are opened.
        """
        rows = self.rows
        try:
            self.rows = {number: row for number, row in rows.items() if row.has_day(day)}
            value = self.get(key)
        finally:
            self.rows = rows
        return self.get(key) if value is None else value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values in the order of ``keys``. Sorted keys are read fastest."""
        return [self.get(key) for key in keys]

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < end`` in order, each key once."""
        first, beyond = max(start, _URLS), min(end, prefix_end(_URLS))
        if first >= beyond:
            return
        # All keys of records begin with U; the key behind the last one has no bytes after it.
        low, high = first[1:], beyond[1:] if beyond[:1] == _URLS else _BEYOND
        before = b""
        for url, _, value in heapq.merge(
            *(
                self._tagged(number, low, high)
                for number, row in self.rows.items()
                if row.last >= low and row.first < high
            )
        ):
            if url != before:
                before = url
                yield _URLS + url, value

    def _tagged(self, number: int, low: bytes, high: bytes) -> Iterator[tuple[bytes, int, bytes]]:
        """The records of a file; of equal keys the newest file is first."""
        for url, value in self._open_file(number).scan(low, high):
            yield url, -number, value

    def hashes(self) -> Iterator[NDArray[np.uint64]]:
        """The url8 of the records, as numbers, file by file; some may repeat."""
        for number in self.rows:
            yield self._open_file(number).hashes()

    def read_notes(self, number: int) -> tuple[list[bytes], list[int], list[int]]:
        """The URLs of a file (host8 and url8), their ``noted_state``, their reasons, in order."""
        rows = [
            (url, decode_url(value)) for url, value in self._open_file(number).scan(b"", _BEYOND)
        ]
        return (
            [url for url, _ in rows],
            [noted_state(record) for _, record in rows],
            [int(record.reason) for _, record in rows],
        )

    def has_hash(self, url8: bytes) -> bool:
        """Whether a record has this url8; the first call reads all hashes, 8 bytes each."""
        if self._hashes is None:
            self._hashes = np.unique(np.concatenate([np.empty(0, np.uint64), *self.hashes()]))
        number = np.uint64(int.from_bytes(url8, "big"))
        at = int(np.searchsorted(self._hashes, number))
        return at < len(self._hashes) and bool(self._hashes[at] == number)

    def find_file(self, key: bytes) -> ColdFileRow | None:
        """The row of the file that has the value of ``get``."""
        for number, row in reversed(self.rows.items()):
            if row.first <= key[1:] <= row.last and self._file(number).get(key[1:]) is not None:
                return row
        return None

    def find_damage(self) -> dict[int, str]:
        """What is wrong with files, in words, by number; reads all of them."""
        return {
            number: damage
            for number, row in self.rows.items()
            if (damage := self._damage_of(number, row))
        }

    def _damage_of(self, number: int, row: ColdFileRow) -> str:
        key = object_key(row.name)
        try:
            content = self._store.get(key)
            if sha256(content).digest() != row.sha256:
                return f"{key} has another content than when it was written"
            urls = [url for url, _ in self._open_file(number).scan(b"", _BEYOND)]
        except ObjectMissing:
            return f"{key}, which a commit names, is missing: {row.records} records"
        except ColdDamaged as error:
            return str(error)
        if len(urls) != row.records or urls[0] != row.first or urls[-1] != row.last:
            return f"{key} has other records than its row says"
        if any(one >= other for one, other in pairwise(urls)):
            return f"{key} is not sorted"
        return ""

    def close(self) -> None:
        self._open.clear()

    def _file(self, number: int) -> ColdFile:
        """A file for single records, of which the last ones stay open."""
        file = self._open.pop(number, None) or self._open_file(number)
        self._open[number] = file
        if len(self._open) > _OPEN:
            self._open.popitem(last=False)
        return file

    def _open_file(self, number: int) -> ColdFile:
        # Arrow takes 0.3 s and 60 MB, which only a crawl with cold files needs.
        from lycosa.state.cold.cold_file import ColdFile

        row = self.rows[number]
        try:
            return ColdFile(self._store, row.name, row.size)
        except ObjectMissing as error:
            raise ColdDamaged(
                f"{object_key(row.name)}, which a commit names, is missing: {row.records} records"
            ) from error


def open_cold(table: ScannedTable, store: ObjectStore) -> ColdTable:
    """The cold records of a partition, as its table names their files.

    ``store`` is the crawl's folder or object storage. With no cold file this is one short scan.
    """
    return ColdTable(store, cold_files(table))
