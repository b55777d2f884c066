"""A partition's table as its owner sees it, including writes that are not yet committed.

Writes gather in memory until ``freeze`` hands them over as one batch. That batch stays visible
until ``settle`` reports that the store below contains it. Only one batch is in flight at a time, so
a lookup reads at most three places and always sees the newest value. A crash loses both upper
layers together, which is exactly what was not committed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from lycosa.state.kv.kv_port import KeyValue


class Overlay:
    """The committed store, one batch in flight above it, and one open batch on top."""

    def __init__(self, store: KeyValue) -> None:
        self._store = store
        self._open: dict[bytes, bytes | None] = {}
        self._in_flight: dict[bytes, bytes | None] = {}

    @property
    def open_writes(self) -> int:
        """The number of writes that wait for the next commit."""
        return len(self._open)

    def get(self, key: bytes) -> bytes | None:
        """The newest value, or ``None``."""
        if key in self._open:
            return self._open[key]
        if key in self._in_flight:
            return self._in_flight[key]
        return self._store.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The newest values, in the order of ``keys``.

        The store is read once, for the keys that the upper layers lack.
        """
        found: dict[bytes, bytes | None] = {}
        missing = []
        for key in keys:
            if key in self._open:
                found[key] = self._open[key]
            elif key in self._in_flight:
                found[key] = self._in_flight[key]
            else:
                missing.append(key)
        if missing:
            found.update(zip(missing, self._store.get_many(missing), strict=True))
        return [found[key] for key in keys]

    def pending(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """Those of ``keys`` that have an uncommitted value, with that value."""
        upper = {key: self._in_flight[key] for key in keys if key in self._in_flight}
        upper.update({key: self._open[key] for key in keys if key in self._open})
        return upper

    def committed(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """The committed values. Any thread may call this."""
        return dict(zip(keys, self._store.get_many(keys), strict=True))

    def put(self, key: bytes, value: bytes) -> None:
        self._open[key] = value

    def delete(self, key: bytes) -> None:
        self._open[key] = None

    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < end`` in order, at most ``limit`` (0 = all).

        Reads every key of the two upper layers, so use it for refills of many entries and not for
        single lookups.
        """
        if not self._open and not self._in_flight:
            yield from self._store.scan(start, end, limit)  # nothing to merge: stream it
            return
        upper = {
            key: value
            for layer in (self._in_flight, self._open)
            for key, value in layer.items()
            if start <= key < end
        }
        # deletions and replacements in the upper layers can hide at most this many pairs of the
        # store
        hidden = len(upper)
        lower = self._store.scan(start, end, limit + hidden if limit else 0)
        merged: dict[bytes, bytes | None] = dict(lower)
        merged.update(upper)
        given = 0
        for key in sorted(merged):
            value = merged[key]
            if value is None:
                continue
            yield key, value
            given += 1
            if given == limit:
                return

    def scan_ranges(
        self, ranges: Sequence[tuple[bytes, bytes]]
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """The pairs of each of several ranges, which are sorted and do not overlap.

        The upper layers are read once for all of them.
        """
        if not ranges:
            return
        starts, end = [start for start, _ in ranges], ranges[-1][1]
        upper: list[dict[bytes, bytes | None]] = [{} for _ in ranges]
        for layer in (self._in_flight, self._open):
            for key, value in layer.items():
                if starts[0] <= key < end:
                    at = bisect_right(starts, key) - 1
                    if key < ranges[at][1]:
                        upper[at][key] = value
        for (first, last), above in zip(ranges, upper, strict=True):
            merged = {**dict(self._store.scan(first, last)), **above}
            yield [(key, value) for key in sorted(merged) if (value := merged[key]) is not None]

    def freeze(self) -> dict[bytes, bytes | None]:
        """Hand over the open batch for a commit; it stays visible until ``settle``."""
        assert not self._in_flight, "one commit in flight"
        self._in_flight, self._open = self._open, {}
        return self._in_flight

    def settle(self) -> None:
        """Drop the batch that ``freeze`` handed over: the store below now contains it."""
        self._in_flight = {}
