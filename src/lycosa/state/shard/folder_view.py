"""A view of a crawl folder, during or after a crawl, without a lock and without any write.

State is in two places: the partitions' table files and, for data that the owners have not flushed,
the commit logs. A partition is its table merged with the batches that the table lacks, and with the
cold records in the files that these name.

**Order:** the logs are read before a table is opened. An owner deletes a log file only after
flushing its content, so everything that is missing from the logs is in the table by then. Batches
that the table already contains are left out by its mark. So a partition is always as it was after
some commit of its owner. Different partitions may be some commits apart while the crawl runs.

**Memory:** the data that the tables lack, which the owners hold in memory as well, and one block
cache. Scans stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config
from lycosa.state.attempts.attempt_files import attempt_files_of
from lycosa.state.cold.whole_table import whole_table
from lycosa.state.commit import MARK_KEY, NOTHING, Mark, PartitionBatch, read_logs
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.names import (
    attempts_folder,
    crawl_sites,
    log_folder,
    settings_path,
    table_folder,
)
from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.kv.merged_table import MergedTable
from lycosa.state.kv.read_only import ReadOnlyTable, shared_cache
from lycosa.state.objects.folder import FolderStore
from lycosa.state.shard.item_source import FolderItems
from lycosa.state.shard.view import CrawlOrigin, LastCommits, SegmentView, ViewSummary, rank_reader
from lycosa.state.store.segment_files import SegmentFiles

_TRIES = 20
_USED_S = 3.0


class FolderView(SegmentView):
    """A ``CrawlView`` of the crawl folder ``path``. Logs of up to ``keep_bytes`` in all are kept in
    memory whole.

    Raises a ``ManifestError`` when the folder is not a crawl, ``LogDamaged``, ``StoreDamaged``,
    ``OSError``.
    """

    def __init__(self, folder: Path, keep_bytes: int = 16 << 20) -> None:
        self.path, self._keep_bytes = folder, keep_bytes
        manifest = manifests.load_manifest(folder)
        self._cache = shared_cache()
        files, self._store = SegmentFiles(folder), FolderStore(str(folder), folder)
        self._segments, self.read_warc = files, files.read_warc
        self._batches: dict[int, list[tuple[Mark, PartitionBatch]]] = {}
        self._partitions = range(manifest.identity.partitions)
        last = self._read_logs()
        origin = CrawlOrigin(
            str(folder),
            manifest,
            lambda: crawl_sites(folder, manifest.identity.suffixes),
            lambda: _settings(folder),
            folder=folder,
            find_derived=lambda kind: sorted((folder / kind).glob("*.parquet")),
            find_attempts=lambda partition: attempt_files_of(attempts_folder(folder)),
            items=FolderItems(folder),
            ranks=rank_reader(folder, None, manifest.identity.partitions),
        )
        self.seen = ViewSummary(origin, self._partitions, last)

    def open_table(self, partition: int) -> SavedTable:
        """The partition as it is now or was when the logs were read, whichever is later."""
        below = self._table(partition)
        mark = Mark.unpack(below.get(MARK_KEY))
        over: dict[bytes, bytes | None] = {}
        for each, batch in self._batches.get(partition, []):
            if each > mark:
                over.update(batch.writes)
                over[MARK_KEY] = each.pack()
        return whole_table(MergedTable(below, over), self._store)

    def flushed(self, partition: int) -> Mark:
        """The last commit that the files of a table contain."""
        table = self._table(partition)
        try:
            return Mark.unpack(table.get(MARK_KEY))
        finally:
            table.close()

    def close(self) -> None:
        """Do nothing: every table is closed by its user."""

    def _table(self, partition: int) -> ReadOnlyTable:
        return ReadOnlyTable(table_folder(self.path, partition), self._cache)

    def _read_logs(self) -> LastCommits:
        for _ in range(_TRIES - 1):
            try:
                return self._take_logs(self._marks())
            # its owner flushed and deleted a log, so its content is in the tables now
            except FileNotFoundError:
                continue
        return self._take_logs(self._marks())

    def _marks(self) -> dict[int, Mark]:
        """The marks of the tables, so that only the rest of the logs is kept.

        Small logs are kept whole, which is faster, so no marks are read for them. Marks only grow,
        so reading them before the logs can only keep too much.
        """
        if (
            sum(path.stat().st_size for path in log_folder(self.path).glob("commit-*.log"))
            <= self._keep_bytes
        ):
            return {}
        return {number: self.flushed(number) for number in self._partitions}

    def _take_logs(self, marks: Mapping[int, Mark]) -> LastCommits:
        batches: dict[int, list[tuple[Mark, PartitionBatch]]] = {}
        lengths: dict[int, dict[str, int]] = {}
        newest, wall, time, price, ranks = NOTHING, 0.0, 0.0, 0.0, ""
        for worker, record in read_logs(log_folder(self.path)):
            newest = max(newest, record.mark)
            lengths[worker] = record.lengths
            if (record.time or record.wall) >= time:
                wall, time, price = record.wall, record.time or record.wall, record.price
                ranks = record.ranks
            for batch in record.batches:
                if record.mark > marks.get(batch.partition, NOTHING):
                    batches.setdefault(batch.partition, []).append((record.mark, batch))
        for waiting in batches.values():
            waiting.sort(key=lambda pair: pair[0])  # from several workers, each of another run
        self._batches = batches
        return LastCommits(
            newest,
            wall,
            time,
            {name: length for each in lengths.values() for name, length in each.items()},
            price=price,
            ranks=ranks,
        )


def recent_views(folder: Path) -> Callable[[int | None], AbstractContextManager[FolderView]]:
    """Opens views of all partitions of a folder whose crawl does not run.

    A view serves for some seconds, because commands of operators may change the folder meanwhile.
    """
    view: FolderView | None = None
    until = 0.0

    def open_view(partition: int | None) -> AbstractContextManager[FolderView]:
        nonlocal view, until
        if view is None or time.monotonic() > until:
            view, until = FolderView(folder), time.monotonic() + _USED_S
        return nullcontext(view)

    return open_view


def _settings(folder: Path) -> Config | None:
    try:
        return msgspec.json.decode(settings_path(folder).read_bytes(), type=Config)
    except FileNotFoundError:
        return None
