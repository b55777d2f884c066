"""Snapshots in object storage as readers of any machine use them, with a local cache.

A reader restores a shard's newest usable snapshot into its own table. The table's files are
kept in a cache folder under the hash of their content, so the next reader downloads only files
that are new since then. URL-seen is not downloaded: a reader of the state never needs it.

    CACHE/tables/<shard>/<SHA-256>    files of snapshots
    CACHE/open-<process>-.../         tables of readers that run now

A table in use has hard links to cached files, so files can be deleted from the cache at any time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from lycosa.state.commit import Mark
from lycosa.state.kv.kv_port import Opener
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.state.shard.object_snapshots import (
    CONSTANT_SUFFIX,
    SnapshotFile,
    SnapshotList,
    decode_snapshot_list,
    snapshot_file_key,
    snapshot_key,
    stored_marks,
)
from lycosa.state.shard.opened_shard import PartitionData
from lycosa.state.shard.usable_snapshots import commit_before, none_usable
from lycosa.state.shard.view import CommitReader

_CHUNK = 8 << 20
_TABLE = "table/"
_UNUSED_S = 3600.0  # for which a cached file that no restored snapshot names is kept
_OPEN = "open-"

OnBytes = Callable[[int, int], None]
"""Called with the bytes of a snapshot that are here, and all its bytes."""


class _Unusable(Exception):
    """A snapshot cannot be read."""


class CachedSnapshots:
    """The snapshots of one shard, for reading.

    ``cache`` is a folder that readers share; ``work`` is a new folder of this reader, on the same
    file system.
    """

    def __init__(
        self,
        store: ObjectStore,
        shard: int,
        log: CommitReader,
        cache: Path,
        work: Path,
        open_table: Opener,
        told: OnBytes = lambda done, total: None,
    ) -> None:
        self._store, self._shard, self._log = store, shard, log
        self._cache = cache / "tables" / f"{shard:05d}"
        self._work, self._open_table, self._told = work, open_table, told
        self.restored: Mark | None = None
        """The commit of the snapshot that was restored last; ``None`` when there was none."""
        self.needed = 0
        """The earliest commit that a usable snapshot is of; 0 when the log has all commits."""

    def restore_partition(self, partition: int) -> PartitionData:
        """The partition from the newest snapshot that the log continues, or empty.

        Only the first commit in the log is read. Raises ``SnapshotUnusable``, ``ObjectError``,
        ``LogDamaged`` or ``OSError``.
        """
        saved = stored_marks(self._store, self._shard)[::-1]
        needed = self.needed = commit_before(next(iter(self._log.read()), None), partition)
        for mark in saved:
            if mark.sequence < needed:
                break
            try:
                folder = self._fetch(self._read_list(mark))
            except (_Unusable, ObjectMissing):
                continue
            self.restored = mark
            return self._opened(folder)
        if needed:
            raise none_usable(self._log, saved, partition, needed)
        self.restored = None
        return self._opened(self._new_folder())

    def _opened(self, folder: Path) -> PartitionData:
        # an empty URL-seen, because the value has one
        return PartitionData(
            self._open_table(folder), SortedSeenUrls(folder.with_name(f"{folder.name}-seen"))
        )

    def _new_folder(self) -> Path:
        return self._work / f"s{self._shard:05d}-{uuid.uuid4().hex[:8]}"

    def _read_list(self, mark: Mark) -> SnapshotList:
        try:
            return decode_snapshot_list(self._store.get(snapshot_key(self._shard, mark)))
        except ValueError as error:
            raise _Unusable from error

    def _fetch(self, listed: SnapshotList) -> Path:
        """A new folder with the table of a snapshot."""
        self._cache.mkdir(parents=True, exist_ok=True)
        files = [file for file in listed.files if file.name.startswith(_TABLE)]
        total, done = sum(file.bytes for file in files), 0
        folder = self._new_folder()
        folder.mkdir(parents=True)
        for file in files:
            self._place(file, folder / file.name.removeprefix(_TABLE))
            done += file.bytes
            self._told(done, total)
        self._prune({file.sha256 for file in files})
        return folder

    def _place(self, file: SnapshotFile, path: Path) -> None:
        """Put a file at ``path``, from the cache if it is there."""
        cached = self._cache / file.sha256
        while True:
            if not cached.exists() or cached.stat().st_size != file.bytes:
                self._download(file, cached)
            # another reader may delete it from the cache at this moment
            with suppress(FileNotFoundError):
                if path.suffix == CONSTANT_SUFFIX:
                    path.hardlink_to(cached)
                else:  # a table rewrites its other files
                    shutil.copyfile(cached, path)
                cached.touch()
                return

    def _download(self, file: SnapshotFile, cached: Path) -> None:
        temporary = cached.with_name(f".{cached.name}-{uuid.uuid4().hex[:8]}")
        found = sha256()
        try:
            with temporary.open("xb") as target:
                for piece in self._pieces(file):
                    found.update(piece)
                    target.write(piece)
            if found.hexdigest() != file.sha256:
                raise _Unusable
            temporary.replace(cached)
        finally:
            temporary.unlink(missing_ok=True)

    def _pieces(self, file: SnapshotFile) -> Iterator[bytes]:
        key, at = snapshot_file_key(self._shard, file.sha256), 0
        while at < file.bytes and (piece := self._store.get(key, at, min(_CHUNK, file.bytes - at))):
            yield piece
            at += len(piece)

    def _prune(self, listed: set[str]) -> None:
        """Delete cached files that this snapshot lacks and no reader has used for a while."""
        for path in self._cache.iterdir():
            with suppress(FileNotFoundError):
                is_old = time.time() - path.stat().st_mtime > _UNUSED_S
                if path.name not in listed and is_old:
                    path.unlink()


def new_work_folder(cache: Path) -> Path:
    """A new folder for the tables of this process; those that dead processes left are deleted."""
    cache.mkdir(parents=True, exist_ok=True)
    for path in cache.glob(f"{_OPEN}*"):
        process = path.name.removeprefix(_OPEN).partition("-")[0]
        if process.isdigit() and not _is_alive(int(process)):
            shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_OPEN}{os.getpid()}-", dir=cache))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
