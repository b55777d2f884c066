"""Values of which the record of a host consists: what politeness, budgets, renders, missing paths
and speculative URLs need to remember of it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from lycosa.base.urls.url_patterns import pattern_of


class Pace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Inputs of the effective delay; ``politeness.delay`` gives them meaning.

    ``crawl_delay_s`` is robots.txt's (-1 = none), ``last_duration_s`` the last exchange's.
    ``backoffs`` is the back-off level: one more after each 429 or 503 without Retry-After, half
    after each good answer. ``backoff_at`` is the crawl time of the last such refusal, ``retry_at``
    the crawl time that Retry-After gave (0 = none). ``operator_delay_s`` is the minimum pause
    that an operator decided for this host (-1 = that of the settings).
    """

    crawl_delay_s: float = -1.0
    last_duration_s: float = 0.0
    backoffs: int = 0
    backoff_at: float = 0.0
    retry_at: float = 0.0
    operator_delay_s: float = -1.0


def with_times(
    pace: Pace, past: Callable[[float], float], future: Callable[[float], float]
) -> Pace:
    """The pace with each of its crawl times changed: of what was, and of what is to come."""
    return msgspec.structs.replace(
        pace, backoff_at=past(pace.backoff_at), retry_at=future(pace.retry_at)
    )


class Usage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Captures, body bytes, seconds spent fetching, URLs discovered.

    For a site also the hosts visited under ``budgets.site_hosts``, and the licences that others
    named on its hosts; for a host the requisites on other hosts that its pages brought, while
    ``budgets.host_requisites`` limits them.
    """

    captures: int = 0
    bytes: int = 0
    time_s: float = 0.0
    discovered: int = 0
    hosts: int = 0
    licenses: int = 0
    requisites: int = 0


class RenderTally(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What renders of pages of one shape brought; ``useful`` of those ``tried`` added something."""

    tried: int = 0
    useful: int = 0


class MissingPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The answer to the last question, and whether a newer one is wanted.

    ``asked_at`` is crawl time (0 = never asked). ``status`` is that of the answer (0 = none).
    ``digest`` is the SHA-1 of its payload and ``simhash`` the fingerprint of its text (0 = none).
    ``target`` is the URL to which the answer redirects. ``copies`` counts pages of the host that
    were copies of others of it since the last question.
    """

    asked_at: float = 0.0
    is_wanted: bool = False
    status: int = 0
    digest: bytes = b""
    simhash: int = 0
    target: str = ""
    copies: int = 0


class OwnFinding(Enum):
    """What the last look at the file that proves an own host has found. The value is stored."""

    RIGHT = "right"
    WRONG_TOKEN = "wrong_token"
    MISSING = "missing"
    REDIRECTED = "redirected"
    REFUSED = "refused"
    DISALLOWED = "disallowed"
    UNANSWERED = "unanswered"

    @property
    def meaning(self) -> str:
        """A sentence for users."""
        return _OWN_FINDINGS[self]


_OWN_FINDINGS = {
    OwnFinding.RIGHT: "The file has its token.",
    OwnFinding.WRONG_TOKEN: "The file has not the token of this host under this secret.",
    OwnFinding.MISSING: "The host has no such file.",
    OwnFinding.REDIRECTED: "The file is a redirect, which is not followed.",
    OwnFinding.REFUSED: "The server refuses the file, or failed.",
    OwnFinding.DISALLOWED: "robots.txt disallows the file.",
    OwnFinding.UNANSWERED: "The request for the file had no answer.",
}


class OwnFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The file of an own host: when it was requested last, in seconds since 1970, and the result.

    ``detail`` has what the finding does not say, as the status.
    """

    at: float
    finding: OwnFinding
    detail: str = ""


MISSES = 10
"""A pattern of URLs is stopped after so many in a row that did not exist."""

_MAX_PATTERNS = 64


class SpeculationRecord(msgspec.Struct, array_like=True):
    """``requests`` were given to speculative URLs, each retry counted.

    ``misses`` has, by pattern (``base.urls.url_patterns``), how many of the last ones in a row did
    not exist; a pattern whose last one did has none.
    """

    requests: int = 0
    misses: dict[str, int] = {}

    def is_stopped(self, target: str) -> bool:
        """Whether too many URLs like this one did not exist."""
        return self.misses.get(pattern_of(target), 0) >= MISSES

    def note_answer(self, target: str, exists: bool) -> None:
        """Count the answer for a speculative URL.

        If there are too many patterns, the one with the fewest misses is forgotten. A stopped one
        is forgotten last, and then costs ten requests again.
        """
        pattern = pattern_of(target)
        before = self.misses.pop(pattern, 0)
        if exists:
            return
        if len(self.misses) >= _MAX_PATTERNS:
            del self.misses[min(self.misses, key=lambda each: self.misses[each])]
        self.misses[pattern] = before + 1


_MOST = 128
"""Counts that are compared are halved beyond this, so that a host can recover."""
_MOST_CONFIRMED = 10_000


class ValidatorFinding(Enum):
    """What one answer to a refetch showed. The value is the label of a metric."""

    NOTHING = "nothing"
    NOT_MODIFIED = "not_modified"  # a 304
    REVEALED = "revealed"  # a conditional request brought a changed text
    AGREED = "agreed"  # a check found what the 304 before it had said
    HIDDEN = "hidden"  # a change that the validators did not show
    OTHER_TAG = "other_tag"  # the ETag differs, text and Last-Modified do not
    UNASKED = "unasked"  # a 304 that answers no condition of the request


VALIDATOR_LABELS = tuple(
    each.value for each in ValidatorFinding if each is not ValidatorFinding.NOTHING
)
"""The findings that are counted."""


class ValidatorCounts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Findings of one host, by ``ValidatorFinding``.

    ``confirmed`` counts 304s, up to ten thousand. ``tags`` counts conditions with an ETag that were
    fulfilled, ``other_tags`` the opposite.
    ``agreed`` and ``hidden``, and the two counts of tags, are halved together when they are many:
    what was long ago counts less. ``doubted`` is the ``url8`` up to which the pages of a host whose
    validators are not believed any more were made due again, empty when none are left.
    """

    hidden: int = 0
    agreed: int = 0
    revealed: int = 0
    tags: int = 0
    other_tags: int = 0
    unasked: int = 0
    confirmed: int = 0
    doubted: bytes = b""

    def with_finding(self, finding: ValidatorFinding, has_tag: bool = False) -> ValidatorCounts:
        """The counts after one more; ``has_tag``: the request had an ETag."""
        hidden, agreed = self.hidden, self.agreed
        hidden += finding is ValidatorFinding.HIDDEN
        agreed += finding is ValidatorFinding.AGREED
        if hidden + agreed > _MOST:
            hidden, agreed = hidden // 2, agreed // 2
        tags = self.tags + (finding is ValidatorFinding.NOT_MODIFIED and has_tag)
        others = self.other_tags + (finding is ValidatorFinding.OTHER_TAG)
        if tags + others > _MOST:
            tags, others = tags // 2, others // 2
        return ValidatorCounts(
            hidden,
            agreed,
            min(self.revealed + (finding is ValidatorFinding.REVEALED), _MOST),
            tags,
            others,
            self.unasked + (finding is ValidatorFinding.UNASKED),
            min(self.confirmed + (finding is ValidatorFinding.NOT_MODIFIED), _MOST_CONFIRMED),
            self.doubted,
        )
