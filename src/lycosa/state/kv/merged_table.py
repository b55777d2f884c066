"""Newer writes merged over a read-only table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

from lycosa.state.kv.kv_port import SavedTable

KeyValuePair = tuple[bytes, bytes]


class MergedTable:
    """A table with newer writes over it; the value ``None`` deletes."""

    def __init__(self, below: SavedTable, over: Mapping[bytes, bytes | None]) -> None:
        self._below, self._over = below, over
        self._keys = sorted(over)

    def get(self, key: bytes) -> bytes | None:
        return self._over[key] if key in self._over else self._below.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[KeyValuePair]:
        """Pairs with ``start <= key < end`` in order, streaming."""
        keys = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
        return laid_over(self._below.scan(start, end), [(key, self._over[key]) for key in keys])

    def close(self) -> None:
        self._below.close()

    def __repr__(self) -> str:
        return f"MergedTable({self._below!r}, over={len(self._over)})"


def laid_over(
    below: Iterable[KeyValuePair], over: Iterable[tuple[bytes, bytes | None]]
) -> Iterator[KeyValuePair]:
    """Merge two sorted sequences of pairs; for equal keys the pair of ``over`` wins.

    The value ``None`` in ``over`` deletes the key.
    """
    newer = iter(over)
    upper = next(newer, None)
    for key, value in below:
        while upper is not None and upper[0] < key:
            if upper[1] is not None:
                yield upper[0], upper[1]
            upper = next(newer, None)
        if upper is not None and upper[0] == key:
            if upper[1] is not None:
                yield key, upper[1]
            upper = next(newer, None)
        else:
            yield key, value
    while upper is not None:
        if upper[1] is not None:
            yield upper[0], upper[1]
        upper = next(newer, None)
