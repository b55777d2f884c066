"""The inputs of a URL's priority."""

from __future__ import annotations

import msgspec

NO_RANK = -1
"""No rank is known of a host or page."""


class Factors(msgspec.Struct, frozen=True, gc=False):
    """Inputs of a priority.

    ``importance`` is that of the link by which the URL was found, ``authority`` that of its host,
    both in [0, 1]. ``depth`` counts links from a seed. ``change_interval_s`` is the time between
    changes (0 = unknown), ``age_s`` the time since the last fetch (negative = never fetched),
    ``hint`` a sitemap's priority in [0, 1] (negative = none). ``given`` is the priority that the
    program which gave the URL demands, in [0, 1] (negative = none); the others do not count then.
    ``score`` is what user code says of it, in [0, 1] (negative = nothing).
    ``chance`` is that of a change since the last fetch, in [0, 1] (negative = not estimated).
    """

    importance: float = 0.0
    authority: float = 0.0
    depth: int = 0
    change_interval_s: float = 0.0
    age_s: float = -1.0
    hint: float = -1.0
    given: float = -1.0
    chance: float = -1.0
    score: float = -1.0
