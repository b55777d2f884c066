"""A worker's shard over the files of a crawl folder: the one place under a commit that knows their paths.

Each partition's RocksDB is its own snapshot: ``flush`` makes it one. The folder has been through ``recover_crawl``, under its lock.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from lycosa.commit import CommitLog, FileLog, LastCommit, Mark
from lycosa.config.sections import Config
from lycosa.folder.names import last_commit_path, log_folder, mark_of, stamp_of, table_folder
from lycosa.folder.url_seen import open_seen
from lycosa.kv.port import Opener
from lycosa.store import SegmentFiles
from lycosa.worker.job import Job
from lycosa.worker.shard import Ground, PartitionData, Shard

_DELTA = 1 << 18


class FolderSnapshots:
    """The tables and URL-seen files of some partitions. ``delta`` is how many hashes of URL-seen may wait in memory."""

    def __init__(self, folder: Path, config: Config, open_table: Opener, partitions: Collection[int], delta: int = _DELTA) -> None:
        self._folder, self._config, self._open_table, self._partitions, self._delta = folder, config, open_table, partitions, delta

    def partitions(self) -> list[int]:
        """See ``Snapshots``."""
        return [number for number in self._partitions if table_folder(self._folder, number).exists()]

    def restore(self, partition: int) -> PartitionData:
        """See ``Snapshots``."""
        table = self._open_table(table_folder(self._folder, partition))
        return PartitionData(table, open_seen(self._folder, partition, self._config.seen, table, self._delta))

    def save(self, partition: int, data: PartitionData, mark: Mark) -> None:
        """See ``Snapshots``."""
        data.table.flush()
        data.seen.save(stamp_of(mark))

    def __repr__(self) -> str:
        return f"FolderSnapshots(partitions={list(self._partitions)})"


def open_folder_shard(job: Job, open_table: Opener) -> Shard:
    """The shard of one worker of a run. Blocks. Raises ``LogDamaged``, ``StoreDamaged``, ``StoreLocked`` or ``OSError``."""
    log = CommitLog(log_folder(job.folder), job.number, last_commit=LastCommit(last_commit_path(job.folder, job.number)))
    delta = job.plan.delta if job.plan else _DELTA
    snapshots = FolderSnapshots(job.folder, job.config, open_table, job.owned, delta)
    data = {number: snapshots.restore(number) for number in job.owned}
    for each in data.values():
        stamp = stamp_of(mark_of(each.table))
        assert each.seen.stamp in (-1, stamp) or each.seen.stamp > stamp, "recovery brought URL-seen up to its table"
        if each.seen.stamp < 0:
            each.seen.rebuild((), stamp)
    ground = Ground(FileLog(log, job.manifest.runs), SegmentFiles(job.folder, job.number), snapshots)
    return Shard(job.number, job.manifest.runs, ground, data, log.last)
