"""What politeness remembers of one host."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


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
