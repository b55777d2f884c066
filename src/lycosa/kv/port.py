"""The key-value port: ordered bytes to bytes, as one partition's RocksDB gives it.

Synchronous, and counts as memory for the stages that use it; what may block long (``write`` of a commit, ``scan`` of
a refill) is offloaded by the worker. One owner at a time, so there is no locking here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

Writes = Sequence[tuple[bytes, bytes | None]]
"""Keys with their new value, ``None`` to delete; a later entry for the same key wins."""


class KeyValue(Protocol):
    """An ordered store."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < end`` in order, at most ``limit`` (0 = all). The iterator must be exhausted or closed."""
        ...

    def write(self, writes: Writes) -> None:
        """Atomically, in one batch; survives a crash of the process, and a power loss after the next ``checkpoint`` or flush."""
        ...

    def flush(self) -> None:
        """After this everything written is on disk."""
        ...

    def close(self) -> None: ...


class Opener(Protocol):
    """Opens the store of one partition in a folder that may not exist yet."""

    def __call__(self, folder: Path) -> KeyValue: ...
