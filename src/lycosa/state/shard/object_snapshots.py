"""The snapshots port over an object store: RocksDB checkpoints and URL-seen of the same commit.

    snapshots/<shard>/<term>-<sequence>    the list of a snapshot's files, written last
    files/<shard>/<SHA-256>                a file, by its content

Two lives of a table give the same name to different files, so files are stored by their content.
Table files never change, so a snapshot sends only those that are new since this owner's last one.

Two snapshots are kept. The newest is the one with the greatest (term, sequence), and it is used
only if the log continues with the next commit; otherwise the older one is used; otherwise the
takeover stops. A file that no list names is deleted when it is a day old, because it may belong to
a snapshot that is being saved, and when this owner saw it without a list for an hour, because a
reader may be restoring an older snapshot. The store's own dates say how old it is, so it does not
matter how long owners live.

Each owner works in a separate, empty local folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import monotonic

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.commit import NOTHING, Log, Mark
from lycosa.state.folder.names import cold_keys_file, seen_file, table_folder
from lycosa.state.kv.kv_port import CheckpointTable, KeyValue
from lycosa.state.objects.object_errors import ObjectError, ObjectExists, ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.folder_snapshots import FolderSnapshots
from lycosa.state.shard.opened_shard import PartitionData
from lycosa.state.shard.usable_snapshots import UNLISTED_S, commit_needed, mark_of_key, none_usable
from lycosa.state.store.segments_port import NotStored

_FORMAT = 1
_KEPT = 2
_CHUNK = 8 << 20
_READ_S = 3600.0  # for which a reader may need the files of a snapshot that is no longer kept
_TABLE = "table"
CONSTANT_SUFFIX = ".sst"
"""Of files that never change."""


class SnapshotFile(msgspec.Struct, frozen=True):
    """A file of a snapshot: ``table/000012.sst``, or ``seen``."""

    name: str
    bytes: int
    sha256: str


class SnapshotList(msgspec.Struct, frozen=True):
    """The content of a snapshot's own object."""

    files: list[SnapshotFile]
    format: int = _FORMAT


class _FileDamaged(Exception):
    """A file of a snapshot is missing, or not what its name says."""


class ObjectSnapshots:
    """The snapshots of one shard, which has one partition of the same number.

    Implements ``Snapshots``. ``local`` has this owner's local folder. ``now`` is a monotonic clock
    in seconds. ``told`` is called with the bytes that were read or sent and those of the whole
    snapshot. Only snapshots of commits before ``before`` are seen, if it is given. A table file in
    one of the folders ``local.earlier`` that has the right content is linked, not read from the
    store.
    """

    def __init__(
        self,
        store: ObjectStore,
        shard: int,
        log: Log,
        local: FolderSnapshots,
        now: Callable[[], float] = monotonic,
        told: Callable[[int, int], None] = lambda done, total: None,
        before: Mark | None = None,
    ) -> None:
        self._store, self._shard, self._log = store, shard, log
        self._folder, self._local = local.folder, local
        self._now, self._told = now, told
        self._before = before
        self.restored: Mark | None = None
        """The commit of the snapshot that was restored; ``None`` when there was none."""
        self._unlisted: dict[str, float] = {}  # keys that no list names, and since when
        self._sums: dict[tuple[str, int, int], str] = {}  # of table files, by name, inode and size
        self._held: set[str] = set()  # contents that this owner stored, or a kept list names
        self._same: set[Mark] = set()  # snapshots that this owner knows to be whole

    def saved_partitions(self) -> list[int]:
        return [self._shard] if self._keys() else []

    def restore_partition(self, partition: int) -> PartitionData:
        """The partition from its newest usable snapshot, or empty.

        Raises ``SnapshotUnusable``, ``ObjectError``, or what opening a table raises.
        """
        saved = sorted(map(mark_of_key, self._keys()), reverse=True)
        needed = commit_needed(self._log, saved, partition)
        for mark in saved:
            if mark.sequence < needed:
                break
            try:
                self._fetch(partition, self._read_list(mark))
            except (_FileDamaged, ObjectMissing):
                # An older snapshot needs more of the log, and gives the same state.
                self._clear(partition)
                continue
            self._same.add(mark)
            self.restored = mark
            return self._local.restore_partition(partition)
        if needed:
            raise none_usable(self._log, saved, partition, needed)
        return self._local.restore_partition(partition)

    def save_partition(self, partition: int, data: PartitionData, mark: Mark) -> None:
        """See ``Snapshots``. Raises ``NotStored``; the local state is saved all the same."""
        self._local.save_partition(partition, data, mark)
        if mark == NOTHING:
            return
        try:
            if mark not in self._same:
                self._save(partition, data.table, mark)
                self._same.add(mark)
            self._delete_old()
        except ObjectError as error:
            raise NotStored(str(error)) from error

    # -- saving

    def _save(self, partition: int, table: KeyValue, mark: Mark) -> None:
        # A copy of hard links: commits continue to write the table while this one is sent.
        copy = self._folder / "checkpoint"
        shutil.rmtree(copy, ignore_errors=True)
        copy.parent.mkdir(parents=True, exist_ok=True)
        _copied(table, copy)
        try:
            files = [(path, f"{_TABLE}/{path.name}") for path in sorted(copy.iterdir())]
            files += [(path, path.name) for path in self._seen_files(partition)]
            total = sum(path.stat().st_size for path, _ in files)
            listed, done = [], 0
            for path, name in files:
                file = SnapshotFile(name, path.stat().st_size, self._sum(path))
                self._send(path, file)
                listed.append(file)
                done += file.bytes
                self._told(done, total)
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        # The list last: a snapshot without one does not exist, so a crash at any point leaves the
        # one before.
        content = msgspec.json.encode(SnapshotList(listed))
        try:
            self._store.create(self._key(mark), content)
        except ObjectExists:  # a damaged one, or the one of an earlier life
            self._store.put(self._key(mark), content)

    def _sum(self, path: Path) -> str:
        """The SHA-256 of a file. One that never changes is read once in this owner's life."""
        stat = path.stat()
        key = path.name, stat.st_ino, stat.st_size
        if path.suffix == CONSTANT_SUFFIX and key in self._sums:
            return self._sums[key]
        found = self._sums[key] = _sha256(path)
        return found

    def _send(self, path: Path, file: SnapshotFile) -> None:
        if file.sha256 not in self._held:
            self._store.put(self._file_key(file.sha256), path)
            self._held.add(file.sha256)

    def _delete_old(self) -> None:
        """Delete all but two snapshots and what they name."""
        keys = self._keys()
        self._store.delete(keys[:-_KEPT])
        try:
            listed = {
                file.sha256
                for key in keys[-_KEPT:]
                for file in self._read_list(mark_of_key(key)).files
            }
        except _FileDamaged:
            return  # no file is deleted while a list cannot be read
        # what no kept list names may be deleted by another owner at any time
        self._held &= listed
        now, known = self._now(), self._unlisted
        dates = {
            each.key: each.modified
            for each in self._store.list(f"{self._files()}/")
            if each.key.rpartition("/")[2] not in listed
        }
        self._unlisted = {key: known.get(key, now) for key in dates}
        # The list that was written a moment ago gives the time by the store's clock.
        newest = self._store.find(keys[-1])
        present = newest.modified if newest else 0.0
        self._store.delete(
            key
            for key, since in self._unlisted.items()
            if present - dates[key] >= UNLISTED_S and now - since >= _READ_S
        )

    # -- restoring

    def _read_list(self, mark: Mark) -> SnapshotList:
        """Raises ``_FileDamaged`` or ``ObjectError``."""
        try:
            return decode_snapshot_list(self._store.get(self._key(mark)))
        except ValueError as error:
            raise _FileDamaged(f"the list of snapshot {mark}: {error}") from error

    def _fetch(self, partition: int, listed: SnapshotList) -> None:
        """The files of a snapshot, to where the local ones are. Raises ``_FileDamaged`` or
        ``ObjectError``.
        """
        self._clear(partition)
        total, done = sum(file.bytes for file in listed.files), 0
        table = table_folder(self._folder, partition)
        table.mkdir(parents=True)
        for file in listed.files:
            kind, _, name = file.name.partition("/")
            path = table / name if kind == _TABLE else table.parent / kind
            if not self._linked(file, path, partition):
                self._fetch_file(file, path)
            self._note_sum(file, path)
            done += file.bytes
            self._told(done, total)
        self._held.update(file.sha256 for file in listed.files)

    def _fetch_file(self, file: SnapshotFile, path: Path) -> None:
        found, at = sha256(), 0
        with path.open("wb") as target:
            for piece in self._pieces(self._file_key(file.sha256), file.bytes):
                found.update(piece)
                target.write(piece)
                at += len(piece)
        if at != file.bytes or found.hexdigest() != file.sha256:
            raise _FileDamaged(f"{file.name} has another content than when it was stored")

    def _linked(self, file: SnapshotFile, path: Path, partition: int) -> bool:
        """Whether an earlier owner's table has the file, which is then linked."""
        for folder in self._local.earlier if path.suffix == CONSTANT_SUFFIX else ():
            known = table_folder(folder, partition) / path.name
            # Linking only saves the transfer: without it the file is read from the store.
            with suppress(OSError):
                if known.stat().st_size == file.bytes and _sha256(known) == file.sha256:
                    path.hardlink_to(known)
                    return True
        return False

    def _note_sum(self, file: SnapshotFile, path: Path) -> None:
        stat = path.stat()
        self._sums[path.name, stat.st_ino, stat.st_size] = file.sha256

    def _pieces(self, key: str, size: int) -> Iterator[bytes]:
        at = 0
        while at < size and (piece := self._store.get(key, at, min(_CHUNK, size - at))):
            yield piece
            at += len(piece)

    def _clear(self, partition: int) -> None:
        shutil.rmtree(table_folder(self._folder, partition), ignore_errors=True)
        for path in self._seen_files(partition):
            path.unlink()

    def _seen_files(self, partition: int) -> list[Path]:
        """The file of URL-seen, whichever implementation it is of, and that of cold URLs."""
        paths = [seen_file(self._folder, partition, each) for each in type(Config().seen.urls)]
        paths.append(cold_keys_file(self._folder, partition))
        return [path for path in paths if path.exists()]

    # -- keys

    def _key(self, mark: Mark) -> str:
        return snapshot_key(self._shard, mark)

    def _keys(self) -> list[str]:
        """The keys of the snapshots, oldest first."""
        marks, before = stored_marks(self._store, self._shard), self._before
        return [snapshot_key(self._shard, mark) for mark in marks if not before or mark < before]

    def _files(self) -> str:
        return f"files/{self._shard:05d}"

    def _file_key(self, content: str) -> str:
        return snapshot_file_key(self._shard, content)


def snapshot_key(shard: int, mark: Mark) -> str:
    """The key of a snapshot's list of files."""
    return f"snapshots/{shard:05d}/{mark.term:010d}-{mark.sequence:020d}"


def snapshot_file_key(shard: int, content: str) -> str:
    """The key of a file, by the SHA-256 of its content."""
    return f"files/{shard:05d}/{content}"


def stored_marks(store: ObjectStore, shard: int) -> list[Mark]:
    """The commits of which there are snapshots, oldest first. Raises ``ObjectError``."""
    return sorted(mark_of_key(each.key) for each in store.list(f"snapshots/{shard:05d}/"))


def decode_snapshot_list(content: bytes) -> SnapshotList:
    """The files of a snapshot. Raises ``ValueError`` when this program cannot read the list."""
    try:
        listed = msgspec.json.decode(content, type=SnapshotList)
    except UNREADABLE as error:
        raise ValueError(str(error)) from error
    if listed.format > _FORMAT:
        raise ValueError(f"format {listed.format}")
    for file in listed.files:
        kind, _, name = file.name.partition("/")
        if (kind == _TABLE) != bool(name) or "/" in name:
            raise ValueError(f"{file.name} is no name of a file")
    return listed


def _sha256(path: Path) -> str:
    found = sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            found.update(piece)
    return found.hexdigest()


def _copied(table: KeyValue, folder: Path) -> None:
    """Raises ``TypeError`` when the table cannot be copied."""
    if not isinstance(table, CheckpointTable):
        raise TypeError(f"{table!r} cannot be copied while it is open")
    table.checkpoint(folder)
