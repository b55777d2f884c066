"""What a visit does next: the table of events and steps, and what holds for every walk through
it.
"""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import BudgetSection, RetrySection
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.schedule import visit_decisions as module
from lycosa.stages.schedule.fetch_outcome import Meaning
from lycosa.stages.schedule.steps import (
    AddressFound,
    AskPermit,
    AttendQuestions,
    AwaitAnswer,
    BodyExamined,
    BudgetsJudged,
    EndUrl,
    ErrandFound,
    Event,
    FindAddress,
    FindErrand,
    GiveBack,
    HostSetAside,
    JudgeBudgets,
    JudgeRobots,
    Keeps,
    NameFailed,
    PageAnswered,
    Park,
    PermitAsked,
    Postpone,
    Purpose,
    ReadRobots,
    RefuseErrand,
    RejectAnswer,
    Retire,
    RobotsAnswered,
    RobotsJudged,
    RobotsUnread,
    SendRequest,
    Snooze,
    StoreCapture,
    TakeIn,
    TakeUrl,
    TurnBegan,
    TurnOver,
    UrlLeased,
    UrlPassed,
    VisitAct,
    VisitRules,
    VisitStep,
)
from lycosa.stages.schedule.visit_decisions import MAX_JUDGED, decide

NOW = 1_750_000_000.0
PAGE, ROBOTS, ERRAND = Purpose.PAGE, Purpose.ROBOTS, Purpose.ERRAND
RULES = VisitRules(
    RetrySection(tries=3, first_s=60.0, max_s=3600.0, dns_tries=3, host_failures=4, away_s=900.0),
    BudgetSection(park_s=600.0),
    max_hops=5,
)
REFUSED, RESET = Reason.CONNECT_REFUSED, Reason.CONNECTION_LOST
FORBIDDEN = Reason.ADDRESS_FORBIDDEN


def answer(status: int, reason: Reason = Reason.NONE, location: str = "") -> Fetched:
    block = b"HTTP/1.1 200 OK\r\nLocation: %s\r\n\r\n" % location.encode() if location else b""
    return Fetched("http://a.test/", reason, status=status, header_block=block)


def examined(fetched: Fetched, target: str = "", hops: int = 0, tries: int = 0) -> BodyExamined:
    return BodyExamined(fetched, target, hops, tries, is_conditional=True)


def name_failed(
    failures: int = 1,
    reason: Reason = Reason.DNS_TIMEOUT,
    purpose: Purpose = PAGE,
    away_s: float = 900.0,
) -> NameFailed:
    return NameFailed(purpose, reason, "a.test: why", failures, away_s)


def robots_answered(
    error: Reason = Reason.NONE,
    failures: int = 0,
    until: float = 0.0,
    answered: bool = False,
    away_s: float = 900.0,
    outage_s: float = 0.0,
) -> RobotsAnswered:
    why = "robots.txt: why"
    return RobotsAnswered(answered, error, failures, until, why, "192.0.2.1", away_s, outage_s)


def no_answer(reason: Reason, failures: int, away_s: float = 900.0, **rest: Any) -> PageAnswered:
    return PageAnswered(reason, 0, "why", failures, 0.0, away_s, **rest)


OUTAGE = "no host accepts a connection at the moment, so the host waits"
MOVED = answer(301, location="http://b.test/")
WHY = "192.0.2.1; --allow-address 192.0.2.1 would allow it"
TABLE: list[tuple[Event, VisitStep]] = [
    (TurnBegan(0.0), TakeUrl()),
    (TurnBegan(-5.0), TakeUrl()),
    (TurnBegan(0.1), GiveBack()),
    (TurnBegan(9.0, has_questions=True), AttendQuestions()),
    (TurnBegan(0.0, is_errands_turn=True), FindErrand()),
    (TurnBegan(0.1, is_errands_turn=True), GiveBack()),
    (ErrandFound(False), FindAddress(ERRAND)),
    (ErrandFound(True), RefuseErrand(Reason.CRASHED_WORKER)),
    (UrlLeased(False), JudgeBudgets()),
    (UrlLeased(True), EndUrl(UrlState.FAILED, Reason.CRASHED_WORKER)),
    (BudgetsJudged(), JudgeRobots()),
    (
        BudgetsJudged(Reason.HOST_PAGE_BUDGET, "budgets.host_pages = 3 of 3", 2),
        Park(int(NOW) + 2400, Reason.HOST_PAGE_BUDGET, "budgets.host_pages = 3 of 3"),
    ),
    (RobotsUnread(), ReadRobots()),
    (RobotsJudged(is_allowed=True), FindAddress(PAGE)),
    (RobotsJudged(is_needed=True), FindAddress(ROBOTS)),
    (RobotsJudged(is_needed=True, is_asked_elsewhere=True), AwaitAnswer()),
    (
        RobotsJudged(is_needed=True, is_hopeless=True),
        Retire(Reason.CRASHED_WORKER, "each time its robots.txt was fetched"),
    ),
    (
        RobotsJudged(wait_until=NOW + 7, detail="status 503"),
        Snooze(NOW + 7, Reason.ROBOTS_UNREACHABLE, "status 503"),
    ),
    (
        RobotsJudged(detail="line 2: /", judged=1),
        EndUrl(UrlState.REFUSED, Reason.ROBOTS_DISALLOWED, "line 2: /"),
    ),
    (
        RobotsJudged(is_costly=True, judged=1),
        EndUrl(UrlState.REFUSED, Reason.ROBOTS_DISALLOWED, gives_way=True),
    ),
    (
        RobotsJudged(judged=50),
        EndUrl(UrlState.REFUSED, Reason.ROBOTS_DISALLOWED, gives_way=True),
    ),
    (UrlPassed(MAX_JUDGED - 1), TakeUrl()),
    (UrlPassed(MAX_JUDGED), GiveBack()),
    (name_failed(1), Snooze(NOW + 60, Reason.DNS_TIMEOUT, "a.test: why")),
    (name_failed(2), Snooze(NOW + 120, Reason.DNS_TIMEOUT, "a.test: why")),
    (name_failed(3), Retire(Reason.DNS_TIMEOUT, "a.test: why")),
    (name_failed(3, away_s=899.0), Snooze(NOW + 240, Reason.DNS_TIMEOUT, "a.test: why")),
    (name_failed(1, Reason.DNS_NO_SUCH_NAME), Retire(Reason.DNS_NO_SUCH_NAME, "a.test: why")),
    (
        NameFailed(PAGE, Reason.DNS_TIMEOUT, "why", 99, 1e6, outage_s=90.0),
        Snooze(
            NOW + 90,
            Reason.DNS_TIMEOUT,
            "why; no name is answered at the moment, so the host waits",
        ),
    ),
    (name_failed(purpose=ERRAND), RefuseErrand(Reason.DNS_TIMEOUT, "a.test: why")),
    (AddressFound(PAGE, 0.0), AskPermit()),
    (AddressFound(ROBOTS, 0.0), SendRequest(ROBOTS)),
    (AddressFound(ERRAND, -1.0), SendRequest(ERRAND)),
    (AddressFound(PAGE, 0.2), Postpone(0.2)),
    (AddressFound(ROBOTS, 0.2), Postpone(0.2)),
    (AddressFound(PAGE, 0.2, True), Postpone(0.2, True)),
    (PermitAsked(True), SendRequest(PAGE)),
    (PermitAsked(False), GiveBack()),
    (robots_answered(answered=True), GiveBack()),
    (
        robots_answered(RESET, until=NOW + 60),
        Snooze(NOW + 60, Reason.ROBOTS_UNREACHABLE, "robots.txt: why"),
    ),
    (
        robots_answered(REFUSED, 3, NOW + 60),
        Snooze(NOW + 60, Reason.ROBOTS_UNREACHABLE, "robots.txt: why"),
    ),
    (
        robots_answered(REFUSED, 4, NOW + 60),
        Retire(REFUSED, "robots.txt: why", forgets_robots=True),
    ),
    (robots_answered(REFUSED, 4), Retire(REFUSED, "robots.txt: why")),
    (robots_answered(REFUSED, 4, away_s=899.0), Snooze(NOW + 480, REFUSED, "robots.txt: why")),
    (
        robots_answered(REFUSED, 4, NOW + 60, away_s=899.0),
        Snooze(NOW + 60, Reason.ROBOTS_UNREACHABLE, "robots.txt: why"),
    ),
    (
        robots_answered(REFUSED, 0, outage_s=70.0),
        Snooze(NOW + 70, REFUSED, f"robots.txt: why; {OUTAGE}"),
    ),
    (robots_answered(REFUSED, 4, answered=True), GiveBack()),
    (robots_answered(FORBIDDEN), Retire(FORBIDDEN, WHY, forgets_robots=True)),
    (robots_answered(FORBIDDEN, answered=True), GiveBack()),
    (PageAnswered(Reason.NONE, 200, "", 0, 0.0), TakeIn()),
    (no_answer(REFUSED, 1, 0.0), Snooze(NOW + 60, REFUSED, "a connection failed")),
    (no_answer(REFUSED, 3), Snooze(NOW + 240, REFUSED, "3 requests in a row failed")),
    (no_answer(REFUSED, 4, 899.0), Snooze(NOW + 480, REFUSED, "4 requests in a row failed")),
    (no_answer(REFUSED, 4), Retire(REFUSED, "4 requests in a row failed")),
    (
        no_answer(REFUSED, 4, is_lent=True),
        Retire(REFUSED, "4 requests in a row failed", has_answer=True),
    ),
    (
        no_answer(REFUSED, 1, is_lent=True),
        Snooze(NOW + 60, REFUSED, "a connection failed", has_answer=True),
    ),
    (no_answer(REFUSED, 0, outage_s=5000.0), Snooze(NOW + 120, REFUSED, f"why; {OUTAGE}")),
    (no_answer(FORBIDDEN, 3), TakeIn()),
    (
        no_answer(FORBIDDEN, 4, 0.0),
        Retire(FORBIDDEN, "4 connections in a row failed", has_answer=True),
    ),
    (no_answer(RESET, 1), TakeIn()),
    (
        no_answer(RESET, 3),
        Snooze(NOW + 120, RESET, "3 requests in a row had no answer", has_answer=True),
    ),
    (no_answer(Reason.TLS_FAILED, 1, was_sent=True), TakeIn()),
    (
        no_answer(Reason.TLS_FAILED, 99, 9e9, was_sent=True),
        Snooze(NOW + 120, Reason.TLS_FAILED, "99 requests in a row had no answer", has_answer=True),
    ),
    (PageAnswered(RESET, 200, "", 0, 0.0), TakeIn()),
    (
        PageAnswered(Reason.NONE, 503, "", 0, NOW + 30),
        Snooze(NOW + 30, Reason.HTTP_TOO_MANY_REQUESTS, "status 503", has_answer=True),
    ),
    (
        PageAnswered(Reason.REQUEST_REFUSED, 0, "refused", 0, NOW + 30),
        Snooze(NOW + 30, Reason.HTTP_TOO_MANY_REQUESTS, "refused", has_answer=True),
    ),
    (HostSetAside(False), GiveBack()),
    (HostSetAside(True), TakeIn()),
    (
        examined(answer(0, RESET)),
        RejectAnswer(UrlState.QUEUED, RESET, "", int(NOW) + 61),
    ),
    (
        examined(answer(503), tries=1),
        RejectAnswer(UrlState.QUEUED, Reason.HTTP_SERVER_ERROR, "status 503", int(NOW) + 121),
    ),
    (examined(answer(0, RESET), tries=2), RejectAnswer(UrlState.FAILED, RESET, "")),
    (examined(answer(0, FORBIDDEN)), RejectAnswer(UrlState.FAILED, FORBIDDEN, "")),
    (TurnOver(), GiveBack()),
]


@pytest.mark.parametrize(("event", "step"), TABLE, ids=lambda value: type(value).__name__)
def test_each_event_has_its_step(event: Event, step: VisitStep) -> None:
    assert decide(event, RULES, NOW) == step


@pytest.mark.parametrize(
    ("event", "meaning", "reason", "target"),
    [
        (examined(answer(200)), Meaning.FETCHED, Reason.NONE, ""),
        (examined(answer(304)), Meaning.NOT_MODIFIED, Reason.NOT_MODIFIED, ""),
        (examined(answer(404)), Meaning.FAILED, Reason.HTTP_CLIENT_ERROR, ""),
        (examined(answer(503), tries=2), Meaning.FAILED, Reason.HTTP_SERVER_ERROR, ""),
        (examined(MOVED, "http://b.test/", 4), Meaning.REDIRECTED, Reason.REDIRECTED, "b"),
        (examined(MOVED, "http://b.test/", 5), Meaning.FAILED, Reason.TOO_MANY_REDIRECTS, ""),
        (examined(MOVED), Meaning.FAILED, Reason.BAD_REDIRECT, ""),
    ],
)
def test_an_answer_that_is_not_tried_again_is_stored(
    event: BodyExamined, meaning: Meaning, reason: Reason, target: str
) -> None:
    step = decide(event, RULES, NOW)
    assert isinstance(step, StoreCapture)
    assert (step.outcome.meaning, step.outcome.reason) == (meaning, reason)
    assert step.target == (event.target if target else "")


# -- the tables at the head of the module


def _rows(columns: int) -> list[list[str]]:
    lines = [line for line in (module.__doc__ or "").splitlines() if line.startswith("| ``")]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [row for row in rows if len(row) == columns]


def _named(cell: str) -> set[str]:
    return set(re.findall(r"``(\w+)``", cell))


NEXT = {name: _named(row[1]) for row in _rows(2) for name in _named(row[0])}
HELD = [(row[0], row[1], _named(row[2])) for row in _rows(3)]
BRINGS: dict[str, set[str]] = {}
for _steps, _, _events in HELD:
    for _name in _named(_steps):
        BRINGS[_name] = BRINGS.get(_name, set()) | _events

EVENTS = get_args(Event)
PURPOSES = st.sampled_from(Purpose)
times = st.floats(0, 4e9)
reasons = st.sampled_from(Reason)
VALUES: dict[type, st.SearchStrategy[Event]] = {
    each: st.builds(each) for each in EVENTS if each not in (BodyExamined, AddressFound)
}
VALUES[AddressFound] = st.builds(AddressFound, PURPOSES, st.floats(-1, 3))
VALUES[TurnBegan] = st.builds(
    TurnBegan, st.sampled_from([-1.0, 0.0, 0.5]), st.booleans(), st.booleans()
)
VALUES[RobotsJudged] = st.builds(
    RobotsJudged,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, NOW + 9]),
    st.booleans(),
    judged=st.integers(1, MAX_JUDGED),
)
VALUES[UrlPassed] = st.builds(UrlPassed, st.integers(1, MAX_JUDGED))
VALUES[BudgetsJudged] = st.builds(BudgetsJudged, reasons, st.just("why"), st.integers(0, 99))
VALUES[BodyExamined] = st.builds(
    examined,
    st.builds(answer, st.sampled_from([0, 200, 301, 304, 404, 429, 500, 503]), reasons),
    st.sampled_from(["", "http://b.test/"]),
    st.integers(0, 9),
    st.integers(0, 9),
)
events = st.one_of(*VALUES.values())


@given(events, times)
def test_the_table_has_every_step_that_an_event_may_have(event: Event, now: float) -> None:
    step = decide(event, RULES, now)
    assert type(step).__name__ in NEXT[type(event).__name__]


def test_the_tables_name_all_events_and_steps_and_nothing_that_cannot_be() -> None:
    assert NEXT.keys() == {each.__name__ for each in EVENTS}
    assert BRINGS.keys() - {"GiveBack"} == {each.__name__ for each in get_args(VisitAct)}
    seen = {(type(event).__name__, type(step).__name__) for event, step in TABLE}
    seen.add(("BodyExamined", "StoreCapture"))
    assert seen == {(event, step) for event, steps in NEXT.items() for step in steps}


def _keeps(step: VisitStep) -> Keeps:
    """What the table says is held while a step is performed."""
    rows = [(steps, held) for steps, held, _ in HELD if type(step).__name__ in _named(steps)]
    if isinstance(step, SendRequest | FindAddress):
        rows = [row for row in rows if ("for a page" in row[0]) is (step.purpose is PAGE)]
    if isinstance(step, Snooze | Retire):
        rows = [row for row in rows if ("with a page" in row[0]) is step.has_answer]
    [(_, held)] = rows
    return Keeps(**{each: each in held.split(", ") for each in msgspec.structs.asdict(Keeps())})


@given(events, times)
def test_a_step_keeps_what_the_table_says(event: Event, now: float) -> None:
    step = decide(event, RULES, now)
    assert step.keeps == (Keeps(host=False) if isinstance(step, GiveBack) else _keeps(step))


# -- walks: whatever is learned, in whatever order the tables allow

TAKES = {TakeUrl: "lease", FindAddress: "slot", AskPermit: "permit"}


def _fits(event: Event, step: VisitStep, passed: int) -> Event:
    """The event as an actor would tell it after this step."""
    if isinstance(step, FindAddress) and isinstance(event, AddressFound | NameFailed):
        return msgspec.structs.replace(event, purpose=step.purpose)
    if isinstance(step, AttendQuestions) and isinstance(event, TurnBegan):
        return msgspec.structs.replace(event, has_questions=False)
    if isinstance(step, Snooze | Retire) and isinstance(event, HostSetAside):
        return HostSetAside(step.has_answer)
    if isinstance(event, HostSetAside):
        return HostSetAside(False)
    if isinstance(event, UrlPassed):
        return UrlPassed(passed)
    return event


def _brought(step: VisitStep) -> list[str]:
    brings = BRINGS[type(step).__name__]
    if isinstance(step, SendRequest):
        brings = brings - {"RobotsAnswered" if step.purpose is PAGE else "PageAnswered"}
    return sorted(brings)


def _walk(data: st.DataObject) -> list[tuple[Event, VisitStep]]:
    """A visit to its end, with what is learned left to chance."""
    by_name = {each.__name__: each for each in EVENTS}
    event: Event = data.draw(VALUES[TurnBegan])
    walk, passed = [], 0
    while True:
        step = decide(event, RULES, NOW)
        walk.append((event, step))
        if isinstance(step, GiveBack):
            return walk
        passed += isinstance(step, TakeUrl)
        name = data.draw(st.sampled_from(_brought(step)))
        event = _fits(data.draw(VALUES[by_name[name]]), step, passed)
        if passed == 12:  # a host of twelve URLs
            event = TurnOver() if isinstance(step, TakeUrl) else event


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_page_is_requested_only_in_turn_within_budgets_with_robots_and_a_permit(
    data: st.DataObject,
) -> None:
    walk = _walk(data)
    sent = [at for at, (_, step) in enumerate(walk) if step == SendRequest(PAGE)]
    assert len(sent) <= 1
    for at in sent:
        began = [event for event, _ in walk[:at] if isinstance(event, TurnBegan)]
        assert began[-1].wait_s <= 0 and not began[-1].is_errands_turn
        leased = max(n for n, (_, step) in enumerate(walk[:at]) if step == TakeUrl())
        since = {type(event): event for event, _ in walk[leased + 1 : at + 1]}
        assert since[UrlLeased] == UrlLeased(False)
        budgets, robots = since[BudgetsJudged], since[RobotsJudged]
        assert isinstance(budgets, BudgetsJudged) and budgets.reason is Reason.NONE
        assert isinstance(robots, RobotsJudged) and robots.is_allowed
        assert not robots.is_needed and not robots.wait_until
        address = since[AddressFound]
        assert isinstance(address, AddressFound) and address.wait_s <= 0
        assert since[PermitAsked] == PermitAsked(True)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_visit_makes_one_request_at_most_and_each_in_its_turn(data: st.DataObject) -> None:
    walk = _walk(data)
    requests = [step for _, step in walk if isinstance(step, SendRequest)]
    assert len(requests) <= 1
    addresses = [event for event, _ in walk if isinstance(event, AddressFound)]
    assert not requests or addresses[-1].wait_s <= 0
    first, *_ = [event for event, _ in walk if isinstance(event, TurnBegan)][::-1]
    assert not requests or first.wait_s <= 0


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_step_keeps_what_is_not_held_and_the_end_keeps_nothing(data: st.DataObject) -> None:
    held = {"host"}
    for _, step in _walk(data):
        kept = {name for name, is_kept in msgspec.structs.asdict(step.keeps).items() if is_kept}
        assert kept <= held
        held = kept
        for kind, name in TAKES.items():
            if isinstance(step, kind):
                held = held | {name}
    assert held == set()
