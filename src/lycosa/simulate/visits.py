"""Takes hosts through what ``pipeline.Pipeline.visit`` does with them: a pipeline without bytes.

What decides is the crawler's own code, in the pipeline's order: budgets, robots.txt's record and
its life, the address table, ``Pacing`` (delays, jitter, back-off), ``judge`` and the waits of
retries, ``next_interval`` of refetches, priorities, discovery through URL-seen. What is left out is
what a page's bytes go through: names, sockets, parsing, content-seen, files. In their place stand
the sample (how long a host takes, what it answers, what a page names), the copies (what changed)
and the meters (when processors, network or slots are used up).
"""

from __future__ import annotations

import heapq
import random
from typing import Protocol

import msgspec

from lycosa.admit.budgets import over_budget, park_s
from lycosa.config.sections import Config
from lycosa.frontier.crawl_clock import CrawlClock
from lycosa.frontier.discovery import Origin
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.lease import Lease
from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import VisitState
from lycosa.frontier.workbench import Workbench
from lycosa.kv.records import encode, robots_key
from lycosa.model.completed import Completed, History, UrlState
from lycosa.model.discovered import Discovered, LinkKind
from lycosa.model.fetched import Fetched
from lycosa.model.parsed import Link
from lycosa.politeness.addresses import AddressTable
from lycosa.politeness.delay import hosts_of_address
from lycosa.politeness.robots_cache import (
    RobotsAnswer,
    RobotsRecord,
    RobotsState,
    after_fetch,
    robots_state,
)
from lycosa.reasons import Reason
from lycosa.schedule.outcome import Meaning, Outcome, judge
from lycosa.schedule.priority import link_importance
from lycosa.schedule.refetch import next_interval
from lycosa.simulate.copies import Copies
from lycosa.simulate.means import Meters
from lycosa.simulate.sample import Host, Sample
from lycosa.simulate.web import Web
from lycosa.urls.identity import hash8
from lycosa.worker.pacing import Pacing, Rest

EPOCH = 1_750_000_000
"""Wall time at virtual time 0."""

_SMALL_BYTES = 300  # of an answer without a page
_SPREAD = 0.2  # of a host's time to answer, up and down
_ROBOTS = b"User-agent: *\nDisallow:\n"
_MANY_ADDRESSES = 65_536


class JumpClock:
    """The ``Clock`` port on a number that the driver sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return EPOCH + self.now

    async def sleep(self, delay_s: float) -> None:
        self.now += delay_s


class Witness(Protocol):
    """Told every request as it begins and ends; what it says is not the crawler's."""

    def begins(self, host: Host, now: float) -> None: ...
    def ends(self, host: Host, now: float) -> None: ...


class Tally(msgspec.Struct):
    """What happened so far: requests, of them for robots.txt; captures, of them revisits; bodies
    received; pages fetched for the first time, and when that last happened.
    """

    requests: int = 0
    robots: int = 0
    captures: int = 0
    revisits: int = 0
    body_bytes: float = 0.0
    stored_bytes: float = 0.0
    new_pages: int = 0
    last_new_s: float = 0.0


class Known(msgspec.Struct, gc=False):
    """A host of the sample with what the driver remembers of it; ``first`` is the number of its
    first page.
    """

    host: Host
    first: int
    robots: RobotsRecord | None = None


class Visit(msgspec.Struct, order=True, gc=False):
    """A request under way; ``lease`` is ``None`` for robots.txt."""

    ends_at: float
    ticket: int
    state: VisitState
    known: Known
    lease: Lease | None
    fetched: Fetched


class Visits:
    """The visits of one part. ``begin`` sends what a host's visit sends, ``end_due`` ends the
    requests whose time has come.
    """

    def __init__(
        self,
        sample: Sample,
        web: Web,
        config: Config,
        partition: Partition,
        meters: Meters,
        witness: Witness | None = None,
    ) -> None:
        self.clock, self.tally, self.partition, self.meters = (
            JumpClock(),
            Tally(),
            partition,
            meters,
        )
        self._web, self._config, self._witness = web, config, witness
        firsts, pages = [], 0
        for host in sample.hosts:
            firsts.append(pages)
            pages += host.pages
        self.copies = Copies(pages, web.changes_per_day, config.seed)
        self._known = {
            host.name: Known(host, first) for host, first in zip(sample.hosts, firsts, strict=True)
        }
        self._chance = random.Random(f"visits:{config.seed}")
        self._pacing = Pacing(
            config.politeness, CrawlClock(self.clock), random.Random(f"jitter:{config.seed}")
        )
        self._addresses = AddressTable(
            None, config.politeness, max(_MANY_ADDRESSES, 2 * len(sample))
        )
        capacity = max(1, round(config.frontier.workbench * max(config.workers, 1) * sample.share))
        workbench = Workbench(config.politeness.address_slots)
        self.frontier = Frontier(
            [partition], workbench, capacity, hosts_of_address(config.politeness)
        )
        self.going: list[Visit] = []
        self._tickets = 0

    def __repr__(self) -> str:
        return f"<Visits now={self.clock.now:.3f} going={len(self.going)} {self.frontier!r}>"

    def close(self) -> None:
        """Lets go of the address table."""
        self._addresses.close()

    def seed(self) -> None:
        """Every host's first page is known."""
        found = []
        for name in self._known:
            url = f"http://{name}/0"
            found.append(Discovered(url, hash8(name), hash8(url), LinkKind.SEED, 0, importance=1.0))
        self.partition.discover(found, self.clock.wall())

    # -- a visit begins

    def begin(self, visit: VisitState) -> None:
        """A host that ``Frontier.acquire`` gave: its request leaves, or it is given back."""
        known, partition = self._known[visit.host], self.partition
        lease = partition.lease(visit)
        if lease is None or self._is_over_budget(visit, lease):
            self.frontier.give_back(visit)
            return
        state = robots_state(known.robots, self.clock.wall())
        if state is RobotsState.WAIT and known.robots is not None:
            partition.restore(lease)
            self._snooze(visit, known.robots.next_try, Reason.ROBOTS_UNREACHABLE)
            self.frontier.give_back(visit)
        elif known.host.is_dead:
            partition.restore(lease)
            partition.retire(visit, Reason.DNS_NO_SUCH_NAME, "")
            self.frontier.give_back(visit)
        elif self._takes_address(visit, lease, known.host.address):
            if state is RobotsState.NEEDED:
                partition.restore(lease)
                self._send(visit, known, None)
            else:
                self._send(visit, known, lease)

    def _is_over_budget(self, visit: VisitState, lease: Lease) -> bool:
        """Whether the host is parked for its budgets; each host is a site of its own."""
        usage = visit.record.usage
        refusal = over_budget(self._config.budgets, usage, usage)
        if refusal is None:
            return False
        self.partition.restore(lease)
        until = int(self.clock.wall() + park_s(self._config.budgets, visit.record.parks))
        self.partition.park(visit, until, refusal.reason, f"{refusal.rule} = {refusal.value}")
        return True

    def _takes_address(self, visit: VisitState, lease: Lease, address: str) -> bool:
        """Whether the address has a slot now; else the visit is over."""
        now, workbench = self.clock.now, self.frontier.workbench
        visit.record.address = address
        workbench.rejoin(visit, address)
        wait = self._addresses.take(address, now)
        if wait <= 0:
            workbench.postpone(address, now + self._config.politeness.address_delay_s)
            return True
        self.partition.restore(lease)
        workbench.postpone(address, now + wait)
        visit.next_time = max(visit.next_time, now + wait)
        self.frontier.give_back(visit)
        return False

    def _send(self, visit: VisitState, known: Known, lease: Lease | None) -> None:
        """The request leaves; what will come back, and when, is drawn now."""
        host, now = known.host, self.clock.now
        duration_s = host.latency_s * (1.0 - _SPREAD + 2.0 * _SPREAD * self._chance.random())
        status, size = self._answer(known, lease, now + duration_s)
        duration_s += size / self._web.server_bytes_per_s
        fetched = Fetched(
            host.name,
            Reason.NONE,
            status=status,
            body_bytes=int(size),
            started=EPOCH + now,
            duration_s=duration_s,
        )
        self.meters.spend(lease is not None and status == 200, size, duration_s, now)
        if self._witness is not None:
            self._witness.begins(host, now)
        self._tickets += 1
        heapq.heappush(
            self.going, Visit(now + duration_s, self._tickets, visit, known, lease, fetched)
        )

    def _answer(self, known: Known, lease: Lease | None, at: float) -> tuple[int, float]:
        """Status and bytes of the body."""
        look = self._chance.random()
        if look < self._web.errors:
            return (500, _SMALL_BYTES) if look < self._web.errors / 2 else (503, _SMALL_BYTES)
        if lease is None:
            return 200, _SMALL_BYTES
        if (
            known.host.has_validators
            and lease.record.history is not None
            and self.copies.is_current(_page(known, lease), at)
        ):
            return 304, 0
        return 200, known.host.page_bytes

    # -- a request ends

    def end_due(self) -> int:
        """Ends the requests whose answers are there by now; gives how many."""
        ended = 0
        while self.going and self.going[0].ends_at <= self.clock.now:
            self._end(heapq.heappop(self.going))
            ended += 1
        return ended

    def _end(self, going: Visit) -> None:
        visit, known, fetched, now = going.state, going.known, going.fetched, self.clock.now
        self._addresses.release(known.host.address, now)
        if self._witness is not None:
            self._witness.ends(known.host, now)
        self.tally.requests += 1
        self.tally.body_bytes += fetched.body_bytes
        rest = self._pacing.rest_of(visit)
        rest(fetched, now, self.clock.wall(), going.lease is None)
        if going.lease is None:
            self._read_robots(visit, known, rest, fetched)
        visit.next_time, visit.record.next_at = rest.until, rest.time_until
        if (
            going.lease is None
            and known.robots is not None
            and robots_state(known.robots, self.clock.wall()) is RobotsState.WAIT
        ):
            self._snooze(visit, known.robots.next_try, Reason.ROBOTS_UNREACHABLE)
        elif going.lease is not None and rest.is_asked and visit.may_wait:
            self._snooze(visit, visit.record.next_at, Reason.HTTP_TOO_MANY_REQUESTS)
        self.frontier.give_back(visit)
        if going.lease is not None:
            self._settle(going, going.lease)

    def _read_robots(self, visit: VisitState, known: Known, rest: Rest, fetched: Fetched) -> None:
        self.tally.robots += 1
        delay_s = known.host.crawl_delay_s
        answer = RobotsAnswer(
            fetched.status, _ROBOTS if delay_s < 0 else _ROBOTS + b"Crawl-delay: %g\n" % delay_s
        )
        known.robots = after_fetch(
            known.robots, answer, self._config.agent.product, self._config.robots, self.clock.wall()
        )
        self.partition.table.put(robots_key(visit.host8, False), encode(known.robots))
        visit.record.pace = msgspec.structs.replace(
            visit.record.pace, crawl_delay_s=known.robots.rules.crawl_delay_s
        )
        rest.decide()
        self.partition.visits.touch(visit)

    def _snooze(self, visit: VisitState, until: float, reason: Reason) -> None:
        self.partition.snooze(visit, until, reason)
        visit.next_time = max(visit.next_time, self.clock.now + until - self.clock.wall())

    # -- what came of it

    def _settle(self, going: Visit, lease: Lease) -> None:
        record, fetched, partition = lease.record, going.fetched, self.partition
        old = record.history or History()
        outcome = judge(
            fetched, tries=record.tries, conditional=bool(old.etag), section=self._config.retry
        )
        is_capture = outcome.meaning is not Meaning.RETRY
        partition.note_capture(
            going.state,
            body_bytes=fetched.body_bytes,
            duration_s=fetched.duration_s,
            is_page=fetched.status == 200,
            is_capture=is_capture,
        )
        self.tally.captures += is_capture
        if outcome.meaning is Meaning.RETRY:
            due = int(self.clock.wall() + outcome.wait_s) + 1
            partition.complete(lease, _completed(lease, UrlState.QUEUED, outcome, due, None))
        elif outcome.meaning is Meaning.FAILED:
            partition.complete(lease, _completed(lease, UrlState.FAILED, outcome, 0, old))
        else:
            self._store(going, lease, old, outcome)

    def _store(self, going: Visit, lease: Lease, old: History, outcome: Outcome) -> None:
        page, now = _page(going.known, lease), self.clock.now
        changed = outcome.meaning is not Meaning.NOT_MODIFIED and not self.copies.is_current(
            page, now
        )
        self.tally.revisits += not changed
        self.tally.stored_bytes += going.fetched.body_bytes if changed else 0
        self.copies.store(page, now)
        interval = next_interval(
            self._config.refetch, old.interval_s, changed=changed, is_first=old.fetches == 0
        )
        due = int(self.clock.wall() + interval) if interval else 0
        history = self._history(old, going, changed, int(interval))
        self.partition.complete(lease, _completed(lease, UrlState.FETCHED, outcome, due, history))
        if old.fetches == 0:
            self.tally.new_pages += 1
            self.tally.last_new_s = now
            self._name_pages(going.known.host, lease)

    def _history(self, old: History, going: Visit, changed: bool, interval_s: int) -> History:
        """What a capture leaves, as far as anything here reads it."""
        return History(
            fetches=old.fetches + 1,
            fetched_at=int(self.clock.wall()),
            status=200,
            etag='"1"' if going.known.host.has_validators else "",
            changes=old.changes + (changed and old.fetches > 0),
            interval_s=interval_s,
        )

    def _name_pages(self, host: Host, lease: Lease) -> None:
        """The pages of its host that this one names first: pages are a tree with so many
        branches at each.
        """
        most, branches = self._config.scope.max_depth, self._web.branches
        first = int(lease.record.target[1:]) * branches + 1
        last = min(first + branches, host.pages)
        depth = lease.record.depth + 1
        if first >= last or 0 <= most < depth:
            return
        importance = link_importance(lease.visit.record.importance, last - first)
        origin = Origin(lease.url, depth, importance)
        urls = [f"http://{host.name}/{number}" for number in range(first, last)]
        links = [Link(url, lease.visit.host8, hash8(url), LinkKind.A) for url in urls]
        self.partition.gather(origin, links, self.clock.wall())


def _page(known: Known, lease: Lease) -> int:
    """The number of a lease's page."""
    return known.first + int(lease.record.target[1:])


def _completed(
    lease: Lease, state: UrlState, outcome: Outcome, due: int, history: History | None
) -> Completed:
    return Completed(
        lease.visit.host8, lease.entry.url8, lease.number, state, outcome.reason, "", due, history
    )
