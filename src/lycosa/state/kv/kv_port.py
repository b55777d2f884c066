"""The key-value port: an ordered map from bytes to bytes, as one partition's RocksDB provides it.

The port is synchronous, and stages may treat it as memory. The worker calls ``write`` and ``flush``
in a thread, and ``get_many`` where a host's back queue is refilled with more than a few rows
(``leasing``). Lookups of one key and short scans (one row, or the rows of a batch that is due) stay
on the event loop. They cost 3 to 5 us from memory, and RocksDB's Python binding holds the
interpreter lock during them, so a thread would not free the loop. Each store has one owner at a
time, so there is no locking here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

Writes = Mapping[bytes, bytes | None] | Sequence[tuple[bytes, bytes | None]]
"""Keys with their new values; ``None`` deletes, and a later entry for the same key wins.

The writes of a commit are a dictionary. Tens of thousands of tuples, which the garbage collector
then traverses, would cost a quarter as much as writing them.
"""


def pairs_of(writes: Writes) -> Iterable[tuple[bytes, bytes | None]]:
    """The writes as pairs, in order."""
    return writes.items() if isinstance(writes, Mapping) else writes


class KeyValue(Protocol):
    """An ordered store."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < end`` in order, at most ``limit`` (0 = all).

        The iterator must be exhausted or closed.
        """
        ...

    def write(self, writes: Writes) -> None:
        """Apply all writes atomically, as one batch.

        Only ``flush`` makes a batch durable. After a crash the store holds the first n batches,
        where n includes at least those before the last flush. The caller repeats the others from
        its commit log (each batch carries its commit's number).
        """
        ...

    def flush(self) -> None:
        """Put everything written so far on disk before returning."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class CheckpointTable(Protocol):
    """A store whose files can be copied while it is open."""

    def checkpoint(self, folder: Path) -> None:
        """Make ``folder`` a copy of the store as it is now; it must not exist. Files that never
        change are hard links.
        """
        ...


class Opener(Protocol):
    """Opens the store of one partition, in a folder that may not exist yet."""

    def __call__(self, folder: Path) -> KeyValue: ...


class SavedTable(Protocol):
    """A partition's table as it is on disk, read-only."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]: ...

    def close(self) -> None: ...


class Reader(Protocol):
    """Opens the table of one partition for reading, without changing any file.

    A table that does not exist is empty.
    """

    def __call__(self, folder: Path) -> SavedTable: ...


class TableError(Exception):
    """A store cannot do what was asked: closed, disk full, unreadable. Names the folder."""


class TableLocked(TableError):
    """The store is already open, in another process or elsewhere in this one."""


class TableDamaged(TableError):
    """The files are not as they were written: a checksum fails or a file is missing."""
