"""The key-value port in memory: for tests and for crawls in virtual time.

Behaves like the RocksDB one, crashes included: ``MemoryStores`` keeps what was written by folder, ``crash`` undoes everything
since each store's last ``flush``, and a store that is open cannot be opened again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from lycosa.kv.port import StoreError, StoreLocked, Writes, pairs_of


class MemoryKeyValue:
    """A dictionary with its keys in order. ``scan`` gives the pairs as they were when it was called."""

    def __init__(self) -> None:
        self._pairs: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []  # in order; may still hold deleted keys
        self._listed: set[bytes] = set()
        self._undo: list[tuple[bytes, bytes | None]] = []  # what each write since the last flush replaced
        self._is_open = True

    def get(self, key: bytes) -> bytes | None:
        self._check_open()
        return self._pairs.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        return [self._pairs.get(key) for key in keys]

    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[tuple[bytes, bytes]]:
        self._check_open()
        low, high = bisect_left(self._keys, start), bisect_left(self._keys, end)
        pairs = self._pairs
        found = ((key, pairs[key]) for key in islice(self._keys, low, high) if key in pairs)
        return iter(list(islice(found, limit) if limit else found))

    def write(self, writes: Writes) -> None:
        self._check_open()
        fresh: list[bytes] = []
        for key, value in pairs_of(writes):
            self._undo.append((key, self._pairs.get(key)))
            if value is None:
                self._pairs.pop(key, None)
            else:
                self._pairs[key] = bytes(value)
                if key not in self._listed:
                    self._listed.add(key)
                    fresh.append(key)
        self._list_keys(fresh)

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
        return f"MemoryKeyValue(keys={len(self)}, unflushed={len(self._undo)}, open={self._is_open})"

    def _list_keys(self, fresh: list[bytes]) -> None:
        if len(self._keys) > 2 * len(self._pairs) + 1000:
            self._keys = sorted(self._pairs)
            self._listed = set(self._keys)
        elif len(fresh) * 200 < len(self._keys):  # a few into many: moving the tail is cheaper than looking at all of it
            for key in fresh:
                insort(self._keys, key)
        else:
            self._keys.extend(fresh)
            self._keys.sort()

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError("the store is closed")

    def _lose_unflushed(self) -> None:
        writes = list(reversed(self._undo))
        self.write(writes)
        self._undo.clear()
        self._is_open = False


class MemoryStores:
    """An opener whose stores outlive their closing, as files would."""

    def __init__(self) -> None:
        self._stores: dict[Path, MemoryKeyValue] = {}

    def __call__(self, folder: Path) -> MemoryKeyValue:
        """Opens the store of a folder; raises ``StoreLocked`` when it is open."""
        store = self._stores.get(folder)
        if store is None:
            store = self._stores[folder] = MemoryKeyValue()
        elif store._is_open:
            raise StoreLocked(f"{folder} is in use")
        store._is_open = True
        return store

    def crash(self) -> None:
        """The process dies: all stores close, and what was written after their last ``flush`` is gone."""
        for store in self._stores.values():
            if store._is_open:
                store._lose_unflushed()

    def __repr__(self) -> str:
        return f"MemoryStores({self._stores!r})"
