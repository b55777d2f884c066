"""The log port over the files of a crawl folder.

The lock of the folder excludes earlier owners, so a claim needs no exchange with them: the term is
the number of the run, which the manifest counts under the lock. A folder has the logs of all
workers that it ever had. A worker appends only to its log, but a start reads all of them, because
partitions may have belonged to another worker in an earlier run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from lycosa.state.commit.commit_log import CommitLog
from lycosa.state.commit.commit_log_files import merged_by_worker
from lycosa.state.commit.log_port import Claim, FeedSource, no_rows
from lycosa.state.commit.record import NOTHING, Commit


class FileLog:
    """One worker's log as a ``Log``. The caller holds the lock of the folder."""

    def __init__(self, log: CommitLog, term: int) -> None:
        self._log, self._term = log, term

    def claim(self) -> Claim:
        return _claim(self._term, [self._log])

    def read(self) -> Iterator[Commit]:
        return (_named(commit, self._log.worker) for commit in self._log.records())

    def append(self, commit: Commit, feed: FeedSource = no_rows) -> None:
        """Append a commit. A crawl folder has no readers of a feed.

        Raises ``DiskFull`` or another ``OSError``, as ``CommitLog.append`` does.
        """
        self._log.append(commit)

    def trim(self, sequence: int) -> None:
        self._log.drop_until(sequence)

    def close(self) -> None:
        self._log.close()


class FolderLogs:
    """All logs of a crawl folder as one read-only ``Log``, for use before any worker starts."""

    def __init__(self, logs: Sequence[CommitLog], term: int) -> None:
        self._logs, self._term = logs, term

    def claim(self) -> Claim:
        """Claim all logs; ``last`` has the last commit of each worker."""
        return _claim(self._term, self._logs)

    def read(self) -> Iterator[Commit]:
        """The commits of all logs, merged by their marks."""
        return (_named(commit, worker) for worker, commit in merged_by_worker(self._logs))

    def append(self, commit: Commit, feed: FeedSource = no_rows) -> None:
        """Raise ``RuntimeError``, because each worker appends to a separate log."""
        raise RuntimeError(f"commit {commit.mark} must be appended to the log of a worker")

    def trim(self, sequence: int) -> None:
        """Drop all but the last commit of each log, whatever ``sequence`` is.

        Every commit is in the tables by then.
        """
        for log in self._logs:
            log.drop_until(log.last.sequence if log.last else 0)

    def close(self) -> None:
        for log in self._logs:
            log.close()


def _named(commit: Commit, worker: int) -> Commit:
    """The commit with its worker's number, which records of earlier versions lack."""
    return commit if commit.shard == worker else msgspec.structs.replace(commit, shard=worker)


def _claim(term: int, logs: Sequence[CommitLog]) -> Claim:
    firsts = [first.mark for log in logs if (first := next(log.records(), None)) is not None]
    return Claim(term, [log.last for log in logs if log.last], max(firsts, default=NOTHING))
