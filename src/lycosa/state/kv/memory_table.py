"""The key-value port in memory, for tests and for crawls in virtual time.

It behaves like the RocksDB implementation, also in a crash: ``MemoryTables`` keeps each store's
content by folder, ``crash`` undoes all writes since a store's last ``flush``, and an open store
cannot be opened again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from lycosa.state.kv.kv_port import TableError, TableLocked, Writes, pairs_of

_DEAD = 16  # deleted keys at the start of a scan from which removing them pays off


class _Shelf:
    """The keys that begin with one byte. They may include deleted keys.

    ``keys`` are sorted; ``fresh`` ones are not yet sorted into them.
    """

    __slots__ = ("fresh", "keys")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.fresh: list[bytes] = []

    def put_in_order(self) -> None:
        # few keys into many: inserting each is cheaper than sorting all
        if len(self.fresh) * 200 < len(self.keys):
            for key in self.fresh:
                insort(self.keys, key)
        else:
            self.keys.extend(self.fresh)
            self.keys.sort()
        self.fresh.clear()


class MemoryKeyValue:
    """A dictionary whose keys are sorted when a scan needs them.

    ``scan`` returns the pairs as they were when it was called.
    """

    def __init__(self) -> None:
        self._pairs: dict[bytes, bytes] = {}
        # by first byte, so that keys which are never scanned are never sorted
        self._shelves: dict[bytes, _Shelf] = {}
        self._listed: set[bytes] = set()  # on a shelf, including deleted ones
        # the values that writes since the last flush replaced
        self._undo: list[tuple[bytes, bytes | None]] = []
        self._is_open = True

    def get(self, key: bytes) -> bytes | None:
        self._check_open()
        return self._pairs.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        return [self._pairs.get(key) for key in keys]

    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[tuple[bytes, bytes]]:
        self._check_open()
        found: list[tuple[bytes, bytes]] = []
        for first in sorted(self._shelves):
            if start[:1] <= first <= end[:1] and not (limit and len(found) >= limit):
                found += self._scan_shelf(
                    self._shelves[first], start, end, limit and limit - len(found)
                )
        return iter(found)

    def write(self, writes: Writes) -> None:
        self._check_open()
        for key, value in pairs_of(writes):
            self._undo.append((key, self._pairs.get(key)))
            if value is None:
                self._pairs.pop(key, None)
            else:
                self._pairs[key] = bytes(value)
                if key not in self._listed:
                    self._listed.add(key)
                    self._shelf(key).fresh.append(key)
        if len(self._listed) > 2 * len(self._pairs) + 1000:
            self._drop_deleted()

    def flush(self) -> None:
        self._check_open()
        self._undo.clear()

    def close(self) -> None:
        if self._is_open:
            self.flush()
        self._is_open = False

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return (
            f"MemoryKeyValue(keys={len(self)}, unflushed={len(self._undo)}, open={self._is_open})"
        )

    def _shelf(self, key: bytes) -> _Shelf:
        shelf = self._shelves.get(key[:1])
        if shelf is None:
            shelf = self._shelves[key[:1]] = _Shelf()
        return shelf

    def _scan_shelf(
        self, shelf: _Shelf, start: bytes, end: bytes, limit: int
    ) -> list[tuple[bytes, bytes]]:
        shelf.put_in_order()
        keys, pairs = shelf.keys, self._pairs
        low = first = bisect_left(keys, start)
        high = bisect_left(keys, end)
        while first < high and keys[first] not in pairs:
            first += 1
        # a queue is read from its start, where its deleted keys gather
        if first - low > _DEAD:
            self._listed.difference_update(keys[low:first])
            del keys[low:first]
            high -= first - low
            first = low
        found = (
            (key, pairs[key]) for key in map(keys.__getitem__, range(first, high)) if key in pairs
        )
        return list(islice(found, limit) if limit else found)

    def _drop_deleted(self) -> None:
        self._listed = set(self._pairs)
        self._shelves.clear()
        for key in self._pairs:
            self._shelf(key).fresh.append(key)

    def _check_open(self) -> None:
        if not self._is_open:
            raise TableError("the store is closed")

    def _lose_unflushed(self) -> None:
        writes = list(reversed(self._undo))
        self.write(writes)
        self._undo.clear()
        self._is_open = False


class MemoryTables:
    """An opener whose stores keep their content after closing, as files would."""

    def __init__(self) -> None:
        self._stores: dict[Path, MemoryKeyValue] = {}

    def __call__(self, folder: Path) -> MemoryKeyValue:
        """Open the store of a folder. Raises ``TableLocked`` when it is already open."""
        store = self._stores.get(folder)
        if store is None:
            store = self._stores[folder] = MemoryKeyValue()
        elif store._is_open:
            raise TableLocked(f"{folder} is in use")
        store._is_open = True
        return store

    def crash(self) -> None:
        """Simulate the death of the process: close all stores and undo unflushed writes."""
        for store in self._stores.values():
            if store._is_open:
                store._lose_unflushed()
