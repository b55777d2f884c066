"""The rules of refetching that are compared. Times in days."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np
from bench.refetch_web.grids import WebGrids
from bench.refetch_web.judged_rate import (
    CELL_RATE,
    CELL_WEIGHT,
    NOTHING,
    fetch_values,
    observation_bytes,
    rate_steps,
    wanted_days,
    weight_steps,
)
from bench.refetch_web.made_web import Floats, Ints, MadeWeb
from numpy.typing import NDArray

from lycosa.base.config.sections import RefetchSection
from lycosa.base.model.refetch_cell import WEIGHTS
from lycosa.stages.schedule.change_rate import MOST_OBSERVATIONS
from lycosa.stages.schedule.price_in_force import LOOK_SHARE, PriceInForce

DAY_S = 86_400.0
_ENOUGH = 0.9  # of the price, as in ``due_judgement``
FOURFOLD, TWOFOLD, DUE, PROBE = range(4)
_PRICE_EARLY, _PRICE_EVERY, _SETTLED = 1 / 8, 1 / 2, 10.0


class Rule(Protocol):
    """``plan`` says when fetched pages are due again, ``judge`` what due pages are worth."""

    has_budget: bool  # whether the crawl's rate is limited to the budget

    def plan(
        self, pages: Ints, at: Floats, elapsed: Floats, changed: NDArray[np.bool_]
    ) -> Floats: ...

    def judge(self, pages: Ints, now: float, age: Floats) -> tuple[Ints, Floats]:
        """The band of each page, -1 for those that are due at another time."""
        ...

    def step(self, now: float) -> None: ...


class Fixed:
    """The same interval for all pages, or for each its own that was found elsewhere."""

    def __init__(self, interval: Floats, has_budget: bool) -> None:
        self._interval, self.has_budget = interval, has_budget

    def plan(self, pages: Ints, at: Floats, elapsed: Floats, changed: NDArray[np.bool_]) -> Floats:
        return at + self._interval[pages]

    def judge(self, pages: Ints, now: float, age: Floats) -> tuple[Ints, Floats]:
        return np.zeros(len(pages), np.int64), np.zeros(len(pages))

    def step(self, now: float) -> None:
        """Nothing changes."""


class Adaptive(Fixed):
    """Half the interval after a change, and 1.5 times it without one (``schedule.refetch``)."""

    def __init__(self, web: MadeWeb, section: RefetchSection) -> None:
        super().__init__(np.full(web.pages, section.first_s / DAY_S), True)
        self._low, self._high = section.min_s / DAY_S, section.max_s / DAY_S

    def plan(self, pages: Ints, at: Floats, elapsed: Floats, changed: NDArray[np.bool_]) -> Floats:
        again = np.isfinite(elapsed)
        wanted = self._interval[pages] * np.where(again, np.where(changed, 0.5, 1.5), 1.0)
        self._interval[pages] = wanted.clip(self._low, self._high)
        return at + self._interval[pages]


class ByValue:
    """The value of a fetch against a price that stays, or that is found from a budget."""

    has_budget = False

    def __init__(
        self,
        web: MadeWeb,
        section: RefetchSection,
        budget: Callable[[float], float] | None = None,
        grids: WebGrids | None = None,
    ) -> None:
        """``budget`` says the fetches a day at a time, where the price is found."""
        self.web, self.section, self._budget = web, section, budget
        if budget is not None and not section.budget:
            self.section = msgspec.structs.replace(section, budget=f"{budget(0.0):.0f}/d")
        self.prices = PriceInForce(self.section)
        self.observations = np.full((web.pages, MOST_OBSERVATIONS), NOTHING, np.uint8)
        self._weight_step = weight_steps(web.weight)
        self.cell = np.full(web.pages, -1)
        self._low, self._high = section.min_s / DAY_S, section.max_s / DAY_S
        self._of_host = np.full(web.hosts, self.prices.price)
        self._grids = grids or WebGrids(web)
        self._next_at = 0.0
        self.looks = self.plans = 0  # pages judged, and fetched

    def plan(self, pages: Ints, at: Floats, elapsed: Floats, changed: NDArray[np.bool_]) -> Floats:
        again = np.isfinite(elapsed)
        self.plans += np.count_nonzero(again)
        old, seen = pages[again], self.observations
        seen[old, :-1] = seen[old, 1:]
        seen[old, -1] = observation_bytes(elapsed[again] * DAY_S, changed[again])
        self.cell[pages] = rate_steps(seen[pages]) * WEIGHTS + self._weight_step[pages]
        is_found = self.prices.is_found
        due = at + self._wanted(pages, LOOK_SHARE if is_found else 1.0).clip(self._low, self._high)
        if not is_found:
            due[~again] = at[~again] + self.section.first_s / DAY_S
        return due

    def _wanted(self, pages: Ints, part: float) -> Floats:
        cell, price = self.cell[pages], self._of_host[self.web.host[pages]] * part
        return wanted_days(self.section, CELL_RATE[cell], CELL_WEIGHT[cell], price)

    def judge(self, pages: Ints, now: float, age: Floats) -> tuple[Ints, Floats]:
        """``due_judgement.judge_due``."""
        self.looks += len(pages)
        cell, price = self.cell[pages], self._of_host[self.web.host[pages]]
        worth = fetch_values(CELL_RATE[cell], CELL_WEIGHT[cell], age) / price
        wanted = self._wanted(pages, 1.0)
        band = np.where(worth >= 4, FOURFOLD, np.where(worth >= 2, TWOFOLD, DUE))
        is_probe = wanted > self._high
        band[is_probe] = PROBE
        is_early = np.where(is_probe, age < _ENOUGH * self._high, worth < _ENOUGH)
        if not self.prices.is_found:
            is_new = self.observations[pages, -1] == NOTHING
            is_early &= ~is_new
            band[is_new] = DUE
        band[is_early] = -1
        later = now - age + wanted.clip(self._low, self._high)
        return band, np.maximum(later, now)

    def step(self, now: float) -> None:
        if now < self._next_at:
            return
        self._next_at = now + (_PRICE_EVERY if now > _SETTLED else _PRICE_EARLY)
        budget = self._budget(now) if self._budget is not None else 0.0
        self._of_host = self._grids.find_prices(self.prices, self.cell, budget, now)
