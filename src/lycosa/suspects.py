"""Which URLs the last crash may be blamed on.

Not only those whose request was on the wire: a page is parsed and stored after its attempt has ended, and one that kills the worker
then is as guilty. An attempt that ended is above suspicion when what came of it is committed: its URL is not queued then, or
waits for a retry time. A URL of another worker's partitions is for that one to judge, which may be running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lycosa.attempts import Attempt, crashed_attempts
from lycosa.frontier.partition import Partition
from lycosa.model.completed import UrlState
from lycosa.model.fetched import FetchKind
from lycosa.url import hash8, host_of

_LONGEST_PARSE_S = 120.0  # how long before a commit a page may have arrived that is not in it: it was being parsed, or waited for that


def suspects(folder: Path, last_commit: float, partitions: Mapping[int, Partition], owner: Callable[[str], int]) -> list[Attempt]:
    """From the attempt logs in ``folder`` and a worker's partitions as the last commit (wall seconds) left them.

    ``owner`` gives the partition that owns a host.
    """
    found = []
    for attempt in crashed_attempts(folder, last_commit - _LONGEST_PARSE_S):
        partition = partitions.get(owner(host_of(attempt.url)))
        if partition is not None and (not attempt.is_finished or _is_unsettled(attempt, partition)):
            found.append(attempt)
    return found


def _is_unsettled(attempt: Attempt, partition: Partition) -> bool:
    if attempt.kind is FetchKind.ROBOTS:
        return False
    record = partition.find(hash8(host_of(attempt.url)), hash8(attempt.url))
    # Without a record even the page that it was found on is not committed.
    return record is None or (record.state is UrlState.QUEUED and not record.due_at)
