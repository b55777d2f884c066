"""Hashes met lately: stops most repeated links before they cost anything, the exchange included.

Two sets of half the capacity. New hashes go into the younger one; when that is full the older one
is dropped and they change places; a hash met again moves to the younger one. So at least the last
capacity/2 distinct hashes are remembered, at most ``capacity``, at the cost of one or two set
look-ups, where an exact LRU would keep a linked list.

Forgetting is harmless (URL-seen decides); a false "lately" cannot happen, as whole hashes are
compared.
"""

from __future__ import annotations


class RecentHashes:
    """Remembers up to ``capacity`` values of ``url8`` (about 100 bytes each); 0 remembers none."""

    def __init__(self, capacity: int) -> None:
        self._half = capacity // 2 if capacity > 1 else capacity
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()
        self._admitted = self._stopped = 0

    def admit(self, url8: bytes) -> bool:
        """True when not met lately; remembers it."""
        if url8 in self._young:
            self._stopped += 1
            return False
        is_new = url8 not in self._old
        if self._half:
            if len(self._young) >= self._half:
                self._old, self._young = self._young, set()
            self._young.add(url8)
        self._admitted += is_new
        self._stopped += not is_new
        return is_new

    def forget(self, url8: bytes) -> None:
        """The next ``admit`` of it is True: for a URL that must pass again (found nearer, or not
        delivered).
        """
        self._young.discard(url8)
        self._old.discard(url8)

    def clear(self) -> None:
        """Forgets everything: what was refused before may be judged otherwise now."""
        self._young, self._old = set(), set()

    def __len__(self) -> int:
        return len(self._young | self._old)

    def snapshot(self) -> dict[str, int]:
        """Hashes held, admitted and stopped since the start."""
        return {"held": len(self), "admitted": self._admitted, "stopped": self._stopped}

    def __repr__(self) -> str:
        return f"RecentHashes({self.snapshot()})"
