"""Hosts with waiting URLs that are not on the workbench: one queue per priority band, first come first served.

Turns are dealt by the number of trailing zeros of a counter: band 0 has every second turn, band 1 every fourth, and so on;
an empty band's turn goes to the best band that is not. So a host at the head of band ``b`` waits at most ``2 ** (b + 1)``
turns, which is the bound on starvation.

Entries live in the table until their host is removed; only positions and counts are in memory.
"""

from __future__ import annotations

from lycosa.kv.overlay import Overlay
from lycosa.kv.records import front_key, prefix_end


class FrontQueues:
    """The front queues of one partition over its table."""

    def __init__(self, table: Overlay, bands: int) -> None:
        self._table = table
        self._cursor = [0] * bands
        self._next = [0] * bands
        self._waiting = [0] * bands
        self._turn = 0
        for band in range(bands):
            prefix = b"F" + band.to_bytes(1, "big")
            for key, _ in table.scan(prefix, prefix_end(prefix)):
                seq = int.from_bytes(key[2:], "big")
                self._cursor[band] = self._cursor[band] if self._waiting[band] else seq
                self._next[band] = seq + 1
                self._waiting[band] += 1

    def __len__(self) -> int:
        return sum(self._waiting)

    def __repr__(self) -> str:
        return f"<FrontQueues waiting={self._waiting}>"

    def push(self, host8: bytes, band: int) -> tuple[int, int]:
        """Puts a host at the end of a band; gives its place, which the caller remembers for ``remove``."""
        seq = self._next[band]
        self._next[band] = seq + 1
        self._waiting[band] += 1
        self._table.put(front_key(band, seq), host8)
        return band, seq

    def remove(self, place: tuple[int, int]) -> None:
        """The host has nothing waiting any more, or moves to another place."""
        self._table.delete(front_key(*place))

    def pull(self, want: int) -> list[bytes]:
        """Takes up to ``want`` hosts in turn; their entries stay in the table until removed."""
        taken: list[bytes] = []
        turns = [0] * len(self._waiting)
        while len(taken) + sum(turns) < want and any(w > t for w, t in zip(self._waiting, turns, strict=True)):
            turns[self._choose(turns)] += 1
        for band, count in enumerate(turns):
            if count:
                taken.extend(self._take(band, count))
        return taken

    def _choose(self, turns: list[int]) -> int:
        self._turn += 1
        band = (self._turn & -self._turn).bit_length() - 1
        left = [w - t for w, t in zip(self._waiting, turns, strict=True)]
        if band < len(left) and left[band] > 0:
            return band
        return next(b for b, n in enumerate(left) if n > 0)

    def _take(self, band: int, count: int) -> list[bytes]:
        start, end = front_key(band, self._cursor[band]), front_key(band, self._next[band])
        entries = list(self._table.scan(start, end, count))
        if len(entries) < count:
            # Entries were removed while they waited; the count is mended here.
            self._waiting[band] = len(entries)
        self._waiting[band] -= len(entries)
        if entries:
            self._cursor[band] = int.from_bytes(entries[-1][0][2:], "big") + 1
        return [host8 for _, host8 in entries]
