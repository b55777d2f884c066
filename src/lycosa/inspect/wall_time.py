"""Stored waits as times of the wall clock, for people: they are stored in crawl time, which may
be ahead of it (``crawl_clock``).
"""

from __future__ import annotations

import msgspec

from lycosa.frontier.visit_state import VisitRecord
from lycosa.kv.records import UrlRecord


def visit_in_wall_time(visit: VisitRecord, ahead_s: float) -> VisitRecord:
    """A host whose waits end by the wall clock; crawl time is ``ahead_s`` ahead of it."""
    if not ahead_s:
        return visit
    pace = msgspec.structs.replace(
        visit.pace,
        backoff_at=wall_of(visit.pace.backoff_at, ahead_s),
        retry_at=wall_of(visit.pace.retry_at, ahead_s),
    )
    return msgspec.structs.replace(
        visit,
        next_at=wall_of(visit.next_at, ahead_s),
        parked_until=int(wall_of(visit.parked_until, ahead_s)),
        asleep_until=int(wall_of(visit.asleep_until, ahead_s)),
        pace=pace,
    )


def record_in_wall_time(record: UrlRecord, ahead_s: float) -> UrlRecord:
    """The same of a URL."""
    return (
        msgspec.structs.replace(record, due_at=int(wall_of(record.due_at, ahead_s)))
        if ahead_s
        else record
    )


def wall_of(time: float, ahead_s: float) -> float:
    """A crawl time on the wall clock; 0, which is none, stays."""
    return max(time - ahead_s, 1.0) if time else 0.0
