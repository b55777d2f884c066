"""Replacements for the worker's stages in a simulation.

Budgets, robots.txt's record, the address table, ``Pacing`` (delays, jitter, back-off) and discovery
through URL-seen are the crawler's own code. The processing of a page's bytes is left out: DNS,
sockets, parsing, content-seen, files. It is replaced by the sample (how long a host takes, what it
answers, what a page links to), the copies (what changed) and the meters (when processors, network
or slots are used up).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.simulate.host_answers import HostAnswers, Underway, Witness
from lycosa.simulate.jump_clock import JumpClock
from lycosa.simulate.page_copies import Copies
from lycosa.simulate.page_results import Captures, Tally
from lycosa.simulate.resources import Meters
from lycosa.simulate.sample import Sample
from lycosa.simulate.simulated_prices import SimulatedPrices
from lycosa.simulate.simulated_table import SimulatedTable
from lycosa.simulate.web_model import Web
from lycosa.stages.admit.budgets import over_budget
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.workbench import Workbench
from lycosa.stages.politeness.address_table import AddressTable
from lycosa.stages.politeness.delay import hosts_of_address
from lycosa.stages.politeness.robots_cache import RobotsState, robots_state
from lycosa.stages.schedule import steps
from lycosa.state.kv.table_records import encode_record, robots_key
from lycosa.worker.refetch_grids import address_limits
from lycosa.worker.visit.pacing import Pacing
from lycosa.worker.visit.set_aside import set_aside

_MANY_ADDRESSES = 65_536


class SimulatedStages:
    """The stages of one part."""

    def __init__(
        self,
        sample: Sample,
        web: Web,
        config: Config,
        table: SimulatedTable,
        meters: Meters,
        witness: Witness | None = None,
        copies: Copies | None = None,
    ) -> None:
        self.partition = partition = table.partition
        self.clock, self.tally = JumpClock(), Tally()
        self.copies = copies or Copies(sample.pages, web.changes_per_day, config.seed)
        self.exchanges = HostAnswers(sample, web, config, self.copies, meters, witness)
        self.captures = Captures(partition, web, config, self.copies, self.clock, self.tally)
        self._budgets = config.budgets
        self._crawl_clock, self._politeness = CrawlClock(self.clock), config.politeness
        jitter = random.Random(f"jitter:{config.seed}")
        self.pacing = Pacing(config.politeness, self._crawl_clock, jitter)
        limits = msgspec.structs.replace(address_limits(config), partitions=1)
        self.prices = SimulatedPrices(partition, table.prices, self.pacing.delay_of, meters, limits)
        most = max(_MANY_ADDRESSES, 2 * len(sample))
        self._addresses = AddressTable(None, config.politeness, most)
        places = round(config.frontier.workbench * max(config.workers, 1) * sample.share)
        workbench = Workbench(config.politeness.address_slots)
        hosts = hosts_of_address(config.politeness)
        self.frontier = Frontier([partition], workbench, max(1, places), hosts)
        set_aside_hosts = (steps.Park, steps.Snooze, steps.Retire, steps.Postpone)
        self.acts: dict[type[steps.VisitStep], Callable[[Underway, Any], steps.Event | None]] = {
            steps.TakeUrl: self._take_url,
            steps.JudgeBudgets: self._judge_budgets,
            steps.JudgeRobots: self._judge_robots,
            steps.FindAddress: self._find_address,
            steps.AskPermit: self._ask_permit,
            steps.SendRequest: self._send,
            steps.TakeIn: self._take_in,
            steps.StoreCapture: self._store,
            steps.RejectAnswer: self._reject,
            **dict.fromkeys(set_aside_hosts, self._set_aside),
        }
        """The function of each step; it returns ``None`` when a request is in flight.

        A host of a sample has no errands, and its robots.txt disallows nothing.
        """

    def close(self) -> None:
        """Release the address table."""
        self._addresses.close()

    def seed(self) -> None:
        """Discover every host's first page."""
        found = [self.captures.seed(name) for name in self.exchanges.hosts]
        self.partition.discover_urls(found, self.clock.wall())

    def _take_url(self, visit: Underway, step: steps.TakeUrl) -> steps.UrlLeased | steps.TurnOver:
        visit.lease = self.partition.lease_next(visit.state)
        return steps.TurnOver() if visit.lease is None else steps.UrlLeased(False)

    def _judge_budgets(self, visit: Underway, step: steps.JudgeBudgets) -> steps.BudgetsJudged:
        """Check the budgets; each host is its own site."""
        host, usage = visit.state, visit.state.record.usage
        refusal = over_budget(self._budgets, usage, usage)
        if refusal is None:
            return steps.BudgetsJudged()
        detail = f"{refusal.rule} = {refusal.value}"
        return steps.BudgetsJudged(refusal.reason, detail, host.record.parks)

    def _judge_robots(self, visit: Underway, step: steps.JudgeRobots) -> steps.RobotsJudged:
        record = visit.known.robots
        state = robots_state(record, self.clock.wall())
        if state is RobotsState.WAIT and record is not None:
            return steps.RobotsJudged(wait_until=record.next_try)
        is_needed = state is RobotsState.NEEDED
        return steps.RobotsJudged(is_needed=is_needed, is_allowed=not is_needed)

    def _find_address(
        self, visit: Underway, step: steps.FindAddress
    ) -> steps.AddressFound | steps.NameFailed:
        host, address, now = visit.state, visit.known.host.address, self.clock.now
        if visit.known.host.is_dead:
            return steps.NameFailed(step.purpose, Reason.DNS_NO_SUCH_NAME, "", 0)
        host.record.address = address
        self.frontier.workbench.rejoin_address(host, address)
        wait_s = self._addresses.take_slot(address, now)
        if wait_s <= 0:
            self.frontier.workbench.postpone_address(
                address, now + self._politeness.address_delay_s
            )
        return steps.AddressFound(step.purpose, wait_s)

    def _ask_permit(self, visit: Underway, step: steps.AskPermit) -> steps.PermitAsked:
        return steps.PermitAsked(True)

    def _send(self, visit: Underway, step: steps.SendRequest) -> None:
        visit.purpose = step.purpose
        visit.fetched = self.exchanges.begin(visit.known, visit.lease, self.clock.now)
        visit.ends_at = self.clock.now + visit.fetched.duration_s

    def _set_aside(
        self, visit: Underway, step: steps.Park | steps.Snooze | steps.Retire | steps.Postpone
    ) -> steps.HostSetAside:
        set_aside(visit.state, step, self.frontier, self._crawl_clock)
        return steps.HostSetAside(getattr(step, "has_answer", False))

    # -- a request ends

    def _take_in(self, visit: Underway, step: steps.TakeIn) -> steps.BodyExamined:
        assert visit.lease is not None and visit.fetched is not None
        record, old = visit.lease.record, visit.lease.record.history
        has_etag = old is not None and bool(old.etag)
        return steps.BodyExamined(visit.fetched, "", record.hops, record.tries, has_etag)

    def _store(self, visit: Underway, step: steps.StoreCapture) -> steps.TurnOver:
        lease, fetched = self._count(visit, is_capture=True)
        self.captures.store(visit.known, lease, fetched, step.outcome)
        return steps.TurnOver()

    def _reject(self, visit: Underway, step: steps.RejectAnswer) -> steps.TurnOver:
        lease, _ = self._count(visit, is_capture=False)
        self.captures.reject(lease, step)
        return steps.TurnOver()

    def _count(self, visit: Underway, is_capture: bool) -> tuple[Lease, Fetched]:
        """Count an answer; returns its lease, which is about to end, and the answer."""
        lease, fetched, visit.lease = visit.lease, visit.fetched, None
        assert lease is not None and fetched is not None
        self.captures.count(lease, fetched, is_capture)
        return lease, fetched

    def end(self, visit: Underway) -> steps.Event:
        """End the request of a visit."""
        fetched, host, now = visit.fetched, visit.state, self.clock.now
        assert fetched is not None
        self._addresses.release_slot(visit.known.host.address, now)
        self.exchanges.end(visit.known, now)
        self.prices.note_request(fetched.duration_s)
        self.tally.requests += 1
        self.tally.body_bytes += fetched.body_bytes
        is_robots = visit.purpose is steps.Purpose.ROBOTS
        with self.pacing.rest_of(host) as rest:
            rest(fetched, now, self.clock.wall(), is_robots)
            if is_robots:
                event = self._read_robots(visit)
                rest.decide_delay()
        if is_robots:
            return event
        visit.is_answered = True
        until = host.record.next_at if rest.is_asked and host.may_wait else 0.0
        return steps.PageAnswered(Reason.NONE, fetched.status, "", 0, until)

    def _read_robots(self, visit: Underway) -> steps.RobotsAnswered:
        host, time = visit.state, self.clock.wall()
        assert visit.fetched is not None
        self.tally.robots += 1
        record = self.exchanges.read_robots(visit.known, visit.fetched, time)
        self.partition.table.put(robots_key(host.host8, False), encode_record(record))
        delay_s = record.rules.crawl_delay_s
        host.record.pace = msgspec.structs.replace(host.record.pace, crawl_delay_s=delay_s)
        self.partition.visits.mark_changed(host)
        until = record.next_try if robots_state(record, time) is RobotsState.WAIT else 0.0
        return steps.RobotsAnswered(True, Reason.NONE, 0, until, "", host.record.address)
