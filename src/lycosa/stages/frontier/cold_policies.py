"""Lets changed refetch policies reach pages whose records are in cold files.

The policy walk gives records of the table their times by the present rules. When it has ended, the
cold files are read, one after the other, outside the loop. A page that the rules give another
interval, or a fetch where it had none, comes back, and is moved as the walk would have done. The
others stay where they are. A row says up to which file this is done, by which version of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lycosa.stages.frontier.cold_urls import NEVER_SO_DEEP
from lycosa.stages.frontier.partition import Partition
from lycosa.state.cold.cold_rows import ReturnCause
from lycosa.state.kv.table_records import decode_url

_JUDGED = 200  # records in one step of the loop: 4 ms


def next_unruled(partition: Partition) -> int:
    """The number of the next cold file to which the rules are to be applied; 0 for none."""
    walk, cold = partition.policy_walk, partition.cold
    if not walk.is_done or cold.row.policies == walk.row.version:
        return 0
    if cold.row.applying != walk.row.version:
        cold.row.applying, cold.row.ruled = walk.row.version, 0
    left = [number for number in cold.files if number > cold.row.ruled]
    if not left:
        cold.note_policies(walk.row.version)
    return min(left, default=0)


def apply_policies(
    partition: Partition, number: int, rows: Sequence[tuple[bytes, bytes]], now: float
) -> Iterator[None]:
    """Note which pages of a cold file come back; ``rows`` are its URLs (host8 and url8) and values.

    In steps, which may be in several commits: what was noted is noted.
    """
    cold, walk, host = partition.cold, partition.policy_walk, None
    for at in range(0, len(rows), _JUDGED):
        for url, value in rows[at : at + _JUDGED]:
            if host is None or host.host8 != url[:8]:
                host = partition.visits.find_host(url[:8])
            if host is not None and walk.is_moved(host, url, decode_url(value)):
                cold.note_return(url, ReturnCause.POLICY, NEVER_SO_DEEP, now)
        yield
    cold.row.ruled = number
    cold.save_walk()
