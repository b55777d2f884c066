"""The price of a fetch that a worker goes by: that of the settings, or the one that was found.

With ``refetch.budget`` the coordinator finds the price, and the worker keeps the latest by number.
Then pages are scheduled for when a fetch is worth *half* of the price, and judged there: if the
price has fallen meanwhile, the page is fetched, else it gets its time by the price. So a fall takes
effect within one interval, without a look at all records, and a page is looked at twice a fetch.

Hosts may have fewer turns than their pages ask for at this price. Such a host has a higher one,
which its own pages give (``price_of_host``): the one at which they ask for as many fetches as there
are turns. So each page that becomes due is fetched soon, and the host leaves out the others. Were
the pages scheduled by the common price, they would wait in its queue instead, and those that wait
longest would be fetched, whatever they are worth.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from functools import lru_cache

from lycosa.base.config.refetch_budget import read_budget
from lycosa.base.config.sections import RefetchSection
from lycosa.base.model.refetch_cell import RATES, WEIGHTS, class_and_cell
from lycosa.stages.schedule.refetch import uses_value
from lycosa.stages.schedule.refetch_demand import demand_at
from lycosa.stages.schedule.refetch_value import (
    PROBED_FROM,
    IntervalBound,
    at_mean_weight,
    bounds_of_class,
    first_price,
    floor_of,
    has_price,
    wanted_days,
)

LOOK_SHARE = 0.5
"""Pages are looked at when a fetch is worth this share of a price that was found."""

_DAY_S = 86_400.0
_STEP = math.log(1.05)  # prices of hosts are multiples of it, so that they share their intervals
_STEPS = 1000  # from a common price up
_COLUMNS = 512  # of intervals by cell, 8 kB each


class PriceInForce:
    """The price, one object per worker.

    ``hosts`` has the price of each host, by its hash, that has fewer turns than its pages ask for,
    and ``addresses`` that of addresses whose hosts together have too few.
    ``number`` is that of the price that was found, 0 without one. Prices are for the weights in the
    records. Settings state them for weights that are divided by their mean, so ``section`` has
    ``settings.price`` times ``mean_weight``.
    """

    is_found: bool
    """Whether the price is found from a budget."""
    uses_value: bool
    """Whether any page may be refetched by its value."""

    def __init__(self, section: RefetchSection, found: float = 0.0, number: int = 0) -> None:
        self._found = found
        self.number = number
        self.hosts: dict[bytes, float] = {}
        self.addresses: dict[str, float] = {}
        self.mean_weight = 1.0
        self.follow_section(section)

    def __repr__(self) -> str:
        return f"<PriceInForce {self.price:.3g} number={self.number} hosts={len(self.hosts)}>"

    def follow_section(self, section: RefetchSection) -> None:
        """Go by these settings from now on."""
        self.settings, self.section = section, at_mean_weight(section, self.mean_weight)
        self.budget = read_budget(section.budget)
        self.is_found = self.budget is not None
        self.uses_value = uses_value(section)

    def follow_mean(self, mean: float) -> None:
        """Go by this mean weight of the crawl's pages (``mean_weight``)."""
        if mean != self.mean_weight:
            self.mean_weight = mean
            self.section = at_mean_weight(self.settings, mean)

    def follow(self, price: float, number: int) -> None:
        """Go by a price that was found, unless its number is an older one."""
        if number >= self.number:
            self._found, self.number = price, number

    @property
    def committed(self) -> tuple[float, int]:
        """The price and its number for a commit; no price where no page has one."""
        return (self.price, self.number) if self.uses_value else (0.0, 0)

    @property
    def price(self) -> float:
        """The price of a fetch in days at hosts that have enough turns."""
        return self._found if self._found and self.is_found else first_price(self.section)

    def of_host(self, host8: bytes, address: str = "") -> float:
        """The price of a fetch of this host's pages, by which a page is judged when it is due."""
        price = max(self.hosts.get(host8, 0.0), self.price)
        return max(price, self.addresses.get(address, 0.0)) if self.addresses else price

    def look_at(self, host8: bytes, address: str = "") -> float | None:
        """The price by which the next look at a page of this host is scheduled.

        ``None`` where it is that of the settings.
        """
        if not self.is_found and host8 not in self.hosts and address not in self.addresses:
            return None
        price = self.of_host(host8, address)
        return price * LOOK_SHARE if self.is_found else price


def price_of_host(
    section: RefetchSection, pages: Mapping[int, int], turns: float, price: float
) -> float | None:
    """The price at a host whose pages may have ``turns`` fetches a day, ``None`` for the common.

    ``pages`` are the host's by class of policy and cell, ``price`` is the common one. What was
    promised comes first, and what halves and grows has its part. A twentieth is always left for
    pages by their value.
    """
    demand = demand_at(section, pages, price)
    left = max(turns - demand.promised - demand.adaptive, turns / 20)
    if demand.due <= left:
        return None
    low, high = 0, 1  # in steps above the common price
    while high < _STEPS and _due_a_day(section, pages, price, high) > left:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        is_cheap = _due_a_day(section, pages, price, middle) > left
        low, high = (middle, high) if is_cheap else (low, middle)
    # The lower side: the bands of the host's queue choose among what is due, but a turn is lost for
    # which nothing is due.
    return max(math.exp((_step_of(price) + low) * _STEP), price)


def _due_a_day(
    section: RefetchSection, pages: Mapping[int, int], price: float, steps: int
) -> float:
    step, total = _step_of(price) + steps, 0.0
    for key, number in pages.items():
        policy, cell = class_and_cell(key)
        if has_price(section, policy):
            low, high = bounds_of_class(section, policy)
            column = _column(step, floor_of(section, high))
            wanted_s = column[min(cell, RATES * WEIGHTS) - 1] if low < high else high
            if wanted_s <= PROBED_FROM * high:
                total += number * _DAY_S / max(wanted_s, low)
    return total


def _step_of(price: float) -> int:
    return math.floor(math.log(price) / _STEP)


@lru_cache(_COLUMNS)
def _column(step: int, floor: IntervalBound) -> array[float]:
    """The wanted interval of each cell in seconds at a price."""
    price = math.exp(step * _STEP)
    return array(
        "d",
        (wanted_days(cell, price, floor) * _DAY_S for cell in range(1, RATES * WEIGHTS + 1)),
    )
