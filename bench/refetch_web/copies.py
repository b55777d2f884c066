"""What is true of the copies: which are current, for how long, and how old the others are.

The first change after a fetch is drawn at the fetch, so nothing happens in between, and both
integrals are exact.
"""

from __future__ import annotations

import numpy as np
from bench.refetch_web.made_web import Floats, Ints, MadeWeb
from numpy.typing import NDArray


class WebCopies:
    """The copies of all pages; times in days. There is none before a page's first fetch."""

    def __init__(self, web: MadeWeb, seed: int) -> None:
        self._web, self._chance = web, np.random.default_rng([seed, 7])
        self.fetched = np.full(web.pages, -np.inf)
        self._changed = np.full(web.pages, np.nan)
        self._counted = np.zeros(web.pages)  # until when it is in the sums
        self._fresh = self._age = self._began = 0.0

    def fetch(self, pages: Ints, at: Floats) -> NDArray[np.bool_]:
        """Fetches pages; returns which have changed since the fetch before."""
        self._count(pages, at)
        changed = self._changed[pages] <= at
        self.fetched[pages] = at
        self._changed[pages] = (
            at + self._chance.exponential(1.0, len(pages)) / self._web.rate[pages]
        )
        return changed

    def freshness_since(self, now: float) -> tuple[float, float]:
        """Mean weighted freshness, and mean weighted age in days, since the last such question."""
        everything = np.arange(self._web.pages)
        self._count(everything, np.full(self._web.pages, now))
        total = self._web.weight.sum() * max(now - self._began, 1e-9)
        found = self._fresh / total, self._age / total
        self._fresh = self._age = 0.0
        self._began = now
        return found

    def _count(self, pages: Ints, until: Floats) -> None:
        weight, since, change = self._web.weight[pages], self._counted[pages], self._changed[pages]
        is_copy = ~np.isnan(change)
        self._counted[pages] = until
        if not is_copy.all():
            weight, since, change, until = (
                each[is_copy] for each in (weight, since, change, until)
            )
        self._fresh += float((weight * np.maximum(np.minimum(change, until) - since, 0)).sum())
        late = np.maximum(until - change, 0)
        early = np.maximum(since - change, 0)
        self._age += float((weight * (late**2 - early**2)).sum() / 2)
