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

from lycosa.base.config.policy_classes import (
    ADAPTIVE_CLASS,
    BY_RULE_CLASS,
    EVERY_CLASS,
    NEVER_CLASS,
    class_bounds,
    listing_of,
)
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.refetch_cell import class_and_cell, rate_in, weight_in

_DAY_S = 86_400.0
_STEPS = 20  # of Newton's method; four are enough
_CACHED = 4096  # cells of a few settings


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
    section: RefetchSection, cell: int, bounds: tuple[float, float] | None = None
) -> float:
    """Seconds between fetches of a page in a cell of the grid, which is not 0.

    ``bounds`` are the minimum and the maximum of its policy; without them, those of the section. A
    page that is never worth a fetch is looked at after the maximum all the same, so that a wrong
    estimate does not last.
    """
    low, high = bounds or (section.min_s, section.max_s)
    return _interval(cell, section.price, section.least_chance, low, high)


def fetches_a_day(section: RefetchSection, pages: Mapping[int, int]) -> float:
    """What the price costs: refetches a day of the pages that have the rule of value.

    ``pages`` counts them by class of policy and cell (``counted_cell``).
    """
    total = 0.0
    for key, number in pages.items():
        policy, cell = class_and_cell(key)
        if has_price(section, policy):
            low, high = class_bounds(policy)
            bounds = low or section.min_s, high or section.max_s
            total += number * _DAY_S / interval_by_value(section, cell, bounds)
    return total


def priced_pages(section: RefetchSection, pages: Mapping[int, int]) -> int:
    """The number of pages that have the rule of value."""
    return sum(
        number for key, number in pages.items() if has_price(section, class_and_cell(key)[0])
    )


def has_price(section: RefetchSection, policy: int) -> bool:
    """Whether pages with this class of policy are refetched by their value."""
    if section.rule is RefetchRule.OFF:
        return False
    if policy == BY_RULE_CLASS:
        return section.rule is RefetchRule.VALUE
    return policy not in (NEVER_CLASS, EVERY_CLASS, ADAPTIVE_CLASS) and not listing_of(policy)


@lru_cache(_CACHED)
def _interval(cell: int, price: float, least_chance: float, min_s: float, max_s: float) -> float:
    rate, weight = rate_in(cell), weight_in(cell)
    days = max(days_until_due(rate, weight, price), -math.log1p(-least_chance) / rate)
    return min(max(days * _DAY_S, min_s), max_s)
