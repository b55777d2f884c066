"""The snapshots port in memory, which behaves like an object store.

It is for tests and for histories of many nodes. A snapshot is one object with all rows of the
shard's table as they were at one commit. Two snapshots are kept. The newest is the one with the
greatest (term, sequence). It is used only if the log continues with the next commit; otherwise the
older one is used; otherwise the takeover stops. Tables and URL-seen are local to the owner and
created again by each owner: URL-seen from the rows of the table.

A snapshot names its files, whose names contain a hash of their content. A file that no snapshot
names is deleted a day after an owner first saw it: these objects have no date. It is not deleted at
once, because it may belong to a snapshot that is being saved: the list of files is written last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from time import monotonic
from zlib import crc32

import msgspec

from lycosa.base.system.frames import UNREADABLE
from lycosa.state.commit import NOTHING, Commit, Log, Mark
from lycosa.state.shard.opened_shard import PartitionData
from lycosa.state.shard.view import CommitReader
from lycosa.state.store.memory_segments import Objects

_KEPT = 2
_FILES = 4  # per snapshot
UNLISTED_S = 86_400.0
"""Seconds for which a file that no snapshot names is kept."""


class SnapshotUnusable(Exception):
    """The log continues no snapshot of the shard."""


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

    def __repr__(self) -> str:
        return f"MemorySnapshots(shard={self._shard}, {[mark_of_key(key) for key in self._keys()]})"


def _names(content: bytes) -> list[str]:
    """The names in a snapshot's list of files. Raises ``msgspec.DecodeError``."""
    return msgspec.msgpack.decode(content, type=list[str])


def commit_needed(log: Log, saved: Sequence[Mark], partition: int) -> int:
    """The earliest commit that a usable snapshot is of; 0 when the log has all commits.

    ``saved`` are the snapshots, newest first. Raises ``SnapshotUnusable`` when the newest is of a
    commit that the log has lost.
    """
    first = last = None
    for last in log.read():
        first = first or last
    ends = last.mark if last else NOTHING
    if saved and saved[0] > ends:
        raise SnapshotUnusable(
            f"shard {partition}: there is a snapshot of commit {saved[0].sequence}, but the"
            f" log ends at {ends.sequence}; if the topics were lost, end all nodes, delete what is"
            " left of them, and continue by `lycosa cluster rescue`"
        )
    return commit_before(first, partition)


def none_usable(
    log: CommitReader, saved: Sequence[Mark], partition: int, needed: int
) -> SnapshotUnusable:
    """The error when no snapshot can be used and the log does not begin with the first commit."""
    first = next(iter(log.read()), None)
    return SnapshotUnusable(
        f"shard {partition}: the log begins at commit {first.sequence if first else 0} and"
        f" continues commit {needed}; of the snapshots of commits"
        f" {[mark.sequence for mark in saved]} none reaches that commit or can be read"
    )


def commit_before(first: Commit | None, partition: int) -> int:
    """The last commit to a partition that the log no longer has; 0 when it has all.

    The first commit in the log gives it.
    """
    if first is None:
        return 0
    return first.before[partition].sequence if partition in first.before else first.sequence - 1


def mark_of_key(key: str) -> Mark:
    """The commit of a snapshot, by the key of its list."""
    term, _, sequence = key.rpartition("/")[2].partition("-")
    return Mark(int(term), int(sequence))
