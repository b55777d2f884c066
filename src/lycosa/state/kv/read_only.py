"""A read-only view of a partition's table while its owner may be running.

The owner is neither asked nor disturbed, because RocksDB can be opened for reading without its
lock. The view contains the data that had reached the table files when it was opened. Data that the
owner still has in memory is in the commit log (module ``inspect.committed_state``).

Two precautions are needed. First, the folder is never written to: rocksdict rewrites one of its
files at every opening, which could disturb an owner that starts at that moment, so the database is
opened through a temporary folder of symbolic links. Second, the owner may delete table files at any
time: all files are opened at once and stay readable while this view holds them, and when one
vanishes during the opening, the opening is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocksdict import AccessType, BlockBasedOptions, Cache, Options, Rdict, ReadOptions

from lycosa.base.system.private_folder import private_folder
from lycosa.state.kv.kv_port import Reader, TableDamaged

_TRIES = 20
_SKIPPED = frozenset({"LOCK", "rocksdict-config.json"})


class ReadOnlyTable:
    """The table files of one partition as they were at opening.

    ``cache`` is shared by all tables of a reader. A folder that does not exist is an empty table.
    Raises ``TableDamaged``.
    """

    def __init__(self, folder: Path, cache: Cache) -> None:
        self._folder = folder
        if not (folder / "CURRENT").exists():
            self._refuse_orphans()
        self._db = _open(folder, cache) if (folder / "CURRENT").exists() else None

    def get(self, key: bytes) -> bytes | None:
        if self._db is None:
            return None
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:  # rocksdict raises bare Exception
            raise self._damaged(error) from error
        return value

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < end`` in order, one in memory at a time."""
        if self._db is None or start >= end:
            return
        options = ReadOptions()
        options.set_iterate_upper_bound(end)
        try:
            pairs = self._db.iter(options)
            pairs.seek(start)
            while pairs.valid():
                yield pairs.key(), pairs.value()
                pairs.next()
            pairs.status()  # raises if a broken block, and not the end of the range, ended the scan
        except Exception as error:
            raise self._damaged(error) from error

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def __repr__(self) -> str:
        return f"ReadOnlyTable({str(self._folder)!r}, open={self._db is not None})"

    def _refuse_orphans(self) -> None:
        """Raise ``TableDamaged`` if there are table files but no ``CURRENT`` file that names them.

        A table that is being created has no table files yet.
        """
        if any(self._folder.glob("*.sst")) and not (self._folder / "CURRENT").exists():
            raise TableDamaged(f"{self._folder} is damaged: it has table files but no CURRENT file")

    def _damaged(self, error: Exception) -> TableDamaged:
        return TableDamaged(f"{self._folder} cannot be read: {error}")


def shared_cache(size_bytes: int = 16 << 20) -> Cache:
    """A block cache for all tables of one reader."""
    return Cache(size_bytes)


def table_reader(cache: Cache | None = None) -> Reader:
    """A reader whose tables share one block cache."""
    shared = cache or shared_cache()
    return lambda folder: ReadOnlyTable(folder, shared)


def _open(folder: Path, cache: Cache) -> Rdict:
    """Open the table, repeating while its owner replaces files during the opening."""
    last: Exception | None = None
    for _ in range(_TRIES):
        try:
            with private_folder("read") as shadow:  # all files are open when it is deleted
                for path in folder.iterdir():
                    if path.name not in _SKIPPED and not path.name.startswith("LOG"):
                        (shadow / path.name).symlink_to(path.resolve())
                return Rdict(str(shadow), _options(cache), access_type=AccessType.read_only(False))
        except Exception as error:
            last = error
    raise TableDamaged(f"{folder} cannot be read: {last}") from last


def _options(cache: Cache) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(False)
    # opens every table file now, so that later deletions do no harm
    options.set_max_open_files(-1)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_cache_index_and_filter_blocks(True)
    options.set_block_based_table_factory(table)
    return options
