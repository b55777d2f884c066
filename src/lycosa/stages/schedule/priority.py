"""The priority of a URL: a pure function in [0, 1], monotone in each factor.

It is the weighted mean of five factors, each mapped to [0, 1]:

* importance: that of the link, or the sitemap's hint if that is higher;
* authority: the importance of the host, which is the maximum over all links found to it;
* depth: ``4 / (4 + depth)``;
* change: ``7 d / (7 d + interval)``, with the interval between changes; 0.5 when it is unknown;
* staleness: ``age / (30 d + age)``, with the age of the last fetch; 1 when there was none.

A program that gives the URL to the crawl may demand a priority; then that is the priority.

The owner of a URL computes it when the URL is found, after each fetch and whenever the URL is
queued again (``frontier.ranking``).
"""

from __future__ import annotations

from lycosa.base.config.sections import PrioritySection
from lycosa.base.model.factors import Factors

_DEPTH_HALF = 4.0  # links from a seed at which the depth factor is one half
_CHANGE_HALF_S = 7 * 86_400.0  # interval between changes at which the change factor is one half
_STALE_HALF_S = 30 * 86_400.0  # age of the last fetch at which the staleness factor is one half


def priority(factors: Factors, weights: PrioritySection) -> float:
    """The priority; a URL with a higher one is fetched sooner."""
    # A program that submits a URL knows better than any formula.
    if factors.given >= 0:
        return factors.given
    importance = (
        factors.importance if factors.hint < 0 else max(factors.importance, min(factors.hint, 1.0))
    )
    change = (
        _CHANGE_HALF_S / (_CHANGE_HALF_S + factors.change_interval_s)
        if factors.change_interval_s > 0
        else 0.5
    )
    # A URL that was never fetched has the maximum staleness.
    staleness = 1.0 if factors.age_s < 0 else factors.age_s / (factors.age_s + _STALE_HALF_S)
    depth = _DEPTH_HALF / (_DEPTH_HALF + factors.depth)
    total = (
        weights.importance + weights.authority + weights.depth + weights.change + weights.staleness
    )
    # All weights are 0: every URL has the same priority, and the order is that of discovery.
    if total == 0:
        return 0.5
    weighted = (
        weights.importance * min(max(importance, 0.0), 1.0)
        + weights.authority * min(max(factors.authority, 0.0), 1.0)
        + weights.depth * depth
        + weights.change * change
        + weights.staleness * staleness
    )
    return float(weighted / total)


def link_importance(source_importance: float, links: int) -> float:
    """The importance that one link passes on from its page.

    Damped as in PageRank, and divided among the page's links by the square root of their number.
    """
    return float(min(1.0, 0.85 * max(source_importance, 0.05) / max(links, 1) ** 0.5))
