"""The second phase of a start: bringing a crawl folder to its last commit, before any worker
starts.

It cuts and deletes what no commit names, so it comes after the first phase (``start_check``), which
finds out whether a commit is missing. What is done is ``opening.bring_up`` over the files of the
folder: of all its workers at a start, of one worker after it died. Partitions can be dealt to any
number of workers afterwards, because no log is needed any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lycosa.commit import CommitLog, FileLog, FolderLogs, all_logs
from lycosa.config.sections import Config
from lycosa.folder.names import log_folder
from lycosa.kv.port import Opener
from lycosa.model.recovered import Recovered
from lycosa.shard.folder_snapshots import FolderSnapshots
from lycosa.shard.opening import Ground, bring_up
from lycosa.store import SegmentFiles


def recover_crawl(folder: Path, config: Config, open_table: Opener, workers: int) -> Recovered:
    """The whole crawl, before its ``workers`` workers start.

    Blocks. Raises ``LogDamaged``, ``StoreDamaged``, ``TableLocked`` or ``OSError``, each before
    anything is lost.
    """
    snapshots = FolderSnapshots(folder, config, open_table, range(config.frontier.partitions))
    return bring_up(
        Ground(
            FolderLogs(all_logs(log_folder(folder)), 0),
            SegmentFiles(folder, workers=workers),
            snapshots,
        )
    )


def recover_worker(
    folder: Path, config: Config, open_table: Opener, worker: int, owned: Sequence[int]
) -> Recovered:
    """The part of one worker that died, while the others go on. Raises like ``recover_crawl``.

    What its partitions hold of earlier runs may be in other workers' logs, and was checked when the
    run began. Its log may still name partitions that it owned in such a run and that are another's
    now: they were brought up to date then, and are left alone.
    """
    log = FileLog(CommitLog(log_folder(folder), worker), 0)
    return bring_up(
        Ground(
            log, SegmentFiles(folder, worker), FolderSnapshots(folder, config, open_table, owned)
        ),
        owned,
    )
