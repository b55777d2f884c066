"""Recently met hashes: stops most repeated links before they cost a lookup or a message.

Two sets each hold half the capacity. New hashes go into the younger set. When it is full, the older
set is dropped and the younger one takes its place. A hash that is met again moves to the younger
set. So at least the last capacity/2 distinct hashes are remembered and at most ``capacity``, for
one or two set lookups; an exact LRU cache would need a linked list.

Forgetting a hash is harmless, because URL-seen decides. A false "recent" cannot happen, because
complete hashes are compared.
"""

from __future__ import annotations


class RecentHashes:
    """Remembers up to ``capacity`` values of ``url8`` (about 100 bytes each); 0 disables it."""

    def __init__(self, capacity: int) -> None:
        self._half = capacity // 2 if capacity > 1 else capacity
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()
        self._admitted = self._stopped = 0

    def admit(self, url8: bytes) -> bool:
        """Remember a hash; True when it was not met recently."""
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
        """Let the next ``admit`` of this hash return True.

        For a URL that must pass again: it was found at a smaller depth, or was not delivered.
        """
        self._young.discard(url8)
        self._old.discard(url8)

    def clear(self) -> None:
        """Forget everything, for a change of the rules by which URLs were judged."""
        self._young, self._old = set(), set()

    def __len__(self) -> int:
        return len(self._young | self._old)

    def snapshot(self) -> dict[str, int]:
        """Hashes held, admitted and stopped since the start."""
        return {"held": len(self), "admitted": self._admitted, "stopped": self._stopped}

    def __repr__(self) -> str:
        return f"RecentHashes({self.snapshot()})"
