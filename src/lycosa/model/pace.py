"""What politeness remembers of one host."""

from __future__ import annotations

import msgspec


class Pace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Inputs of the effective delay; ``politeness.delay`` gives them meaning.

    ``crawl_delay_s`` is robots.txt's (-1 = none), ``last_duration_s`` the last exchange's, ``backoffs`` the answers 429 and 503 in a
    row without Retry-After, ``backoff_at`` the crawl time of the last one, ``retry_at`` the crawl time that Retry-After gave (0 = none).
    """

    crawl_delay_s: float = -1.0
    last_duration_s: float = 0.0
    backoffs: int = 0
    backoff_at: float = 0.0
    retry_at: float = 0.0
