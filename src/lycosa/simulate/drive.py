"""Advances the time of a part to the next event: a request ends, a URL is due, a meter is free.

It also measures what held the crawl back. A meter binds while a host waits for it. The workbench
binds while it is full of hosts in a pause and another host, whose pause is over, waits outside. The
rest of the time counts for politeness if on average at least one host in a thousand had something
to fetch: these hosts were in their pauses. Otherwise there was nothing to fetch. The average does
not depend on the size of the sample, as the state at one moment would.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from lycosa.base.model.url_state import UrlState
from lycosa.simulate.jump_clock import SIMULATION_EPOCH
from lycosa.simulate.resources import HOSTS, POLITENESS, WORKBENCH
from lycosa.simulate.sample import Sample
from lycosa.simulate.simulated_prices import PRICES_EVERY_S
from lycosa.simulate.simulated_table import SimulatedTable
from lycosa.simulate.visits import Visits
from lycosa.stages.frontier.due import NEVER_DUE

_COMMIT_STEPS = (
    50  # fewer than a worker's, because all open requests are searched whenever something is due
)
_LATE_S = 1.0
_BUSY = 0.001  # share of the hosts


class Point(msgspec.Struct, kw_only=True):
    """A part, or the whole crawl, at virtual second ``at``.

    Counts are since the start; ``limits`` are seconds since the last point by what held the crawl
    back. ``known`` is URLs discovered, ``queued`` those that wait to be fetched now, ``stored``
    pages with a copy, ``current`` the copies that still equal their page, ``age_s`` the sum of the
    ages of all copies.
    """

    at: float
    requests: float = 0
    robots: float = 0
    captures: float = 0
    revisits: float = 0
    body_bytes: float = 0
    stored_bytes: float = 0
    cpu_s: float = 0
    slot_s: float = 0
    known: float = 0
    queued: float = 0
    stored: float = 0
    current: float = 0
    age_s: float = 0
    limits: dict[str, float] = {}


class Drive:
    """One simulated crawl of a part. ``run`` may be called again to continue it."""

    def __init__(self, sample: Sample, visits: Visits, table: SimulatedTable) -> None:
        self._hosts, self._visits, self._table = len(sample), visits, table
        self._commit = 0
        self._prices_at = 0.0
        self._limits: defaultdict[str, float] = defaultdict(float)
        self._waiting = 0.0  # host seconds with something to fetch, since the last point
        self._looked_at = 0.0

    def run(self, until_s: float, looks: Sequence[float], look: Callable[[Point], None]) -> None:
        """Run until a virtual time; ``look`` gets a point at each of the rising times ``looks``."""
        visits, clock, pending = self._visits, self._visits.clock, list(reversed(looks))
        while True:
            self._start_what_can()
            at = min(self._next_event(), until_s)
            while pending and pending[-1] <= at:
                self._advance(pending[-1])
                look(self._point(pending.pop()))
            self._advance(at)
            if clock.now >= self._prices_at:
                self._prices_at = clock.now + PRICES_EVERY_S
                visits.prices.find_price()
            if clock.now >= until_s:
                self._table.commit()
                return
            self._note_steps(visits.end_due())

    def _start_what_can(self) -> None:
        visits = self._visits
        now, wall = visits.clock.now, visits.clock.wall()
        while visits.partition.next_due() <= wall:
            visits.partition.wake_due(wall)
            self._note_steps(1)  # thousands may become due before the next visit ends
        while visits.meters.free_at <= now:
            host = visits.frontier.acquire(now, wall)
            if host is None:
                return
            visits.begin(host)

    def _note_steps(self, number: int) -> None:
        """Count ended visits and wakes, and commit after some of them."""
        self._commit += number
        if self._commit >= _COMMIT_STEPS:
            self._commit = 0
            self._table.commit()

    def _next_event(self) -> float:
        visits = self._visits
        now, free_at = visits.clock.now, visits.meters.free_at
        at = visits.going[0].ends_at if visits.going else math.inf
        ready = visits.frontier.next_time()
        if free_at > now:
            at = min(at, free_at)
            if ready is not None and ready > now:
                at = min(at, ready)  # from then on a host waits for the meter
        elif ready is not None:
            at = min(at, max(ready, now))
        due = visits.partition.next_due()
        return min(at, max(float(due - SIMULATION_EPOCH), now)) if due != NEVER_DUE else at

    def _advance(self, to: float) -> None:
        """Advance the time, and record what held the crawl back meanwhile."""
        visits, frontier = self._visits, self._visits.frontier
        now = visits.clock.now
        passed = to - now
        if passed <= 0:
            return
        on_workbench, outside = len(frontier.workbench), len(visits.partition.front)
        if visits.meters.free_at > now:
            ready = frontier.next_time()
            if outside or (ready is not None and ready <= now):
                self._limits[visits.meters.binding] += passed
        elif outside and on_workbench >= frontier.capacity and self._is_a_host_late():
            self._limits[WORKBENCH] += passed
        in_lines = len(visits.partition.lines)
        self._waiting += passed * (
            on_workbench
            + outside
            + in_lines
            + len(frontier.in_process)
            + visits.partition.counters.hosts_asleep
        )
        visits.clock.now = to

    def _is_a_host_late(self) -> bool:
        """Whether the pause of a host outside the workbench is over."""
        partition = self._visits.partition
        waiting = map(partition.visits.find_host, partition.front.firsts())
        then = self._visits.clock.wall() - _LATE_S
        return any(host is not None and host.record.next_at <= then for host in waiting)

    def _point(self, at: float) -> Point:
        visits, tally, meters = self._visits, self._visits.tally, self._visits.meters
        counters = visits.partition.counters
        stored, current, age_s = visits.copies.freshness(at)
        return Point(
            at=at,
            requests=tally.requests,
            robots=tally.robots,
            captures=tally.captures,
            revisits=tally.revisits,
            body_bytes=tally.body_bytes,
            stored_bytes=tally.stored_bytes,
            cpu_s=meters.cpu.spent,
            slot_s=meters.slots.spent,
            known=counters.discovered,
            queued=counters.count_in(UrlState.QUEUED),
            stored=stored,
            current=current,
            age_s=age_s,
            limits=self._limits_since(at),
        )

    def _limits_since(self, at: float) -> dict[str, float]:
        """Seconds since the last point, by what held the crawl back."""
        seconds = at - self._looked_at
        limits, waiting = self._limits, self._waiting
        self._limits, self._waiting, self._looked_at = defaultdict(float), 0.0, at
        rest = seconds - sum(limits.values())
        limits[POLITENESS if waiting >= _BUSY * self._hosts * seconds else HOSTS] += max(rest, 0.0)
        return dict(limits)
