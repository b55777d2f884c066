"""The facts from which a URL's priority is made, as its owner knows them: when it is found, and
whenever it is queued again.

The owner makes them, because only there the host is known, which other finds made more important
meanwhile, and the URL's history.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.kv.records import UrlRecord
from lycosa.model.discovered import Discovered
from lycosa.model.factors import Factors

Prioritize = Callable[[Factors], float]
"""Gives the priority in [0, 1]."""

_LEAST_CHANGE_S = 3600.0


def by_importance(factors: Factors) -> float:
    """The simplest priority."""
    return max(factors.importance, factors.hint)


def factors_of_found(found: Discovered, authority: float, now: float) -> Factors:
    """A URL that is new. When a sitemap tells only when it last changed, it is taken to change
    again after as long a time.
    """
    change_s = found.change_s or (
        max(now - found.lastmod, _LEAST_CHANGE_S) if found.lastmod else 0.0
    )
    return Factors(found.importance, authority, found.depth, change_s, hint=found.hint)


def factors_of_known(record: UrlRecord, authority: float, now: float) -> Factors:
    """A URL that is queued again, or was fetched. How often it changes is what its refetch interval
    says, which follows the changes that were seen.
    """
    # a record from before that was kept
    importance = record.importance / 255 if record.importance >= 0 else authority
    history = record.history
    if history is None or not history.fetches:
        return Factors(importance, authority, record.depth)
    return Factors(
        importance,
        authority,
        record.depth,
        float(history.interval_s),
        max(now - history.fetched_at, 0.0),
    )


def stored_importance(found: Discovered) -> int:
    """The importance of a find as its record keeps it, in 255ths."""
    return round(255 * min(max(found.importance, found.hint, 0.0), 1.0))
