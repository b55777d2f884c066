"""Values of which the record of a host consists: what politeness, budgets, renders, missing paths
and speculative URLs need to remember of it.
"""

from __future__ import annotations

from collections.abc import Callable

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
