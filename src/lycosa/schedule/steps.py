"""The values of a visit's state machine: what an actor learned (events), and what it does next
(steps).

Which step follows which event, and what a visit holds meanwhile, is in ``schedule.visit``.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import msgspec

from lycosa.config.sections import BudgetSection, RetrySection
from lycosa.model.completed import UrlState
from lycosa.model.fetched import Fetched
from lycosa.reasons import Reason
from lycosa.schedule.outcome import Outcome


class Keeps(msgspec.Struct, frozen=True, gc=False):
    """What a visit goes on holding while a step is performed: its host, the lease of a URL, a slot
    of the host's address, a permit for a capture.
    """

    host: bool = True
    lease: bool = False
    slot: bool = False
    permit: bool = False


_HOST, _LEASE = Keeps(), Keeps(lease=True)
_SLOT, _LEASE_SLOT = Keeps(slot=True), Keeps(lease=True, slot=True)
_ALL, _ANSWER = Keeps(lease=True, slot=True, permit=True), Keeps(lease=True, permit=True)
_URL, _NOTHING = Keeps(host=False, lease=True, permit=True), Keeps(host=False)


class Purpose(Enum):
    """What a request is for."""

    PAGE = "a URL of the host"
    ROBOTS = "the robots.txt of one of its origins"
    ERRAND = "what the robots.txt of another host redirects to"


class VisitRules(msgspec.Struct, frozen=True):
    """The settings that decisions follow."""

    retry: RetrySection
    budgets: BudgetSection
    max_hops: int


# -- events: what the actor learned
# -------------------------------------------------------------------


class TurnBegan(msgspec.Struct, frozen=True, gc=False):
    """The frontier gave the host; again when its open questions were attended. ``wait_s`` is how
    long its time is away, at most 0 when it has come.
    """

    wait_s: float
    has_questions: bool = False
    is_errands_turn: bool = False


class ErrandFound(msgspec.Struct, frozen=True, gc=False):
    """An errand needs a request; ``is_hopeless`` when that killed too many workers."""

    is_hopeless: bool


class UrlLeased(msgspec.Struct, frozen=True, gc=False):
    """The host's next URL."""

    is_hopeless: bool


class BudgetsJudged(msgspec.Struct, frozen=True, gc=False):
    """Whether the host is over a budget (``reason``), and how often it was parked before."""

    reason: Reason = Reason.NONE
    detail: str = ""
    parks: int = 0


class RobotsUnread(msgspec.Struct, frozen=True, gc=False):
    """The robots.txt of the URL's origin is long, and has to be read away from the loop."""


class RobotsJudged(msgspec.Struct, frozen=True, gc=False):
    """What the robots.txt of the URL's origin says: it must be fetched, or waited for until
    ``wait_until`` (0 = no), or it allows or disallows the URL, ``judged``-th of the visit."""

    is_needed: bool = False
    is_asked_elsewhere: bool = False  # an answer to a question is awaited
    is_hopeless: bool = False  # fetching it killed too many workers
    wait_until: float = 0.0
    is_allowed: bool = False
    detail: str = ""
    is_costly: bool = False
    judged: int = 0


class UrlPassed(msgspec.Struct, frozen=True, gc=False):
    """The URL, ``judged``-th of the visit, is not leased any more."""

    judged: int


class NameFailed(msgspec.Struct, frozen=True, gc=False):
    """The host's name has no address, ``failures`` times in a row; ``is_outage``: no other name has
    one just now."""

    purpose: Purpose
    reason: Reason
    detail: str
    failures: int
    is_outage: bool


class AddressFound(msgspec.Struct, frozen=True, gc=False):
    """The host has an address; a slot of it is taken when ``wait_s`` is not more than 0."""

    purpose: Purpose
    wait_s: float


class PermitAsked(msgspec.Struct, frozen=True, gc=False):
    """Whether another capture may be made."""

    is_granted: bool


class RobotsAnswered(msgspec.Struct, frozen=True, gc=False):
    """A request for robots.txt ended, and it is known what follows: the host waits until
    ``wait_until`` (0 = no). ``failures`` connections in a row failed."""

    is_answered: bool
    error: Reason
    failures: int
    wait_until: float
    detail: str
    address: str


class PageAnswered(msgspec.Struct, frozen=True, gc=False):
    """A request for a URL ended. ``rests_until`` is when the host asked to be asked again (0 = it
    did not ask).
    """

    reason: Reason
    status: int
    detail: str
    failures: int
    rests_until: float


class HostSetAside(msgspec.Struct, frozen=True, gc=False):
    """The host was put aside; ``has_answer`` when a page's answer is still to be taken in."""

    has_answer: bool


class BodyExamined(msgspec.Struct, frozen=True, gc=False):
    """A page's answer was parsed. ``target`` is where it redirects to in canonical form (empty = it
    does not, or to nothing usable), ``hops`` how many redirects led here, ``tries`` how many
    requests of the URL failed before; ``is_conditional``: validators were sent.
    """

    fetched: Fetched
    target: str
    hops: int
    tries: int
    is_conditional: bool


class TurnOver(msgspec.Struct, frozen=True, gc=False):
    """Nothing is left to do in this visit."""


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
    """Take in the answers to what the host asked others, and give up what takes too long."""

    keeps: ClassVar[Keeps] = _HOST


class FindErrand(msgspec.Struct, frozen=True, gc=False):
    """Find the errand that needs a request; answer those that need none."""

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
    """Compare what host and site have taken with their budgets."""

    keeps: ClassVar[Keeps] = _LEASE


class JudgeRobots(msgspec.Struct, frozen=True, gc=False):
    """Ask the robots.txt of the URL's origin."""

    keeps: ClassVar[Keeps] = _LEASE


class ReadRobots(msgspec.Struct, frozen=True, gc=False):
    """Read a long robots.txt away from the loop; the URL is asked about again."""

    keeps: ClassVar[Keeps] = _HOST


class EndUrl(msgspec.Struct, frozen=True, gc=False):
    """End the lease without a request; give other visits a turn of the loop if ``gives_way``."""

    keeps: ClassVar[Keeps] = _LEASE
    state: UrlState
    reason: Reason
    detail: str = ""
    gives_way: bool = False


class AwaitAnswer(msgspec.Struct, frozen=True, gc=False):
    """Let the host wait for the answer to its question."""

    keeps: ClassVar[Keeps] = _HOST


class Park(msgspec.Struct, frozen=True, gc=False):
    """Park the host: it is over a budget, and judged again at ``until``."""

    keeps: ClassVar[Keeps] = _HOST
    until: int
    reason: Reason
    detail: str


class Snooze(msgspec.Struct, frozen=True, gc=False):
    """Let the host's own URLs wait until ``until``."""

    until: float
    reason: Reason
    detail: str
    has_answer: bool = False

    @property
    def keeps(self) -> Keeps:
        return _ANSWER if self.has_answer else _HOST


class Retire(msgspec.Struct, frozen=True, gc=False):
    """Give the host up; ``forgets_robots``: if it is reopened, its robots.txt is fetched at
    once.
    """

    reason: Reason
    detail: str
    has_answer: bool = False
    forgets_robots: bool = False

    @property
    def keeps(self) -> Keeps:
        return _ANSWER if self.has_answer else _HOST


class FindAddress(msgspec.Struct, frozen=True, gc=False):
    """Look up the host's name, and take a slot of its address."""

    purpose: Purpose

    @property
    def keeps(self) -> Keeps:
        return _LEASE if self.purpose is Purpose.PAGE else _HOST


class Postpone(msgspec.Struct, frozen=True, gc=False):
    """Let the host and all others of its address wait for ``wait_s``: the address has no free
    slot.
    """

    keeps: ClassVar[Keeps] = _HOST
    wait_s: float


class AskPermit(msgspec.Struct, frozen=True, gc=False):
    """Ask for a permit to make a capture."""

    keeps: ClassVar[Keeps] = _LEASE_SLOT


class SendRequest(msgspec.Struct, frozen=True, gc=False):
    """Send the request; the host then rests."""

    purpose: Purpose

    @property
    def keeps(self) -> Keeps:
        return _ALL if self.purpose is Purpose.PAGE else _SLOT


class TakeIn(msgspec.Struct, frozen=True, gc=False):
    """Parse the answer and find out whether its content is known; the host is not needed for it."""

    keeps: ClassVar[Keeps] = _URL


class StoreCapture(msgspec.Struct, frozen=True, gc=False):
    """Store the answer as a capture, end the lease with it and take in what it links to."""

    keeps: ClassVar[Keeps] = _URL
    outcome: Outcome
    target: str


class RejectAnswer(msgspec.Struct, frozen=True, gc=False):
    """End the lease without a capture: the URL failed, or is tried again at ``due`` (0 = never)."""

    keeps: ClassVar[Keeps] = _URL
    state: UrlState
    reason: Reason
    detail: str
    due: int = 0


class GiveBack(msgspec.Struct, frozen=True, gc=False):
    """The visit is over; the host waits for its time."""

    keeps: ClassVar[Keeps] = _NOTHING


Act = (
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
Step = Act | GiveBack
