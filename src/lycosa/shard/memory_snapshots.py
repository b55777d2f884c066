"""The snapshots port over objects in memory, as an object store behaves: for tests, and for histories of many nodes.

A snapshot is the rows of the shard's table as they were at one commit, in a few files, each an object under the hash of its content, and
a list of them that is written last. So no two owners, and no two lives of a table, can mix their files. Two are kept. The newest is the
one with the greatest (term, sequence), and it is used only if the log continues with the next commit; else the other one; else the takeover
stops. Tables and URL-seen are local to the owner and are made anew by each: URL-seen from the table's own rows.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from zlib import crc32

import msgspec

from lycosa.commit import NOTHING, Log, Mark
from lycosa.shard.opening import PartitionData
from lycosa.store.memory_segments import Objects

_KEPT = 2
_FILES = 4  # of one snapshot


class SnapshotUnusable(Exception):
    """No snapshot of a shard is followed by the commits in its log."""


class MemorySnapshots:
    """The snapshots of one shard, which has one partition of the same number. ``make`` opens an empty local one."""

    def __init__(self, objects: Objects, shard: int, log: Log, make: Callable[[], PartitionData]) -> None:
        self._objects, self._shard, self._log, self._make = objects, shard, log, make

    def partitions(self) -> list[int]:
        """See ``Snapshots``."""
        return [self._shard] if self._keys() else []

    def restore(self, partition: int) -> PartitionData:
        """See ``Snapshots``. Raises ``SnapshotUnusable``."""
        first = next((commit.mark for commit in self._log.read()), None)
        usable = [key for key in self._keys() if first is None or _mark(key).sequence + 1 >= first.sequence]
        if not usable and first is not None and first.sequence > 1:
            raise SnapshotUnusable(f"shard {partition}: the log begins at commit {first.sequence}, the snapshots are {self._keys()}")
        data = self._make()
        if usable:
            for name in msgspec.msgpack.decode(self._objects[max(usable, key=_mark)], type=list[str]):
                data.table.write(msgspec.msgpack.decode(self._objects[name], type=dict[bytes, bytes]))
        return data

    def save(self, partition: int, data: PartitionData, mark: Mark) -> None:
        """See ``Snapshots``."""
        if mark == NOTHING:
            return
        files: list[dict[bytes, bytes]] = [{} for _ in range(_FILES)]
        for row, value in data.table.scan(b"", b"\xff"):
            files[crc32(row) % _FILES][row] = value
        names = [self._store(number, msgspec.msgpack.encode(rows)) for number, rows in enumerate(files)]
        self._objects[f"{self._prefix()}{mark.term:010d}-{mark.sequence:020d}"] = msgspec.msgpack.encode(names)
        for key in self._keys()[:-_KEPT]:
            del self._objects[key]

    def _store(self, number: int, content: bytes) -> str:
        """Stores the file of this number; gives its key."""
        name = f"files/{self._shard:05d}/{number}-{sha256(content).hexdigest()}"
        self._objects[name] = content
        return name

    def _keys(self) -> list[str]:
        """From the oldest to the newest."""
        return sorted((key for key in self._objects if key.startswith(self._prefix())), key=_mark)

    def _prefix(self) -> str:
        return f"snapshots/{self._shard:05d}/"

    def __repr__(self) -> str:
        return f"MemorySnapshots(shard={self._shard}, {[_mark(key) for key in self._keys()]})"


def _mark(key: str) -> Mark:
    term, _, sequence = key.rpartition("/")[2].partition("-")
    return Mark(int(term), int(sequence))
