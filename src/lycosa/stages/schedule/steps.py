"""The values of a visit's state machine: events, which an actor reports, and steps.

``schedule.visit_decisions`` defines which step follows which event, and what a visit holds
meanwhile.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import msgspec

from lycosa.base.config.sections import BudgetSection, RetrySection
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.schedule.fetch_outcome import FetchOutcome


class Keeps(msgspec.Struct, frozen=True, gc=False):
    """What a visit holds during a step: host, lease of a URL, address slot, capture permit."""

    host: bool = True
    lease: bool = False
    slot: bool = False
    permit: bool = False


_HOST, _LEASE = Keeps(), Keeps(lease=True)
_SLOT, _LEASE_SLOT = Keeps(slot=True), Keeps(lease=True, slot=True)
_ALL, _ANSWER = Keeps(lease=True, slot=True, permit=True), Keeps(lease=True, permit=True)
_URL, _NOTHING = Keeps(host=False, lease=True, permit=True), Keeps(host=False)


class Purpose(Enum):
    """The purpose of a request."""

    PAGE = "a URL of the host"
    ROBOTS = "the robots.txt of one of its origins"
    ERRAND = "what the robots.txt of another host redirects to"
    TDM_FILE = "the tdmrep.json of one of its origins"
    MISSING = "a path that does not exist"


_PAGE = Purpose.PAGE


class VisitRules(msgspec.Struct, frozen=True):
    """The settings that the decisions use."""

    retry: RetrySection
    budgets: BudgetSection
    max_hops: int


# -- events: what the actor reports
# -------------------------------------------------------------------


class TurnBegan(msgspec.Struct, frozen=True, gc=False):
    """The frontier gave the host, for the first time or after its open questions were handled.

    ``wait_s`` is the time until the host may be fetched, at most 0 when it may be now.
    """

    wait_s: float
    has_questions: bool = False
    is_errands_turn: bool = False


class ErrandFound(msgspec.Struct, frozen=True, gc=False):
    """An errand needs a request; ``is_hopeless`` if that request has killed too many workers."""

    is_hopeless: bool


class UrlLeased(msgspec.Struct, frozen=True, gc=False):
    """The next URL of the host was leased.

    ``reason`` and ``detail`` say why the scope does not want it any more, since it was admitted.
    ``judged`` is the number of URLs that the visit judged before.
    """

    is_hopeless: bool
    reason: Reason = Reason.NONE
    detail: str = ""
    judged: int = 0


class BudgetsJudged(msgspec.Struct, frozen=True, gc=False):
    """Whether the host is over a budget (``reason``), and how often it was parked before."""

    reason: Reason = Reason.NONE
    detail: str = ""
    parks: int = 0


class RobotsUnread(msgspec.Struct, frozen=True, gc=False):
    """The robots.txt of the URL's origin is long and has to be read outside the loop."""


class RobotsJudged(msgspec.Struct, frozen=True, gc=False):
    """The result of judging the URL by its origin's robots.txt.

    The file must be fetched (``is_needed``), or waited for until ``wait_until`` (0 = no), or it
    allows or disallows the URL. ``is_tdm_wanted``: the origin's tdmrep.json has to be fetched
    before a URL that is allowed; ``is_missing_wanted``: so has a path that does not exist.
    ``judged`` counts the judgements of the visit.
    """

    is_needed: bool = False
    is_asked_elsewhere: bool = False  # the answer to a question is pending
    is_hopeless: bool = False  # fetching it has killed too many workers
    wait_until: float = 0.0
    is_allowed: bool = False
    detail: str = ""
    is_costly: bool = False
    judged: int = 0
    is_tdm_wanted: bool = False
    is_missing_wanted: bool = False


class UrlPassed(msgspec.Struct, frozen=True, gc=False):
    """The URL is no longer leased. ``judged`` counts the judgements of the visit."""

    judged: int


class NameFailed(msgspec.Struct, frozen=True, gc=False):
    """A DNS lookup of the host failed, ``failures`` times in a row and for ``away_s``.

    ``outage_s`` is for how long nothing else was answered either (0 = others are).
    """

    purpose: Purpose
    reason: Reason
    detail: str
    failures: int
    away_s: float = 0.0
    outage_s: float = 0.0


class AddressFound(msgspec.Struct, frozen=True, gc=False):
    """The host has an address.

    If ``wait_s`` is at most 0, a slot of it is taken; otherwise the address has none free, or
    (``is_host_busy``) another crawl requests the host.
    """

    purpose: Purpose
    wait_s: float
    is_host_busy: bool = False


class PermitAsked(msgspec.Struct, frozen=True, gc=False):
    """Whether another capture may be made."""

    is_granted: bool


class RobotsAnswered(msgspec.Struct, frozen=True, gc=False):
    """A request for robots.txt ended, and its answer was evaluated; or none for tdmrep.json left.

    The host waits until ``wait_until`` (0 = no). ``failures`` counts connection failures in a row,
    the first of them ``away_s`` ago. ``outage_s`` is as for ``NameFailed``.
    """

    is_answered: bool
    error: Reason
    failures: int
    wait_until: float
    detail: str
    address: str
    away_s: float = 0.0
    outage_s: float = 0.0


class PageAnswered(msgspec.Struct, frozen=True, gc=False):
    """A request for a URL ended.

    ``rests_until`` is the time until which the server asked to wait (0 = it did not ask).
    ``failures`` counts requests of the host in a row without any answer, the first of them
    ``away_s`` ago. ``outage_s`` is as for ``NameFailed``. ``is_lent``: an outside fetcher sent the
    request, so the URL cannot simply stay queued. ``was_sent``: a connection was made and the
    request left, so the URL may be why it failed. ``other_answers``: the host has answered
    lately by the other scheme, http or https.
    """

    reason: Reason
    status: int
    detail: str
    failures: int
    rests_until: float
    away_s: float = 0.0
    outage_s: float = 0.0
    is_lent: bool = False
    was_sent: bool = False
    other_answers: bool = False


class HostSetAside(msgspec.Struct, frozen=True, gc=False):
    """The host was set aside; ``has_answer`` if the answer for a page still has to be taken in."""

    has_answer: bool


class BodyExamined(msgspec.Struct, frozen=True, gc=False):
    """The answer for a page was parsed.

    ``target`` is the canonical URL to which it redirects (empty = none, or not usable). ``hops``
    counts the redirects so far, ``tries`` the earlier failed requests of the URL.
    ``is_conditional`` says that the request had validators, ``is_mismatch`` that a 304 is not for
    what they named.
    """

    fetched: Fetched
    target: str
    hops: int
    tries: int
    is_conditional: bool
    is_mismatch: bool = False


class TurnOver(msgspec.Struct, frozen=True, gc=False):
    """There is nothing left to do in this visit."""


Event = (
    TurnBegan
    | ErrandFound
    | UrlLeased
    | BudgetsJudged
    | RobotsUnread
    | RobotsJudged
    | UrlPassed
    | NameFailed
    | AddressFound
    | PermitAsked
    | RobotsAnswered
    | PageAnswered
    | HostSetAside
    | BodyExamined
    | TurnOver
)


# -- steps: what the actor does next
# ------------------------------------------------------------------


class AttendQuestions(msgspec.Struct, frozen=True, gc=False):
    """Take in the answers to the host's questions, and close questions that take too long."""

    keeps: ClassVar[Keeps] = _HOST


class FindErrand(msgspec.Struct, frozen=True, gc=False):
    """Find the next errand that needs a request, and answer those that need none."""

    keeps: ClassVar[Keeps] = _HOST


class RefuseErrand(msgspec.Struct, frozen=True, gc=False):
    """Answer the errand without a request."""

    keeps: ClassVar[Keeps] = _HOST
    reason: Reason
    detail: str = ""


class TakeUrl(msgspec.Struct, frozen=True, gc=False):
    """Lease the host's next URL."""

    keeps: ClassVar[Keeps] = _HOST


class JudgeBudgets(msgspec.Struct, frozen=True, gc=False):
    """Compare the usage of host and site with their budgets."""

    keeps: ClassVar[Keeps] = _LEASE


class JudgeRobots(msgspec.Struct, frozen=True, gc=False):
    """Judge the URL by the robots.txt of its origin."""

    keeps: ClassVar[Keeps] = _LEASE


class ReadRobots(msgspec.Struct, frozen=True, gc=False):
    """Read a long robots.txt outside the loop; the URL is judged again afterwards."""

    keeps: ClassVar[Keeps] = _HOST


class EndUrl(msgspec.Struct, frozen=True, gc=False):
    """End the lease without a request; with ``gives_way``, let the loop run other tasks."""

    keeps: ClassVar[Keeps] = _LEASE
    state: UrlState
    reason: Reason
    detail: str = ""
    gives_way: bool = False


class AwaitAnswer(msgspec.Struct, frozen=True, gc=False):
    """Let the host wait for the answer to its question."""

    keeps: ClassVar[Keeps] = _HOST


class Park(msgspec.Struct, frozen=True, gc=False):
    """Park the host, which is over a budget; it is judged again at ``until``."""

    keeps: ClassVar[Keeps] = _HOST
    until: int
    reason: Reason
    detail: str


class Snooze(msgspec.Struct, frozen=True, gc=False):
    """Let the host's URLs wait until ``until``; errands at the host do not wait."""

    until: float
    reason: Reason
    detail: str
    has_answer: bool = False

    @property
    def keeps(self) -> Keeps:
        return _ANSWER if self.has_answer else _HOST


class Retire(msgspec.Struct, frozen=True, gc=False):
    """Retire the host; with ``forgets_robots`` a reopened host fetches its robots.txt at once."""

    reason: Reason
    detail: str
    has_answer: bool = False
    forgets_robots: bool = False

    @property
    def keeps(self) -> Keeps:
        return _ANSWER if self.has_answer else _HOST


class FindAddress(msgspec.Struct, frozen=True, gc=False):
    """Look up the host's name and take a slot of its address."""

    purpose: Purpose

    @property
    def keeps(self) -> Keeps:
        return _LEASE if self.purpose is _PAGE else _HOST


class Postpone(msgspec.Struct, frozen=True, gc=False):
    """Let all hosts of the address wait for ``wait_s``, because the address has no free slot.

    Only the host waits if ``is_host_busy``: another crawl requests it.
    """

    keeps: ClassVar[Keeps] = _HOST
    wait_s: float
    is_host_busy: bool = False


class AskPermit(msgspec.Struct, frozen=True, gc=False):
    """Ask for a permit to make a capture."""

    keeps: ClassVar[Keeps] = _LEASE_SLOT


class SendRequest(msgspec.Struct, frozen=True, gc=False):
    """Send the request; the host then rests."""

    purpose: Purpose

    @property
    def keeps(self) -> Keeps:
        return _ALL if self.purpose is _PAGE else _SLOT


class TakeIn(msgspec.Struct, frozen=True, gc=False):
    """Parse the answer and look up whether its content is known. The host is not needed for it."""

    keeps: ClassVar[Keeps] = _URL


class StoreCapture(msgspec.Struct, frozen=True, gc=False):
    """Store the answer as a capture, end the lease with it and take in its links."""

    keeps: ClassVar[Keeps] = _URL
    outcome: FetchOutcome
    target: str


class RejectAnswer(msgspec.Struct, frozen=True, gc=False):
    """End the lease without a capture; the URL failed, or is retried at ``due`` (0 = never)."""

    keeps: ClassVar[Keeps] = _URL
    state: UrlState
    reason: Reason
    detail: str
    due: int = 0


class GiveBack(msgspec.Struct, frozen=True, gc=False):
    """End the visit; the host waits for its next turn."""

    keeps: ClassVar[Keeps] = _NOTHING


VisitAct = (
    AttendQuestions
    | FindErrand
    | RefuseErrand
    | TakeUrl
    | JudgeBudgets
    | JudgeRobots
    | ReadRobots
    | EndUrl
    | AwaitAnswer
    | Park
    | Snooze
    | Retire
    | FindAddress
    | Postpone
    | AskPermit
    | SendRequest
    | TakeIn
    | StoreCapture
    | RejectAnswer
)
VisitStep = VisitAct | GiveBack
