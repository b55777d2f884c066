"""Answers the calls of outside fetchers: lends them URLs, and stores what they return.

``visit.lending`` lends the URLs, in visits of their hosts. A result makes another visit of the
host, which begins where the first one ended, with the answer. So it passes the same steps as an
answer to a request of ours. A result whose lease was given before a restart takes a new permit.
"""

from __future__ import annotations

import asyncio
import re

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
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.outside_leases import TOLERANCE_S, LeaseRow, outside_entry
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.taking_hosts import claim_host
from lycosa.worker.calls.outside_answers import UnreadableResult, read_result
from lycosa.worker.visit.lending import Demand
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.visit_parts import VisitParts
from lycosa.worker.worker import Worker

MAX_LEASES = 10_000
"""Open leases of one worker; each takes about a kilobyte of memory."""

_GATHER_S = 1.0  # for which a call waits for its first URL
_MORE_S = 0.1  # and then for others
_WAIT_S = 0.1
_REMEMBERED = 10_000  # leases that were settled, so that a repeated result is told so
_MAX_HOLDER = 200  # characters
# partition, URL, and either the end of the lease with a checksum or the call that it answered
_ID = re.compile(r"(\d{1,9})-([0-9a-f]{32})-(?:(\d{1,15})-[0-9a-f]{8}|[0-9a-f]{32})")


class LeaseService:
    """One per worker. A visit that stores a result runs as one of the worker's own."""

    def __init__(self, worker: Worker, visit: VisitParts, clock: CrawlClock) -> None:
        self._worker, self._frontier = worker, worker.frontier
        self._visit, self._lending, self._clock = visit, visit.lending, clock
        self._storing: dict[str, asyncio.Task[None]] = {}
        self._settled: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<LeaseService {self._lending!r} storing={len(self._storing)}>"

    # -- lending

    async def lease_urls(self, partition: Partition, call: LeaseUrls) -> UrlsLeased | CallRefusal:
        """Lend URLs, each of another host; waits up to a second for a host whose turn comes."""
        problem = _problem_of(call)
        if problem:
            return CallRefusal(problem)
        if known := self._lent_before(partition, call):
            return UrlsLeased(known)
        if self._lending.open_leases >= MAX_LEASES:
            return CallRefusal(f"{MAX_LEASES} leases are open: return results first")
        demand = Demand(call)
        self._lending.add_demand(partition.number, demand)
        try:
            await self._gather(demand)
        finally:
            self._lending.withdraw_demand(partition.number, demand)
        ready = self._frontier.next_time()
        next_in_s = max(ready - self._clock.monotonic(), 0.0) if ready is not None else -1.0
        return UrlsLeased(demand.urls, -1.0 if demand.urls else next_in_s)

    async def _gather(self, demand: Demand) -> None:
        """Wait until the demand is met, for a second at most, or shortly after its first URL."""
        for signal, seconds in ((demand.has_first, _GATHER_S), (demand.is_full, _MORE_S)):
            try:
                async with asyncio.timeout(seconds):
                    await signal.wait()
            except TimeoutError:
                # Not an error: the caller gets what there is, perhaps nothing, and when to ask
                # again.
                return

    def _lent_before(self, partition: Partition, call: LeaseUrls) -> list[LeasedUrl]:
        """What the same call was lent when it came first."""
        found = []
        for row in partition.outside.rows():
            if (row.call, row.holder) == (call.call, call.holder) and self._is_open(row):
                url = _url_of(row.lease)
                host = partition.visits.find_host(url[:8])
                record = partition.find_record(url[:8], url[8:])
                if host is not None and record is not None:
                    lease = Lease(host, outside_entry(url[8:]), record)
                    found.append(self._lending.leased_url(row, lease))
        return found

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
        # The result would wait in memory for the parser, so the caller waits with it.
        while not self._visit.pipeline.parsing.may_start:
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
            # The URL may be in another fetcher's hands by now, so this answer must not end its
            # lease.
            if not self._is_open(row):
                return ResultVerdict.LATE, "the lease has expired, and the URL is queued again"
            limits = self._visit.stages.sender.limits
            try:
                fetched = read_result(result, row, limits, self._clock.wall())
            except UnreadableResult as error:
                return ResultVerdict.REFUSED, str(error)
            started = self._start_storing(partition, row, fetched, result.retry_after_s)
            if isinstance(started, str):
                return ResultVerdict.REFUSED, started
            storing = started
        # `wait` cancels nothing: several calls may wait for this visit, and one of them may be
        # cancelled.
        await asyncio.wait([storing])
        if storing.cancelled() or storing.exception() is not None:
            # The error ends the worker by itself; the fetcher only learns that nothing is certain.
            return ResultVerdict.UNKNOWN, "the worker stopped: call again"
        return ResultVerdict.TAKEN, ""

    def _verdict_of_closed(self, lease: str, holder: str) -> tuple[ResultVerdict, str]:
        """The verdict on a result whose lease has no row any more.

        Before its end only a result removes the row. So this one is a repetition.
        """
        partition, _, expires_ms, _ = lease.split("-")
        if lease != self._lending.lease_id(int(partition), _url_of(lease), int(expires_ms), holder):
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
        permits, has_permit = self._visit.permits, self._lending.holds(row.lease)
        # A lease from before a restart keeps no permit, and its capture counts like any other.
        if not has_permit and not permits.take_permit():
            return "the crawl may make no further capture now: call again later"
        # A host has one visit at a time, and its own visit may be in progress.
        if not claim_host(self._frontier, host):
            if not has_permit:
                permits.return_permit()
            return "the host is in a visit: call again"
        # Nothing awaits since the lease was found, so it is still open.
        slot = self._lending.end_lease(row.lease)
        visit = Visit(host, self._frontier, permits)
        visit.take_back(Lease(host, outside_entry(url[8:]), record), has_permit=True)
        visit.slot, visit.decision, visit.is_secure = slot, row.decision, record.secure
        visit.stated_by_robots = row.stated
        visit.request = self._visit.pages.request_of(visit.lease, row.address)
        task = self._worker.begin(self._store(visit, row, fetched, retry_after_s))
        self._storing[row.lease] = task
        task.add_done_callback(lambda _: self._storing.pop(row.lease, None))
        return task

    async def _store(
        self, visit: Visit, row: LeaseRow, fetched: Fetched, retry_after_s: float
    ) -> None:
        async with visit:
            pacing = self._visit.stages.pacing
            pacing.take_back(visit.host, row.busy_until)
            with pacing.rest_of(visit.host) as rest:
                rest(fetched, self._clock.monotonic(), self._clock.wall(), False)
                if retry_after_s >= 0:
                    rest.apply_retry_after(retry_after_s)
            pages, pipeline = self._visit.pages, self._visit.pipeline
            answered = pages.note_answer(visit, fetched, rest.is_asked, 0.0, is_lent=True)
            await pipeline.follow(visit, answered)
        partition, url, *_ = row.lease.split("-")
        for name in (row.lease, f"{partition}-{url}-{row.call}"):
            self._settled[name] = None
        while len(self._settled) > _REMEMBERED:
            del self._settled[next(iter(self._settled))]


def _url_of(lease: str) -> bytes:
    """The host8 and url8 in the id of a lease."""
    return bytes.fromhex(lease.split("-")[1])


def _problem_of(call: LeaseUrls) -> str:
    """Why a call cannot be carried out, in words; empty when it can."""
    if not 1 <= call.most <= MOST_LENT:
        return f"{call.most} URLs: ask for 1 to {MOST_LENT}"
    if not 1.0 <= call.lease_s <= LONGEST_LEASE_S:
        return f"a lease of {call.lease_s:g} s: give 1 to {LONGEST_LEASE_S:g} s"
    if not 1 <= len(call.holder) <= _MAX_HOLDER or not call.holder.isprintable():
        return f"the fetcher needs a printable name of at most {_MAX_HOLDER} characters"
    if not 1 <= len(call.call) <= _MAX_HOLDER:
        return f"the call needs an id of at most {_MAX_HOLDER} characters"
    return ""
