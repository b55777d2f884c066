"""What a worker tells of its pages, so that the price of a refetch can be found.

About once a minute it looks at its large hosts, a few in each step, finds the prices of those that
have too few turns, and then sends the pages of the others by cell: complete at first, later what
has changed since the grid that the coordinator has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from lycosa.base.config.refetch_budget import RefetchBudget
from lycosa.base.config.sections import Config, RefetchRule
from lycosa.base.messages.worker_messages import (
    AddressCells,
    PriceFound,
    PriceTerms,
    RefetchGrid,
)
from lycosa.base.system.meter import Histogram
from lycosa.stages.frontier.address_grids import largest_addresses
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.policy_walk import DelayOf
from lycosa.stages.schedule.price_in_force import PriceInForce, price_of_host
from lycosa.stages.schedule.refetch_demand import RefetchDemand, demand_at
from lycosa.stages.schedule.refetch_value import mean_weight, weighed_pages

_EVERY_S = 60.0
_SURVEYED = 30  # hosts in a step: a millisecond, three where records are sampled
_LOOKED = 50  # hosts in a step: a few milliseconds
_WALKS = 2  # slices of records of new large hosts in a step
_DAY_S = 86_400.0
_MEAN_S = 1.0  # of a request, before there are enough to tell
_ENOUGH = 20  # requests


class AddressLimits(msgspec.Struct, frozen=True):
    """The ``turns`` of each address in a day, 0 for no limit, and the crawl's ``partitions``."""

    turns: float = 0.0
    partitions: int = 1


NO_LIMITS = AddressLimits()


def address_limits(config: Config) -> AddressLimits:
    """The limits by the settings."""
    delay_s = config.politeness.address_delay_s
    turns = _DAY_S / delay_s if delay_s > 0 else 0.0
    return AddressLimits(turns, config.frontier.partitions)


class RefetchReports:
    """One per worker; ``step`` is called about twice a second."""

    def __init__(
        self,
        prices: PriceInForce,
        partitions: Mapping[int, Partition],
        delay_of: DelayOf,
        durations: Histogram,
        slots: Callable[[], int],
        used_s: Callable[[], float],
        limits: AddressLimits = NO_LIMITS,
    ) -> None:
        """``durations`` are those of requests, ``used_s`` is the processor time used so far."""
        self._limits = limits
        self._surveyed: list[Partition] = []  # whose pass is not complete
        self._survey_at = 0.0
        self._told: dict[str, AddressCells] = {}
        self.prices = prices
        self._partitions = list(partitions.values())
        self._delay_of, self._durations = delay_of, durations
        self._slots, self._used_s = slots, used_s
        self._next_at = 0.0
        self._passing: list[Partition] = []
        self._number = 0
        self._sent: dict[int, int] = {}
        self._weighed = 0, 0.0
        self._is_told_mean = False
        self._is_known = False  # whether the coordinator has what was sent last
        self.demand = RefetchDemand()
        self.bound, self.bound_a_day = 0, 0.0
        self.budget_a_day = self.asked_a_day = 0.0

    def __repr__(self) -> str:
        return f"<RefetchReports {self._number} {self.prices!r}>"

    def step(self, now: float, settings: int) -> RefetchGrid | None:
        """Do the next part of the work; return a grid when one is to be sent.

        ``now`` is monotonic, ``settings`` the version of the live settings that are followed.
        """
        if not self.prices.uses_value:
            return None
        for partition in self._partitions:
            for _ in range(_WALKS):
                if not partition.host_grids.walk():
                    break
        self._survey(now)
        if not self._passing:
            if now < self._next_at:
                return None
            self._next_at = now + _EVERY_S
            self._passing = list(self._partitions)
        looked = 0
        while self._passing and looked < _LOOKED:
            looked += min(len(self._passing[0].host_grids.known), _LOOKED)
            grids = self._passing[0].host_grids
            share = self.prices.section.share
            addresses = self.prices.addresses
            if grids.look(_LOOKED, self._delay_of, self._price_of_host, share, addresses):
                self._passing.pop(0)
        return None if self._passing else self._end_pass(settings)

    def follow(self, message: PriceFound) -> None:
        """Go by the price that the coordinator sent."""
        if message.mean_weight:
            self._is_told_mean = True
            self.prices.follow_mean(message.mean_weight)
        if message.number:
            self.prices.follow(message.price, message.number)
        self.prices.addresses.clear()
        self.prices.addresses.update(message.addresses)
        for partition in self._partitions:
            partition.address_survey.save_prices(message.addresses)
        self.budget_a_day, self.asked_a_day = message.budget_a_day, message.asked_a_day
        self._is_known = message.grid == self._number

    def _survey(self, now: float) -> None:
        """Look at some more hosts of addresses that may have too few turns."""
        if not self._limits.turns:
            return
        if not self._surveyed:
            if now < self._survey_at:
                return
            self._survey_at = now + _EVERY_S
            self._surveyed = list(self._partitions)
        # As many pages as could ask for a quarter of what a partition has of the turns.
        turns = self._limits.turns / self._limits.partitions / 4
        least_pages = max(turns * self.prices.section.min_s / _DAY_S, 1.0)
        if self._surveyed[0].address_survey.look(_SURVEYED, least_pages):
            self._surveyed.pop(0)

    def _addresses(self) -> dict[str, AddressCells]:
        found = largest_addresses([each.address_survey.found for each in self._partitions])
        return {
            address: AddressCells(each.pages, each.delayed, each.counted())
            for address, each in found.items()
        }

    def _price_of_host(self, pages: Mapping[int, int], turns: float) -> float | None:
        return price_of_host(self.prices.section, pages, turns, self.prices.price)

    def _end_pass(self, settings: int) -> RefetchGrid | None:
        cells: dict[int, int] = {}
        for partition in self._partitions:
            for cell, pages in partition.counters.cells.items():
                cells[cell] = cells.get(cell, 0) + pages
        self._weighed = weighed_pages(self.prices.section, cells)
        if not self._is_told_mean:
            self.prices.follow_mean(mean_weight(*self._weighed))
        bounds = [partition.host_grids.bound for partition in self._partitions]
        for each in bounds:
            for cell, pages in each.cells.items():
                cells[cell] = cells.get(cell, 0) - pages
        # Pages may have moved since their host was looked at.
        cells = {cell: pages for cell, pages in cells.items() if pages > 0}
        self.bound = sum(each.hosts for each in bounds)
        self.bound_a_day = sum(each.turns for each in bounds)
        self.demand = demand_at(self.prices.section, cells, self.prices.price)
        return self._message(cells, settings)

    def _message(self, cells: dict[int, int], settings: int) -> RefetchGrid:
        base, rows, addresses = 0, cells, self._addresses()
        told: dict[str, AddressCells] | None = addresses
        if self._is_known and self._number:
            base, rows = (
                self._number,
                {
                    cell: cells.get(cell, 0)
                    for cell in cells.keys() | self._sent.keys()
                    if cells.get(cell, 0) != self._sent.get(cell, 0)
                },
            )
            told = addresses if addresses != self._told else None
        self._number += 1
        self._sent, self._is_known, self._told = cells, False, addresses
        return RefetchGrid(
            self._number,
            base,
            rows,
            self.bound,
            self.bound_a_day,
            self.capacity_a_day,
            self._terms(settings),
            self.prices.price,
            self.prices.number,
            *self._weighed,
            told,
        )

    @property
    def capacity_a_day(self) -> float:
        """What slots and processor would allow the worker to fetch, in fetches a day."""
        number = self._durations.count
        mean_s = self._durations.sum / number if number >= _ENOUGH else _MEAN_S
        by_slots = self._slots() / max(mean_s, 0.001)
        used_s = self._used_s() if number >= _ENOUGH else 0.0
        return _DAY_S * (min(by_slots, number / used_s) if used_s > 0 else by_slots)

    def _terms(self, settings: int) -> PriceTerms:
        section, budget = self.prices.settings, self.prices.budget or RefetchBudget()
        return PriceTerms(
            settings,
            budget.a_day,
            budget.share,
            section.rule is RefetchRule.VALUE,
            section.price,
            section.min_s,
            section.max_s,
            section.least_chance,
            section.probes,
            section.share,
            self._limits.turns,
        )
