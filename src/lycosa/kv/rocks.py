"""RocksDB as the key-value port: one small database per partition, all of a process within one
memory bound.

**Durability.** RocksDB's own write-ahead log is off. The worker's commit log is written and fsynced
before a batch comes here, and it keeps each batch until the next ``flush``, so a second log would
only write everything twice. What that means, and what the crash test shows: after ``kill -9`` or
power loss the store holds the first *n* batches, whole and in order, with n at least the number of
batches before the last ``flush`` (a batch goes into one memtable, memtables reach the disk oldest
first, and a table file is fsynced before the manifest names it). The batch itself carries the
number of its commit, so the owner sees n and applies the rest again. A clean ``close`` flushes.

**Memory.** Blocks, their indexes and filters, and memtables of all stores that share a
``SharedCache`` are charged to the one cache; beyond ``write_bytes`` of memtables the writing store
flushes early. It does not wait for that, so for a moment the memtables on their way to disk come on
top (at most 8 MB a store). Open files are capped per store.

**Damage.** Every block is checked against its checksum when read. Iterators end with ``status()``,
because an iterator that met a broken block is merely *not valid*, which reads like the end of the
range.
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

from lycosa.kv.port import Opener, StoreDamaged, StoreError, StoreLocked, Writes, pairs_of
from lycosa.system.durable import FULL, DiskFull, named

# Longest scan that is read at once; nothing of it stays open. A refill asks for tens, a sweep for
# some hundreds.
_EAGER = 4096
# zstd, for the lowest level. A dictionary of more than 8 KB, or one learnt from more than this,
# makes files no smaller (0.3 %), and a compaction a third dearer.
_WINDOW_BITS, _LEVEL, _DICTIONARY_BYTES, _TRAINING_BYTES = -14, 3, 8 << 10, 160 << 10
# Keys are spread by hash, so files of the highest level overlap all of the lowest one: each
# compaction writes that anew, and with three times as many files at once it does so a third as
# often. A look-up asks the filters of up to twelve files, 0.1 us each.
_FILES_BEFORE_COMPACTION, _FILES_BEFORE_SLOWDOWN, _FILES_BEFORE_STOP = 12, 40, 60
_LOCK_SIGNS = (
    "While lock file",
    "lock hold by current process",
    "LOCK: Resource temporarily unavailable",
)
_DAMAGE_SIGNS = ("Corruption", "No such file", "checksum mismatch", "Invalid argument")


class SharedCache:
    """The memory of all stores of one process: ``cache_bytes`` in all, of which memtables may take
    ``write_bytes``. One store's memtable is written to a file at ``memtable_bytes``.
    """

    def __init__(
        self,
        cache_bytes: int = 96 << 20,
        write_bytes: int = 32 << 20,
        memtable_bytes: int = 4 << 20,
    ) -> None:
        self.cache = Cache(cache_bytes)
        # allow_stall False: a writer over the bound starts a flush and goes on; it must never wait
        # for another store.
        self.write_buffers = WriteBufferManager.new_write_buffer_manager_with_cache(
            write_bytes, False, self.cache
        )
        self.cache_bytes, self.write_bytes, self.memtable_bytes = (
            cache_bytes,
            write_bytes,
            memtable_bytes,
        )

    def resize(self, cache_bytes: int) -> None:
        """Another size from now on; blocks beyond a smaller one are dropped at once, but for
        those in use.
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
    """One partition's store in ``folder``, made when absent.

    ``cache`` is shared with the other stores of the process; ``None`` gives this one a small cache
    of its own. Every method may raise ``DiskFull``. Raises ``StoreLocked`` when the folder is in
    use, ``StoreDamaged`` when its files do not fit together.
    """

    def __init__(
        self, folder: Path, cache: SharedCache | None = None, *, open_files: int = 32
    ) -> None:
        self._folder = folder
        self._cache = cache or SharedCache(16 << 20, 8 << 20)
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True  # type: ignore[method-assign, assignment]  # a property, whatever the stub says
        # those not exhausted; weak, as one may be dropped before its first step
        self._scans: WeakSet[_Scan] = WeakSet()
        _refuse_orphans(folder)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            options = _options(self._cache, open_files)
            # Named, or a store that exists would take the family's options from its own files:
            # another cache, outside the bound.
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
        """Pairs as they are now, whatever is written meanwhile. Up to 4,096 asked for are read at
        once; a longer or unlimited scan keeps the store's lock until it is exhausted, closed, or
        the store is closed (then it raises).
        """
        if start >= end:
            return iter(())
        scan = _Scan(self, start, end)
        if 0 < limit <= _EAGER:
            return iter(scan.take(limit))
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

    def close(self) -> None:
        """Flushes and lets go of the lock; scans still open end. Twice is harmless."""
        for scan in list(self._scans):
            scan.close()
        try:
            self._db.flush(True)
            self._db.close()
        except DbClosedError:
            return
        except Exception as error:
            self._fail(error)

    def snapshot(self) -> dict[str, int]:
        """Estimated keys, bytes in table files, in memtables, and waiting for compaction."""
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
            raise StoreLocked(f"{self._folder} is in use by another process") from error
        if any(sign in text for sign in _DAMAGE_SIGNS):
            raise StoreDamaged(f"{self._folder} is damaged: {text}") from error
        raise StoreError(f"{self._folder}: {text}") from error


class _Scan:
    """A RocksDB iterator that can be let go of from outside: while it lives, the database stays
    locked.
    """

    def __init__(self, store: RocksKeyValue, start: bytes, end: bytes) -> None:
        self._iterator: RdictIter | None = None
        self._store = store
        # Kept as long as the iterator, which refers to the bound and does not own it: freed, it
        # would end the scan anywhere.
        self._options = options = ReadOptions()
        options.set_iterate_upper_bound(end)
        try:
            self._iterator = store._db.iter(options)
            self._iterator.seek(start)
        except Exception as error:
            store._fail(error)

    def take(self, count: int, keep_open: bool = False) -> list[tuple[bytes, bytes]]:
        """The next pairs, fewer only at the end of the range; lets go of the iterator unless
        told to keep it.
        """
        iterator = self._iterator
        if iterator is None:
            raise StoreError(f"{self._store!r} was closed during a scan")
        pairs: list[tuple[bytes, bytes]] = []
        try:
            while count > len(pairs) and iterator.valid():
                pairs.append((iterator.key(), iterator.value()))
                iterator.next()
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
    """The pairs of a scan, read some at a time; ``limit`` 0 is all."""
    left = limit
    try:
        while pairs := scan.take(min(left, 256) if limit else 256, keep_open=True):
            yield from pairs
            left -= len(pairs)
            if limit and not left:
                return
    finally:
        scan.close()


def rocks_opener(
    cache_bytes: int = 96 << 20, write_bytes: int = 32 << 20, *, open_files: int = 32
) -> Opener:
    """An opener whose stores share one cache: ``cache_bytes`` bounds them all together."""
    return opener_within(SharedCache(cache_bytes, write_bytes), open_files=open_files)


def opener_within(shared: SharedCache, *, open_files: int = 32) -> Opener:
    """An opener whose stores share this cache."""

    def open_store(folder: Path) -> RocksKeyValue:
        return RocksKeyValue(folder, shared, open_files=open_files)

    return open_store


def refuse_open(folder: Path) -> None:
    """Raises ``StoreLocked`` when another process has this store open. Nothing is changed, and a
    folder that is absent is not open.

    By the lock that RocksDB takes on its file ``LOCK``, which belongs to a process: never call it
    while this process has the store open, since closing the file would let go of its own lock
    (fcntl(2)).
    """
    path = folder / "LOCK"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise named(error, path) from error
        raise StoreLocked(f"{folder} is in use by another process") from error
    finally:
        os.close(fd)


def _refuse_orphans(folder: Path) -> None:
    """Without its ``CURRENT`` file RocksDB would take a folder for a new one and delete the
    tables in it.
    """
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is not a folder")
    if folder.is_dir() and not (folder / "CURRENT").exists() and any(folder.glob("*.sst")):
        raise StoreDamaged(f"{folder} is damaged: it has table files but no CURRENT file")


def _options(shared: SharedCache, open_files: int) -> Options:
    # without raw mode rocksdict pickles, and such a store cannot be opened raw again
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_manager(shared.write_buffers)
    options.set_write_buffer_size(shared.memtable_bytes)
    options.set_max_write_buffer_number(2)
    options.set_max_open_files(open_files)
    # by default sixteen are started for each store that is opened, and ended again
    options.set_max_file_opening_threads(1)
    options.set_max_background_jobs(2)
    # writes back as it goes: a flush then does not stall behind a large fsync
    options.set_bytes_per_sync(1 << 20)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_level_zero_file_num_compaction_trigger(_FILES_BEFORE_COMPACTION)
    options.set_level_zero_slowdown_writes_trigger(_FILES_BEFORE_SLOWDOWN)
    options.set_level_zero_stop_writes_trigger(_FILES_BEFORE_STOP)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    # With a dictionary per file, learnt from it: short records then share what they have in common
    # beyond their block (6 % of the state).
    options.set_bottommost_compression_options(_WINDOW_BITS, _LEVEL, 0, _DICTIONARY_BYTES, True)
    options.set_bottommost_zstd_max_train_bytes(_TRAINING_BYTES, True)
    # A file of the lowest level is held in memory until its dictionary is learnt, so its size is
    # memory: 64 MB a compaction by default.
    options.set_target_file_size_base(16 << 20)
    # URL-seen answers for what is absent, so nearly all look-ups hit: no filters in the lowest
    # level, which holds nine tenths of the keys.
    options.set_optimize_filters_for_hits(True)
    # Small logs and manifests: sixteen stores each keep their own.
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_max_manifest_file_size(4 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_block_based_table_factory(_table_options(shared))
    return options


def bottom_options() -> Options:
    """For table files made outside a store, to be ingested as its lowest level: compressed as
    that is.
    """
    options = _options(SharedCache(8 << 20, 1 << 20), 16)
    options.set_compression_type(DBCompressionType.zstd())
    options.set_compression_options(_WINDOW_BITS, _LEVEL, 0, _DICTIONARY_BYTES)
    options.set_zstd_max_train_bytes(_TRAINING_BYTES)
    table = _table_options(SharedCache(8 << 20, 1 << 20))
    table.set_bloom_filter(1, False)  # as good as none: those of the lowest level are left out
    options.set_block_based_table_factory(table)
    return options


def _table_options(shared: SharedCache) -> BlockBasedOptions:
    table = BlockBasedOptions()
    table.set_block_cache(shared.cache)
    table.set_block_size(16 << 10)
    table.set_bloom_filter(10, False)  # full filters, 10 bits a key: 1 % false positives
    table.set_cache_index_and_filter_blocks(True)  # else they are memory outside the bound
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_format_version(5)
    table.set_checksum_type(ChecksumType.xxh3())
    return table
