"""Waits until a time that nothing can have set: stored while the wall clock was ahead, by a program
that had no crawl time.

They lie beyond the longest wait there is, at the end of the schedule, so looking for them costs one
look where there are none.
"""

from __future__ import annotations

from lycosa.frontier.partition import Partition
from lycosa.kv.records import encode_url, url_key

_BATCH = 500


def recall_strays(partition: Partition, now: float, latest_due: int, latest_parked: int) -> int:
    """Makes some of what is due later than these seconds of crawl time due now; gives how much that
    was.

    ``latest_due`` is for URLs, ``latest_parked`` for hosts that are parked or asleep.
    """
    due, parked = partition.alarms
    due_at = int(now)
    suffixes = due.take_beyond(latest_due, _BATCH)
    for suffix in suffixes:
        host8, url8 = suffix[:8], suffix[8:]
        record = partition.find_record(host8, url8)
        if record is not None and record.due_at > latest_due:
            record.due_at = due_at
            partition.table.put(url_key(host8, url8), encode_url(record))
            due.add_due(due_at, suffix)
    hosts = parked.take_beyond(latest_parked, _BATCH)
    for host8 in hosts:
        host = partition.visits.find_host(host8)
        if host is not None:
            host.record.asleep_until = min(host.record.asleep_until, due_at)
            host.record.parked_until = min(host.record.parked_until, due_at)
            parked.add_due(due_at, host8)
            partition.visits.mark_changed(host)
    return len(suffixes) + len(hosts)
