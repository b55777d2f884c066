"""Hosts that are set aside (snoozed, parked or retired), and how they return."""

from __future__ import annotations

from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.demands import Demands
from lycosa.stages.frontier.due import DueQueue
from lycosa.stages.frontier.visit_state import (
    HostPause,
    HostState,
    VisitState,
    VisitStates,
    counted_as,
)
from lycosa.stages.frontier.waiting_places import WaitingPlaces
from lycosa.state.shard.counters import Counters


class SetAsideHosts:
    """The hosts set aside in one partition. Every change goes into the next commit."""

    def __init__(
        self,
        visits: VisitStates,
        places: WaitingPlaces,
        parked: DueQueue,
        counters: Counters,
        demands: Demands,
    ) -> None:
        """``parked`` has the times at which parked hosts are judged again."""
        self._demands = demands
        self._visits, self._places = visits, places
        self._parked, self._counters = parked, counters

    def snooze(self, host: VisitState, until: float, reason: Reason, detail: str = "") -> None:
        """Let the host wait until crawl time ``until``."""
        # Before the check below: also a retired host runs errands, and keeps the rest that it asked
        # for.
        host.record.next_at = max(host.record.next_at, until)
        if host.record.state is HostState.RETIRED:
            return  # an operator retired it during this visit
        host.record.state = HostState.SNOOZED
        host.record.reason, host.record.detail = reason, detail
        self._visits.mark_changed(host)

    def wake(self, host: VisitState) -> None:
        """End the wait of a snoozed host."""
        if host.record.state is HostState.SNOOZED:
            host.record.state, host.record.reason, host.record.detail = (
                HostState.READY,
                Reason.NONE,
                "",
            )
            self._visits.mark_changed(host)

    def park(self, host: VisitState, until: int, reason: Reason, detail: str) -> None:
        """Park a host that is over a budget; it is judged again at crawl time ``until``."""
        if host.record.state is HostState.RETIRED:
            return  # an operator retired it during this visit
        self._set_aside(host, HostState.PARKED, reason, detail)
        host.record.parks += 1
        host.record.parked_until = until
        self._parked.add_due(until, host.host8)

    def retire(self, host: VisitState, reason: Reason, detail: str) -> None:
        """Retire the host, and with it its queued URLs."""
        if host.record.reason is Reason.RETIRED_BY_OPERATOR:
            return  # a visit in progress must not hide the operator's decision
        self._set_aside(host, HostState.RETIRED, reason, detail)

    def pause(self, host: VisitState, pause: HostPause) -> None:
        """Let the host have no turn until ``resume``; a visit in progress ends by itself."""
        before = host.record.shown_state
        host.record.pause = pause
        self._count(before, host.record.shown_state)
        # On the workbench it stays until its turn ends, where its visit state is in use.
        if not host.on_workbench:
            self._places.leave_place(host)
        self._places.end_sleep(host)
        self._visits.mark_changed(host)

    def resume(self, host: VisitState) -> None:
        """End the pause of a host."""
        before = host.record.shown_state
        host.record.pause = None
        self._count(before, host.record.shown_state)
        if (host.record.waiting or host.record.errands) and host.may_line_up:
            self._places.line_up_host(host, host.best_bands)
        self._visits.mark_changed(host)

    def reopen_retired(self, host: VisitState, now: float) -> None:
        """Reopen a retired host for a seed, unless an operator retired it."""
        if host.record.state is HostState.RETIRED and not host.is_barred:
            self.reopen(host, now)

    def _set_aside(self, host: VisitState, state: HostState, reason: Reason, detail: str) -> None:
        record = host.record
        # Their records stay QUEUED, and count under the state of the host.
        held = record.waiting + record.retrying
        before, shown_before = counted_as(record.state), record.shown_state
        record.state, record.reason, record.detail = state, reason, detail
        self._count(shown_before, record.shown_state)
        self._counters.move_urls(before, counted_as(state), held)
        if counted_as(state) is not UrlState.QUEUED:
            self._places.end_sleep(host)
            if self._demands.rows:
                # The pages continue without: it may be a day until the host is judged again.
                self._demands.refuse_host(host.host8, reason, detail)
        self._visits.mark_changed(host)

    def _count(self, before: HostState, after: HostState) -> None:
        """Count a host in one state only, the one that lists show."""
        counters = self._counters
        counters.hosts_parked += (after is HostState.PARKED) - (before is HostState.PARKED)
        counters.hosts_retired += (after is HostState.RETIRED) - (before is HostState.RETIRED)
        counters.hosts_paused += (after is HostState.PAUSED) - (before is HostState.PAUSED)

    def reopen(self, host: VisitState, now: float) -> None:
        """Let a parked or retired host take part again."""
        record = host.record
        self._set_aside(
            host, HostState.READY if record.waiting else HostState.EXHAUSTED, Reason.NONE, ""
        )
        # Otherwise its first failure would retire it again.
        record.failures = record.dns_failures = 0
        record.away_since = 0.0
        if (record.waiting or record.errands) and host.may_line_up:
            self._places.line_up_host(host, host.best_bands)
