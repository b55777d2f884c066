"""The order of the stages: what happens to a host that is ready, and to the URL it gives.

    acquire -> budget -> robots -> names, guard, addresses -> fetch -> (host is released) -> parse
    -> dedup -> store -> schedule
            -> admit -> frontier

Nothing else knows this order, and the stages do not know each other: each is asked in turn and its
answer handed on as a value. From dedup on no commit is cut until all is done (``slicing``), so a
commit sees a capture, the end of its lease and its outlinks together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.attempts import Suspicion
from lycosa.config.sections import Config
from lycosa.frontier.crawl_clock import CrawlClock
from lycosa.frontier.lease import Lease
from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import VisitState
from lycosa.model.capture import RobotsDecision
from lycosa.model.completed import Completed, UrlState
from lycosa.model.fetched import MAX_SITEMAP_BYTES, Fetched, FetchKind, FetchRequest, Limits
from lycosa.ports import ResolveError
from lycosa.reasons import Reason
from lycosa.schedule.outcome import Meaning, Outcome, is_connection_failure, judge, wait_s
from lycosa.store.records import packed_file
from lycosa.urls.identity import InvalidUrl
from lycosa.worker.capturing import Body
from lycosa.worker.intake import MANY_LINKS
from lycosa.worker.pacing import Pacing
from lycosa.worker.parsing import Parsing
from lycosa.worker.reaching import Reaching
from lycosa.worker.robots import OriginState, robots_url
from lycosa.worker.robots_turns import RobotsTurns, is_dead, snooze
from lycosa.worker.stages import Stages

_HTML = frozenset({"text/html", "application/xhtml+xml"})


class Permits(Protocol):
    """Whether another capture may be made (``--max-pages``, ``--max-bytes``)."""

    def may_take(self) -> bool: ...
    def take(self) -> bool: ...
    def give_back(self) -> None: ...
    def used(self, body_bytes: int) -> None: ...


class Pipeline:
    """One per worker. ``visit`` takes a host that ``Frontier.acquire`` gave through one exchange
    and gives it back.
    """

    def __init__(
        self,
        stages: Stages,
        config: Config,
        clock: CrawlClock,
        pacing: Pacing,
        permits: Permits,
        suspicion: Callable[[str], Suspicion],
    ) -> None:
        self._stages = stages
        self._config = config
        self._clock = clock
        self.pacing = pacing
        self._permits = permits
        self._suspicion = suspicion
        self._reaching = Reaching(
            stages.frontier, stages.sender, stages.store, clock, config.politeness.address_delay_s
        )
        self._robots_turns = RobotsTurns(
            stages, self._reaching, config.retry, clock, pacing, suspicion
        )
        self.reparsing = stages.reparsing
        self.parsing = Parsing(stages.parser, config.fetch.open_bytes // 2)
        self.settled: list[str] = []  # URLs whose lease ended since the worker last took this list

    @property
    def may_start(self) -> bool:
        """Whether a visit could end in a capture, and the parser keeps up as far as memory asks
        for it.
        """
        return self.parsing.may_start and self._permits.may_take()

    async def finished(self) -> None:
        """Waits until no page is taken in by half: then a commit may be cut, before anything
        else is awaited.
        """
        await self._stages.slices.finished()

    @property
    def has_answer(self) -> bool:
        """Whether any host answered anything in this run."""
        return self._stages.sender.has_answer

    # -- one visit

    async def visit(self, visit: VisitState) -> None:
        """Robots.txt when it is needed, else the host's next URL that is allowed."""
        frontier, partition, errands = (
            self._stages.frontier,
            self._partition(visit),
            self._stages.errands,
        )
        if visit.record.questions:
            await errands.attend(visit)
        now = self._clock.monotonic()
        if visit.ready_time > now:  # by the Crawl-delay of a file that has just become known
            frontier.give_back(visit)
            return
        if errands.has_turn(visit, now):
            urls = await self._robots_turns.run_errand(visit)
            self.settled += urls
            frontier.give_back(visit)
            return
        visit.ran_errand = False
        found = await self._stages.leasing.next_lease(visit, self._end)
        if found is None:
            frontier.give_back(visit)
            return
        lease, state, decision = found
        if self._is_barred(visit, state, lease.record.secure):
            partition.restore(lease)
            frontier.give_back(visit)
            return
        addresses = await self._reach(visit, lease)
        if not addresses:
            return
        if decision is None:
            partition.restore(lease)
            self.settled += await self._robots_turns.fetch(visit, lease.record.secure, addresses[0])
            frontier.give_back(visit)
        else:
            await self._fetch_page(visit, lease, decision, addresses)

    async def next_urls(self, visit: VisitState) -> tuple[str, ...]:
        """What the host's visit may request now."""
        if self._stages.errands.has_turn(visit, self._clock.monotonic()):
            return tuple(errand.url for errand in visit.record.errands)
        return await self._stages.leasing.next_urls(visit)

    def _is_barred(self, visit: VisitState, state: OriginState, secure: bool) -> bool:
        """Whether the host cannot be visited because of the robots.txt of an origin: it waits
        for that, or is given up.
        """
        url, question = robots_url(visit.host, secure), self._stages.errands.question(visit, secure)
        if state.is_needed and question is not None:
            self._stages.errands.wait(visit, question)
        elif state.wait_until:
            self._snooze(visit, state.wait_until, Reason.ROBOTS_UNREACHABLE, state.detail)
        elif state.is_needed and self._suspicion(url) is Suspicion.HOPELESS:
            self._partition(visit).retire(
                visit, Reason.CRASHED_WORKER, "each time its robots.txt was fetched"
            )
        else:
            return False
        return True

    async def _reach(self, visit: VisitState, lease: Lease) -> Sequence[str]:
        """Addresses of the host, the slot of the first one taken; empty when the visit is over
        because there is none now.
        """
        partition, frontier = self._partition(visit), self._stages.frontier
        try:
            addresses = await self._reaching.addresses(visit)
        except ResolveError as error:
            partition.restore(lease)
            self._unresolved(visit, error)
            return ()
        except BaseException:
            partition.restore(lease)
            raise
        visit.record.dns_failures = 0
        if not addresses:
            partition.restore(lease)
            frontier.give_back(visit)
        return addresses

    def _unresolved(self, visit: VisitState, error: ResolveError) -> None:
        """A name without address concerns all URLs of its host: a short schedule of its own, then
        the host is given up. Unless no name has one just now: then it waits.
        """
        partition, retry = self._partition(visit), self._config.retry
        visit.record.dns_failures += not error.is_outage
        visit.record.last_error = error.reason
        if error.is_outage:
            self._snooze(
                visit,
                self._clock.time() + wait_s(0, retry),
                error.reason,
                f"{error}; nobody is answered, so it has to wait",
            )
        elif (
            error.reason is Reason.DNS_NO_SUCH_NAME or visit.record.dns_failures >= retry.dns_tries
        ):
            partition.retire(visit, error.reason, str(error))
        else:
            until = self._clock.time() + wait_s(visit.record.dns_failures - 1, retry)
            self._snooze(visit, until, error.reason, str(error))
        self._stages.frontier.give_back(visit)

    # -- pages

    async def _fetch_page(
        self, visit: VisitState, lease: Lease, decision: RobotsDecision, addresses: Sequence[str]
    ) -> None:
        frontier, partition, sender = (
            self._stages.frontier,
            self._partition(visit),
            self._stages.sender,
        )
        if not self._permits.take():
            partition.restore(lease)
            await sender.untake(addresses[0])
            frontier.give_back(visit)
            return
        rest, request = self.pacing.rest_of(visit), self._request(lease, addresses[0])
        try:
            fetched = await sender.send(request, rest, addresses[1:])
        except BaseException:
            partition.restore(lease)
            self._permits.give_back()
            visit.rest(rest.until, rest.time_until, self._clock.monotonic())
            frontier.give_back(visit)
            raise
        visit.rest(rest.until, rest.time_until, self._clock.monotonic())
        # it is for the shard's owner to fetch, us if we are
        if fetched.reason is Reason.LEASE_EXPIRED:
            partition.restore(lease)
            self._permits.give_back()
            frontier.give_back(visit)
            return
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
            limits, kind = (
                msgspec.structs.replace(
                    limits, body_bytes=max(limits.body_bytes, MAX_SITEMAP_BYTES)
                ),
                FetchKind.SITEMAP,
            )
        if self._suspicion(lease.url) is Suspicion.POISON:
            limits = _tightened(limits)
        is_unparsed = lease.visit.host8 + lease.entry.url8 in self._partition(lease.visit).unparsed
        # of a body without links an answer without a body is of no use
        if history is None or history.status != 200 or is_unparsed:
            return FetchRequest(lease.url, address, kind, limits=limits)
        return FetchRequest(lease.url, address, kind, history.etag, history.last_modified, limits)

    def _note_health(self, visit: VisitState, fetched: Fetched, is_asked: bool) -> None:
        """What an answer says about the host and not about its URL."""
        partition, record = self._partition(visit), visit.record
        record.last_error = fetched.reason
        if is_connection_failure(fetched.reason):
            if is_dead(visit, self._config.retry):
                partition.retire(
                    visit, fetched.reason, f"{record.failures} connections in a row failed"
                )
        elif fetched.status:
            record.failures = 0
            record.address = fetched.address or record.address
        if is_asked and visit.may_wait:
            self._snooze(
                visit,
                record.next_at,
                Reason.HTTP_TOO_MANY_REQUESTS,
                f"status {fetched.status}" if fetched.status else fetched.detail,
            )

    async def _examine(self, fetched: Fetched, *, is_sitemap: bool) -> Body:
        """Everything about a body that takes time."""
        capturing = self._stages.capturing
        if fetched.status != 200 or not fetched.body_bytes:
            return await capturing.examine(fetched, None)
        with self.parsing.counted(fetched):
            return await capturing.examine(
                fetched, await self.parsing.parse(fetched, is_sitemap=is_sitemap)
            )

    # -- what came of it: no commit is cut from here on, and nothing awaits but between the links of
    # a page that has very many

    def _settle(
        self, lease: Lease, fetched: Fetched, body: Body, decision: RobotsDecision
    ) -> Iterator[None]:
        """Ends the lease; gives the steps by which the page's links are to be taken in."""
        record, visit, parsed = lease.record, lease.visit, body.parsed
        conditional = record.history is not None and bool(
            record.history.etag or record.history.last_modified
        )
        outcome = judge(
            fetched, tries=record.tries, conditional=conditional, section=self._config.retry
        )
        target = self._redirect_target(fetched) if outcome.meaning is Meaning.REDIRECTED else ""
        if outcome.meaning is Meaning.REDIRECTED and not target:
            outcome = Outcome(Meaning.FAILED, Reason.BAD_REDIRECT)
        elif outcome.meaning is Meaning.REDIRECTED and record.hops >= self._config.scope.max_hops:
            outcome, target = Outcome(Meaning.FAILED, Reason.TOO_MANY_REDIRECTS), ""
        is_capture = fetched.status > 0 and outcome.meaning is not Meaning.RETRY
        is_page = fetched.status == 200 and parsed is not None and parsed.media_type in _HTML
        self._partition(visit).note_capture(
            visit,
            body_bytes=fetched.body_bytes,
            duration_s=fetched.duration_s,
            is_page=is_page,
            is_capture=is_capture,
        )
        self._stages.intake.note_usage(self._partition(visit), visit.host, fetched, is_capture)
        if not is_capture:
            self._permits.give_back()
            self._end(lease, self._without_capture(lease, fetched, outcome))
            _discard(fetched)
            return iter(())
        self._permits.used(fetched.body_bytes)
        self._end(
            lease, self._stages.capturing.capture(lease, fetched, body, decision, outcome, target)
        )
        if target:
            self._stages.intake.redirect(lease, target)
        elif parsed is not None and outcome.meaning is Meaning.FETCHED:
            return self._stages.intake.outlink_steps(lease, parsed)
        return iter(())

    def _without_capture(self, lease: Lease, fetched: Fetched, outcome: Outcome) -> Completed:
        detail = fetched.detail or (f"status {fetched.status}" if fetched.status else "")
        if outcome.meaning is Meaning.RETRY:
            due = int(self._clock.time() + outcome.wait_s) + 1
            return Completed(
                lease.visit.host8,
                lease.entry.url8,
                lease.number,
                UrlState.QUEUED,
                outcome.reason,
                detail,
                due,
            )
        return Completed(
            lease.visit.host8,
            lease.entry.url8,
            lease.number,
            UrlState.FAILED,
            outcome.reason,
            detail,
        )

    # -- small things

    def _partition(self, visit: VisitState) -> Partition:
        return self._stages.frontier.partitions[visit.partition]

    def _snooze(self, visit: VisitState, until: float, reason: Reason, detail: str) -> None:
        snooze(self._partition(visit), visit, until, (reason, detail), self._clock)

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
        limits,
        total_s=min(limits.total_s, 10.0),
        body_bytes=min(limits.body_bytes, 100_000),
        header_bytes=16_384,
    )
