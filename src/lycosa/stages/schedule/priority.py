"""The priority of a URL: a pure function in [0, 1], monotone in each factor.

It is the weighted mean of five factors, each mapped to [0, 1]:

* importance: the rank of the page; without one that of the link, or the sitemap's hint if that is
  higher;
* authority: the rank of the host; without one its importance, by how many sites link to it;
* depth: ``4 / (4 + depth)``;
* change: ``7 d / (7 d + interval)``, with the interval between changes; 0.5 when it is unknown;
* staleness: the chance that the page has changed since its last fetch; 1 when there was none, and
  ``age / (30 d + age)`` when there is no estimate (a record of an older program).

User code may add a term, its score, which counts as much as the others together by default. Without
an opinion there is no such term, so the priority is that of a score of the same height.

A program that gives the URL to the crawl may demand a priority; then that is the priority.

The owner of a URL computes it when the URL is found, after each fetch and whenever the URL is
queued again (``frontier.ranking``).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.config.sections import PrioritySection
from lycosa.base.model.factors import Factors

_DEPTH_HALF = 4.0  # links from a seed at which the depth factor is one half
_CHANGE_HALF_S = 7 * 86_400.0  # interval between changes at which the change factor is one half
COPY_WEIGHT = 0.25
"""What the freshness of a near copy is worth, as a share of that of its original."""

_STALE_HALF_S = 30 * 86_400.0  # age of the last fetch at which the staleness factor is one half


def prioritizer(weights: PrioritySection) -> Callable[[Factors], float]:
    """The function from a URL's factors to its priority; a higher one is fetched sooner.

    What depends only on the settings is computed here once, because every URL that is found or
    queued is ranked.
    """
    of_importance, of_authority, of_depth = weights.importance, weights.authority, weights.depth
    of_change, of_staleness = weights.change, weights.staleness
    total = of_importance + of_authority + of_depth + of_change + of_staleness
    of_score = weights.score

    def prioritize(factors: Factors) -> float:
        # A program that submits a URL knows better than any formula.
        if factors.given >= 0:
            return factors.given
        if factors.score >= 0 and total + of_score > 0:
            others = total * prioritize(msgspec.structs.replace(factors, score=-1.0))
            return float((others + of_score * factors.score) / (total + of_score))
        # All weights are 0: every URL has the same priority, and the order is that of discovery.
        if total == 0:
            return 0.5
        importance, authority = factors.importance, factors.authority
        if factors.hint >= 0:
            importance = max(importance, min(factors.hint, 1.0))
        interval_s, age_s = factors.change_interval_s, factors.age_s
        change = _CHANGE_HALF_S / (_CHANGE_HALF_S + interval_s) if interval_s > 0 else 0.5
        # A URL that was never fetched has the maximum staleness.
        staleness = 1.0 if age_s < 0 else age_s / (age_s + _STALE_HALF_S)
        if factors.chance >= 0:
            staleness = factors.chance
        # comparisons, because calls of min and max take twice the time
        importance = 0.0 if importance < 0.0 else 1.0 if importance > 1.0 else importance
        authority = 0.0 if authority < 0.0 else 1.0 if authority > 1.0 else authority
        weighted = (
            of_importance * importance
            + of_authority * authority
            + of_depth * (_DEPTH_HALF / (_DEPTH_HALF + factors.depth))
            + of_change * change
            + of_staleness * staleness
        )
        return float(weighted / total)

    return prioritize


def weigher(weights: PrioritySection) -> Callable[[Factors], float]:
    """The function from a URL's factors to its weight: what its freshness is worth.

    It is twice the priority without the factors that change with each fetch, so a page of middle
    priority has the weight 1, and none has more than 2.
    """
    prioritize = prioritizer(msgspec.structs.replace(weights, change=0.0, staleness=0.0))
    return lambda factors: 2 * prioritize(factors)


def linked_importance(linking: int, link: float) -> float:
    """The importance of a host to which so many sites link: about the share of hosts with fewer.

    ``link`` is the importance of the last link that counted, in [0, 1]. It decides among hosts with
    the same number, as most have in a young crawl, and is worth at most half a site.

    In-degrees follow a power law: a share of about 1 / *n* has *n* links or more (exponent of the
    density 2.1: Broder et al. 2000, "Graph structure in the Web"). So it is in the unit of ranks,
    the quantile, without any count over all hosts.
    """
    worth = linking - 0.5 + 0.5 * min(max(link, 0.0), 1.0)
    return worth / (1 + worth)


def link_importance(source_importance: float, links: int) -> float:
    """The importance that one link passes on from its page.

    Damped as in PageRank, and divided among the page's links by the square root of their number.
    """
    return float(min(1.0, 0.85 * max(source_importance, 0.05) / max(links, 1) ** 0.5))
