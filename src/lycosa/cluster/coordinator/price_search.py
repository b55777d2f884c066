"""Finds the price of a refetch at which the refetches of a crawl meet their budget.

Workers send how many pages are in each cell of rate and weight. So what a price leads to is a sum,
and no page is looked at. Once a minute the price is sought by bisection. It moves by at most a
factor of 1.25 then: grids of different shards are not of the same moment, and pages are judged by
the price when they are due. A loop that compares fetches with the budget would be much worse: what
is due was decided weeks ago.

The price is no setting, and no record is written of it: workers put it into their commits. A new
coordinator keeps the price with the greatest number that a worker has, until it knows all shards. A
shard between two owners counts with its last grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.messages.worker_messages import AddressCells, PriceFound, PriceTerms, RefetchGrid
from lycosa.cluster.coordinator.owner_requests import Owner
from lycosa.stages.schedule.price_in_force import price_of_host
from lycosa.stages.schedule.refetch_demand import demand_at
from lycosa.stages.schedule.refetch_value import at_mean_weight, first_price, mean_weight

PRICE_STEP_S = 60.0
MOST_STEP = 1.25
"""The factor by which the price moves at most in a step."""

_LOWEST, _HIGHEST = 1e-9, 1e9
# Where most pages are in one cell and wait long, their interval follows from the last digits of the
# price.
_HALVINGS = 48
_CLOSE = 0.005  # of the budget
_DAY_S = 86_400.0


class ShardHistogram:
    """The last grid of one shard. ``capacity`` is in fetches a day, averaged over a day."""

    __slots__ = (
        "addresses",
        "bound",
        "bound_a_day",
        "capacity",
        "cells",
        "heard_at",
        "number",
        "owner",
        "pages",
        "weights",
    )

    def __init__(self) -> None:
        self.owner: Owner | None = None
        self.number = 0
        self.cells: dict[int, int] = {}
        self.bound, self.bound_a_day, self.capacity, self.heard_at = 0, 0.0, 0.0, 0.0
        self.pages, self.weights = 0, 0.0
        self.addresses: dict[str, AddressCells] = {}

    def receive(self, owner: Owner, message: RefetchGrid, now: float) -> int:
        """Follow a grid of the shard's owner; return the number that is known, 0 without one."""
        if not message.base:
            self.cells = dict(message.cells)
        elif owner == self.owner and message.base == self.number:
            self.cells.update(message.cells)
            self.cells = {cell: pages for cell, pages in self.cells.items() if pages > 0}
        else:
            # Rows were lost on the way, or are those of another owner.
            return self.number if owner == self.owner and message.number == self.number else 0
        kept = math.exp(-max(now - self.heard_at, 0.0) / _DAY_S) if self.capacity else 0.0
        self.capacity = kept * self.capacity + (1 - kept) * message.capacity_a_day
        self.bound, self.bound_a_day, self.heard_at = message.bound, message.bound_a_day, now
        self.pages, self.weights = message.pages, message.weights
        if message.addresses is not None:
            self.addresses = message.addresses
        self.owner, self.number = owner, message.number
        return self.number


class PriceSearch:
    """The search for one crawl with that many shards."""

    def __init__(self, shards: int) -> None:
        self._shards = [ShardHistogram() for _ in range(shards)]
        self._terms: PriceTerms | None = None
        self._price, self._number = 0.0, 0
        self._addresses: dict[str, float] = {}
        self._looked_at = -math.inf
        self._budget = self._asked = 0.0

    def __repr__(self) -> str:
        known = sum(each.owner is not None for each in self._shards)
        return f"<PriceSearch {self._price:.3g} number={self._number} {known} shards known>"

    def receive(self, shard: int, owner: Owner, message: RefetchGrid, now: float) -> PriceFound:
        """Follow a grid; the answer has the present price."""
        known = self._shards[shard].receive(owner, message, now)
        if self._terms is None or message.terms.settings >= self._terms.settings:
            self._terms = message.terms
        # Workers may have a price that this coordinator does not know, of an earlier one.
        if message.price_number > self._number or not self._price:
            self._price = message.price or first_price(self._section(message.terms))
            self._number = message.price_number
        return self._found(known)

    def tick(self, now: float) -> dict[int, PriceFound]:
        """Seek the price, if a minute has passed and all shards are known.

        Returns what the owners of the shards are to be told. If that is lost, the answer to the
        next grid has it.
        """
        terms = self._terms
        if terms is None or now - self._looked_at < PRICE_STEP_S:
            return {}
        if any(each.owner is None for each in self._shards):
            return {}
        self._looked_at = now
        self._budget, section = self._budget_a_day(terms), self._section(terms)
        has_budget = bool(terms.a_day or terms.share)
        if has_budget and self._budget <= 0:
            return {}
        bound = self._bind(terms, section, self._price if has_budget else section.price)
        if has_budget:
            self._step(section, bound)
        return {shard: self._found(each.number) for shard, each in enumerate(self._shards)}

    def _found(self, known: int) -> PriceFound:
        price = self._price if self._number else 0.0
        is_weighed = any(each.pages for each in self._shards)
        mean = self._mean() if is_weighed else 0.0
        return PriceFound(
            price, self._number, known, self._budget, self._asked, mean, self._addresses
        )

    def _mean(self) -> float:
        weights = sum(each.weights for each in self._shards)
        return mean_weight(sum(each.pages for each in self._shards), weights)

    def _section(self, terms: PriceTerms) -> RefetchSection:
        return at_mean_weight(_section_of(terms), self._mean())

    def _budget_a_day(self, terms: PriceTerms) -> float:
        capacity = sum(each.capacity for each in self._shards)
        return terms.a_day or terms.share * capacity

    def _bind(
        self, terms: PriceTerms, section: RefetchSection, price: float
    ) -> list[tuple[Mapping[int, int], float]]:
        """Find the prices of addresses; return the pages of those with too few turns, with these.

        Pages are those of all shards. An address that is not among the largest of a shard has fewer
        pages here than it has.
        """
        total: dict[str, tuple[list[float], dict[int, int]]] = {}
        for shard in self._shards:
            for address, each in shard.addresses.items():
                sums, cells = total.setdefault(address, ([0.0, 0.0], {}))
                sums[0] += each.pages
                sums[1] += each.delayed
                for cell, number in each.cells.items():
                    cells[cell] = cells.get(cell, 0) + number
        self._addresses = {}
        bound: list[tuple[Mapping[int, int], float]] = []
        for address, ((pages, delayed), cells) in total.items():
            delayed_share = delayed / pages if pages else 0.0
            turns = terms.address_turns * (1 - delayed_share * (1 - terms.due_share))
            if turns and (found := price_of_host(section, cells, turns, price)) is not None:
                self._addresses[address] = found
                bound.append((cells, turns))
        return bound

    def _step(
        self, section: RefetchSection, at_addresses: list[tuple[Mapping[int, int], float]]
    ) -> None:
        pages: dict[int, int] = {}
        for each in self._shards:
            for cell, number in each.cells.items():
                pages[cell] = pages.get(cell, 0) + number
        bound = sum(each.bound_a_day for each in self._shards)
        for cells, turns in at_addresses:
            bound += turns
            for cell, number in cells.items():
                # Cells of an address are a sample's, and of another minute than those of the shard.
                pages[cell] = max(pages.get(cell, 0) - number, 0)
        # What hosts with too few turns leave of it, if they leave anything.
        left = max(self._budget - bound, 0.0)
        price = next_price(section, pages, self._price, left)
        if not self._number or price != self._price:
            self._price, self._number = price, self._number + 1
        demand = demand_at(section, pages, self._price)
        self._asked = bound + demand.total(section.probes)


def next_price(
    section: RefetchSection, pages: Mapping[int, int], price: float, budget: float
) -> float:
    """The price after one step towards the one at which ``pages`` ask for ``budget`` a day.

    It stays where a step would change nothing, as without pages, or where all intervals are those
    of ``refetch.least_chance``.
    """

    def asked(price: float) -> float:
        return demand_at(section, pages, price).total(section.probes)

    now = asked(price)
    if abs(now - budget) <= _CLOSE * budget:
        return price
    is_cheap = now > budget
    end = price * MOST_STEP if is_cheap else price / MOST_STEP
    end = min(max(end, _LOWEST), _HIGHEST)
    there = asked(end)
    # Pages that change fast may ask for fetches at a much lower price only.
    if there == now and asked(_HIGHEST if is_cheap else _LOWEST) == now:
        return price
    if (there >= budget) is is_cheap:
        return end
    low, high = sorted((price, end))
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        there = asked(middle)
        if abs(there - budget) <= _CLOSE * budget:
            return middle
        low, high = (middle, high) if there > budget else (low, middle)
    return high


def _section_of(terms: PriceTerms) -> RefetchSection:
    """The settings that a plan counts with."""
    return RefetchSection(
        rule=RefetchRule.VALUE if terms.is_by_value else RefetchRule.ADAPTIVE,
        min_s=terms.min_s,
        max_s=terms.max_s,
        least_chance=terms.least_chance,
        probes=terms.probes,
        price=terms.first_price,
        # That it is a share counts here, not which.
        budget="100%" if terms.share else "",
    )
