"""The best intervals that any program could use, which knows all rates.

A page with the weight *w* and the rate *r* that is fetched every *I* days is as its copy in a share
*(1 - exp(-rI)) / (rI)* of the time. To be maximised is the weighted mean over all pages, under the
limits that fetches a day are at most the budget, those of a host at most its turns, and those of an
address at most its turns. The function is concave in the fetches, so the Lagrangian decides: each
page is fetched when that is worth the sum of three prices. Hosts lie within addresses, and these
within the crawl, so the sum of a host's page is the maximum of three prices that can be sought one
after another: those at which each host alone keeps its turns; with these as minima, those at which
each address does; and with these that of the crawl.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from bench.refetch_web.made_web import Floats, MadeWeb

_HALVINGS = 46
_LOW, _HIGH = 1e-7, 1e4
_STEPS = 12


def fetch_intervals(rate: Floats, weight: Floats, price: Floats | float) -> Floats:
    """``refetch_value.days_until_due`` of arrays; infinite where never."""
    share = np.minimum(price * rate / weight, 1.0)
    with np.errstate(divide="ignore"):
        wanted = -np.log1p(-share)
    is_due = np.isfinite(wanted)
    c = wanted[is_due]
    x = c + np.sqrt(2 * c)
    for _ in range(_STEPS):
        step = (x - np.log1p(x) - c) * (1 + x) / x
        x = x - step
        if (np.abs(step) <= 1e-9 * x).all():
            break
    found = np.full(len(rate), np.inf)
    found[is_due] = x / rate[is_due]
    return found


def freshness_of(rate: Floats, interval: Floats) -> Floats:
    """The share of the time in which a copy is as its page."""
    x = rate * interval
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(x), 0.0, -np.expm1(-x) / x)


class Optimum(NamedTuple):
    """``price`` is that of each page, ``budget_price`` that of the crawl alone."""

    freshness: float
    budget_price: float
    host_price: Floats
    interval: Floats
    hosts_bound: int
    is_address_bound: bool


def constrained_optimum(web: MadeWeb, budget: float, is_bound: bool = True) -> Optimum:
    """The optimum for ``budget`` fetches a day; without ``is_bound`` hosts have no limits."""
    rate, weight, host = web.rate, web.weight, web.host
    addresses = len(web.address_turns)

    def demand(prices: Floats) -> Floats:
        """Fetches a day of each host, by the price of each host."""
        return np.bincount(
            host, 1 / fetch_intervals(rate, weight, prices[host]), minlength=web.hosts
        )

    least = np.zeros(web.hosts)
    of_address = np.zeros(addresses)
    if is_bound:
        least = _sought(web.hosts, web.host_turns, demand)
        of_address = _sought(
            addresses,
            web.address_turns,
            lambda prices: np.bincount(
                web.address, demand(np.maximum(prices[web.address], least)), minlength=addresses
            ),
        )
    floor = np.maximum(least, of_address[web.address])
    crawl = _sought(
        1,
        np.array([budget]),
        lambda prices: demand(np.maximum(floor, prices[0])).sum(keepdims=True),
    )[0]
    prices = np.maximum(floor, crawl)
    interval = fetch_intervals(rate, weight, prices[host])
    mean = float((weight * freshness_of(rate, interval)).sum() / weight.sum())
    return Optimum(
        mean,
        float(crawl),
        prices,
        interval,
        int((least > crawl).sum()),
        bool((of_address > crawl).any()),
    )


def _sought(number: int, limits: Floats, demand) -> Floats:  # type: ignore[no-untyped-def]
    """The least prices at which the demands are within their limits."""
    low, high = np.full(number, _LOW), np.full(number, _HIGH)
    for _ in range(_HALVINGS):
        price = np.sqrt(low * high)
        is_over = demand(price) > limits
        low, high = np.where(is_over, price, low), np.where(is_over, high, price)
    return np.where(high <= _LOW * 1.01, 0.0, high)
