"""The value of a fetch, and after how long it reaches the price.

A page with the weight *w* that changes *r* times a day was fetched *t* days ago; *x = r t*. To
fetch it now is worth

    v = (w / r) (1 - (1 + x) exp(-x))

This grows from 0 to *w / r*: at most, the page stays as it was fetched until its next change. Its
unit is days, in which a page of weight 1 is shown as it is. The page is due when *v* reaches the
price of a fetch. All pages have the same price, so each is judged by its own record alone, and for
the number of fetches that they need, no other times give more freshness (Olston and Pandey, Recrawl
scheduling based on information longevity, 2008; Azar and others, Tractable near-optimal policies
for crawling, 2018).

With *c = price r / w* a page whose *c* is 1 or more is never worth a fetch: it changes faster than
it can be shown. For others the interval is *x / r* with *x - ln(1 + x) = -ln(1 - c)*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from lycosa.base.config.policy_classes import (
    ADAPTIVE_CLASS,
    BY_RULE_CLASS,
    NEVER_CLASS,
    class_bounds,
    listing_of,
    promised_s,
)
from lycosa.base.config.refetch_budget import is_capacity_share
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.refetch_cell import class_and_cell, rate_in, weight_in

PROBED_FROM = 4.0
"""A page is a probe whose interval by its value is more than so many times the maximum.

The maximum is a wish: on a host of ten million pages it may be more than all turns.
"""

_DAY_S = 86_400.0
_STEPS = 20  # of Newton's method; four are enough
_MEAN_STEP = math.log(1.05)
_FIRST_OF_SHARE = 1 / 64  # 20 minutes of rising, which begins weeks before so much is due
_CACHED = 8192  # cells at a few prices


def fetch_value(rate: float, weight: float, days: float) -> float:
    """The value of a fetch, in days; ``rate`` is in changes a day."""
    x = rate * days
    # 1 - (1 + x) exp(-x), with fewer digits lost at a small x
    return weight / rate * (-math.expm1(-x) - x * math.exp(-x))


def days_until_due(rate: float, weight: float, price: float) -> float:
    """The days after which the value of a fetch reaches the price; infinite when it never does."""
    share = price * rate / weight
    if share >= 1:
        return math.inf
    wanted = -math.log1p(-share)
    # Never below the root, where the function is convex: so each step comes nearer from above.
    x = wanted + math.sqrt(2 * wanted)
    for _ in range(_STEPS):
        if x <= 0:  # a price of 0, or one without a digit that counts
            return 0.0
        step = (x - math.log1p(x) - wanted) * (1 + x) / x
        x -= step
        if abs(step) <= 1e-12 * x:
            break
    return max(x, 0.0) / rate


def chance_of_change(rate: float, days: float) -> float:
    """The chance that a page has changed since it was fetched."""
    return -math.expm1(-rate * max(days, 0.0))


def interval_by_value(
    section: RefetchSection,
    cell: int,
    bounds: tuple[float, float] | None = None,
    price: float | None = None,
) -> float:
    """Seconds between fetches of a page in a cell of the grid, which is not 0.

    ``bounds`` are the minimum and the maximum of its policy; without them, those of the section.
    ``price`` is that in force, without it ``refetch.price``. After the maximum each page is looked
    at (``schedule.due_judgement``).
    """
    low, high = bounds or (section.min_s, section.max_s)
    price = section.price if price is None else price
    days = wanted_days(cell, price, floor_of(section, high))
    return min(max(days * _DAY_S, low), high)


def bounds_of_class(section: RefetchSection, policy: int) -> tuple[float, float]:
    """The minimum and the maximum interval in seconds that the plan of a price counts with."""
    low, high = class_bounds(policy)
    return low or section.min_s, high or section.max_s


def weighed_pages(section: RefetchSection, pages: Mapping[int, int]) -> tuple[int, float]:
    """The number of pages that have the rule of value, and the sum of their weights."""
    number, weights = 0, 0.0
    for key, each in pages.items():
        policy, cell = class_and_cell(key)
        if has_price(section, policy):
            number += each
            weights += each * weight_in(cell)
    return number, weights


def mean_weight(pages: int, weights: float) -> float:
    """The mean weight of a crawl's pages, by which their weights are divided; 1 without pages.

    In steps of 5 %, so that few pages do not change what all others are judged by.
    """
    if not pages or weights <= 0:
        return 1.0
    return math.exp(round(math.log(weights / pages) / _MEAN_STEP) * _MEAN_STEP)


def at_mean_weight(section: RefetchSection, mean: float) -> RefetchSection:
    """The section with the price for weights that were not divided by their mean.

    To divide all weights and to multiply the price is the same, and needs no look at the records.
    """
    return section if mean == 1.0 else msgspec.structs.replace(section, price=section.price * mean)


def first_price(section: RefetchSection) -> float:
    """The price before one was found.

    With a share of the capacity it is low, and the floor bounds the intervals (``floor_of``). So
    the first runs do not leave pages alone that change fast.
    """
    return section.price * (_FIRST_OF_SHARE if is_capacity_share(section.budget) else 1.0)


def has_price(section: RefetchSection, policy: int) -> bool:
    """Whether pages with this class of policy are refetched by their value."""
    if section.rule is RefetchRule.OFF:
        return False
    if policy == BY_RULE_CLASS:
        return section.rule is RefetchRule.VALUE
    if listing_of(policy):
        return False
    return policy not in (NEVER_CLASS, ADAPTIVE_CLASS) and not promised_s(policy)


class IntervalBound(NamedTuple):
    """Before what no page is due, however low the price of a fetch is.

    The chance that it has changed is at least ``chance``. With a ``price`` a fetch is worth that
    much, or the time between two changes has passed, which comes first for pages that change faster
    than they are worth at that price. But ``most`` days, the maximum interval, are enough then.
    """

    chance: float
    price: float = 0.0
    most: float = 0.0


def floor_of(section: RefetchSection, most_s: float) -> IntervalBound:
    """The floor by the settings, for pages with this maximum interval.

    Who states a rate wants it to be used. A share of the capacity is no such wish, because it may
    be far more than the pages need: there ``refetch.price`` is the lowest price.
    """
    if not is_capacity_share(section.budget):
        return IntervalBound(section.least_chance)
    return IntervalBound(section.least_chance, section.price, most_s / _DAY_S)


@lru_cache(_CACHED)
def wanted_days(cell: int, price: float, floor: IntervalBound) -> float:
    """The days after which a page of a cell is due, whatever the bounds of its policy."""
    rate, weight = rate_in(cell), weight_in(cell)
    least = -math.log1p(-floor.chance) / rate
    if floor.price:
        least = max(least, min(days_until_due(rate, weight, floor.price), 1 / rate))
        least = min(least, floor.most)
    return max(days_until_due(rate, weight, price), least)
