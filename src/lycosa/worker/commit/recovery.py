"""The second phase of a start: brings a crawl folder to its last commit before any worker starts.

It cuts and deletes what no commit names. So it comes after the first phase (``start_check``), which
finds out whether a commit is missing. Both functions run ``bring_up`` over the files of the
folder: those of all workers at a start, or those of one worker after it died. After a start the
partitions can be assigned to any number of workers, because no log is needed any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lycosa.base.config.sections import Config
from lycosa.base.model.recovered import Recovered
from lycosa.state.commit import CommitLog, FileLog, FolderLogs, all_logs
from lycosa.state.folder.names import log_folder
from lycosa.state.kv.kv_port import Opener
from lycosa.state.objects.folder import FolderStore
from lycosa.state.shard.folder_snapshots import FolderSnapshots
from lycosa.state.shard.opened_shard import ShardStorage, bring_up
from lycosa.state.store.segment_files import SegmentFiles


def recover_crawl(folder: Path, config: Config, open_table: Opener, workers: int) -> Recovered:
    """Recover the whole crawl before its ``workers`` workers start. Blocks.

    Raises ``LogDamaged``, ``StoreDamaged``, ``TableLocked`` or ``OSError``, each before anything is
    lost.
    """
    snapshots = FolderSnapshots(folder, config, open_table, range(config.frontier.partitions))
    return bring_up(
        ShardStorage(
            FolderLogs(all_logs(log_folder(folder)), 0),
            SegmentFiles(folder, workers=workers),
            snapshots,
            cold=FolderStore(str(folder), folder),
        )
    )


def recover_worker(
    folder: Path, config: Config, open_table: Opener, worker: int, owned: Sequence[int]
) -> Recovered:
    """Recover the part of one worker that died, while the others run.

    Raises like ``recover_crawl``. Its partitions' data of earlier runs may be in other workers'
    logs. That was checked when the run began. Its log may still name partitions that it owned in
    such a run and that another worker owns now. They were brought up to date then, and are not
    touched.
    """
    log = FileLog(CommitLog(log_folder(folder), worker), 0)
    return bring_up(
        ShardStorage(
            log,
            SegmentFiles(folder, worker),
            FolderSnapshots(folder, config, open_table, owned),
            cold=FolderStore(str(folder), folder),
        ),
        owned,
    )
