"""Decides which of a host's URLs may be requested next: crash counts, scope, budgets, robots.txt.

Hundreds of URLs in a row may be disallowed, and a hostile robots.txt makes each judgement cost
milliseconds. So the loop may run other tasks between judgements (``schedule.visit_decisions`` says
when). No lease is held then, except by ``next_urls``, which restores all its leases.
"""

from __future__ import annotations

from lycosa.base.ports import Offload
from lycosa.base.urls.identity import robots_url, tdm_url
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.politeness.usage_rules import robots_statements
from lycosa.stages.schedule.steps import (
    BudgetsJudged,
    JudgeBudgets,
    JudgeRobots,
    ReadRobots,
    RobotsJudged,
    RobotsUnread,
    TakeUrl,
    TurnOver,
    UrlLeased,
    UrlPassed,
)
from lycosa.stages.schedule.visit_decisions import MAX_JUDGED, gives_way
from lycosa.state.attempts import Suspicion
from lycosa.worker.visit.errands import Errands
from lycosa.worker.visit.host_robots import OriginState, Robots, robots_words
from lycosa.worker.visit.missing_paths import MissingPaths
from lycosa.worker.visit.tdm_files import TdmFiles
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.worker_stages import Stages

_LEFT_S = 1.0  # until a host has its turn again of which no page needs anything now


class Leasing:
    """Performs the steps of a visit from its first lease to robots.txt; one per worker."""

    def __init__(
        self,
        stages: Stages,
        robots: Robots,
        errands: Errands,
        offload: Offload,
        missing_paths: MissingPaths,
        tdm_files: TdmFiles | None = None,
    ) -> None:
        self._robots, self._errands, self._offload = robots, errands, offload
        self._tdm_files, self._missing_paths = tdm_files, missing_paths
        self._frontier, self._intake = stages.frontier, stages.intake
        self._clock, self._suspicion = stages.clock, stages.suspicion
        self.takes_wanted_only = False
        """Whether only what pages need is requested, because the crawl has all its captures."""

    async def take_url(self, visit: Visit, step: TakeUrl) -> UrlLeased | TurnOver:
        """Lease the host's next URL."""
        if not visit.passed:
            await self._refill(visit)
        visit.host.ran_errand = False
        if self.takes_wanted_only:
            lease = visit.take_wanted()
            if lease is None:
                visit.host.postpone(self._clock.monotonic() + _LEFT_S)
        else:
            lease = visit.take_url(self._clock.time())
        if lease is None:
            return TurnOver()
        visit.is_secure = lease.record.secure
        is_hopeless = self._suspicion(lease.url) is Suspicion.HOPELESS
        if (refusal := self._why_unwanted(lease)) is not None:
            detail = f"{refusal.rule}: {refusal.value}"
            return UrlLeased(is_hopeless, refusal.reason, detail, visit.passed)
        return UrlLeased(is_hopeless)

    def _why_unwanted(self, lease: Lease) -> Refusal | None:
        record = lease.record
        return self._intake.admission.why_unwanted(lease.url, record.kind, record.depth)

    async def judge_budgets(self, visit: Visit, step: JudgeBudgets) -> BudgetsJudged:
        """Judge whether the host or its site is over a budget."""
        refusal = self._intake.over_budget(visit.partition, visit.host)
        if refusal is None:
            return BudgetsJudged()
        detail = f"{refusal.rule} = {refusal.value}"
        return BudgetsJudged(refusal.reason, detail, visit.host.record.parks)

    async def judge_robots(self, visit: Visit, step: JudgeRobots) -> RobotsJudged | RobotsUnread:
        """Judge the leased URL by the robots.txt of its origin."""
        host, secure = visit.host, visit.is_secure
        state = self._robots.origin_state(visit.partition, host, secure, self._clock.time())
        if state is None:
            return RobotsUnread()
        if state.is_needed:
            return RobotsJudged(
                is_needed=True,
                is_asked_elsewhere=self._errands.open_question(host, secure) is not None,
                is_hopeless=self._suspicion(robots_url(host.name, secure)) is Suspicion.HOPELESS,
            )
        if state.wait_until:
            return RobotsJudged(wait_until=state.wait_until, detail=state.detail)
        decision = visit.decision = state.decide(visit.lease.record.target)
        if decision.allowed:
            stated = state.record.rules.usage if state.record is not None else None
            visit.stated_by_robots = (
                () if stated is None else robots_statements(stated, visit.lease.record.target)
            )
            files, partition = self._tdm_files, visit.partition
            is_wanted = files is not None and files.is_wanted(partition, host, secure, state)
            asks = host.record.missing is not None and self._missing_paths.is_wanted(
                host, secure, state
            )
            return RobotsJudged(is_allowed=True, is_tdm_wanted=is_wanted, is_missing_wanted=asks)
        return RobotsJudged(
            detail=robots_words(decision), is_costly=state.is_costly, judged=visit.passed
        )

    async def read_robots(self, visit: Visit, step: ReadRobots) -> UrlPassed:
        """Read the robots.txt of the URL's origin outside the loop."""
        await self._robots.load_origin(visit.partition, visit.host, visit.is_secure)
        return UrlPassed(visit.passed)

    async def next_urls(self, host: VisitState) -> tuple[str, ...]:
        """The URLs that a visit of the host may request now.

        This is the first URL that does not end without a request, preceded by its robots.txt or
        tdmrep.json if that has to be fetched.
        """
        partition, time, passed = (
            self._frontier.partitions[host.partition],
            self._clock.time(),
            [],
        )
        try:
            for number in range(1, MAX_JUDGED + 1):
                lease = partition.lease_next(host)
                if lease is None:
                    break
                passed.append(lease)
                is_unwanted = self._why_unwanted(lease) is not None
                if is_unwanted or self._suspicion(lease.url) is Suspicion.HOPELESS:
                    continue
                state = await self._robots.ready_state(partition, host, lease.record.secure, time)
                if state.is_needed:
                    return robots_url(host.name, lease.record.secure), lease.url
                if state.wait_until or state.decide(lease.record.target).allowed:
                    return self._with_tdm_file(partition, lease, state)
                if gives_way(state.is_costly, number):
                    await self._clock.sleep(0)
            return ()
        finally:
            for lease in passed:
                partition.restore_lease(lease)

    def _with_tdm_file(
        self, partition: Partition, lease: Lease, robots: OriginState
    ) -> tuple[str, ...]:
        files, host, secure = self._tdm_files, lease.host, lease.record.secure
        if robots.wait_until or files is None:
            return (lease.url,)
        is_wanted = files.is_wanted(partition, host, secure, robots)
        return (tdm_url(host.name, secure), lease.url) if is_wanted else (lease.url,)

    async def _refill(self, visit: Visit) -> None:
        """Read the rows of the host's back queue that its next lease needs.

        Rows that are not in open writes are read in a thread, because they may be many.
        """
        keys, table = visit.host.queue.rows_wanted(), visit.partition.table
        if keys:
            rows = table.pending(keys)
            missing = [key for key in keys if key not in rows]
            rows.update(await self._offload.run(lambda: table.committed(missing)))
            visit.host.queue.supply_rows(rows)
