"""URLs and hosts that are due at a time: retries, refetches, parked hosts.

Entries are table keys that begin with their time, so taking what is due reads exactly that. The earliest time is kept in memory so
that nothing is read before it.
"""

from __future__ import annotations

from lycosa.kv.overlay import Overlay

NEVER = 0xFFFFFFFF
"""The time of a queue that is empty."""


class DueQueue:
    """Entries under one prefix by due time (whole wall seconds)."""

    def __init__(self, table: Overlay, prefix: bytes) -> None:
        self._table = table
        self._prefix = prefix
        self.earliest = self._peek(0)

    def __repr__(self) -> str:
        return f"<DueQueue {self._prefix!r} earliest={self.earliest}>"

    def add(self, due_at: int, suffix: bytes) -> None:
        """``suffix`` is due at ``due_at``."""
        due_at = min(max(due_at, 0), NEVER - 1)
        self._table.put(self._key(due_at, suffix), b"")
        self.earliest = min(self.earliest, due_at)

    def remove(self, due_at: int, suffix: bytes) -> None:
        """It is not due any more."""
        self._table.delete(self._key(due_at, suffix))

    def take(self, now: float, limit: int) -> list[bytes]:
        """Removes and gives up to ``limit`` suffixes that are due."""
        if now < self.earliest:
            return []
        entries = list(self._table.scan(self._prefix, self._key(int(now) + 1, b""), limit))
        for key, _ in entries:
            self._table.delete(key)
        last = int.from_bytes(entries[-1][0][1:5], "big") if entries else 0
        self.earliest = self._peek(last)
        return [key[5:] for key, _ in entries]

    def _key(self, due_at: int, suffix: bytes) -> bytes:
        return self._prefix + due_at.to_bytes(4, "big") + suffix

    def _peek(self, start: int) -> int:
        for key, _ in self._table.scan(self._key(start, b""), self._prefix + b"\xff" * 21, 1):
            return int.from_bytes(key[1:5], "big")
        return NEVER
