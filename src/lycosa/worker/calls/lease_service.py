"""Lends URLs to outside fetchers, and stores what they return.

A URL is lent in an ordinary visit of its host, at the moment when the visit would send the request:
the host's turn has come, robots.txt allows the URL, the name is looked up, and the visit has a slot
of the address and a permit for a capture. The lease keeps slot and permit until it ends, and the
host is busy until then. A result makes another visit of the host, which begins where the first one
ended, with the answer. So it passes the same steps as an answer to a request of ours.

What only memory has (slot and permit) is lost when the worker dies. The host stays busy, because
its times are in the commit with the lease. The result then takes a new permit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from math import ceil
from typing import Any

from lycosa.base.calls import (
    LONGEST_LEASE_S,
    MOST_LENT,
    CallRefusal,
    GiveResults,
    LeasedUrl,
    LeaseUrls,
    OutsideResult,
    ResultsTaken,
    ResultTaken,
    ResultVerdict,
    UrlsLeased,
)
from lycosa.base.model.fetched import Fetched
from lycosa.base.urls.identity import hash8
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.outside_leases import TOLERANCE_S, LeaseRow, outside_entry
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.taking_hosts import claim_host
from lycosa.stages.schedule.steps import PageAnswered
from lycosa.worker.calls.outside_answers import UnreadableResult, read_result
from lycosa.worker.visit.leasing import robots_words
from lycosa.worker.visit.page_turns import PageTurns
from lycosa.worker.visit.parser_queue import ParserQueue
from lycosa.worker.visit.permits import Permits
from lycosa.worker.visit.request_sender import Slot
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.worker_stages import Stages

MOST_LEASES = 10_000
"""Open leases of one worker; each takes about a kilobyte of memory."""

_GATHER_S = 1.0  # for which a call waits for its first URL
_MORE_S = 0.1  # and then for others
_WAIT_S = 0.1
_REMEMBERED = 10_000  # leases that were settled, so that a repeated result is told so
_MOST_HOLDER = 200  # characters
# partition, URL, and either the end of the lease with a checksum or the call that it answered
_ID = re.compile(r"(\d{1,9})-([0-9a-f]{32})-(?:(\d{1,15})-[0-9a-f]{8}|[0-9a-f]{32})")

FollowVisit = Callable[[Visit, PageAnswered], Coroutine[Any, Any, None]]
"""Takes a visit from the answer for its page to its end."""

BeginVisit = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Runs a visit as one of the worker's own."""


class _Demand:
    """One call for URLs that waits for visits to lend them."""

    def __init__(self, call: LeaseUrls) -> None:
        self.call = call
        self.urls: list[LeasedUrl] = []
        self.has_first, self.is_full = asyncio.Event(), asyncio.Event()


class OutsideDesk:
    """One per worker. ``begin`` runs a visit as the worker runs its own."""

    def __init__(
        self,
        stages: Stages,
        pages: PageTurns,
        parsing: ParserQueue,
        permits: Permits,
        clock: CrawlClock,
        follow: FollowVisit,
    ) -> None:
        self._stages, self._pages, self._parsing = stages, pages, parsing
        self._permits, self._clock, self._follow = permits, clock, follow
        self.begin: BeginVisit = asyncio.ensure_future
        self.crawl = ""
        """The crawl's id, which is in the ids of leases."""
        self.demands: dict[int, list[_Demand]] = {}
        """Calls that wait for URLs, by partition."""
        self._held: dict[str, tuple[Slot | None, asyncio.TimerHandle]] = {}
        self._storing: dict[str, asyncio.Task[None]] = {}
        self._settled: dict[str, None] = {}
        self._freeing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<OutsideDesk open={self.open_leases} storing={len(self._storing)}>"

    @property
    def open_leases(self) -> int:
        """Number of URLs that outside fetchers hold."""
        return sum(len(each.outside) for each in self._stages.frontier.partitions.values())

    # -- lending

    async def lease_urls(self, partition: Partition, call: LeaseUrls) -> UrlsLeased | CallRefusal:
        """Lend URLs, each of another host; waits up to a second for a host whose turn comes."""
        problem = _problem_of(call)
        if problem:
            return CallRefusal(problem)
        if known := self._lent_before(partition, call):
            return UrlsLeased(known)
        frontier = self._stages.frontier
        if self.open_leases >= MOST_LEASES:
            return CallRefusal(f"{MOST_LEASES} leases are open: return results first")
        demand = _Demand(call)
        self.demands.setdefault(partition.number, []).append(demand)
        try:
            await self._gather(demand)
        finally:
            self._withdraw(partition.number, demand)
        ready = frontier.next_time()
        next_in_s = max(ready - self._clock.monotonic(), 0.0) if ready is not None else -1.0
        return UrlsLeased(demand.urls, -1.0 if demand.urls else next_in_s)

    async def _gather(self, demand: _Demand) -> None:
        """Wait until the demand is met, for a second at most, or shortly after its first URL."""
        for signal, seconds in ((demand.has_first, _GATHER_S), (demand.is_full, _MORE_S)):
            try:
                async with asyncio.timeout(seconds):
                    await signal.wait()
            except TimeoutError:
                return

    def lend(self, visit: Visit) -> bool:
        """Lend the URL of a visit that is about to request it, if a call waits for one."""
        host, partition, lease = visit.host, visit.partition, visit.lease
        waiting = self.demands.get(partition.number)
        if not waiting or visit.slot is None or visit.decision is None:
            return False
        demand = waiting[0]
        call, begun = demand.call, self._clock.time()
        expires = begun + call.lease_s
        busy_until = self._stages.pacing.lend(host, call.lease_s + TOLERANCE_S)
        url = host.host8 + lease.entry.url8
        row = LeaseRow(
            self._id_of(partition.number, url, int(expires * 1000), call.holder),
            call.holder,
            call.call,
            lease.url,
            begun,
            expires,
            ceil(expires + TOLERANCE_S),
            busy_until,
            visit.slot.address,
            visit.decision,
        )
        demand.urls.append(self._told(row, lease))
        demand.has_first.set()
        slot = visit.lend(row)
        timer = asyncio.get_running_loop().call_later(
            call.lease_s + TOLERANCE_S, self._expire, row.lease
        )
        self._held[row.lease] = slot, timer
        partition.visits.mark_changed(host)
        if len(demand.urls) >= call.most:
            self._withdraw(partition.number, demand)
            demand.is_full.set()
        return True

    def _lent_before(self, partition: Partition, call: LeaseUrls) -> list[LeasedUrl]:
        """What the same call was lent when it came first."""
        found = []
        for row in partition.outside.rows():
            if (row.call, row.holder) == (call.call, call.holder) and self._is_open(row):
                url = _url_of(row.lease)
                host = partition.visits.find_host(url[:8])
                record = partition.find_record(url[:8], url[8:])
                if host is not None and record is not None:
                    found.append(self._told(row, Lease(host, outside_entry(url[8:]), record)))
        return found

    def _told(self, row: LeaseRow, lease: Lease) -> LeasedUrl:
        request = self._pages.request_of(lease, row.address)
        return LeasedUrl(
            row.lease,
            row.url,
            lease.host.name,
            row.address,
            robots_words(row.decision),
            round(row.busy_until - row.expires - TOLERANCE_S, 3),
            self._clock.wall() + row.expires - self._clock.time(),
            request.etag,
            request.last_modified,
            round(lease.record.priority / 255, 4),
        )

    def _withdraw(self, partition: int, demand: _Demand) -> None:
        waiting = self.demands.get(partition, [])
        if demand in waiting:
            waiting.remove(demand)
        if not waiting:
            self.demands.pop(partition, None)

    def _is_open(self, row: LeaseRow) -> bool:
        return self._clock.time() <= row.expires + TOLERANCE_S

    # -- results

    async def give_results(
        self, partition: Partition, call: GiveResults
    ) -> ResultsTaken | CallRefusal:
        """Store results, one after the other, as answers of the hosts."""
        if len(call.results) > MOST_LENT:
            return CallRefusal(f"{len(call.results)} results: a call may have {MOST_LENT}")
        verdicts = []
        for result in call.results:
            verdict, reason = await self._take(partition, call.holder, result)
            verdicts.append(ResultTaken(result.lease, verdict, reason))
        return ResultsTaken(verdicts)

    async def _take(
        self, partition: Partition, holder: str, result: OutsideResult
    ) -> tuple[ResultVerdict, str]:
        while not self._parsing.may_start:
            await self._clock.sleep(_WAIT_S)
        found = _ID.fullmatch(result.lease)
        if found is None or int(found[1]) != partition.number:
            return ResultVerdict.UNKNOWN, "this is not the id of a lease of this partition"
        row = partition.outside.find(_url_of(result.lease))
        if found[3] is None:  # a call and a URL that it was lent
            if row is None or row.call != result.lease.split("-")[2]:
                return self._verdict_of_settled(result.lease)
        elif row is None or row.lease != result.lease:
            return self._verdict_of_closed(result.lease, holder)
        elif row.holder != holder:
            return ResultVerdict.UNKNOWN, "another fetcher holds this lease"
        if (storing := self._storing.get(row.lease)) is None:
            if not self._is_open(row):
                return ResultVerdict.LATE, "the lease has expired, and the URL is queued again"
            try:
                fetched = read_result(result, row, self._stages.sender.limits, self._clock.wall())
            except UnreadableResult as error:
                return ResultVerdict.REFUSED, str(error)
            started = self._start_storing(partition, row, fetched, result.retry_after_s)
            if isinstance(started, str):
                return ResultVerdict.REFUSED, started
            storing = started
        await asyncio.wait([storing])
        if storing.cancelled() or storing.exception() is not None:
            return ResultVerdict.UNKNOWN, "the worker stopped: call again"
        return ResultVerdict.TAKEN, ""

    def _id_of(self, partition: int, url: bytes, expires_ms: int, holder: str) -> str:
        """The id of a lease. Its end tells it from ids that were never given, also after a restart,
        when nothing else is left of a lease that was settled."""
        facts = f"{self.crawl} {partition} {url.hex()} {expires_ms} {holder}"
        return f"{partition}-{url.hex()}-{expires_ms}-{hash8(facts).hex()[:8]}"

    def _verdict_of_closed(self, lease: str, holder: str) -> tuple[ResultVerdict, str]:
        """The verdict on a result whose lease has no row any more.

        Before its end only a result removes the row. So this one is a repetition.
        """
        partition, _, expires_ms, _ = lease.split("-")
        if lease != self._id_of(int(partition), _url_of(lease), int(expires_ms), holder):
            return ResultVerdict.UNKNOWN, "this fetcher never had such a lease"
        expires = int(expires_ms) / 1000
        if lease in self._settled or self._clock.time() <= expires + TOLERANCE_S:
            return ResultVerdict.TAKEN, "it was taken before"
        return ResultVerdict.LATE, "the lease has expired, or its result was taken before"

    def _verdict_of_settled(self, lease: str) -> tuple[ResultVerdict, str]:
        """The verdict on a result of a call that has no open lease of the URL."""
        if lease in self._settled:
            return ResultVerdict.TAKEN, "it was taken before"
        why = "there is no such lease now: it has expired, or its result was taken before"
        return ResultVerdict.UNKNOWN, why

    def _start_storing(
        self, partition: Partition, row: LeaseRow, fetched: Fetched, retry_after_s: float
    ) -> asyncio.Task[None] | str:
        """Begin the visit that stores the answer, or say why it cannot begin now."""
        url = _url_of(row.lease)
        host, record = partition.visits.find_host(url[:8]), partition.find_record(url[:8], url[8:])
        assert host is not None and record is not None, row
        slot, timer = self._held.get(row.lease, (None, None))
        if timer is None and not self._permits.take_permit():
            return "the crawl may make no further capture now: call again later"
        if not claim_host(self._stages.frontier, host):
            if timer is None:
                self._permits.return_permit()
            return "the host is in a visit: call again"
        # Nothing awaits since the lease was found, so it is still open.
        if timer is not None:
            timer.cancel()
            del self._held[row.lease]
        visit = Visit(host, self._stages.frontier, self._permits)
        visit.take_back(Lease(host, outside_entry(url[8:]), record), has_permit=True)
        visit.slot, visit.decision, visit.is_secure = slot, row.decision, record.secure
        visit.request = self._pages.request_of(visit.lease, row.address)
        task = self.begin(self._store(visit, row, fetched, retry_after_s))
        self._storing[row.lease] = task
        task.add_done_callback(lambda _: self._storing.pop(row.lease, None))
        return task

    async def _store(
        self, visit: Visit, row: LeaseRow, fetched: Fetched, retry_after_s: float
    ) -> None:
        async with visit:
            pacing = self._stages.pacing
            pacing.take_back(visit.host, row.busy_until)
            with pacing.rest_of(visit.host) as rest:
                rest(fetched, self._clock.monotonic(), self._clock.wall(), False)
                if retry_after_s >= 0:
                    rest.heed_retry_after(retry_after_s)
            answered = self._pages.note_answer(visit, fetched, rest.is_asked, 0.0, is_lent=True)
            await self._follow(visit, answered)
        partition, url, *_ = row.lease.split("-")
        for name in (row.lease, f"{partition}-{url}-{row.call}"):
            self._settled[name] = None
        while len(self._settled) > _REMEMBERED:
            del self._settled[next(iter(self._settled))]

    # -- the end of leases

    def _expire(self, lease: str) -> None:
        """Free what the lease kept; its row ends when its URL is due."""
        slot, _ = self._held.pop(lease)
        self._permits.return_permit()
        if slot is not None:
            task = asyncio.get_running_loop().create_task(slot.give_back())
            self._freeing.add(task)
            task.add_done_callback(self._freeing.discard)

    async def close(self) -> None:
        """Free what leases keep, at the end of the run. The leases remain in the table."""
        for lease, (_, timer) in list(self._held.items()):
            timer.cancel()
            self._expire(lease)
        await asyncio.gather(*self._freeing, return_exceptions=True)


def _url_of(lease: str) -> bytes:
    """The host8 and url8 in the id of a lease."""
    return bytes.fromhex(lease.split("-")[1])


def _problem_of(call: LeaseUrls) -> str:
    """Why a call cannot be carried out, in words; empty when it can."""
    if not 1 <= call.most <= MOST_LENT:
        return f"{call.most} URLs: ask for 1 to {MOST_LENT}"
    if not 1.0 <= call.lease_s <= LONGEST_LEASE_S:
        return f"a lease of {call.lease_s:g} s: give 1 to {LONGEST_LEASE_S:g} s"
    if not 1 <= len(call.holder) <= _MOST_HOLDER or not call.holder.isprintable():
        return f"the fetcher needs a printable name of at most {_MOST_HOLDER} characters"
    if not 1 <= len(call.call) <= _MOST_HOLDER:
        return f"the call needs an id of at most {_MOST_HOLDER} characters"
    return ""
