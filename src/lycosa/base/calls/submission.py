"""URLs that another program gives to the crawl.

The caller groups them by partition and calls each owner once; an owner answers when its commit is
in the log. A call may be repeated: the URL-seen check makes it idempotent.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from lycosa.base.calls.operator_decisions import (
    DeadLetterDecision,
    DecisionAnswer,
    HostDecision,
    ReparseDecision,
)
from lycosa.base.calls.outside_fetchers import GiveResults, LeaseUrls, ResultsTaken, UrlsLeased
from lycosa.base.calls.queries import ContentFound, Found, FoundChanges, StateQuestion
from lycosa.base.calls.renderer_calls import (
    CapturesFound,
    FindCaptures,
    GiveRender,
    OrderRenders,
    RendersLent,
    RenderTaken,
    TakeRenders,
)


class GivenUrl(msgspec.Struct, frozen=True):
    """A URL as the caller wrote it.

    ``priority`` is in [0, 1], or negative for that of an ordinary link. ``source_url`` is the page
    that links to it, if there is one, ``depth`` its distance from a seed. ``discovered_at`` is wall
    time in seconds (0 = now).
    """

    url: str
    priority: float = -1.0
    source_url: str = ""
    depth: int = 0
    discovered_at: float = 0.0


class GiveUrls(msgspec.Struct, frozen=True, tag=True):
    """URLs of hosts of one partition, at most 1,000; ``by`` names the caller."""

    by: str
    urls: list[GivenUrl]


class AnnounceChanges(msgspec.Struct, frozen=True, tag=True):
    """Known URLs of one partition that have changed, at most 1,000; ``by`` names the caller.

    ``discovered_at`` of each is when it changed. With ``adds`` URLs that the crawl does not know
    are given to it. ``are_awaited``: a caller waits for them, so they are due now.
    """

    by: str
    urls: list[GivenUrl]
    adds: bool = False
    are_awaited: bool = False


class SiteNotice(msgspec.Struct, frozen=True, tag=True):
    """URLs of one host that have changed, as the site itself says by IndexNow; at most 1,000.

    ``key`` is its key and ``key_url`` the file that must have it. ``at`` is when the notice came.
    The answer has no verdicts: a site does not learn what the crawl knows.
    """

    host: str
    key: str
    key_url: str
    urls: list[str]
    at: float


class UrlVerdict(Enum):
    """What became of a URL that was given."""

    ACCEPTED = "accepted"  # it is new and waits in the frontier
    DUPLICATE = "duplicate"  # the crawl knew it
    REJECTED = "rejected"  # a rule refuses it, or it is not a URL
    UNKNOWN = "unknown"  # its owner did not answer: call again
    # of URLs that have changed
    SOONER = "sooner"  # it is due earlier than before
    WAITING = "waiting"  # it waits in the queue of its host, or is being fetched
    KEPT = "kept"  # its time stays: fetched since then, or the source is not believed enough
    ENDED = "ended"  # it is not fetched again
    NOT_KNOWN = "not_known"  # the crawl does not know it


class GivenVerdict(msgspec.Struct, frozen=True):
    """A URL as the caller wrote it, and what became of it; ``reason`` explains a refusal."""

    url: str
    verdict: UrlVerdict
    reason: str = ""


class GivenVerdicts(msgspec.Struct, frozen=True, tag=True):
    """The verdicts, in the order of the URLs."""

    verdicts: list[GivenVerdict]


class CallRefusal(msgspec.Struct, frozen=True, tag=True):
    """The owner refuses the call, and would refuse it again; ``reason`` is for its caller."""

    reason: str


Call = (
    GiveUrls
    | AnnounceChanges
    | SiteNotice
    | HostDecision
    | DeadLetterDecision
    | ReparseDecision
    | LeaseUrls
    | GiveResults
    | TakeRenders
    | FindCaptures
    | GiveRender
    | OrderRenders
    | StateQuestion
)
CallReply = (
    GivenVerdicts
    | DecisionAnswer
    | UrlsLeased
    | ResultsTaken
    | Found
    | FoundChanges
    | ContentFound
    | RendersLent
    | CapturesFound
    | RenderTaken
    | CallRefusal
)

encode_call = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(Call).decode
encode_reply = msgspec.msgpack.Encoder().encode
decode_reply = msgspec.msgpack.Decoder(CallReply).decode
