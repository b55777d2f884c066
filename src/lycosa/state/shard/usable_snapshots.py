"""Which snapshot of a shard its log continues.

The newest snapshot is the one with the greatest (term, sequence). It is used only if the log
continues with the next commit; otherwise the older one is used; otherwise the takeover stops.
"""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.state.commit import NOTHING, Commit, Log, Mark
from lycosa.state.shard.view import CommitReader

UNLISTED_S = 86_400.0
"""Seconds for which a file that no snapshot names is kept."""


class SnapshotUnusable(Exception):
    """The log continues no snapshot of the shard."""


def commit_needed(log: Log, saved: Sequence[Mark], partition: int) -> int:
    """The earliest commit that a usable snapshot is of; 0 when the log has all commits.

    ``saved`` are the snapshots, newest first. Raises ``SnapshotUnusable`` when the newest is of a
    commit that the log has lost.
    """
    first = last = None
    for last in log.read():
        first = first or last
    ends = last.mark if last else NOTHING
    if saved and saved[0] > ends:
        raise SnapshotUnusable(
            f"shard {partition}: there is a snapshot of commit {saved[0].sequence}, but the"
            f" log ends at {ends.sequence}; if the topics were lost, end all nodes, delete what is"
            " left of them, and continue by `lycosa cluster rescue`"
        )
    return commit_before(first, partition)


def none_usable(
    log: CommitReader, saved: Sequence[Mark], partition: int, needed: int
) -> SnapshotUnusable:
    """The error when no snapshot can be used and the log does not begin with the first commit."""
    first = next(iter(log.read()), None)
    return SnapshotUnusable(
        f"shard {partition}: the log begins at commit {first.sequence if first else 0} and"
        f" continues commit {needed}; of the snapshots of commits"
        f" {[mark.sequence for mark in saved]} none reaches that commit or can be read"
    )


def commit_before(first: Commit | None, partition: int) -> int:
    """The last commit to a partition that the log no longer has; 0 when it has all.

    The first commit in the log gives it.
    """
    if first is None:
        return 0
    return first.before[partition].sequence if partition in first.before else first.sequence - 1


def mark_of_key(key: str) -> Mark:
    """The commit of a snapshot, by the key of its list."""
    term, _, sequence = key.rpartition("/")[2].partition("-")
    return Mark(int(term), int(sequence))
