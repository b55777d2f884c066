"""The factors of a URL's priority, as its owner knows them, when it is found or queued again.

Only the owner knows the host, whose importance other finds may have raised meanwhile, and the URL's
history.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.factors import NO_RANK, Factors
from lycosa.base.model.refetch_cell import rate_in
from lycosa.base.urls.identity import hash8
from lycosa.state.kv.table_records import UrlRecord

Prioritize = Callable[[Factors], float]
"""Returns the priority in [0, 1]."""

_MIN_CHANGE_S = 3600.0
_DAY_S = 86_400.0


class Ranks(Protocol):
    """What is known of hosts and pages from a link graph, in 255ths of the quantile."""

    def host_rank(self, host8: bytes) -> int:
        """The rank of a host, or ``NO_RANK``."""
        ...

    def page_rank(self, url8: bytes) -> int:
        """The rank of a page, or ``NO_RANK``."""
        ...


def rank_of_host(ranks: Ranks, host8: bytes, name: str) -> int:
    """The rank of a host; a ``www.`` host without one has that of the name without ``www.``.

    Common Crawl's graphs have no ``www.`` hosts: they count for the name behind it.
    """
    rank = ranks.host_rank(host8)
    if rank < 0 and name.startswith("www."):
        rank = ranks.host_rank(hash8(name[4:]))
    return rank


def by_importance(factors: Factors) -> float:
    """The simplest priority."""
    return factors.given if factors.given >= 0 else max(factors.importance, factors.hint)


def factors_of_found(
    found: Discovered, authority: float, now: float, rank: int = NO_RANK
) -> Factors:
    """The factors of a new URL. Its rank, if it has one, counts in place of the link's importance.

    If a sitemap gives only the time of its last change, the next change is assumed to come after
    the same time again. What a page waits for has the highest priority.
    """
    if found.kind is LinkKind.GIVEN:
        given = min(found.hint, 1.0)
        return Factors(found.importance, authority, found.depth, given=given)
    if found.kind is LinkKind.WANTED:
        return Factors(found.importance, authority, found.depth, given=1.0)
    importance = found.importance if rank < 0 else rank / 255
    change_s = found.change_s or (max(now - found.lastmod, _MIN_CHANGE_S) if found.lastmod else 0.0)
    if found.score >= 0:
        score = found.score / 255
        return Factors(importance, authority, found.depth, change_s, hint=found.hint, score=score)
    return Factors(importance, authority, found.depth, change_s, hint=found.hint)


def factors_of_known(
    record: UrlRecord, authority: float, now: float, doubt: float = 1.0, rank: int = NO_RANK
) -> Factors:
    """The factors of a URL that is queued again, or was fetched.

    How often it changes is what its cell says, from which the time of the refetch was calculated
    too. A record without one has its refetch interval, which followed the observed changes.
    ``doubt`` is the chance that all signals of a change are wrong, 1 without any. ``rank`` is that
    of the page, if it has one.
    """
    # negative in a record of an older program, which did not store it
    importance = record.importance / 255 if record.importance >= 0 else authority
    history = record.history
    # stored as the importance of the find, which is 0 without a priority
    given = importance if record.kind is LinkKind.GIVEN and importance > 0 else -1.0
    if record.kind is LinkKind.WANTED and history is None:
        given = 1.0  # later, no page waits for it any more
    if rank >= 0:
        importance = rank / 255
    if history is None or not history.fetches:
        score = record.score / 255 if record.score >= 0 else -1.0
        return Factors(importance, authority, record.depth, given=given, score=score)
    age_s = max(now - history.fetched_at, 0.0)
    change_s, chance = float(history.interval_s), -1.0
    if history.cell:
        change_s = _DAY_S / rate_in(history.cell)
        chance = 1.0 - doubt * math.exp(-age_s / change_s)
    return Factors(importance, authority, record.depth, change_s, age_s, given=given, chance=chance)


def stored_importance(found: Discovered) -> int:
    """The importance of a find in the unit of its record, 1/255."""
    return round(255 * min(max(found.importance, found.hint, 0.0), 1.0))
