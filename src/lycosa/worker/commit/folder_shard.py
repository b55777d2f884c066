"""A worker's shard over the files of a crawl folder.

The folder must be locked and must have been through ``recover_crawl``.
"""

from __future__ import annotations

from lycosa.state.commit import CommitLog, FileLog, LastCommit
from lycosa.state.folder.names import last_commit_path, log_folder, mark_of, stamp_of
from lycosa.state.kv.kv_port import Opener
from lycosa.state.objects.folder import FolderStore
from lycosa.state.shard.folder_snapshots import DEFAULT_DELTA, FolderSnapshots
from lycosa.state.shard.opened_shard import Shard, ShardStorage
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.worker.job import WorkerJob


def open_folder_shard(job: WorkerJob, open_table: Opener) -> Shard:
    """Open the shard of one worker of a run. Blocks.

    Raises ``LogDamaged``, ``StoreDamaged``, ``TableLocked`` or ``OSError``.
    """
    log = CommitLog(
        log_folder(job.folder),
        job.number,
        last_commit=LastCommit(last_commit_path(job.folder, job.number)),
    )
    delta = job.plan.delta if job.plan else DEFAULT_DELTA
    snapshots = FolderSnapshots(job.folder, job.config, open_table, job.owned, delta)
    data = {number: snapshots.restore_partition(number) for number in job.owned}
    for each in data.values():
        stamp = stamp_of(mark_of(each.table))
        assert each.seen.stamp in (-1, stamp) or each.seen.stamp > stamp, (
            "recovery brought URL-seen up to its table"
        )
        if each.seen.stamp < 0:
            each.seen.rebuild((), stamp)
    storage = ShardStorage(
        FileLog(log, job.manifest.term),
        SegmentFiles(job.folder, job.number),
        snapshots,
        cold=FolderStore(str(job.folder), job.folder),
    )
    return Shard(job.number, job.manifest.term, storage, data, log.last)
