"""Priority of a URL: a pure function in [0, 1], monotone in each factor.

A weighted mean of link importance, site authority, depth, change frequency and staleness, each first brought to [0, 1].
"""

from __future__ import annotations

import msgspec

from lycosa.config import PrioritySection

_DEPTH_HALF = 4.0  # links from a seed at which the depth factor is one half
_CHANGE_HALF_S = 7 * 86_400.0  # interval between changes at which the change factor is one half
_STALE_HALF_S = 30 * 86_400.0  # age of the last fetch at which the staleness factor is one half


class Factors(msgspec.Struct, frozen=True, gc=False):
    """Inputs: ``importance`` and ``authority`` in [0, 1], ``depth`` in links, ``change_interval_s`` (0 = unknown), ``age_s`` since the last
    fetch (negative = never fetched), ``hint`` of a sitemap in [0, 1] (negative = none)."""

    importance: float = 0.0
    authority: float = 0.0
    depth: int = 0
    change_interval_s: float = 0.0
    age_s: float = -1.0
    hint: float = -1.0


def priority(factors: Factors, weights: PrioritySection) -> float:
    """The priority; higher is fetched sooner."""
    importance = factors.importance if factors.hint < 0 else max(factors.importance, min(factors.hint, 1.0))
    change = _CHANGE_HALF_S / (_CHANGE_HALF_S + factors.change_interval_s) if factors.change_interval_s > 0 else 0.5
    # A URL that was never fetched is as stale as can be.
    staleness = 1.0 if factors.age_s < 0 else factors.age_s / (factors.age_s + _STALE_HALF_S)
    depth = _DEPTH_HALF / (_DEPTH_HALF + factors.depth)
    total = weights.importance + weights.authority + weights.depth + weights.change + weights.staleness
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
    """What one link passes on of its page's importance: damped as in PageRank, shared over the page's links by their square root."""
    return float(min(1.0, 0.85 * max(source_importance, 0.05) / max(links, 1) ** 0.5))
