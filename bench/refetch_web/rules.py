"""The rules of refetching that are compared. Times in days."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from bench.refetch_web.judged_rate import (
    CELL_RATE,
    CELL_WEIGHT,
    CELLS,
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

DAY_S = 86_400.0
_ENOUGH = 0.9  # of the price, as in ``due_judgement``
_GRID_PAGES = 500
_PRICE_EVERY = 1 / 24
_MOST_MOVE = 1.25**60  # once a minute by 1.25
PROBE = 3


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

    def plan(
        self, pages: Ints, at: Floats, elapsed: Floats, changed: NDArray[np.bool_]
    ) -> Floats:
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

    def plan(
        self, pages: Ints, at: Floats, elapsed: Floats, changed: NDArray[np.bool_]
    ) -> Floats:
        again = np.isfinite(elapsed)
        wanted = self._interval[pages] * np.where(again, np.where(changed, 0.5, 1.5), 1.0)
        self._interval[pages] = wanted.clip(self._low, self._high)
        return at + self._interval[pages]


class ByValue:
    """The value of a fetch against a price that stays, or is found; with prices of hosts or not."""

    has_budget = False

    def __init__(
        self,
        web: MadeWeb,
        section: RefetchSection,
        price: float,
        budget: Callable[[float], float] | None = None,
        has_hosts: bool = False,
        has_addresses: bool = False,
        rates: Floats | None = None,
    ) -> None:
        """``budget`` says the fetches a day at a time, where the price is found. ``rates`` are
        those of the pages where they need not be learned.
        """
        self.web, self.section, self.price, self._budget = web, section, price, budget
        self.observations = np.full((web.pages, MOST_OBSERVATIONS), NOTHING, np.uint8)
        self._weight_step = weight_steps(web.weight)
        self.cell = np.full(web.pages, -1)
        self.is_known = np.zeros(web.pages, bool)
        self._low, self._high = section.min_s / DAY_S, section.max_s / DAY_S
        sizes = np.bincount(web.host, minlength=web.hosts)
        self._large = np.flatnonzero(sizes > _GRID_PAGES) if has_hosts else np.zeros(0, np.int64)
        self._grid_of = np.zeros(web.hosts, np.int64)
        self._grid_of[self._large] = np.arange(1, len(self._large) + 1)
        self._turns = web.host_turns[self._large]
        self._shared = np.zeros(0, np.int64)
        if has_addresses:
            self._shared = np.flatnonzero(np.isfinite(web.address_turns))
            first = 1 + len(self._large)
            for number, address in enumerate(self._shared):
                self._grid_of[(web.address == address) & (self._grid_of == 0)] = first + number
            self._turns = np.concatenate([self._turns, web.address_turns[self._shared]])
        self._grid_of_page = self._grid_of[web.host]
        self.factor = np.ones(web.hosts)
        self._next_price = 0.0
        self.looks = 0
        self._rates = rates

    def plan(
        self, pages: Ints, at: Floats, elapsed: Floats, changed: NDArray[np.bool_]
    ) -> Floats:
        again = np.isfinite(elapsed)
        old, seen = pages[again], self.observations
        seen[old, :-1] = seen[old, 1:]
        seen[old, -1] = observation_bytes(elapsed[again] * DAY_S, changed[again])
        self.cell[pages] = rate_steps(seen[pages]) * WEIGHTS + self._weight_step[pages]
        self.is_known[old] = True
        first = at + self.section.first_s / DAY_S
        if self._budget is None:
            return np.where(again, at + self._wanted(pages, 1.0).clip(self._low, self._high), first)
        return np.where(again, at + self._wanted(pages, 0.5).clip(self._low, self._high), first)

    def _price_of(self, pages: Ints) -> Floats:
        return self.price * self.factor[self.web.host[pages]]

    def _wanted(self, pages: Ints, part: float) -> Floats:
        cell = self.cell[pages]
        price = self._price_of(pages) * part
        return wanted_days(self.section, CELL_RATE[cell], CELL_WEIGHT[cell], price)

    def judge(self, pages: Ints, now: float, age: Floats) -> tuple[Ints, Floats]:
        cell = self.cell[pages]
        self.looks += len(pages)
        worth = fetch_values(CELL_RATE[cell], CELL_WEIGHT[cell], age) / self._price_of(pages)
        wanted = self._wanted(pages, 1.0)
        band = np.where(worth >= 4, 0, np.where(worth >= 2, 1, 2))
        is_never = wanted > self._high
        band[is_never] = PROBE
        is_early = np.where(is_never, age < _ENOUGH * self._high, worth < _ENOUGH)
        later = now - age + wanted.clip(self._low, self._high)
        is_new = ~self.is_known[pages]
        band[is_early & ~is_new] = -1
        band[is_new] = 2
        return band, np.maximum(later, now + 1e-6)

    def step(self, now: float) -> None:
        if self._budget is None or now < self._next_price:
            return
        self._next_price = now + _PRICE_EVERY
        fetched = self.cell >= 0
        if not fetched.any():
            return
        grids = np.bincount(
            self._grid_of_page[fetched] * CELLS + self.cell[fetched],
            minlength=(len(self._turns) + 1) * CELLS,
        ).reshape(-1, CELLS)
        turns = self._turns
        budget = self._budget(now)

        def planned(price: float) -> Floats:
            days = wanted_days(
                self.section, CELL_RATE, CELL_WEIGHT, np.full(CELLS, price)
            ).clip(self._low, self._high)
            return grids @ (1 / days)

        low, high = 1e-6, 1e4
        for _ in range(40):
            middle = math.sqrt(low * high)
            plan = planned(middle)
            total = plan[0] + np.minimum(plan[1:], turns).sum()
            low, high = (middle, high) if total > budget else (low, middle)
        self.price = min(max(high, self.price / _MOST_MOVE), self.price * _MOST_MOVE)
        factor = np.concatenate([[1.0], np.maximum(planned(self.price)[1:] / turns, 1.0)])
        self.factor = factor[self._grid_of]
