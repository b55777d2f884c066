"""Turns of a host that are for robots.txt: its own file, or an errand for a host whose file
redirects to it.

A turn is one request. What the file means is ``robots``' to know, where a redirect leads
``errands``' to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from lycosa.attempts import Suspicion
from lycosa.config.sections import RetrySection
from lycosa.frontier.crawl_clock import CrawlClock
from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import VisitState
from lycosa.model.errand import Answer
from lycosa.model.fetched import Fetched
from lycosa.politeness.robots_cache import RobotsRecord, RobotsState, robots_state
from lycosa.ports import ResolveError
from lycosa.reasons import Reason
from lycosa.schedule.outcome import REDIRECTS, is_connection_failure
from lycosa.worker.intake import LINKS_AT_ONCE
from lycosa.worker.pacing import Pacing
from lycosa.worker.reaching import Reaching
from lycosa.worker.robots import Learned, robots_capture, robots_url
from lycosa.worker.stages import Stages


class RobotsTurns:
    """One per worker. The caller gives the host back."""

    def __init__(
        self,
        stages: Stages,
        reaching: Reaching,
        retry: RetrySection,
        clock: CrawlClock,
        pacing: Pacing,
        suspicion: Callable[[str], Suspicion],
    ) -> None:
        self._stages = stages
        self._reaching = reaching
        self._retry = retry
        self._clock = clock
        self._pacing = pacing
        self._suspicion = suspicion

    async def fetch(self, visit: VisitState, secure: bool, address: str) -> tuple[str, ...]:
        """Requests the file of an origin; the slot of ``address`` is taken. Gives its URL,
        nothing when it was not sent.
        """
        partition, robots = self._partition(visit), self._stages.robots
        rest, url = self._pacing.rest_of(visit), robots_url(visit.host, secure)
        learned = None
        try:
            fetched = await robots.fetch(url, address, rest)
            if fetched.reason is Reason.LEASE_EXPIRED:
                return ()
            if fetched.status not in REDIRECTS:
                learned = await robots.read(partition, visit, secure, fetched)
                visit.record.pace = msgspec.structs.replace(
                    visit.record.pace, crawl_delay_s=learned.crawl_delay_s
                )
                rest.decide()
        finally:
            visit.rest(rest.until, rest.time_until, self._clock.monotonic())
        if learned is None:
            # No await between the two: the record and the question to the target's host are in one
            # commit.
            self._store(visit, fetched)
            means = self._stages.errands.follow(visit, secure, fetched)
            if means is None:
                return (url,)
            learned = await robots.judge(partition, visit, secure, means)
        start = partial(
            self._settle, visit, secure, learned, None if fetched.status in REDIRECTS else fetched
        )
        if len(learned.sitemaps) > LINKS_AT_ONCE:
            await self._stages.slices.run(url, start)
        else:
            self._stages.slices.run_at_once(url, start)
        self._heed(visit, secure, learned.ready.record, address, is_answered=fetched.status > 0)
        return (url,)

    def _settle(
        self, visit: VisitState, secure: bool, learned: Learned, fetched: Fetched | None
    ) -> Iterator[None]:
        """Stores the response and what it means; gives the steps by which the sitemaps that the
        file names are taken in.
        """
        if fetched is not None and fetched.status:
            self._store(visit, fetched)
        self._stages.robots.keep(self._partition(visit), visit, secure, learned)
        return self._stages.intake.sitemap_steps(
            visit, learned.sitemaps, robots_url(visit.host, secure)
        )

    def _store(self, visit: VisitState, fetched: Fetched) -> None:
        self._stages.store.append(
            msgspec.structs.replace(
                robots_capture(fetched), site=self._stages.intake.site_of(visit.host)
            )
        )
        visit.record.failures = 0

    def _heed(
        self, visit: VisitState, secure: bool, record: RobotsRecord, address: str, is_answered: bool
    ) -> None:
        """What is known of the file now means for its host."""
        partition, robots = self._partition(visit), self._stages.robots
        waits = robots_state(record, self._clock.time()) is RobotsState.WAIT
        error = visit.record.last_error
        if error is Reason.ADDRESS_FORBIDDEN and not is_answered:
            # Ours to change, not the server's: waiting would not help.
            robots.forget(partition, visit, secure)
            partition.retire(visit, error, f"{address}; --allow-address {address} would allow it")
        elif is_connection_failure(error) and not is_answered and is_dead(visit, self._retry):
            if waits:
                robots.forget(partition, visit, secure)  # a host that is reopened is asked at once
            partition.retire(visit, error, record.outage)
        elif waits:
            snooze(
                partition,
                visit,
                record.next_try,
                (Reason.ROBOTS_UNREACHABLE, record.outage),
                self._clock,
            )

    async def run_errand(self, visit: VisitState) -> tuple[str, ...]:
        """One request for what another host's robots.txt redirects to. Gives its URL, nothing
        when none was sent.
        """
        errands = self._stages.errands
        visit.ran_errand = True
        errand = await errands.next(visit)
        if errand is None:
            return ()
        if self._suspicion(errand.url) is Suspicion.HOPELESS:
            errands.answer(visit, Answer((), errand.url, reason=Reason.CRASHED_WORKER))
            return ()
        try:
            addresses = await self._reaching.addresses(visit)
        except ResolveError as error:
            errands.answer(visit, Answer((), errand.url, reason=error.reason, detail=str(error)))
            return ()
        if not addresses:
            return ()
        rest = self._pacing.rest_of(visit)
        try:
            was_sent = await errands.run(visit, errand, addresses[0], rest)
        finally:
            visit.rest(rest.until, rest.time_until, self._clock.monotonic())
        return (errand.url,) if was_sent else ()

    def _partition(self, visit: VisitState) -> Partition:
        return self._stages.frontier.partitions[visit.partition]


def is_dead(visit: VisitState, retry: RetrySection) -> bool:
    """Counts a failed connection; whether the host is given up by that."""
    visit.record.failures += 1
    return visit.record.failures >= retry.host_failures


def snooze(
    partition: Partition,
    visit: VisitState,
    until: float,
    why: tuple[Reason, str],
    clock: CrawlClock,
) -> None:
    """The host's own URLs wait until a crawl time, with the reason and its detail."""
    partition.snooze(visit, until, *why)
    # first: what is late between the two reads makes the wait longer, not shorter
    time = clock.time()
    visit.next_time = max(visit.next_time, clock.monotonic() + until - time)
