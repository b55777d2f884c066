"""The key-value port: ordered bytes to bytes, as one partition's RocksDB gives it.

Synchronous, and counts as memory for the stages that use it. The worker calls ``write`` and
``flush`` in a thread, and ``get_many`` where a host's back queue is refilled with more than a few
rows (``leasing``). Look-ups of one key and short scans (one row, or the rows of a batch that is
due) stay on the loop: they cost 3 to 5 us from memory, and RocksDB's Python binding keeps the
interpreter's lock during them, so that a thread would not free the loop. One owner at a time, so
there is no locking here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

Writes = Mapping[bytes, bytes | None] | Sequence[tuple[bytes, bytes | None]]
"""Keys with their new value, ``None`` to delete; a later entry for the same key wins. A commit's
are a dictionary: making a tuple for each of tens of thousands, at which the garbage collector then
looks, costs a quarter of what writing them does.
"""


def pairs_of(writes: Writes) -> Iterable[tuple[bytes, bytes | None]]:
    """Key by key, in order."""
    return writes.items() if isinstance(writes, Mapping) else writes


class KeyValue(Protocol):
    """An ordered store."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < end`` in order, at most ``limit`` (0 = all). The iterator
        must be exhausted or closed.
        """
        ...

    def write(self, writes: Writes) -> None:
        """Atomically, in one batch. Only ``flush`` makes it durable: after a crash the store holds
        the first n batches, n at least those before the last flush, and the caller repeats the
        others from its commit log (each batch carries its number).
        """
        ...

    def flush(self) -> None:
        """After this everything written is on disk."""
        ...

    def close(self) -> None: ...


class Opener(Protocol):
    """Opens the store of one partition in a folder that may not exist yet."""

    def __call__(self, folder: Path) -> KeyValue: ...


class SavedTable(Protocol):
    """A partition's table as it is on disk, for reading only."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]: ...

    def close(self) -> None: ...


class Reader(Protocol):
    """Opens the table of one partition for reading, without changing a file; an absent one is
    empty.
    """

    def __call__(self, folder: Path) -> SavedTable: ...


class StoreError(Exception):
    """A store cannot do what was asked: closed, disk full, unreadable. Names the folder."""


class StoreLocked(StoreError):
    """Another process (or another part of this one) has the store open."""


class StoreDamaged(StoreError):
    """The files are not what was written: a checksum fails, or a file that must be there is not."""
