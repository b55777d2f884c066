"""RocksDB as the key-value port: one small database per partition, all within one memory bound.

**Durability.** RocksDB's write-ahead log is off. The worker's commit log is written and fsynced
before a batch comes here, and keeps each batch until the next ``flush``, so a second log would only
write everything twice. The consequence, which the crash test shows: after ``kill -9`` or power loss
the store holds the first *n* batches, complete and in order, and n is at least the number of
batches before the last ``flush``. (A batch goes into one memtable, memtables reach the disk oldest
first, and a table file is fsynced before the manifest names it.) Each batch carries the number of
its commit, so the owner knows n and applies the later batches again. ``close`` flushes.

**Memory.** Blocks, their indexes and filters, and the memtables of all stores that share a
``SharedCache`` are charged to that cache. When the memtables exceed ``write_bytes``, the store that
writes starts a flush early. It does not wait for the flush, so for a moment the memtables that are
being written to disk are additional (at most 8 MB per store). Open files are limited per store.

**Damage.** Every block is verified against its checksum when it is read. Each scan ends with
``status()``, because an iterator that meets a broken block becomes *not valid*, exactly as at the
end of the range.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn
from weakref import WeakSet

from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    ChecksumType,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from lycosa.base.system.durable import FULL, DiskFull, named
from lycosa.state.kv.kv_port import Opener, TableDamaged, TableError, TableLocked, Writes, pairs_of

# Longest scan that is read at once and leaves no iterator open. A refill asks for tens of rows, a
# sweep for some hundreds.
_EAGER = 4096
# zstd, for the lowest level. A dictionary of more than 8 KB, or one trained on more data than this,
# makes files no smaller (0.3 %) and a compaction a third more expensive.
_WINDOW_BITS, _LEVEL, _DICTIONARY_BYTES, _TRAINING_BYTES = -14, 3, 8 << 10, 160 << 10
# Keys are spread by hash, so each file of the highest level overlaps all of the lowest level, and
# each compaction rewrites that level. Compacting three times as many files at once makes
# compactions a third as frequent. A lookup checks the filters of up to twelve files, 0.1 us each.
_FILES_BEFORE_COMPACTION, _FILES_BEFORE_SLOWDOWN, _FILES_BEFORE_STOP = 12, 40, 60
_LOCK_SIGNS = (
    "While lock file",
    "lock hold by current process",
    "LOCK: Resource temporarily unavailable",
)
_DAMAGE_SIGNS = ("Corruption", "No such file", "checksum mismatch", "Invalid argument")


class SharedCache:
    """The memory of all stores of one process.

    ``cache_bytes`` bounds all of it, of which memtables may take ``write_bytes``. One store's
    memtable is written to a file at ``memtable_bytes``.
    """

    def __init__(
        self,
        cache_bytes: int = 96 << 20,
        write_bytes: int = 32 << 20,
        memtable_bytes: int = 4 << 20,
    ) -> None:
        self.cache = Cache(cache_bytes)
        # allow_stall False: a writer above the bound starts a flush and continues. It must never
        # wait for another store.
        self.write_buffers = WriteBufferManager.new_write_buffer_manager_with_cache(
            write_bytes, False, self.cache
        )
        self.cache_bytes, self.write_bytes, self.memtable_bytes = (
            cache_bytes,
            write_bytes,
            memtable_bytes,
        )

    def resize(self, cache_bytes: int) -> None:
        """Change the size of the cache.

        Blocks beyond a smaller size are dropped at once, except those in use.
        """
        self.cache.set_capacity(cache_bytes)

    def snapshot(self) -> dict[str, int]:
        """Bytes in use: ``cache`` (memtables included), ``memtables``, ``pinned``."""
        return {
            "cache": self.cache.get_usage(),
            "memtables": self.write_buffers.get_usage(),
            "pinned": self.cache.get_pinned_usage(),
        }

    def __repr__(self) -> str:
        return f"SharedCache({self.snapshot()} of {self.cache_bytes})"


class RocksKeyValue:
    """One partition's store in ``folder``, created when it does not exist.

    ``cache`` is shared with the other stores of the process; with ``None`` the store gets a small
    separate cache. Every method may raise ``DiskFull``. Raises ``TableLocked`` when the folder is
    in use and ``TableDamaged`` when its files do not fit together.
    """

    def __init__(
        self, folder: Path, cache: SharedCache | None = None, *, open_files: int = 32
    ) -> None:
        self._folder = folder
        self._cache = cache or SharedCache(16 << 20, 8 << 20)
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True  # type: ignore[method-assign, assignment]  # a property, which the stub types as a method
        # scans that are not exhausted; weak, because a caller may drop one before its first step
        self._scans: WeakSet[_Scan] = WeakSet()
        _refuse_orphans(folder)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            options = _options(self._cache, open_files)
            # Named explicitly, because an existing store would otherwise take the family's options
            # from its files: another cache, outside the bound.
            self._db = Rdict(str(folder), options, column_families={"default": options})
        except Exception as error:  # rocksdict raises bare Exception
            self._fail(error)

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            self._fail(error)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            values = self._db.get(keys if type(keys) is list else list(keys))
        except Exception as error:
            self._fail(error)
        return values  # type: ignore[return-value]  # a list in gives a list out

    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Pairs as they are now, independent of later writes.

        A scan with a ``limit`` of up to 4,096 is read at once. A longer or unlimited scan keeps the
        store locked until it is exhausted or closed, or until the store is closed (then the scan
        raises).
        """
        if start >= end:
            return iter(())
        scan = _Scan(self, start, end)
        if 0 < limit <= _EAGER:
            return iter(scan.take_pairs(limit))
        self._scans.add(scan)
        return _stream(scan, limit)

    def write(self, writes: Writes) -> None:
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in pairs_of(writes):
            if value is None:
                delete(key)
            else:
                put(key, value)
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            self._fail(error)

    def flush(self) -> None:
        try:
            self._db.flush(True)
        except Exception as error:
            self._fail(error)

    def checkpoint(self, folder: Path) -> None:
        """See ``CheckpointTable``. What was written is flushed."""
        try:
            Checkpoint(self._db).create_checkpoint(str(folder))
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        """Flush, end the scans that are still open and release the lock. May be called again."""
        for scan in list(self._scans):
            scan.close()
        try:
            self._db.flush(True)
            self._db.close()
        except DbClosedError:
            # Closed before: ``close`` may be called again.
            return
        except Exception as error:
            self._fail(error)

    def snapshot(self) -> dict[str, int]:
        """Estimated keys; bytes in table files, in memtables and waiting for compaction."""
        names = {
            "keys": "rocksdb.estimate-num-keys",
            "table_bytes": "rocksdb.total-sst-files-size",
            "memtable_bytes": "rocksdb.cur-size-all-mem-tables",
            "compaction_bytes": "rocksdb.estimate-pending-compaction-bytes",
        }
        return {label: self._db.property_int_value(name) or 0 for label, name in names.items()}

    def __repr__(self) -> str:
        return f"RocksKeyValue({str(self._folder)!r}, scans={len(self._scans)})"

    def _fail(self, error: Exception) -> NoReturn:
        text = str(error)
        if full := next((number for number in FULL if os.strerror(number) in text), 0):
            raise DiskFull(full, os.strerror(full), str(self._folder)) from error
        if any(sign in text for sign in _LOCK_SIGNS):
            raise TableLocked(f"{self._folder} is in use by another process") from error
        if any(sign in text for sign in _DAMAGE_SIGNS):
            raise TableDamaged(f"{self._folder} is damaged: {text}") from error
        raise TableError(f"{self._folder}: {text}") from error


class _Scan:
    """A RocksDB iterator that the store can close; while it exists, the database stays locked."""

    def __init__(self, store: RocksKeyValue, start: bytes, end: bytes) -> None:
        self._iterator: RdictIter | None = None
        self._store = store
        # The iterator refers to the options' bound but does not own it. If the options were freed,
        # the scan would end at an arbitrary place.
        self._options = options = ReadOptions()
        options.set_iterate_upper_bound(end)
        try:
            self._iterator = store._db.iter(options)
            self._iterator.seek(start)
        except Exception as error:
            store._fail(error)

    def take_pairs(self, count: int, keep_open: bool = False) -> list[tuple[bytes, bytes]]:
        """The next pairs, fewer than ``count`` only at the end of the range.

        Closes the iterator unless ``keep_open``.
        """
        iterator = self._iterator
        if iterator is None:
            raise TableError(f"{self._store!r} was closed during a scan")
        pairs: list[tuple[bytes, bytes]] = []
        try:
            while count > len(pairs) and iterator.valid():
                pairs.append((iterator.key(), iterator.value()))
                iterator.next()
            # An iterator also becomes invalid by an error, which only ``status`` raises.
            if not iterator.valid():
                iterator.status()
        except Exception as error:
            self.close()
            self._store._fail(error)
        if not keep_open:
            self.close()
        return pairs

    def close(self) -> None:
        self._iterator = None


def _stream(scan: _Scan, limit: int) -> Iterator[tuple[bytes, bytes]]:
    """The pairs of a scan, read in blocks of 256; ``limit`` 0 means all."""
    left = limit
    try:
        while pairs := scan.take_pairs(min(left, 256) if limit else 256, keep_open=True):
            yield from pairs
            left -= len(pairs)
            if limit and not left:
                return
    finally:
        scan.close()


def rocks_opener(
    cache_bytes: int = 96 << 20, write_bytes: int = 32 << 20, *, open_files: int = 32
) -> Opener:
    """An opener whose stores share one cache, which ``cache_bytes`` bounds."""
    return opener_within(SharedCache(cache_bytes, write_bytes), open_files=open_files)


def opener_within(shared: SharedCache, *, open_files: int = 32) -> Opener:
    """An opener whose stores share this cache."""

    def open_store(folder: Path) -> RocksKeyValue:
        return RocksKeyValue(folder, shared, open_files=open_files)

    return open_store


def refuse_open(folder: Path) -> None:
    """Raise ``TableLocked`` when another process has this store open.

    Nothing is changed, and a folder that does not exist is not open. The check uses the lock that
    RocksDB holds on its file ``LOCK``, which belongs to a process. Never call this while this
    process has the store open: closing the file would release this process's lock too (fcntl(2)).
    """
    path = folder / "LOCK"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Both mean that another process has the lock (fcntl(2)); POSIX leaves the choice open.
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise named(error, path) from error
        raise TableLocked(f"{folder} is in use by another process") from error
    finally:
        os.close(fd)


def _refuse_orphans(folder: Path) -> None:
    """Raise ``TableDamaged`` if there are table files but no ``CURRENT`` file.

    RocksDB would take such a folder for a new one and delete the tables in it.
    """
    if folder.exists() and not folder.is_dir():
        raise TableError(f"{folder} is not a folder")
    if folder.is_dir() and not (folder / "CURRENT").exists() and any(folder.glob("*.sst")):
        raise TableDamaged(f"{folder} is damaged: it has table files but no CURRENT file")


def _options(shared: SharedCache, open_files: int) -> Options:
    # without raw mode rocksdict pickles values, and such a store can never be opened in raw mode
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_manager(shared.write_buffers)
    options.set_write_buffer_size(shared.memtable_bytes)
    options.set_max_write_buffer_number(2)
    options.set_max_open_files(open_files)
    # the default starts and ends sixteen threads for each store that is opened
    options.set_max_file_opening_threads(1)
    options.set_max_background_jobs(2)
    # writes data back continuously, so that a flush does not stall behind a large fsync
    options.set_bytes_per_sync(1 << 20)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_level_zero_file_num_compaction_trigger(_FILES_BEFORE_COMPACTION)
    options.set_level_zero_slowdown_writes_trigger(_FILES_BEFORE_SLOWDOWN)
    options.set_level_zero_stop_writes_trigger(_FILES_BEFORE_STOP)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    # One dictionary per file, trained on it: short records then share common content across blocks
    # (saves 6 % of the state).
    options.set_bottommost_compression_options(_WINDOW_BITS, _LEVEL, 0, _DICTIONARY_BYTES, True)
    options.set_bottommost_zstd_max_train_bytes(_TRAINING_BYTES, True)
    # A file of the lowest level is held in memory until its dictionary is trained, so its size is
    # memory: by default 64 MB per compaction.
    options.set_target_file_size_base(16 << 20)
    # URL-seen answers for absent keys, so nearly all lookups hit. No filters in the lowest level,
    # which holds nine tenths of the keys.
    options.set_optimize_filters_for_hits(True)
    # Small logs and manifests, because each of sixteen stores has its own.
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_max_manifest_file_size(4 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_block_based_table_factory(_table_options(shared))
    return options


def _table_options(shared: SharedCache) -> BlockBasedOptions:
    table = BlockBasedOptions()
    table.set_block_cache(shared.cache)
    table.set_block_size(16 << 10)
    table.set_bloom_filter(10, False)  # full filters, 10 bits a key: 1 % false positives
    table.set_cache_index_and_filter_blocks(True)  # otherwise their memory is outside the bound
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_format_version(5)
    table.set_checksum_type(ChecksumType.xxh3())
    return table
