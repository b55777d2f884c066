"""Which of a host's URLs may be requested next: by crash counts, budgets and robots.txt.

Hundreds of URLs in a row may be disallowed, and a hostile robots.txt makes each judgement cost
milliseconds. So the loop has a turn between judgements: after each one by a costly file, after
fifty by any other. No lease is held then, but by ``next_urls``, which gives all of them back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lycosa.admit.budgets import park_s
from lycosa.attempts import Suspicion
from lycosa.config.sections import BudgetSection
from lycosa.frontier.crawl_clock import CrawlClock
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.lease import Lease
from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import VisitState
from lycosa.model.capture import RobotsDecision
from lycosa.model.completed import Completed, UrlState
from lycosa.ports import Offload
from lycosa.reasons import Reason
from lycosa.worker.intake import Intake
from lycosa.worker.robots import OriginState, Robots, robots_url

_DRAIN = 500  # disallowed URLs judged in one visit
_JUDGED_AT_ONCE = (
    50  # of them in one step of the loop, by a file whose judgements cost microseconds
)
End = Callable[[Lease, Completed], None]
"""Ends a lease without a request."""


class Next(NamedTuple):
    """A URL that may be requested by its host's robots.txt; without ``decision`` that file has
    to be fetched, or waited for, first.
    """

    lease: Lease
    state: OriginState
    decision: RobotsDecision | None = None


class Leasing:
    """One per worker."""

    def __init__(
        self,
        frontier: Frontier,
        robots: Robots,
        intake: Intake,
        budgets: BudgetSection,
        clock: CrawlClock,
        offload: Offload,
        suspicion: Callable[[str], Suspicion],
    ) -> None:
        self._frontier = frontier
        self._robots = robots
        self._intake = intake
        self._budgets = budgets
        self._clock = clock
        self._offload = offload
        self._suspicion = suspicion

    async def next_urls(self, visit: VisitState) -> tuple[str, ...]:
        """What the host's visit may request now: its first URL that is not ended without a
        request, or its robots.txt before that.
        """
        partition, time, passed = self._partition(visit), self._clock.time(), []
        try:
            for number in range(_DRAIN):
                lease = partition.lease(visit)
                if lease is None:
                    break
                passed.append(lease)
                if self._suspicion(lease.url) is Suspicion.HOPELESS:
                    continue
                state = await self._robots.ready_state(partition, visit, lease.record.secure, time)
                if state.is_needed:
                    return robots_url(visit.host, lease.record.secure), lease.url
                if state.wait_until or state.decide(lease.record.target).allowed:
                    return (lease.url,)
                await self._give_way(state, number)
            return ()
        finally:
            for lease in passed:
                partition.restore(lease)

    async def next_lease(self, visit: VisitState, end: End) -> Next | None:
        """The host's first URL that may be requested, or that robots.txt is needed for (then
        without a decision). Those that may not be requested are given to ``end`` on the way. Parks
        the host when it is over a budget.
        """
        partition, robots = self._partition(visit), self._robots
        await self._refill(visit)
        for number in range(_DRAIN):
            lease = partition.lease(visit)
            if lease is None:
                return None
            if self._suspicion(lease.url) is Suspicion.HOPELESS:
                end(
                    lease,
                    Completed(
                        visit.host8,
                        lease.entry.url8,
                        lease.number,
                        UrlState.FAILED,
                        Reason.CRASHED_WORKER,
                    ),
                )
                continue
            refusal = self._intake.over_budget(partition, visit)
            if refusal is not None:
                partition.restore(lease)
                until = int(self._clock.time() + park_s(self._budgets, visit.record.parks))
                partition.park(visit, until, refusal.reason, f"{refusal.rule} = {refusal.value}")
                return None
            state = robots.state(partition, visit, lease.record.secure, self._clock.time())
            if state is None:
                partition.restore(lease)
                await robots.load(partition, visit, lease.record.secure)
                continue
            if state.is_needed or state.wait_until:
                return Next(lease, state)
            decision = state.decide(lease.record.target)
            if decision.allowed:
                return Next(lease, state, decision)
            end(lease, _refused(lease, decision))
            await self._give_way(state, number)
        return None

    async def _refill(self, visit: VisitState) -> None:
        """Reads the rows of the host's back queue that its next lease needs, away from the loop
        when they are many.
        """
        keys, table = visit.queue.wants(), self._partition(visit).table
        if keys:
            rows = table.pending(keys)
            missing = [key for key in keys if key not in rows]
            rows.update(await self._offload.run(lambda: table.committed(missing)))
            visit.queue.supply(rows)

    async def _give_way(self, state: OriginState, number: int) -> None:
        """After a judgement, the ``number``-th of a visit: a turn of the loop for others when it
        was costly, or when there were many.
        """
        if state.is_costly or number % _JUDGED_AT_ONCE == _JUDGED_AT_ONCE - 1:
            await self._clock.sleep(0)

    def _partition(self, visit: VisitState) -> Partition:
        return self._frontier.partitions[visit.partition]


def _refused(lease: Lease, decision: RobotsDecision) -> Completed:
    why = decision.bound or f"line {decision.line}: {decision.rule}"
    detail = f"{why} (robots.txt {decision.version or decision.status})"
    return Completed(
        lease.visit.host8,
        lease.entry.url8,
        lease.number,
        UrlState.REFUSED,
        Reason.ROBOTS_DISALLOWED,
        detail,
    )
