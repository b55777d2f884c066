"""Decisions of operators about hosts, and about documents that were not parsed, as the owner of the
partition carries them out.

They are a third input of a partition, after ``Discovered`` and ``Completed``. Each is committed
together with its row in the log of decisions.
"""

from __future__ import annotations

import msgspec

from lycosa.base.calls import (
    LONGEST_DELAY_S,
    MAX_WORDS,
    CallRefusal,
    DecisionAnswer,
    HostAction,
    HostDecision,
    ReparseDecision,
)
from lycosa.base.config.units import show_seconds
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, hash8
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.decision_log import ActionRow
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.taking_hosts import withdraw_host
from lycosa.stages.frontier.visit_state import HostPause, HostState, VisitState
from lycosa.worker.intake.intake import Intake
from lycosa.worker.worker import Worker

MAX_NAMED = 100
"""Hosts of a decision that its answer names."""
MAX_OF_SITE = 10_000
"""Hosts that one decision may be about: a commit of a tenth of a second."""


class HostDecisionHandler:
    """One per worker."""

    def __init__(self, worker: Worker, intake: Intake, clock: CrawlClock) -> None:
        self._worker, self._frontier = worker, worker.frontier
        self._intake, self._clock = intake, clock

    async def decide_host(
        self, partition: Partition, decision: HostDecision
    ) -> DecisionAnswer | CallRefusal:
        """Pause, resume or retire hosts; nothing is done about a host that the crawl never met.

        A new host is only met here when the decision says so.
        """
        try:
            name = self._intake.host_named(decision.host)
        except InvalidUrl as error:
            return CallRefusal(str(error))
        if self._intake.partition_of_host(name) != partition.number:
            return CallRefusal(f"{name} does not belong to partition {partition.number}")
        site = self._intake.site_of(name)
        # An incomplete index would miss hosts of the site, and the operator would not know.
        if decision.is_site and not partition.visits.names.is_complete:
            return CallRefusal("the index of host names is not complete yet; try again in a while")
        hosts = self._meant(partition, name, site if decision.is_site else "")
        if len(hosts) > MAX_OF_SITE:
            return CallRefusal(
                f"the crawl knows more than {MAX_OF_SITE:,} hosts of {site}; exclude the site by"
                " scope.exclude at the next start, or decide about single hosts"
            )
        if not hosts and decision.is_new:
            hosts = [partition.find_or_add_host(hash8(name), f"http://{name}/")]
        names = [host.name for host in hosts[:MAX_NAMED]]
        # The call was repeated, so its effect is in the table already.
        known = partition.decisions.find(decision.call)
        if known is not None:
            return DecisionAnswer(known.changed, hosts=names)
        changed = sum(self._change_host(partition, host, decision) for host in hosts)
        if hosts:
            subject = f".{site}" if decision.is_site else name
            self._note(partition, decision, _action_words(decision), subject, changed)
        return DecisionAnswer(changed, hosts=names)

    def _meant(self, partition: Partition, name: str, site: str) -> list[VisitState]:
        """The known hosts: all of the site, or the one with this name if ``site`` is empty."""
        if not site:
            host = partition.visits.find_host(hash8(name))
            return [host] if host is not None else []
        visits = partition.visits
        # One more than the limit, which shows that there are too many.
        found = map(visits.find_host, visits.names.hosts_below(site, MAX_OF_SITE + 1))
        return [
            host for host in found if host is not None and self._intake.site_of(host.name) == site
        ]

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
        self._worker.reparse_now()
        return DecisionAnswer(changed)

    def _change_host(self, partition: Partition, host: VisitState, decision: HostDecision) -> int:
        record, set_aside_hosts = host.record, partition.set_aside_hosts
        by, why = decision.by[:MAX_WORDS], decision.why[:MAX_WORDS]
        if decision.action is HostAction.PAUSE:
            if record.pause is not None:
                return 0
            set_aside_hosts.pause(host, HostPause(by, self._now_us(), why))
            withdraw_host(self._frontier, host)
        elif decision.action is HostAction.DELAY:
            delay_s = min(decision.delay_s, LONGEST_DELAY_S) if decision.delay_s >= 0 else -1.0
            if record.pace.operator_delay_s == delay_s:
                return 0
            record.pace = msgspec.structs.replace(record.pace, operator_delay_s=delay_s)
            partition.visits.mark_changed(host)
        elif decision.action is HostAction.RETIRE:
            if record.reason is Reason.RETIRED_BY_OPERATOR:
                return 0
            set_aside_hosts.retire(
                host, Reason.RETIRED_BY_OPERATOR, f"by {by}: {why}" if why else f"by {by}"
            )
            withdraw_host(self._frontier, host)
        else:
            if record.pause is None and record.state is not HostState.RETIRED:
                return 0
            set_aside_hosts.resume(host)
            if record.state is HostState.RETIRED:
                set_aside_hosts.reopen(host, self._clock.time())
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
                decision.by[:MAX_WORDS],
                self._now_us(),
                action,
                subject,
                decision.why[:MAX_WORDS],
                changed,
            )
        )

    def _now_us(self) -> int:
        return int(self._clock.wall() * 1_000_000)


def _action_words(decision: HostDecision) -> str:
    """The decision in the log of actions."""
    if decision.action is not HostAction.DELAY:
        return str(decision.action.value)
    return f"delay {show_seconds(decision.delay_s)}" if decision.delay_s >= 0 else "delay as all"
