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

from lycosa.base.config.sections import RefetchSection
from lycosa.base.model.refetch_cell import rate_in, weight_in

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


def interval_by_value(section: RefetchSection, cell: int) -> float:
    """Seconds between fetches of a page in a cell of the grid, which is not 0.

    A page that is never worth a fetch is looked at after ``refetch.max_s`` all the same, so that a
    wrong estimate does not last.
    """
    bounds = section.min_s, section.max_s
    return _interval(cell, section.price, section.least_chance, *bounds)


def fetches_a_day(section: RefetchSection, pages: Mapping[int, int]) -> float:
    """What the price costs: refetches a day of pages that are counted by cell."""
    return sum(
        number * _DAY_S / interval_by_value(section, cell) for cell, number in pages.items() if cell
    )


@lru_cache(_CACHED)
def _interval(cell: int, price: float, least_chance: float, min_s: float, max_s: float) -> float:
    rate, weight = rate_in(cell), weight_in(cell)
    days = max(days_until_due(rate, weight, price), -math.log1p(-least_chance) / rate)
    return min(max(days * _DAY_S, min_s), max_s)
