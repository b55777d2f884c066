"""The snapshots port in memory, which behaves like an object store.

A snapshot is one object with all rows of the shard's table as they were at one commit. Two snapshots
are kept. Tables and URL-seen are local to the owner and created again by each owner: URL-seen from
the rows of the table.

A snapshot names its files, whose names contain a hash of their content. A file that no snapshot
names is deleted a day after an owner first saw it: these objects have no date. It is not deleted at
once, because it may belong to a snapshot that is being saved: the list of files is written last.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from time import monotonic
from zlib import crc32

import msgspec

from lycosa.base.system.frames import UNREADABLE
from lycosa.state.commit import NOTHING, Log, Mark
from lycosa.state.shard.opened_shard import PartitionData
from lycosa.state.shard.usable_snapshots import UNLISTED_S, commit_needed, mark_of_key, none_usable
from memory_segments import Objects

_KEPT = 2
_FILES = 4  # per snapshot


class MemorySnapshots:
    """The snapshots of one shard, which has one partition of the same number.

    Implements ``Snapshots``. ``make`` opens an empty local partition. ``now`` is a monotonic clock
    in seconds. A file that no snapshot names is deleted after ``unlisted_s``.
    """

    def __init__(
        self,
        objects: Objects,
        shard: int,
        log: Log,
        make: Callable[[], PartitionData],
        now: Callable[[], float] = monotonic,
        unlisted_s: float = UNLISTED_S,
    ) -> None:
        self._objects, self._shard, self._log, self._make = objects, shard, log, make
        self._now, self._unlisted_s = now, unlisted_s
        self._unlisted: dict[str, float] = {}  # files that no snapshot names, and since when

    def saved_partitions(self) -> list[int]:
        return [self._shard] if self._keys() else []

    def restore_partition(self, partition: int) -> PartitionData:
        """The partition from its newest usable snapshot, or empty. Raises ``SnapshotUnusable``."""
        saved = sorted(map(mark_of_key, self._keys()), reverse=True)
        needed = commit_needed(self._log, saved, partition)
        data = self._make()
        for mark in saved:
            rows = self._rows(mark) if mark.sequence >= needed else None
            if rows is not None:
                data.table.write(rows)
                return data
        if not needed:
            return data
        data.close()
        raise none_usable(self._log, saved, partition, needed)

    def save_partition(self, partition: int, data: PartitionData, mark: Mark) -> None:
        if mark == NOTHING:
            return
        files: list[dict[bytes, bytes]] = [{} for _ in range(_FILES)]
        for row, value in data.table.scan(b"", b"\xff"):
            files[crc32(row) % _FILES][row] = value
        names = [
            self._store(number, msgspec.msgpack.encode(rows)) for number, rows in enumerate(files)
        ]
        self._objects[self._key(mark)] = msgspec.msgpack.encode(names)
        for key in self._keys()[:-_KEPT]:
            del self._objects[key]
        self._delete_unlisted()

    def _delete_unlisted(self) -> None:
        """Delete files that no snapshot has named for long enough.

        Nothing is deleted while a list cannot be read.
        """
        try:
            listed = {name for key in self._keys() for name in _names(self._objects[key])}
        except UNREADABLE:
            # As of an object store: no file is deleted while a list cannot be read.
            return
        now, known = self._now(), self._unlisted
        unlisted = [
            key for key in self._objects if key.startswith(self._files()) and key not in listed
        ]
        self._unlisted = {name: known.get(name, now) for name in unlisted}
        for name, since in self._unlisted.items():
            if now - since >= self._unlisted_s:
                del self._objects[name]

    def _store(self, number: int, content: bytes) -> str:
        """Store file ``number`` of a snapshot; returns its key."""
        name = f"{self._files()}{number}-{sha256(content).hexdigest()}"
        self._objects[name] = content
        return name

    def _rows(self, mark: Mark) -> dict[bytes, bytes] | None:
        """The content of a snapshot.

        ``None`` when it cannot be read or a file does not match the hash in its name.
        """
        rows: dict[bytes, bytes] = {}
        try:
            for name in _names(self._objects[self._key(mark)]):
                content = self._objects[name]
                if not name.endswith(sha256(content).hexdigest()):
                    return None
                rows.update(msgspec.msgpack.decode(content, type=dict[bytes, bytes]))
        except (KeyError, *UNREADABLE):
            return None
        return rows

    def _key(self, mark: Mark) -> str:
        return f"{self._prefix()}{mark.term:010d}-{mark.sequence:020d}"

    def _keys(self) -> list[str]:
        """The keys of the snapshots, oldest first."""
        return sorted(
            (key for key in self._objects if key.startswith(self._prefix())), key=mark_of_key
        )

    def _prefix(self) -> str:
        return f"snapshots/{self._shard:05d}/"

    def _files(self) -> str:
        return f"files/{self._shard:05d}/"


def _names(content: bytes) -> list[str]:
    """The names in a snapshot's list of files. Raises ``msgspec.DecodeError``."""
    return msgspec.msgpack.decode(content, type=list[str])
