"""Decisions of operators about hosts, and about documents that were not parsed, as the owner of the
partition carries them out.

They are a third input of a partition, beside ``Discovered`` and ``Completed``. Each is committed
together with its row in the log of decisions.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.calls import (
    MOST_WORDS,
    CallRefusal,
    DecisionAnswer,
    HostAction,
    HostDecision,
    ReparseDecision,
)
from lycosa.frontier.crawl_clock import CrawlClock
from lycosa.frontier.decision_log import ActionRow
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.partition import Partition
from lycosa.frontier.taking_hosts import withdraw_host
from lycosa.frontier.visit_state import HostPause, HostState, VisitState
from lycosa.reasons import Reason
from lycosa.urls.identity import InvalidUrl, hash8, host_of
from lycosa.worker.intake import Intake


class OperatorDesk:
    """One per worker. ``reparse_now`` begins to parse what was marked for it."""

    def __init__(
        self,
        frontier: Frontier,
        intake: Intake,
        clock: CrawlClock,
        reparse_now: Callable[[], None],
    ) -> None:
        self._frontier, self._intake, self._clock = frontier, intake, clock
        self._reparse_now = reparse_now

    def __repr__(self) -> str:
        return f"<OperatorDesk {self._frontier!r}>"

    async def decide_host(
        self, partition: Partition, decision: HostDecision
    ) -> DecisionAnswer | CallRefusal:
        """Pause, resume or retire a host. A host that the crawl has not met yet may be decided."""
        known = partition.decisions.find(decision.call)
        if known is not None:
            return DecisionAnswer(known.changed)
        try:
            name = host_of(self._intake.canonical(f"http://{decision.host}/"))
        except InvalidUrl as error:
            return CallRefusal(f"{decision.host!r} is not a host: {error.detail or error.reason}")
        if self._intake.partition_of_host(name) != partition.number:
            return CallRefusal(f"{name} does not belong to partition {partition.number}")
        host = partition.visits.find_host(hash8(name))
        if host is None and decision.action is HostAction.RESUME:
            changed = 0
        else:
            host = host or partition.meet_host(hash8(name), f"http://{name}/")
            changed = self._change_host(partition, host, decision)
        self._note(partition, decision, decision.action.value, name, changed)
        return DecisionAnswer(changed)

    async def decide_reparse(
        self, partition: Partition, decision: ReparseDecision
    ) -> DecisionAnswer:
        """Mark documents, so that this owner or the next one parses them again."""
        known = partition.decisions.find(decision.call)
        if known is not None:
            return DecisionAnswer(known.changed)
        changed = partition.unparsed.want(decision.with_killed)
        subject = "documents that were not parsed" + (", --killed" * decision.with_killed)
        self._note(partition, decision, "reparse", subject, changed)
        self._reparse_now()
        return DecisionAnswer(changed)

    def _change_host(self, partition: Partition, host: VisitState, decision: HostDecision) -> int:
        record, aside = host.record, partition.aside
        by, why = decision.by[:MOST_WORDS], decision.why[:MOST_WORDS]
        if decision.action is HostAction.PAUSE:
            if record.pause is not None:
                return 0
            aside.pause(host, HostPause(by, self._now_us(), why))
            withdraw_host(self._frontier, host)
        elif decision.action is HostAction.RETIRE:
            if record.reason is Reason.RETIRED_BY_OPERATOR:
                return 0
            aside.retire(host, Reason.RETIRED_BY_OPERATOR, f"by {by}: {why}" if why else f"by {by}")
            withdraw_host(self._frontier, host)
        else:
            if record.pause is None and record.state is not HostState.RETIRED:
                return 0
            aside.resume(host)
            if record.state is HostState.RETIRED:
                aside.reopen(host, self._clock.time())
        return 1

    def _note(
        self,
        partition: Partition,
        decision: HostDecision | ReparseDecision,
        action: str,
        subject: str,
        changed: int,
    ) -> None:
        partition.decisions.add(
            ActionRow(
                decision.call,
                decision.by[:MOST_WORDS],
                self._now_us(),
                action,
                subject,
                decision.why[:MOST_WORDS],
                changed,
            )
        )

    def _now_us(self) -> int:
        return int(self._clock.wall() * 1_000_000)
