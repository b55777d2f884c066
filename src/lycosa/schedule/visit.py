"""What a visit does next: every decision about a host whose turn has come, as a pure function.

A visit takes one host through at most one exchange. It is a state machine without I/O: an actor
performs a step and tells what came of it as an event, and ``decide`` gives the next step. Two
actors perform the steps, the worker (``worker.pipeline``) and ``lycosa simulate``, so both decide
alike. Waits are decided here and nowhere else in a visit; how long a host rests after an exchange
is ``worker.pacing``'s, and whether an address has a slot is its table's.

| event | next step |
|---|---|
| ``TurnBegan`` | ``AttendQuestions``, ``GiveBack``, ``FindErrand``, ``TakeUrl`` |
| ``ErrandFound`` | ``FindAddress``, ``RefuseErrand`` |
| ``UrlLeased`` | ``JudgeBudgets``, ``EndUrl`` |
| ``BudgetsJudged`` | ``JudgeRobots``, ``Park`` |
| ``RobotsUnread`` | ``ReadRobots`` |
| ``RobotsJudged`` | ``FindAddress``, ``EndUrl``, ``AwaitAnswer``, ``Snooze``, ``Retire`` |
| ``UrlPassed`` | ``TakeUrl``, ``GiveBack`` |
| ``NameFailed`` | ``Snooze``, ``Retire``, ``RefuseErrand`` |
| ``AddressFound`` | ``AskPermit``, ``SendRequest``, ``Postpone`` |
| ``PermitAsked`` | ``SendRequest``, ``GiveBack`` |
| ``RobotsAnswered`` | ``GiveBack``, ``Snooze``, ``Retire`` |
| ``PageAnswered`` | ``TakeIn``, ``Snooze``, ``Retire`` |
| ``HostSetAside`` | ``GiveBack``, ``TakeIn`` |
| ``BodyExamined`` | ``StoreCapture``, ``RejectAnswer`` |
| ``TurnOver`` | ``GiveBack`` |

| step | held meanwhile | events that it brings |
|---|---|---|
| ``AttendQuestions`` | host | ``TurnBegan`` |
| ``FindErrand`` | host | ``ErrandFound``, ``TurnOver`` |
| ``TakeUrl`` | host | ``UrlLeased``, ``TurnOver`` |
| ``JudgeBudgets`` | host, lease | ``BudgetsJudged`` |
| ``JudgeRobots`` | host, lease | ``RobotsJudged``, ``RobotsUnread`` |
| ``ReadRobots`` | host | ``UrlPassed`` |
| ``EndUrl`` | host, lease | ``UrlPassed`` |
| ``FindAddress`` for a page | host, lease | ``AddressFound``, ``NameFailed`` |
| ``FindAddress`` else | host | ``AddressFound``, ``NameFailed`` |
| ``AskPermit`` | host, lease, slot | ``PermitAsked`` |
| ``SendRequest`` for a page | host, lease, slot, permit | ``PageAnswered``, ``TurnOver`` |
| ``SendRequest`` else | host, slot | ``RobotsAnswered``, ``TurnOver`` |
| ``RefuseErrand``, ``AwaitAnswer``, ``Park``, ``Postpone`` | host | ``HostSetAside`` |
| ``Snooze``, ``Retire`` | host | ``HostSetAside`` |
| ``Snooze``, ``Retire`` after a page's answer | host, lease, permit | ``HostSetAside`` |
| ``TakeIn`` | lease, permit | ``BodyExamined`` |
| ``StoreCapture``, ``RejectAnswer`` | lease, permit | ``TurnOver`` |
| ``GiveBack`` | nothing | the visit is over |

An actor gives back what a step does not keep *before* it performs the step, so whatever a visit
does next, nothing is left behind. Times are crawl time in seconds.
"""

from __future__ import annotations

from typing import assert_never

from lycosa.config.sections import BudgetSection
from lycosa.model.completed import UrlState
from lycosa.reasons import Reason
from lycosa.schedule.outcome import Meaning, Outcome, is_connection_failure, judge, wait_s
from lycosa.schedule.steps import (
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
    Step,
    StoreCapture,
    TakeIn,
    TakeUrl,
    TurnBegan,
    TurnOver,
    UrlLeased,
    UrlPassed,
    VisitRules,
)

LONGEST_PARK_S = 86_400.0
MOST_JUDGED = 500
"""URLs that a visit looks at: so many in a row may be disallowed."""

_JUDGED_AT_ONCE = (
    50  # of them in one step of the loop, by a file whose judgements cost microseconds
)


def decide(event: Event, rules: VisitRules, now: float) -> Step:
    """The step that follows an event at crawl time ``now``."""
    match event:
        case TurnBegan():
            return _begin(event)
        case UrlLeased(is_hopeless=True):
            return EndUrl(UrlState.FAILED, Reason.CRASHED_WORKER)
        case UrlLeased():
            return JudgeBudgets()
        case BudgetsJudged():
            return _obey_budgets(event, rules, now)
        case RobotsJudged():
            return _obey_robots(event)
        case AddressFound():
            return _use_address(event)
        case PermitAsked():
            return SendRequest(Purpose.PAGE) if event.is_granted else GiveBack()
        case PageAnswered():
            return _heed_page(event, rules)
        case BodyExamined():
            return _settle(event, rules, now)
        case TurnOver():
            return GiveBack()
        case HostSetAside():
            return TakeIn() if event.has_answer else GiveBack()
        case UrlPassed():
            return TakeUrl() if event.judged < MOST_JUDGED else GiveBack()
        case RobotsUnread():
            return ReadRobots()
        case RobotsAnswered():
            return _heed_robots(event, rules)
        case ErrandFound(is_hopeless=True):
            return RefuseErrand(Reason.CRASHED_WORKER)
        case ErrandFound():
            return FindAddress(Purpose.ERRAND)
        case NameFailed():
            return _wait_for_name(event, rules, now)
        case _:
            assert_never(event)


def park_s(section: BudgetSection, times: int) -> float:
    """Seconds to park a host that was parked ``times`` times before: doubling from
    ``section.park_s``, at most a day."""
    return min(section.park_s * 2.0 ** min(max(times, 0), 64), LONGEST_PARK_S)


def gives_way(is_costly: bool, judged: int) -> bool:
    """Whether the loop has a turn after a judgement, the ``judged``-th of a visit: when it was
    costly, or when there were many."""
    return is_costly or judged % _JUDGED_AT_ONCE == 0


def _begin(event: TurnBegan) -> Step:
    if event.has_questions:
        return AttendQuestions()
    if event.wait_s > 0:  # by the Crawl-delay of a file that has just become known
        return GiveBack()
    return FindErrand() if event.is_errands_turn else TakeUrl()


def _obey_budgets(event: BudgetsJudged, rules: VisitRules, now: float) -> Step:
    if event.reason is Reason.NONE:
        return JudgeRobots()
    return Park(int(now + park_s(rules.budgets, event.parks)), event.reason, event.detail)


def _obey_robots(event: RobotsJudged) -> Step:
    """Nothing is fetched from a host whose robots.txt is not known, cannot be had or says no."""
    if event.is_needed and event.is_asked_elsewhere:
        return AwaitAnswer()
    if event.wait_until:
        return Snooze(event.wait_until, Reason.ROBOTS_UNREACHABLE, event.detail)
    if event.is_needed and event.is_hopeless:
        return Retire(Reason.CRASHED_WORKER, "each time its robots.txt was fetched")
    if event.is_needed:
        return FindAddress(Purpose.ROBOTS)
    if event.is_allowed:
        return FindAddress(Purpose.PAGE)
    is_turn = gives_way(event.is_costly, event.judged)
    return EndUrl(UrlState.REFUSED, Reason.ROBOTS_DISALLOWED, event.detail, is_turn)


def _wait_for_name(event: NameFailed, rules: VisitRules, now: float) -> Step:
    """A name without address concerns all URLs of its host: a short schedule of its own, then the
    host is given up. Unless no name has one just now: then it waits."""
    retry, reason = rules.retry, event.reason
    if event.purpose is Purpose.ERRAND:
        return RefuseErrand(reason, event.detail)
    if event.is_outage:
        detail = f"{event.detail}; nobody is answered, so it has to wait"
        return Snooze(now + wait_s(0, retry), reason, detail)
    if reason is Reason.DNS_NO_SUCH_NAME or event.failures >= retry.dns_tries:
        return Retire(reason, event.detail)
    return Snooze(now + wait_s(event.failures - 1, retry), reason, event.detail)


def _use_address(event: AddressFound) -> Step:
    if event.wait_s > 0:
        return Postpone(event.wait_s)
    return AskPermit() if event.purpose is Purpose.PAGE else SendRequest(event.purpose)


def _heed_robots(event: RobotsAnswered, rules: VisitRules) -> Step:
    """What an answer for robots.txt says about the host."""
    waits = event.wait_until > 0
    if event.error is Reason.ADDRESS_FORBIDDEN and not event.is_answered:
        # Ours to change, not the server's: waiting would not help.
        detail = f"{event.address}; --allow-address {event.address} would allow it"
        return Retire(event.error, detail, forgets_robots=True)
    is_failure = is_connection_failure(event.error) and not event.is_answered
    if is_failure and event.failures >= rules.retry.host_failures:
        return Retire(event.error, event.detail, forgets_robots=waits)
    if waits:
        return Snooze(event.wait_until, Reason.ROBOTS_UNREACHABLE, event.detail)
    return GiveBack()


def _heed_page(event: PageAnswered, rules: VisitRules) -> Step:
    """What an answer says about the host and not about its URL."""
    if is_connection_failure(event.reason) and event.failures >= rules.retry.host_failures:
        detail = f"{event.failures} connections in a row failed"
        return Retire(event.reason, detail, has_answer=True)
    if event.rests_until:
        detail = f"status {event.status}" if event.status else event.detail
        return Snooze(event.rests_until, Reason.HTTP_TOO_MANY_REQUESTS, detail, has_answer=True)
    return TakeIn()


def _settle(event: BodyExamined, rules: VisitRules, now: float) -> Step:
    """What an answer means for its URL."""
    fetched, target = event.fetched, ""
    outcome = judge(
        fetched, tries=event.tries, conditional=event.is_conditional, section=rules.retry
    )
    if outcome.meaning is Meaning.REDIRECTED:
        if not event.target:
            outcome = Outcome(Meaning.FAILED, Reason.BAD_REDIRECT)
        elif event.hops >= rules.max_hops:
            outcome = Outcome(Meaning.FAILED, Reason.TOO_MANY_REDIRECTS)
        else:
            target = event.target
    is_retry = outcome.meaning is Meaning.RETRY
    if fetched.status > 0 and not is_retry:
        return StoreCapture(outcome, target)
    detail = fetched.detail or (f"status {fetched.status}" if fetched.status else "")
    if is_retry:
        due = int(now + outcome.wait_s) + 1
        return RejectAnswer(UrlState.QUEUED, outcome.reason, detail, due)
    return RejectAnswer(UrlState.FAILED, outcome.reason, detail)
