"""The stored copy of each page, and whether it is current: freshness and age as usually defined.

A copy is *current* until its page changes for the first time after it was fetched; its *age* is 0
until then, and the time since then afterwards (Cho and Garcia-Molina, Synchronizing a database to
improve freshness, 2000). The changes of a page are random (a Poisson process), so the time of the
next one is drawn at each fetch, and no event is needed in between.
"""

from __future__ import annotations

import math
import random
from array import array

import numpy as np
from numpy.typing import NDArray

_NEVER = math.inf


class Copies:
    """The copies of all pages of a sample, by page number. Times in seconds of virtual time."""

    def __init__(self, pages: int, changes_per_day: float, seed: int) -> None:
        self._chance = random.Random(f"copies:{seed}")
        self._mean = changes_per_day / 86_400.0
        nothing = array("d", [math.nan])
        self._changes_at = nothing * pages  # not a number: no copy
        self._rates = (
            array("d", np.random.default_rng(seed).exponential(self._mean, pages).tobytes())
            if self._mean
            else nothing * 0
        )

    def follow_rates(self, rates: NDArray[np.float64]) -> None:
        """Use these change rates of the pages, in changes a second."""
        self._mean = float(rates.mean())
        self._rates = array("d", rates.tobytes())

    @property
    def changes_at(self) -> NDArray[np.float64]:
        """When each page changes for the first time after its last fetch; NaN without a copy."""
        return np.frombuffer(self._changes_at)

    def is_current(self, page: int, now: float) -> bool:
        """Whether there is a copy that equals the page."""
        return self._changes_at[page] > now

    def store(self, page: int, now: float) -> None:
        """Store a copy, fetched now."""
        rate = self._rates[page] if self._mean else 0.0
        self._changes_at[page] = now + self._chance.expovariate(rate) if rate > 0 else _NEVER

    def freshness(self, now: float) -> tuple[int, int, float]:
        """The number of copies, the number of current ones, and the sum of all ages in seconds."""
        changes = self.changes_at
        changes = changes[~np.isnan(changes)]
        return (
            len(changes),
            int(np.count_nonzero(changes > now)),
            float(np.maximum(now - changes, 0.0).sum()),
        )
