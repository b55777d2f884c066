"""The order of the stages: what happens to a host that is ready, and to the URL it gives.

    acquire -> budgets -> robots.txt -> name, guard, address -> permit -> fetch
            -> (host is given back) -> parse -> dedup -> store -> schedule -> admit -> frontier

What is decided on the way is ``schedule.visit``'s, a pure function from what happened to the next
step. Here the steps are performed: each asks one stage, and tells what came of it. Nothing else
knows this order, and the stages do not know each other. What a visit holds is ``worker.visit``'s.

From dedup on no commit is cut until all is done (``slicing``), so a commit sees a capture, the end
of its lease and its outlinks together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import assert_never

from lycosa.attempts import Suspicion
from lycosa.config.sections import Config
from lycosa.frontier.crawl_clock import CrawlClock
from lycosa.frontier.lease import Lease
from lycosa.frontier.visit_state import VisitState
from lycosa.model.completed import Completed
from lycosa.model.fetched import Fetched, FetchKind
from lycosa.schedule.outcome import REDIRECTS, Meaning
from lycosa.schedule.steps import (
    Act,
    AskPermit,
    AttendQuestions,
    AwaitAnswer,
    BodyExamined,
    EndUrl,
    Event,
    FindAddress,
    FindErrand,
    GiveBack,
    HostSetAside,
    JudgeBudgets,
    JudgeRobots,
    Park,
    PermitAsked,
    Postpone,
    Purpose,
    ReadRobots,
    RefuseErrand,
    RejectAnswer,
    Retire,
    SendRequest,
    Snooze,
    StoreCapture,
    TakeIn,
    TakeUrl,
    TurnBegan,
    TurnOver,
    UrlPassed,
    VisitRules,
)
from lycosa.schedule.visit import decide
from lycosa.store.records import packed_file
from lycosa.urls.identity import InvalidUrl
from lycosa.worker.hosts import set_aside
from lycosa.worker.intake import MANY_LINKS
from lycosa.worker.pacing import Pacing
from lycosa.worker.page_turns import PageTurns
from lycosa.worker.parsing import Parsing
from lycosa.worker.permits import Permits
from lycosa.worker.reaching import Reaching
from lycosa.worker.robots_turns import RobotsTurns
from lycosa.worker.stages import Stages
from lycosa.worker.visit import Visit

_HTML = frozenset({"text/html", "application/xhtml+xml"})


class Pipeline:
    """One per worker. Takes each host that ``Frontier.acquire`` gave through one exchange."""

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
        self._rules = VisitRules(config.retry, config.budgets, config.scope.max_hops)
        self._clock = clock
        self.pacing = pacing
        self._permits = permits
        delay_s = config.politeness.address_delay_s
        self._reaching = Reaching(stages.frontier, stages.sender, stages.store, clock, delay_s)
        self._pages = PageTurns(stages, pacing, suspicion)
        self._robots = RobotsTurns(stages, clock, pacing, suspicion, self._note_settled)
        self.reparsing = stages.reparsing
        self.parsing = Parsing(stages.parser, config.fetch.open_bytes // 2)
        self.settled: list[str] = []
        """URLs whose lease ended since the worker last took this list."""

    @property
    def may_start(self) -> bool:
        """Whether a visit could end in a capture, and the parser keeps up as far as memory asks for
        it."""
        return self.parsing.may_start and self._permits.may_take()

    async def finished(self) -> None:
        """Waits until no page is taken in by half: then a commit may be cut, before anything else
        is awaited.
        """
        await self._stages.slices.finished()

    @property
    def has_answer(self) -> bool:
        """Whether any host answered anything in this run."""
        return self._stages.sender.has_answer

    async def next_urls(self, host: VisitState) -> tuple[str, ...]:
        """What the host's visit may request now."""
        if host.has_errands_turn(self._clock.monotonic()):
            return tuple(errand.url for errand in host.record.errands)
        return await self._stages.leasing.next_urls(host)

    # -- the visit

    def hold(self, host: VisitState) -> Visit:
        """A visit of the host, for an ``async with`` block that gives it back."""
        return Visit(host, self._stages.frontier, self._permits)

    async def run(self, visit: Visit) -> None:
        """The steps of a visit, one after another."""
        event: Event = self._turn(visit.host, bool(visit.host.record.questions))
        while True:
            step = decide(event, self._rules, self._clock.time())
            await visit.keep(step.keeps)
            if isinstance(step, GiveBack):
                return
            event = await self._perform(visit, step)

    def _turn(self, host: VisitState, has_questions: bool) -> TurnBegan:
        now = self._clock.monotonic()
        return TurnBegan(host.ready_time - now, has_questions, host.has_errands_turn(now))

    async def _perform(self, visit: Visit, step: Act) -> Event:
        """One step; gives what came of it."""
        host, stages = visit.host, self._stages
        match step:
            case TakeUrl():
                host.ran_errand = False
                return await stages.leasing.take_url(visit)
            case JudgeBudgets():
                return stages.leasing.judge_budgets(visit)
            case JudgeRobots():
                return stages.leasing.judge_robots(visit)
            case FindAddress():
                return await self._reaching.find_address(visit, step.purpose)
            case AskPermit():
                return PermitAsked(visit.take_permit())
            case SendRequest(purpose=Purpose.PAGE):
                return await self._pages.fetch(visit)
            case SendRequest(purpose=Purpose.ROBOTS):
                return await self._robots.fetch(visit)
            case SendRequest():
                return await self._robots.run_errand(visit)
            case TakeIn():
                return await self._examine(visit)
            case StoreCapture() | RejectAnswer():
                return await self._settle(visit, step)
            case EndUrl():
                self._end(visit, _completed(visit.lease, step))
                if step.gives_way:
                    await self._clock.sleep(0)
                return UrlPassed(visit.passed)
            case ReadRobots():
                await stages.leasing.read_robots(visit)
                return UrlPassed(visit.passed)
            case AttendQuestions():
                await stages.errands.attend(host)
                return self._turn(host, has_questions=False)
            case FindErrand():
                return await self._robots.find_errand(visit)
            case RefuseErrand() | AwaitAnswer() | Park() | Snooze() | Retire() | Postpone():
                self._set_aside(visit, step)
                return HostSetAside(visit.answer is not None)
            case _:
                assert_never(step)

    def _set_aside(
        self,
        visit: Visit,
        step: RefuseErrand | AwaitAnswer | Park | Snooze | Retire | Postpone,
    ) -> None:
        """Nothing more is requested in this turn of the host."""
        host, errands = visit.host, self._stages.errands
        if isinstance(step, RefuseErrand):
            self._robots.refuse_errand(visit, step)
        elif isinstance(step, AwaitAnswer):
            question = errands.question(host, visit.is_secure)
            assert question is not None
            errands.wait(host, question)
        else:
            if isinstance(step, Retire) and step.forgets_robots:
                self._robots.forget(visit)
            set_aside(host, step, self._stages.frontier, self._clock)

    # -- what came of a page: the host is not needed any more

    async def _examine(self, visit: Visit) -> BodyExamined:
        """Everything about a body that takes time."""
        fetched, request, capturing = visit.answer, visit.request, self._stages.capturing
        assert fetched is not None and request is not None
        if fetched.status != 200 or not fetched.body_bytes:
            visit.body = await capturing.examine(fetched, None)
        else:
            is_sitemap = request.kind is FetchKind.SITEMAP
            with self.parsing.counted(fetched):
                parsed = await self.parsing.parse(fetched, is_sitemap=is_sitemap)
                visit.body = await capturing.examine(fetched, parsed)
        record = visit.lease.record
        old = record.history
        is_conditional = old is not None and bool(old.etag or old.last_modified)
        target = self._redirect_target(fetched)
        return BodyExamined(fetched, target, record.hops, record.tries, is_conditional)

    def _redirect_target(self, fetched: Fetched) -> str:
        if fetched.status not in REDIRECTS or not fetched.location:
            return ""
        try:
            return self._stages.intake.canonical(fetched.location, fetched.url)
        except InvalidUrl:
            return ""

    async def _settle(self, visit: Visit, step: StoreCapture | RejectAnswer) -> TurnOver:
        """From here on no commit is cut, and nothing awaits but between the links of a page that
        has very many.
        """
        slices, url, start = (
            self._stages.slices,
            visit.lease.url,
            partial(self._end_page, visit, step),
        )
        parsed = visit.body.parsed if visit.body is not None else None
        if parsed is not None and len(parsed.links) > MANY_LINKS:
            await slices.run(url, start)
        else:
            slices.run_at_once(url, start)
        return TurnOver()

    def _end_page(self, visit: Visit, step: StoreCapture | RejectAnswer) -> Iterator[None]:
        """Ends the lease; gives the steps by which the page's links are to be taken in."""
        lease, fetched, body, intake = visit.lease, visit.answer, visit.body, self._stages.intake
        assert fetched is not None and body is not None and visit.decision is not None
        parsed, is_capture = body.parsed, isinstance(step, StoreCapture)
        visit.partition.note_capture(
            visit.host,
            body_bytes=fetched.body_bytes,
            duration_s=fetched.duration_s,
            is_page=fetched.status == 200 and parsed is not None and parsed.media_type in _HTML,
            is_capture=is_capture,
        )
        intake.note_usage(visit.partition, visit.host.host, fetched, is_capture)
        if isinstance(step, RejectAnswer):
            self._end(visit, _completed(lease, step, step.due))
            _discard(fetched)
            return iter(())
        visit.use_permit(fetched.body_bytes)
        capture = self._stages.capturing.capture
        self._end(visit, capture(lease, fetched, body, visit.decision, step.outcome, step.target))
        if step.target:
            intake.redirect(lease, step.target)
        elif parsed is not None and step.outcome.meaning is Meaning.FETCHED:
            return intake.outlink_steps(lease, parsed)
        return iter(())

    def _end(self, visit: Visit, done: Completed) -> None:
        self.settled.append(visit.end_lease(done))

    def _note_settled(self, url: str) -> None:
        self.settled.append(url)


def _completed(lease: Lease, step: EndUrl | RejectAnswer, due: int = 0) -> Completed:
    """The end of a lease without a capture."""
    host8, url8 = lease.visit.host8, lease.entry.url8
    return Completed(host8, url8, lease.number, step.state, step.reason, step.detail, due)


def _discard(fetched: Fetched) -> None:
    """A body that went to disk and is not stored."""
    if fetched.spool:
        Path(fetched.spool).unlink(missing_ok=True)
        packed_file(fetched.spool).unlink(missing_ok=True)
