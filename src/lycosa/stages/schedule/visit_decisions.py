"""The decisions of a visit: what to do next with a host whose turn has come, as a pure function.

A visit takes one host through at most one exchange. It is a state machine without I/O. An actor
performs a step and reports the result as an event, and ``decide`` returns the next step. Two actors
perform the steps, the worker (``visit.pipeline``) and ``lycosa simulate``, so both decide in the
same way. All waits of a visit are decided here. Only two things are decided elsewhere: how long a
host rests after an exchange (``visit.pacing``), and whether an address has a free slot (its
table).

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

| step | held meanwhile | resulting events |
|---|---|---|
| ``AttendQuestions`` | host | ``TurnBegan`` |
| ``FindErrand`` | host | ``ErrandFound``, ``TurnOver`` |
| ``TakeUrl`` | host | ``UrlLeased``, ``TurnOver`` |
| ``JudgeBudgets`` | host, lease | ``BudgetsJudged`` |
| ``JudgeRobots`` | host, lease | ``RobotsJudged``, ``RobotsUnread`` |
| ``ReadRobots`` | host | ``UrlPassed`` |
| ``EndUrl`` | host, lease | ``UrlPassed`` |
| ``FindAddress`` for a page | host, lease | ``AddressFound``, ``NameFailed`` |
| ``FindAddress`` otherwise | host | ``AddressFound``, ``NameFailed`` |
| ``AskPermit`` | host, lease, slot | ``PermitAsked`` |
| ``SendRequest`` for a page | host, lease, slot, permit | ``PageAnswered``, ``TurnOver`` |
| ``SendRequest`` otherwise | host, slot | ``RobotsAnswered``, ``TurnOver`` |
| ``RefuseErrand``, ``AwaitAnswer``, ``Park``, ``Postpone`` | host | ``HostSetAside`` |
| ``Snooze``, ``Retire`` | host | ``HostSetAside`` |
| ``Snooze``, ``Retire`` with a page's answer | host, lease, permit | ``HostSetAside`` |
| ``TakeIn`` | lease, permit | ``BodyExamined`` |
| ``StoreCapture``, ``RejectAnswer`` | lease, permit | ``TurnOver`` |
| ``GiveBack`` | nothing | the visit is over |

An actor releases everything that a step does not keep *before* it performs the step, so nothing is
left behind, whatever a visit does next. Times are crawl time in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lycosa.base.config.sections import BudgetSection, RetrySection
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.schedule import steps
from lycosa.stages.schedule.fetch_outcome import (
    LONGEST_PROBE_S,
    FetchOutcome,
    Meaning,
    is_away,
    is_silent,
    judge_answer,
    probe_wait_s,
    wait_s,
)
from lycosa.stages.schedule.steps import VisitRules, VisitStep

# Reading a member from the Enum costs ten times as much.
_PAGE, _ROBOTS, _ERRAND, _TDM_FILE, _MISSING = steps.Purpose
_NONE = Reason.NONE
LONGEST_PARK_S = 86_400.0
MAX_JUDGED = 500
"""Maximum number of URLs that one visit judges, because robots.txt may disallow very many."""

# URLs judged in one step of the loop, by a file whose judgements cost microseconds
_JUDGED_AT_ONCE = 50


def decide(event: steps.Event, rules: VisitRules, now: float) -> VisitStep:
    """The step that follows an event at crawl time ``now``."""
    return _DECISIONS[type(event)](event, rules, now)


def _begin(event: steps.TurnBegan, rules: VisitRules, now: float) -> VisitStep:
    if event.has_questions:
        return steps.AttendQuestions()
    if event.wait_s > 0:  # because of the Crawl-delay in a file that was just read
        return steps.GiveBack()
    return steps.FindErrand() if event.is_errands_turn else steps.TakeUrl()


def _begin_errand(event: steps.ErrandFound, rules: VisitRules, now: float) -> VisitStep:
    if event.is_hopeless:
        return steps.RefuseErrand(Reason.CRASHED_WORKER)
    return steps.FindAddress(_ERRAND)


def _begin_url(event: steps.UrlLeased, rules: VisitRules, now: float) -> VisitStep:
    if event.is_hopeless:
        return steps.EndUrl(UrlState.FAILED, Reason.CRASHED_WORKER)
    if event.reason is not _NONE:
        is_turn = gives_way(False, event.judged)
        return steps.EndUrl(UrlState.REFUSED, event.reason, event.detail, is_turn)
    return steps.JudgeBudgets()


def _obey_budgets(event: steps.BudgetsJudged, rules: VisitRules, now: float) -> VisitStep:
    if event.reason is _NONE:
        return steps.JudgeRobots()
    return steps.Park(int(now + park_s(rules.budgets, event.parks)), event.reason, event.detail)


def park_s(section: BudgetSection, times: int) -> float:
    """Seconds to park a host that was parked ``times`` times before.

    The time doubles from ``section.park_s``, up to a day.
    """
    return min(section.park_s * 2.0 ** min(max(times, 0), 64), LONGEST_PARK_S)


def _read_robots(event: steps.RobotsUnread, rules: VisitRules, now: float) -> VisitStep:
    return steps.ReadRobots()


def _obey_robots(event: steps.RobotsJudged, rules: VisitRules, now: float) -> VisitStep:
    """Allow the request only if robots.txt is known and allows it."""
    if event.is_needed and event.is_asked_elsewhere:
        return steps.AwaitAnswer()
    if event.wait_until:
        return steps.Snooze(event.wait_until, Reason.ROBOTS_UNREACHABLE, event.detail)
    if event.is_needed and event.is_hopeless:
        return steps.Retire(Reason.CRASHED_WORKER, "each time its robots.txt was fetched")
    if event.is_needed:
        return steps.FindAddress(_ROBOTS)
    if event.is_allowed:
        if event.is_missing_wanted:
            return steps.FindAddress(_MISSING)
        return steps.FindAddress(_TDM_FILE if event.is_tdm_wanted else _PAGE)
    is_turn = gives_way(event.is_costly, event.judged)
    return steps.EndUrl(UrlState.REFUSED, Reason.ROBOTS_DISALLOWED, event.detail, is_turn)


def gives_way(is_costly: bool, judged: int) -> bool:
    """Whether the loop should run other tasks after the visit's ``judged``-th judgement.

    It should after a costly one, and after every fiftieth.
    """
    return is_costly or judged % _JUDGED_AT_ONCE == 0


def _pass_on(event: steps.UrlPassed, rules: VisitRules, now: float) -> VisitStep:
    return steps.TakeUrl() if event.judged < MAX_JUDGED else steps.GiveBack()


def _wait_for_name(event: steps.NameFailed, rules: VisitRules, now: float) -> VisitStep:
    """Wait for a host whose name has no address, and retire it after some tries.

    That there is no such name is an answer, and retires the host at once. In an
    outage, when no name is answered, the host only waits.
    """
    retry, reason = rules.retry, event.reason
    if event.purpose is _ERRAND:
        return steps.RefuseErrand(reason, event.detail)
    if event.outage_s:
        detail = f"{event.detail}; no name is answered at the moment, so the host waits"
        return steps.Snooze(now + probe_wait_s(event.outage_s, retry), reason, detail)
    is_over = event.failures >= retry.dns_tries and event.away_s >= retry.away_s
    if reason is Reason.DNS_NO_SUCH_NAME or is_over:
        return steps.Retire(reason, event.detail)
    return steps.Snooze(now + wait_s(event.failures - 1, retry), reason, event.detail)


def _use_address(event: steps.AddressFound, rules: VisitRules, now: float) -> VisitStep:
    if event.wait_s > 0:
        return steps.Postpone(event.wait_s, event.is_host_busy)
    return steps.AskPermit() if event.purpose is _PAGE else steps.SendRequest(event.purpose)


def _use_permit(event: steps.PermitAsked, rules: VisitRules, now: float) -> VisitStep:
    return steps.SendRequest(_PAGE) if event.is_granted else steps.GiveBack()


def _apply_robots_answer(event: steps.RobotsAnswered, rules: VisitRules, now: float) -> VisitStep:
    """Decide about the host after an answer for robots.txt."""
    waits = event.wait_until > 0
    if event.error is Reason.ADDRESS_FORBIDDEN and not event.is_answered:
        # The operator's settings forbid it, not the server: waiting would not help.
        detail = f"{event.address}; --allow-address {event.address} would allow it"
        return steps.Retire(event.error, detail, forgets_robots=True)
    is_failure = is_away(event.error) and not event.is_answered
    if is_failure and event.outage_s:
        # What the failure means for robots.txt was not recorded.
        wait = probe_wait_s(event.outage_s, rules.retry)
        return steps.Snooze(now + wait, event.error, _outage_detail(event.error, event.detail))
    if is_failure and _is_gone(event.failures, event.away_s, rules.retry):
        return steps.Retire(event.error, event.detail, forgets_robots=waits)
    if waits:
        return steps.Snooze(event.wait_until, Reason.ROBOTS_UNREACHABLE, event.detail)
    if is_failure:  # a copy of the file still applies
        return steps.Snooze(
            now + wait_s(event.failures - 1, rules.retry), event.error, event.detail
        )
    return steps.GiveBack()


def _apply_page_answer(event: steps.PageAnswered, rules: VisitRules, now: float) -> VisitStep:
    """Decide about the host after an answer for a page, apart from the URL itself.

    While the host accepts no connection, it waits at doubling intervals, and the URL
    stays queued as if it had not been tried. A host that answers by the other scheme, as one whose
    port 80 is closed, is not away.
    """
    retry, failures = rules.retry, event.failures
    if is_away(event.reason) and not (event.was_sent or event.other_answers):
        if event.outage_s:
            wait = probe_wait_s(event.outage_s, retry)
            detail = _outage_detail(event.reason, event.detail)
            return steps.Snooze(now + wait, event.reason, detail, has_answer=event.is_lent)
        detail = "a connection failed" if failures == 1 else f"{failures} requests in a row failed"
        if _is_gone(failures, event.away_s, retry):
            return steps.Retire(event.reason, detail, has_answer=event.is_lent)
        until = now + wait_s(failures - 1, retry)
        return steps.Snooze(until, event.reason, detail, has_answer=event.is_lent)
    if event.reason is Reason.ADDRESS_FORBIDDEN and failures >= retry.host_failures:
        # Time would not help.
        return steps.Retire(
            event.reason, f"{failures} connections in a row failed", has_answer=True
        )
    is_unanswered = is_silent(event.reason) or is_away(event.reason)
    if is_unanswered and not event.status and failures > 1:
        # The URL's tries count, because it may be the cause. For the same reason the wait stays
        # short: a section of the site that never answers, or that wants a certificate of clients,
        # must not stop the rest of it for hours.
        until = now + min(wait_s(failures - 2, retry), LONGEST_PROBE_S)
        detail = f"{failures} requests in a row had no answer"
        return steps.Snooze(until, event.reason, detail, has_answer=True)
    if event.rests_until:
        detail = f"status {event.status}" if event.status else event.detail
        return steps.Snooze(
            event.rests_until, Reason.HTTP_TOO_MANY_REQUESTS, detail, has_answer=True
        )
    return steps.TakeIn()


def _is_gone(failures: int, away_s: float, retry: RetrySection) -> bool:
    """Whether a host that accepts no connection is retired: after many failures and a long time.

    The number alone would retire the hosts of a server that is restarted. The time alone would
    retire those of a crawl that was stopped for so long.
    """
    return failures >= retry.host_failures and away_s >= retry.away_s


def _outage_detail(reason: Reason, detail: str) -> str:
    if reason is Reason.PROXY_FAILED:
        return detail
    said = f"{detail}; " if detail else ""
    return f"{said}no host accepts a connection at the moment, so the host waits"


def _go_on(event: steps.HostSetAside, rules: VisitRules, now: float) -> VisitStep:
    return steps.TakeIn() if event.has_answer else steps.GiveBack()


def _settle(event: steps.BodyExamined, rules: VisitRules, now: float) -> VisitStep:
    """Decide about the URL after its answer."""
    fetched, target = event.fetched, ""
    outcome = judge_answer(
        fetched,
        tries=event.tries,
        conditional=event.is_conditional,
        section=rules.retry,
        is_mismatch=event.is_mismatch,
    )
    if outcome.meaning is Meaning.REDIRECTED:
        if not event.target:
            outcome = FetchOutcome(Meaning.FAILED, Reason.BAD_REDIRECT)
        elif event.hops >= rules.max_hops:
            outcome = FetchOutcome(Meaning.FAILED, Reason.TOO_MANY_REDIRECTS)
        else:
            target = event.target
    is_retry = outcome.meaning is Meaning.RETRY
    if fetched.status > 0 and not is_retry:
        return steps.StoreCapture(outcome, target)
    detail = fetched.detail or (f"status {fetched.status}" if fetched.status else "")
    if is_retry:
        due = int(now + outcome.wait_s) + 1
        return steps.RejectAnswer(UrlState.QUEUED, outcome.reason, detail, due)
    return steps.RejectAnswer(UrlState.FAILED, outcome.reason, detail)


def _end(event: steps.TurnOver, rules: VisitRules, now: float) -> VisitStep:
    return steps.GiveBack()


# By type, and not by ``match``: a class pattern of a struct costs as much as a whole decision.
_DECISIONS: dict[type[steps.Event], Callable[[Any, VisitRules, float], VisitStep]] = {
    steps.TurnBegan: _begin,
    steps.ErrandFound: _begin_errand,
    steps.UrlLeased: _begin_url,
    steps.BudgetsJudged: _obey_budgets,
    steps.RobotsUnread: _read_robots,
    steps.RobotsJudged: _obey_robots,
    steps.UrlPassed: _pass_on,
    steps.NameFailed: _wait_for_name,
    steps.AddressFound: _use_address,
    steps.PermitAsked: _use_permit,
    steps.RobotsAnswered: _apply_robots_answer,
    steps.PageAnswered: _apply_page_answer,
    steps.HostSetAside: _go_on,
    steps.BodyExamined: _settle,
    steps.TurnOver: _end,
}
