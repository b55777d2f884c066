"""The commit log of a shard: the port, its implementations over files and in memory, the value of a
commit, and the shard lease.
"""

from lycosa.state.commit.commit_log import (
    DEFAULT_FILE_BYTES,
    MAX_RECORD_BYTES,
    CommitLog,
    LogUnusable,
    all_logs,
)
from lycosa.state.commit.commit_log_files import (
    COMMIT_LOG_FORMAT,
    SavedLog,
    is_begun,
    merged_by_worker,
    read_logs,
    saved_logs,
)
from lycosa.state.commit.file_log import FileLog, FolderLogs
from lycosa.state.commit.last_commit import LastCommit, last_mark
from lycosa.state.commit.log_port import (
    Claim,
    FeedRow,
    FeedSource,
    Fenced,
    Log,
    OutcomeUnknown,
    RolledBack,
    no_rows,
)
from lycosa.state.commit.memory_log import MemoryChangelog, MemoryLog
from lycosa.state.commit.record import (
    MARK_KEY,
    NOTHING,
    Commit,
    LogDamaged,
    LogTrimmed,
    Mark,
    PartitionBatch,
    maker_of,
    marked,
)
from lycosa.state.commit.shard_lease import LEASE_S, ShardLease, folder_lease

__all__ = [
    "COMMIT_LOG_FORMAT",
    "DEFAULT_FILE_BYTES",
    "LEASE_S",
    "MARK_KEY",
    "MAX_RECORD_BYTES",
    "NOTHING",
    "Claim",
    "Commit",
    "CommitLog",
    "FeedRow",
    "FeedSource",
    "Fenced",
    "FileLog",
    "FolderLogs",
    "LastCommit",
    "Log",
    "LogDamaged",
    "LogTrimmed",
    "LogUnusable",
    "Mark",
    "MemoryChangelog",
    "MemoryLog",
    "OutcomeUnknown",
    "PartitionBatch",
    "RolledBack",
    "SavedLog",
    "ShardLease",
    "all_logs",
    "folder_lease",
    "is_begun",
    "last_mark",
    "maker_of",
    "marked",
    "merged_by_worker",
    "no_rows",
    "read_logs",
    "saved_logs",
]
