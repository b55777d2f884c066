"""Repairs waits whose end is impossibly far in the future.

A program without crawl time stored them while the wall clock was ahead. They are beyond the longest
possible wait, at the end of the schedule, so finding that there are none costs one lookup.
"""

from __future__ import annotations

from lycosa.stages.frontier.partition import Partition
from lycosa.state.kv.table_records import encode_url, url_key

_BATCH = 500


def repair_impossible_waits(
    partition: Partition, now: float, latest_due: int, latest_parked: int
) -> int:
    """Make some waits beyond the latest possible times due now; return their number.

    ``latest_due`` is for URLs, ``latest_parked`` for parked and sleeping hosts, in seconds of crawl
    time.
    """
    due, parked = partition.alarms
    due_at = int(now)
    suffixes = due.take_beyond(latest_due, _BATCH)
    for suffix in suffixes:
        host8, url8 = suffix[:8], suffix[8:]
        record = partition.find_record(host8, url8)
        if record is None:
            partition.cold.note_due(suffix, now)
        elif record.due_at > latest_due:
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
