"""Stored waits as times of the wall clock.

They are stored in crawl time, which may be ahead of it (``crawl_clock``).
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.host_memory import with_times
from lycosa.stages.frontier.due import became_due_at
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.state.kv.table_records import UrlRecord


def visit_in_wall_time(host: VisitRecord, ahead_s: float) -> VisitRecord:
    """A visit state whose waits end by the wall clock; crawl time is ``ahead_s`` ahead of it."""
    if not ahead_s:
        return host

    def on_the_wall(time: float) -> float:
        return wall_of(time, ahead_s)

    pace = with_times(host.pace, on_the_wall, on_the_wall)
    return msgspec.structs.replace(
        host,
        next_at=wall_of(host.next_at, ahead_s),
        parked_until=int(wall_of(host.parked_until, ahead_s)),
        asleep_until=int(wall_of(host.asleep_until, ahead_s)),
        away_since=wall_of(host.away_since, ahead_s),
        pace=pace,
    )


def record_in_wall_time(record: UrlRecord, ahead_s: float) -> UrlRecord:
    """A URL record whose waits end by the wall clock; a waiting probe is due since some time."""
    due_at = int(wall_of(became_due_at(record), ahead_s))
    return record if due_at == record.due_at else msgspec.structs.replace(record, due_at=due_at)


def wall_of(time: float, ahead_s: float) -> float:
    """A crawl time on the wall clock; 0, which means none, stays 0."""
    return max(time - ahead_s, 1.0) if time else 0.0
