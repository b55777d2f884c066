"""The stages of a visit and their order.

    acquire -> budgets -> robots.txt -> DNS lookup -> address slot -> permit -> fetch
            -> (host released) -> parse -> dedup -> store -> schedule -> admit -> frontier

``schedule.visit_decisions.decide`` decides: it is a pure function from the last event to the next
step. The pipeline performs the step with one stage and reports the result as the next event. Only
this module knows which stage performs which step; the stages do not know each other.
``visit.visit_in_progress`` keeps what a visit holds.

Sinks of the user that are called elsewhere get a page before it is stored, and are waited for.
From dedup on no commit is cut until the page is stored completely (``slicing``). So a commit
contains a capture, the end of its lease and its outlinks together, or none of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.code_failure import CodeFailure
from lycosa.base.model.dead_letter import DeadLetter
from lycosa.base.model.fetched import PARSED_STATUSES, Fetched, FetchKind
from lycosa.base.model.host_memory import ValidatorFinding
from lycosa.base.model.remark import Remark
from lycosa.base.model.url_state import Completed, UrlState
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.taking_hosts import withdraw_host
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.schedule.fetch_outcome import REDIRECTS, Meaning
from lycosa.stages.schedule.render_choice import RenderChoice
from lycosa.stages.schedule.steps import (
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
    VisitStep,
)
from lycosa.stages.schedule.validator_trust import Conditions, is_answer_to
from lycosa.stages.schedule.visit_decisions import decide
from lycosa.state.store.warc_records import packed_file
from lycosa.worker.extensions import Extensions, called_sinks
from lycosa.worker.intake.intake import MANY_LINKS
from lycosa.worker.intake.render_queue import RenderQueue, loads_of
from lycosa.worker.visit.address_finder import AddressFinder
from lycosa.worker.visit.capture_builder import CaptureBuilder
from lycosa.worker.visit.errands import Errands
from lycosa.worker.visit.examined_body import BodyExaminer, ExaminedBody
from lycosa.worker.visit.key_files import KeyFiles
from lycosa.worker.visit.leasing import Leasing
from lycosa.worker.visit.lending import Lending
from lycosa.worker.visit.page_code import PageCode
from lycosa.worker.visit.page_preferences import page_preferences
from lycosa.worker.visit.page_requests import PageTurns
from lycosa.worker.visit.parser_queue import ParserQueue
from lycosa.worker.visit.permits import Permits
from lycosa.worker.visit.robots_requests import RobotsTurns
from lycosa.worker.visit.set_aside import set_aside
from lycosa.worker.visit.tdm_files import TdmFiles
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.worker_stages import Stages

_LEFT_S = 1.0  # until a host whose page was left to outside fetchers has its turn again
_HTML = frozenset({"text/html", "application/xhtml+xml"})


class VisitSteps(msgspec.Struct, frozen=True):
    """The parts that perform the steps of visits."""

    leasing: Leasing
    errands: Errands
    addresses: AddressFinder
    robots: RobotsTurns
    pages: PageTurns
    parsing: ParserQueue
    examining: BodyExaminer
    capturing: CaptureBuilder
    keys: KeyFiles
    tdm_files: TdmFiles | None = None
    renders: RenderQueue | None = None


class Pipeline:
    """Takes hosts from ``Frontier.acquire`` through one exchange each; one per worker."""

    def __init__(
        self,
        config: Config,
        stages: Stages,
        steps: VisitSteps,
        lending: Lending,
        permits: Permits,
        extensions: Extensions,
        code: PageCode,
    ) -> None:
        self._extensions, self._code = extensions, code
        self._stages, self._lending, self._permits = stages, lending, permits
        self._rules = VisitRules(config.retry, config.budgets, config.scope.max_hops)
        self._clock, self._product = stages.clock, config.agent.product
        self._leasing, self._errands = steps.leasing, steps.errands
        self._robots, self._pages, self._capturing = steps.robots, steps.pages, steps.capturing
        self._examining = steps.examining
        self.parsing, self._tdm_files = steps.parsing, steps.tdm_files
        self._renders = steps.renders
        leasing = steps.leasing
        self._acts: dict[type[VisitStep], Callable[[Visit, Any], Awaitable[Event]]] = {
            AttendQuestions: self._attend,
            FindErrand: self._robots.find_errand,
            TakeUrl: leasing.take_url,
            JudgeBudgets: leasing.judge_budgets,
            JudgeRobots: leasing.judge_robots,
            ReadRobots: leasing.read_robots,
            EndUrl: self._end_url,
            FindAddress: steps.addresses.find_address,
            AskPermit: self._ask_permit,
            SendRequest: self._send,
            TakeIn: self._examine,
            StoreCapture: self._store,
            RejectAnswer: self._reject,
            RefuseErrand: self._robots.refuse_errand,
            AwaitAnswer: self._await_answer,
            **dict.fromkeys((Park, Snooze, Retire, Postpone), self._set_aside),
        }
        """The function that performs each step, in the order of the stages."""
        self.fetches_pages = config.fetch.own_pages
        """Whether pages are requested here; otherwise only outside fetchers do."""

    @property
    def may_start(self) -> bool:
        """Whether a new visit may start.

        The parser must keep up, within its memory, and a permit for a capture must be available,
        unless pages wait for what they need. If only outside fetchers request pages, one of them
        must have asked.
        """
        is_wanted = self.fetches_pages or bool(self._lending.demands)
        if not (is_wanted and self.parsing.may_start):
            return False
        has_permits = self._permits.may_take()
        self._leasing.takes_wanted_only = not has_permits
        return has_permits or self._has_demands()

    def _has_demands(self) -> bool:
        """Whether pages wait for URLs, which need no permit."""
        partitions = self._stages.frontier.partitions.values()
        return any(partition.demands.rows for partition in partitions)

    @property
    def has_answer(self) -> bool:
        """Whether any host sent a response in this run."""
        return self._stages.sender.has_answer

    def outage_text(self, now: float) -> str:
        """What the crawl waits for in an outage of this machine's network; else empty."""
        return self._stages.sender.outage_text(now)

    async def next_urls(self, host: VisitState) -> tuple[str, ...]:
        """The URLs that a visit of the host may request now."""
        if host.has_errands_turn(self._clock.monotonic()):
            return tuple(errand.url for errand in host.record.errands)
        return await self._leasing.next_urls(host)

    # -- the visit

    def hold(self, host: VisitState) -> Visit:
        """A visit of the host, for an ``async with`` block that releases what the visit holds."""
        return Visit(host, self._stages.frontier, self._permits)

    async def run(self, visit: Visit) -> None:
        """Perform the steps of a visit, one after another, until it is over."""
        host = visit.host
        if host.open_requests and not self._pages.may_join(host):
            visit.await_end()
            return
        await self.follow(visit, self._turn(host, bool(host.record.questions)))

    async def follow(self, visit: Visit, event: Event) -> None:
        """Perform the steps that follow from an event, until the visit is over."""
        while True:
            step = decide(event, self._rules, self._clock.time())
            # Release before the step, so that a long step such as parsing holds neither the host
            # nor its address. The slot is separate because its release awaits: other processes may
            # share the table of addresses.
            if visit.slot is not None and not step.keeps.slot:
                await visit.give_back_slot()
            visit.keep(step.keeps)
            if type(step) is GiveBack:
                return
            event = await self._acts[type(step)](visit, step)

    def _turn(self, host: VisitState, has_questions: bool) -> TurnBegan:
        now = self._clock.monotonic()
        return TurnBegan(host.ready_time - now, has_questions, host.has_errands_turn(now))

    async def _attend(self, visit: Visit, step: AttendQuestions) -> TurnBegan:
        await self._errands.take_in_answer(visit.host)
        return self._turn(visit.host, has_questions=False)

    async def _end_url(self, visit: Visit, step: EndUrl) -> UrlPassed:
        self._end(visit, _completed(visit.lease, step))
        if step.gives_way:
            # A host may have many URLs that need no request, and all would be judged in one turn of
            # the loop.
            await self._clock.sleep(0)
        return UrlPassed(visit.passed)

    async def _ask_permit(self, visit: Visit, step: AskPermit) -> PermitAsked:
        return PermitAsked(visit.take_permit())

    async def _send(self, visit: Visit, step: SendRequest) -> Event:
        host = visit.host
        if host.open_requests and not self._pages.may_join(host):
            visit.await_end()
            return TurnOver()
        if step.purpose is Purpose.PAGE:
            # Here, because a URL that is lent has passed all decisions that one of ours has.
            if self._lending.demands and self._lending.lend(visit):
                return TurnOver()
            if not self.fetches_pages:
                # Outside fetchers do, and none has asked for this host's partition just now.
                host.postpone(self._clock.monotonic() + _LEFT_S)
                return TurnOver()
            return await self._pages.fetch(visit)
        if step.purpose is Purpose.ROBOTS:
            return await self._robots.fetch_robots(visit)
        if step.purpose is Purpose.TDM_FILE:
            return await self._robots.fetch_tdm_file(visit)
        if step.purpose is Purpose.MISSING:
            return await self._robots.fetch_missing_path(visit)
        return await self._robots.run_errand(visit)

    async def _set_aside(
        self, visit: Visit, step: Park | Snooze | Retire | Postpone
    ) -> HostSetAside:
        if isinstance(step, Retire) and step.forgets_robots:
            self._robots.forget(visit)
        set_aside(visit.host, step, self._stages.frontier, self._clock)
        if not (visit.has_host or visit.host.may_be_visited):
            withdraw_host(self._stages.frontier, visit.host)
        has_answer = isinstance(step, Snooze | Retire) and step.has_answer
        if visit.answer is not None and not has_answer:
            # The URL was requested, and stays queued because nothing was learned about it.
            self._count_answer(visit, is_capture=False)
            visit.host.record.errors += 1
            self._stages.ended.settled.append(visit.answer.url)
        return HostSetAside(has_answer)

    async def _await_answer(self, visit: Visit, step: AwaitAnswer) -> HostSetAside:
        question = self._errands.open_question(visit.host, visit.is_secure)
        assert question is not None
        self._errands.wait_for_answer(visit.host, question)
        return HostSetAside(False)

    # -- the answer for a page: the host is not needed any more

    async def _examine(self, visit: Visit, step: TakeIn) -> BodyExamined:
        """Perform the slow work on a body: parse it, and look up whether its content is known."""
        fetched, request, examining = visit.answer, visit.request, self._examining
        assert fetched is not None and request is not None
        if self._tdm_files is not None:
            partition, host, record = visit.partition, visit.host, visit.lease.record
            visit.stated = self._tdm_files.statement(partition, host, record.secure, record.target)
        if fetched.status not in PARSED_STATUSES or not fetched.body_bytes:
            visit.body = await examining.examine(fetched, None, request)
        else:
            # A sitemap is parsed by its role: servers send them with any media type.
            is_sitemap = request.kind is FetchKind.SITEMAP
            with self.parsing.counted(fetched):
                parsed = await self.parsing.parse_body(fetched, is_sitemap=is_sitemap)
                visit.body = await examining.examine(fetched, parsed, request)
        record, target = visit.lease.record, self._redirect_target(fetched)
        is_asked, is_mismatch = bool(request.etag or request.last_modified), False
        if fetched.status == 304:
            sent = Conditions(request.etag, request.last_modified)
            is_answer = is_answer_to(sent, fetched.header("etag"))
            is_mismatch = is_asked and not is_answer
            if not is_answer:
                unasked = ValidatorFinding.UNASKED
                visit.partition.note_validators(visit.host, unasked, has_tag=False)
        return BodyExamined(fetched, target, record.hops, record.tries, is_asked, is_mismatch)

    def _redirect_target(self, fetched: Fetched) -> str:
        if fetched.status not in REDIRECTS or not fetched.location:
            return ""
        try:
            return self._stages.intake.canonical(fetched.location, fetched.url)
        except InvalidUrl:
            # The answer is stored as it is; a target that is no URL leads nowhere.
            return ""

    # From here to the end of the page no commit is cut. Nothing awaits, except between slices of
    # a page that has very many links.

    async def _store(self, visit: Visit, step: StoreCapture) -> TurnOver:
        if self._extensions.pages:
            await self._give_page(visit, step)
        if self._code.caller.codes:
            await self._ask_code(visit, step)
        parsed = visit.body.parsed if visit.body is not None else None
        is_long = parsed is not None and len(parsed.links) > MANY_LINKS
        start = partial(self._capture, visit, step)
        await self._stages.slices.take(visit.lease.url, start, is_long)
        return TurnOver()

    def _capture(self, visit: Visit, step: StoreCapture) -> Iterator[None]:
        """Store the answer; return the steps that take in the page's links."""
        lease, body = visit.lease, visit.body
        assert body is not None and visit.decision is not None and visit.answer is not None
        stated = self._stated(visit, visit.answer, body, step)
        if body.generation:
            body = visit.body = self._code.in_force(body, lease.url)
        if self._extensions.sinks:
            page = self._capturing.page_of_visit(lease, visit.answer, body, visit.decision, stated)
            failed = called_sinks(self._extensions.sinks, page)
            if failed:
                body = visit.body = _remarked(body, self._extensions.failures.note_all(failed))
        fetched = self._count_answer(visit, is_capture=True, stated=stated)
        visit.use_permit(fetched.body_bytes)
        capture = self._capturing.make_capture
        ended = capture(lease, fetched, body, visit.decision, step.outcome, step.target, stated)
        demands = visit.partition.demands
        if demands.rows and body.parsed is not None:
            url = ended.host8 + ended.url8
            if url in demands.rows:
                demands.note_loads(url, loads_of(body.parsed.links))
        renders = self._renders
        if renders is not None and renders.is_on and body.parsed is not None:
            choice = renders.note_page(lease, body.parsed, ended, stated, fetched.privacy)
            if choice is RenderChoice.CROWDED_OUT and (place := ended.history) is not None:
                remarks = (Remark(Reason.RENDER_CROWDED_OUT),)
                self._stages.store.add_remarks(place.segment, place.offset, remarks)
        self._end(visit, ended)
        has_rules = bool(self._extensions.rules)
        if has_rules:
            self._extensions.failures.take_rule_remarks()  # of URLs that were found elsewhere
        steps: Iterator[None] = iter(())
        if step.target:
            self._stages.intake.take_redirect(lease, step.target)
        elif body.parsed is not None and step.outcome.meaning is Meaning.FETCHED:
            steps = self._stages.intake.outlink_steps(lease, body.parsed, body.scores)
        return self._noting_rules(ended, steps) if has_rules else steps

    def _noting_rules(self, ended: Completed, steps: Iterator[None]) -> Iterator[None]:
        """Take the steps, and add a remark to the page's row for each rule that failed.

        The row waits for the next commit, which is not cut before the last step.
        """
        failures, remarks = self._extensions.failures, list[Remark]()
        for _ in steps:
            remarks += failures.take_rule_remarks()
            yield
            failures.take_rule_remarks()  # of other pages, which have taken theirs
        remarks += failures.take_rule_remarks()
        if remarks and ended.history is not None:
            place = ended.history
            self._stages.store.add_remarks(place.segment, place.offset, tuple(remarks))

    async def _give_page(self, visit: Visit, step: StoreCapture) -> None:
        """Let the sinks that are called elsewhere have the page, before it is stored.

        Meanwhile it counts as a document that waits for the parser: its body is in memory.
        """
        body, fetched = visit.body, visit.answer
        assert body is not None and fetched is not None and visit.decision is not None
        stated = self._stated(visit, fetched, body, step)
        page = self._capturing.page_of_visit(visit.lease, fetched, body, visit.decision, stated)
        failed: list[CodeFailure] = []
        with self.parsing.counted(fetched):
            for sinks in self._extensions.pages:
                failed += await self.parsing.waited_for(sinks.give_page(page))
        if failed:
            visit.body = _remarked(body, self._extensions.failures.note_all(failed))

    async def _ask_code(self, visit: Visit, step: StoreCapture) -> None:
        """Let the user's code have the page, if it is one that it gets."""
        body, fetched = visit.body, visit.answer
        assert body is not None and fetched is not None
        if body.parsed is None or fetched.status != 200:
            return
        stated = self._stated(visit, fetched, body, step)
        if self._capturing.is_extracted(visit.lease, fetched, body, stated):
            asked = self._code.examine(fetched, body, body.parsed, stated)
            with self.parsing.counted(fetched):
                visit.body = await self.parsing.waited_for(asked)

    def _stated(
        self, visit: Visit, fetched: Fetched, body: ExaminedBody, step: StoreCapture
    ) -> Preferences:
        """What the site states about the use of the page, as of this answer."""
        markup = body.parsed.statements if body.parsed is not None else ()
        if step.outcome.meaning is Meaning.NOT_MODIFIED and (old := visit.lease.record.history):
            markup = old.markup
        origin = visit.stated_by_robots
        if visit.stated is not None:
            origin = (*origin, visit.stated)
        return page_preferences(fetched, origin, markup, self._product)

    async def _reject(self, visit: Visit, step: RejectAnswer) -> TurnOver:
        self._stages.slices.run_at_once(visit.lease.url, partial(self._discard, visit, step))
        return TurnOver()

    def _discard(self, visit: Visit, step: RejectAnswer) -> Iterator[None]:
        fetched = self._count_answer(visit, is_capture=False)
        self._end(visit, _completed(visit.lease, step, step.due))
        if fetched.spool:
            Path(fetched.spool).unlink(missing_ok=True)
            packed_file(fetched.spool).unlink(missing_ok=True)
        return iter(())

    def _count_answer(
        self, visit: Visit, is_capture: bool, stated: Preferences = NOTHING_STATED
    ) -> Fetched:
        """Count the answer in the usage of its host and its site, and return it."""
        fetched, parsed = visit.answer, visit.body.parsed if visit.body is not None else None
        assert fetched is not None
        visit.partition.note_capture(
            visit.host,
            body_bytes=fetched.body_bytes,
            duration_s=fetched.duration_s,
            is_page=fetched.status == 200 and parsed is not None and parsed.media_type in _HTML,
            is_capture=is_capture,
            preferences=stated,
            is_scripted=parsed is not None and parsed.reason is Reason.LOOKS_SCRIPTED,
        )
        site, host = self._stages.intake, visit.host.name
        site.note_usage(visit.partition, host, fetched, is_capture)
        return fetched

    def _end(self, visit: Visit, done: Completed) -> None:
        if done.state is UrlState.FAILED:
            url, tries = visit.lease.url, visit.lease.record.tries + 1
            letter = DeadLetter(url, done.reason, done.detail, tries, self._clock.wall())
            self._stages.ended.given_up.append(letter)
            visit.partition.dead_letters.add(done.host8 + done.url8, letter)
        self._stages.ended.settled.append(visit.end_lease(done))


def _remarked(body: ExaminedBody, remarks: tuple[Remark, ...]) -> ExaminedBody:
    return msgspec.structs.replace(body, remarks=(*body.remarks, *remarks))


def _completed(lease: Lease, step: EndUrl | RejectAnswer, due: int = 0) -> Completed:
    """The end of a lease without a capture."""
    host8, url8 = lease.host.host8, lease.entry.url8
    return Completed(host8, url8, lease.number, step.state, step.reason, step.detail, due)
