"""The order of the stages: what happens to a host that is ready, and to the URL it gives.

    acquire -> budget -> robots -> names, guard, addresses -> fetch -> (host is released) -> parse -> dedup -> store -> schedule
            -> admit -> frontier

Nothing else knows this order, and the stages do not know each other: each is asked in turn and its answer handed on as a value.
From dedup on no commit is cut until all is done (``slicing``), so a commit sees a capture, the end of its lease and its outlinks
together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.attempts import Suspicion
from lycosa.capturing import Body, Capturing
from lycosa.config import Config
from lycosa.crawl_clock import CrawlClock
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.lease import Lease
from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import VisitState
from lycosa.intake import LINKS_AT_ONCE, MANY_LINKS, Intake
from lycosa.leasing import Leasing
from lycosa.model.capture import Capture, RobotsDecision
from lycosa.model.completed import Completed, UrlState
from lycosa.model.fetched import MAX_SITEMAP_BYTES, Fetched, FetchKind, FetchRequest, Limits
from lycosa.pacing import Pacing
from lycosa.parsing import Parsing
from lycosa.ports import Parser, ResolveError
from lycosa.reasons import Reason
from lycosa.reparsing import Reparsing
from lycosa.robots import OriginState, Robots, robots_url
from lycosa.schedule.outcome import Meaning, Outcome, is_connection_failure, judge, wait_s
from lycosa.sender import Sender
from lycosa.slicing import Slices
from lycosa.store.records import packed_file
from lycosa.store.segments import SegmentStore
from lycosa.url import InvalidUrl, name_of

_HTML = frozenset({"text/html", "application/xhtml+xml"})


class Permits(Protocol):
    """Whether another capture may be made (``--max-pages``, ``--max-bytes``)."""

    def may_take(self) -> bool: ...
    def take(self) -> bool: ...
    def give_back(self) -> None: ...
    def used(self, body_bytes: int) -> None: ...


class Stages(msgspec.Struct, frozen=True):
    """The stages of one worker, in the order in which they are asked."""

    frontier: Frontier
    robots: Robots
    leasing: Leasing
    sender: Sender
    parser: Parser
    capturing: Capturing
    store: SegmentStore
    intake: Intake
    reparsing: Reparsing
    slices: Slices


class Pipeline:
    """One per worker. ``visit`` takes a host that ``Frontier.acquire`` gave through one exchange and gives it back."""

    def __init__(
        self, stages: Stages, config: Config, clock: CrawlClock, pacing: Pacing, permits: Permits, suspicion: Callable[[str], Suspicion]
    ) -> None:
        self._stages = stages
        self._config = config
        self._clock = clock
        self._pacing = pacing
        self._permits = permits
        self._suspicion = suspicion
        self.reparsing = stages.reparsing
        self.parsing = Parsing(stages.parser, config.fetch.open_bytes // 2)
        self.settled: list[str] = []  # URLs whose lease ended since the worker last took this list

    @property
    def may_start(self) -> bool:
        """Whether a visit could end in a capture, and the parser keeps up as far as memory asks for it."""
        return self.parsing.may_start and self._permits.may_take()

    async def finished(self) -> None:
        """Waits until no page is taken in by half: then a commit may be cut, before anything else is awaited."""
        await self._stages.slices.finished()

    @property
    def has_answer(self) -> bool:
        """Whether any host answered anything in this run."""
        return self._stages.sender.has_answer

    # -- one visit ----------------------------------------------------------------------------------------------

    async def visit(self, visit: VisitState) -> None:
        """Robots.txt when it is needed, else the host's next URL that is allowed."""
        frontier, partition = self._stages.frontier, self._partition(visit)
        found = await self._stages.leasing.next_lease(visit, self._end)
        if found is None:
            frontier.give_back(visit)
            return
        lease, state, decision = found
        if self._is_barred(visit, state, robots_url(visit.host, lease.record.secure)):
            partition.restore(lease)
            frontier.give_back(visit)
            return
        addresses = await self._reach(visit, lease)
        if not addresses:
            return
        if decision is None:
            partition.restore(lease)
            await self._fetch_robots(visit, lease.record.secure, addresses[0])
        else:
            await self._fetch_page(visit, lease, decision, addresses)

    async def next_urls(self, visit: VisitState) -> tuple[str, ...]:
        """What the host's visit may request now."""
        return await self._stages.leasing.next_urls(visit)

    def _is_barred(self, visit: VisitState, state: OriginState, url: str) -> bool:
        """Whether the host cannot be visited because of its robots.txt, which stands at ``url``: it waits for that, or is given up."""
        if state.wait_until:
            self._snooze(visit, state.wait_until, Reason.ROBOTS_UNREACHABLE, state.detail)
        elif state.is_needed and self._suspicion(url) is Suspicion.HOPELESS:
            self._partition(visit).retire(visit, Reason.CRASHED_WORKER, "each time its robots.txt was fetched")
        else:
            return False
        return True

    async def _reach(self, visit: VisitState, lease: Lease) -> Sequence[str]:
        """Addresses of the host, the slot of the first one taken; empty when the visit is over because there is none now."""
        partition, frontier, sender = self._partition(visit), self._stages.frontier, self._stages.sender
        try:
            addresses = await sender.resolve(visit.host)
        except ResolveError as error:
            partition.restore(lease)
            self._unresolved(visit, error)
            return ()
        except BaseException:
            partition.restore(lease)
            raise
        visit.record.dns_failures = 0
        # The address that answered last time is kept while it is among the host's, so that a host is one entry of one group.
        if visit.record.address in addresses:
            addresses = [visit.record.address, *(a for a in addresses if a != visit.record.address)]
        elif name_of(visit.host) not in addresses:
            # Once per host, and again when it moved: what its name stood for is part of the record.
            self._stages.store.append_dns(name_of(visit.host), addresses, self._clock.wall())
        visit.record.address = addresses[0]
        frontier.workbench.rejoin(visit, addresses[0])
        wait = sender.take(addresses[0])
        if wait <= 0:
            frontier.workbench.postpone(addresses[0], self._clock.monotonic() + self._config.politeness.address_delay_s)
            return addresses
        partition.restore(lease)
        until = self._clock.monotonic() + wait
        frontier.workbench.postpone(addresses[0], until)
        # The host's own time too: a group that it leaves empty forgets the address's.
        visit.next_time = max(visit.next_time, until)
        frontier.give_back(visit)
        return ()

    def _unresolved(self, visit: VisitState, error: ResolveError) -> None:
        """A name without address concerns all URLs of its host: a short schedule of its own, then the host is given up.
        Unless no name has one just now: then it waits."""
        partition, retry = self._partition(visit), self._config.retry
        visit.record.dns_failures += not error.is_outage
        visit.record.last_error = error.reason
        if error.is_outage:
            self._snooze(visit, self._clock.time() + wait_s(0, retry), error.reason, f"{error}; nobody is answered, so it has to wait")
        elif error.reason is Reason.DNS_NO_SUCH_NAME or visit.record.dns_failures >= retry.dns_tries:
            partition.retire(visit, error.reason, str(error))
        else:
            until = self._clock.time() + wait_s(visit.record.dns_failures - 1, retry)
            self._snooze(visit, until, error.reason, str(error))
        self._stages.frontier.give_back(visit)

    # -- robots.txt ---------------------------------------------------------------------------------------------

    async def _fetch_robots(self, visit: VisitState, secure: bool, address: str) -> None:
        frontier, partition, robots = self._stages.frontier, self._partition(visit), self._stages.robots
        rest = self._pacing.rest_of(visit)
        try:
            captures = await robots.fetch(partition, visit, secure, address, rest)
        finally:
            self._release(visit, rest.until, rest.time_until)
        state = await robots.ready_state(partition, visit, secure, self._clock.time())
        url = robots_url(visit.host, secure)
        start = partial(self._settle_robots, visit, url, captures, state.sitemaps)
        if len(state.sitemaps) > LINKS_AT_ONCE:
            await self._stages.slices.run(url, start)
        else:
            self._stages.slices.run_at_once(url, start)
        error = visit.record.last_error
        if error is Reason.ADDRESS_FORBIDDEN and not captures:
            # Ours to change, not the server's: waiting would not help.
            robots.forget(partition, visit, secure)
            partition.retire(visit, error, f"{address}; --allow-address {address} would allow it")
        elif is_connection_failure(error) and not captures and self._is_dead(visit):
            if state.wait_until:
                robots.forget(partition, visit, secure)  # a host that is reopened is asked at once
            partition.retire(visit, error, state.detail)
        elif state.wait_until:
            self._snooze(visit, state.wait_until, Reason.ROBOTS_UNREACHABLE, state.detail)
        if captures:
            visit.record.failures = 0
        frontier.give_back(visit)

    def _settle_robots(self, visit: VisitState, url: str, captures: list[Capture], sitemaps: Sequence[str]) -> Iterator[None]:
        """Stores the responses; gives the steps by which the sitemaps that the file names are to be taken in."""
        self.settled.append(url)
        for capture in captures:
            self._stages.store.append(msgspec.structs.replace(capture, site=self._stages.intake.site_of(capture.host)))
        return self._stages.intake.sitemap_steps(visit, sitemaps, url)

    def _is_dead(self, visit: VisitState) -> bool:
        """Counts a failed connection; whether the host is given up by that."""
        visit.record.failures += 1
        return visit.record.failures >= self._config.retry.host_failures

    # -- pages --------------------------------------------------------------------------------------------------

    async def _fetch_page(self, visit: VisitState, lease: Lease, decision: RobotsDecision, addresses: Sequence[str]) -> None:
        frontier, partition, sender = self._stages.frontier, self._partition(visit), self._stages.sender
        if not self._permits.take():
            partition.restore(lease)
            sender.untake(addresses[0])
            frontier.give_back(visit)
            return
        rest, request = self._pacing.rest_of(visit), self._request(lease, addresses[0])
        try:
            fetched = await sender.send(request, rest, addresses[1:])
        except BaseException:
            partition.restore(lease)
            self._permits.give_back()
            self._release(visit, rest.until, rest.time_until)
            frontier.give_back(visit)
            raise
        self._release(visit, rest.until, rest.time_until)
        self._note_health(visit, fetched, rest.is_asked)
        frontier.give_back(visit)
        body = await self._examine(fetched, is_sitemap=request.kind is FetchKind.SITEMAP)
        start = partial(self._settle, lease, fetched, body, decision)
        if body.parsed is not None and len(body.parsed.links) > MANY_LINKS:
            await self._stages.slices.run(lease.url, start)
        else:
            self._stages.slices.run_at_once(lease.url, start)

    def _request(self, lease: Lease, address: str) -> FetchRequest:
        history = lease.record.history
        limits, kind = self._stages.sender.limits, FetchKind.PAGE
        if self._stages.intake.is_sitemap(lease):
            limits, kind = msgspec.structs.replace(limits, body_bytes=max(limits.body_bytes, MAX_SITEMAP_BYTES)), FetchKind.SITEMAP
        if self._suspicion(lease.url) is Suspicion.POISON:
            limits = _tightened(limits)
        is_unparsed = lease.visit.host8 + lease.entry.url8 in self._partition(lease.visit).unparsed
        if history is None or history.status != 200 or is_unparsed:  # of a body without links an answer without a body is of no use
            return FetchRequest(lease.url, address, kind, limits=limits)
        return FetchRequest(lease.url, address, kind, history.etag, history.last_modified, limits)

    def _note_health(self, visit: VisitState, fetched: Fetched, is_asked: bool) -> None:
        """What an answer says about the host and not about its URL."""
        partition, record = self._partition(visit), visit.record
        record.last_error = fetched.reason
        if is_connection_failure(fetched.reason):
            if self._is_dead(visit):
                partition.retire(visit, fetched.reason, f"{record.failures} connections in a row failed")
        elif fetched.status:
            record.failures = 0
            record.address = fetched.address or record.address
        if is_asked and visit.may_wait:
            self._snooze(
                visit, record.next_at, Reason.HTTP_TOO_MANY_REQUESTS, f"status {fetched.status}" if fetched.status else fetched.detail
            )

    async def _examine(self, fetched: Fetched, *, is_sitemap: bool) -> Body:
        """Everything about a body that takes time."""
        capturing = self._stages.capturing
        if fetched.status != 200 or not fetched.body_bytes:
            return await capturing.examine(fetched, None)
        with self.parsing.counted(fetched):
            return await capturing.examine(fetched, await self.parsing.parse(fetched, is_sitemap=is_sitemap))

    # -- what came of it: no commit is cut from here on, and nothing awaits but between the links of a page that has very many ----------

    def _settle(self, lease: Lease, fetched: Fetched, body: Body, decision: RobotsDecision) -> Iterator[None]:
        """Ends the lease; gives the steps by which the page's links are to be taken in."""
        record, visit, parsed = lease.record, lease.visit, body.parsed
        conditional = record.history is not None and bool(record.history.etag or record.history.last_modified)
        outcome = judge(fetched, tries=record.tries, conditional=conditional, section=self._config.retry)
        target = self._redirect_target(fetched) if outcome.meaning is Meaning.REDIRECTED else ""
        if outcome.meaning is Meaning.REDIRECTED and not target:
            outcome = Outcome(Meaning.FAILED, Reason.BAD_REDIRECT)
        elif outcome.meaning is Meaning.REDIRECTED and record.hops >= self._config.scope.max_hops:
            outcome, target = Outcome(Meaning.FAILED, Reason.TOO_MANY_REDIRECTS), ""
        is_capture = fetched.status > 0 and outcome.meaning is not Meaning.RETRY
        is_page = fetched.status == 200 and parsed is not None and parsed.media_type in _HTML
        self._partition(visit).note_capture(
            visit, body_bytes=fetched.body_bytes, duration_s=fetched.duration_s, is_page=is_page, is_capture=is_capture
        )
        self._stages.intake.note_usage(self._partition(visit), visit.host, fetched, is_capture)
        if not is_capture:
            self._permits.give_back()
            self._end(lease, self._without_capture(lease, fetched, outcome))
            _discard(fetched)
            return iter(())
        self._permits.used(fetched.body_bytes)
        self._end(lease, self._stages.capturing.capture(lease, fetched, body, decision, outcome, target))
        if target:
            self._stages.intake.redirect(lease, target)
        elif parsed is not None and outcome.meaning is Meaning.FETCHED:
            return self._stages.intake.outlink_steps(lease, parsed)
        return iter(())

    def _without_capture(self, lease: Lease, fetched: Fetched, outcome: Outcome) -> Completed:
        detail = fetched.detail or (f"status {fetched.status}" if fetched.status else "")
        if outcome.meaning is Meaning.RETRY:
            due = int(self._clock.time() + outcome.wait_s) + 1
            return Completed(lease.visit.host8, lease.entry.url8, lease.number, UrlState.QUEUED, outcome.reason, detail, due)
        return Completed(lease.visit.host8, lease.entry.url8, lease.number, UrlState.FAILED, outcome.reason, detail)

    # -- small things -------------------------------------------------------------------------------------------

    def _partition(self, visit: VisitState) -> Partition:
        return self._stages.frontier.partitions[visit.partition]

    def _release(self, visit: VisitState, until: float, time_until: float) -> None:
        visit.next_time, visit.record.next_at = until, time_until

    def _snooze(self, visit: VisitState, until: float, reason: Reason, detail: str) -> None:
        self._partition(visit).snooze(visit, until, reason, detail)
        visit.next_time = max(visit.next_time, self._clock.monotonic() + until - self._clock.time())

    def _end(self, lease: Lease, done: Completed) -> None:
        self._partition(lease.visit).complete(lease, done)
        self.settled.append(lease.url)

    def _redirect_target(self, fetched: Fetched) -> str:
        try:
            return self._stages.intake.canonical(fetched.location, fetched.url)
        except InvalidUrl:
            return ""


def _discard(fetched: Fetched) -> None:
    """A body that went to disk and is not stored."""
    if fetched.spool:
        Path(fetched.spool).unlink(missing_ok=True)
        packed_file(fetched.spool).unlink(missing_ok=True)


def _tightened(limits: Limits) -> Limits:
    """For a URL that was in flight when the worker died, twice."""
    return msgspec.structs.replace(
        limits, total_s=min(limits.total_s, 10.0), body_bytes=min(limits.body_bytes, 100_000), header_bytes=16_384
    )
