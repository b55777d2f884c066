"""The web that is refetched: pages with change rates and weights, on hosts with turns.

Times are in days, rates in changes a day. Of 2,000 hosts five have a tenth of all pages each and a
Crawl-delay of 30 s, and 1,000 share one address; the others differ in size as hosts do (Pareto). A
page changes at random times; its rate is lognormal around once in 20 days, with one part of the
spread between hosts and one between the pages of a host, from hours to years. Weights have a heavy
tail (Pareto 1.5) and the mean 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HOSTS, GIANTS, SHARING = 2000, 5, 1000
GIANT_SHARE = 0.1  # of all pages, each
_DAY_S = 86_400.0
_JITTER = 1.05  # on average
_MEDIAN_RATE, _LEAST_RATE, _MOST_RATE = 1 / 20, 1 / 2000, 48.0
_BETWEEN, _WITHIN = 1.2, 1.6  # standard deviations of the logarithm: 2.0 together


@dataclass(frozen=True)
class MadeWeb:
    """Pages by number, with their hosts, and hosts with their addresses.

    ``host_turns`` and ``address_turns`` are the most fetches a day.
    """

    rate: Floats
    weight: Floats
    host: Ints
    address: Ints  # of each host
    host_turns: Floats
    address_turns: Floats

    @property
    def pages(self) -> int:
        return len(self.rate)

    @property
    def hosts(self) -> int:
        return len(self.address)


def make_web(
    pages: int,
    seed: int,
    crawl_delay_s: float = 30.0,
    delay_s: float = 1.0,
    address_delay_s: float = 0.2,
) -> MadeWeb:
    """A web of 2,000 hosts, or of a hundredth of the pages where that is less.

    Then hosts and addresses have as many turns a page as in the whole web.
    """
    scale = min(pages / (100 * HOSTS), 1.0)
    chance = np.random.default_rng(seed)
    hosts = min(HOSTS, max(pages // 100, 2 * GIANTS + 2))
    sharing = hosts * SHARING // HOSTS
    giant = int(pages * GIANT_SHARE)
    sizes = chance.pareto(1.5, hosts - GIANTS) + 1
    rest = pages - GIANTS * giant
    sizes = np.maximum(sizes / sizes.sum() * (rest - len(sizes)), 0).astype(np.int64) + 1
    sizes[: rest - int(sizes.sum())] += 1
    counts = np.concatenate([np.full(GIANTS, giant), sizes])
    host = np.repeat(np.arange(hosts), counts)
    number = len(host)
    off = chance.normal(0, _BETWEEN, hosts)
    # The giants are hosts like others, but five draws would decide the result.
    off[:GIANTS] = np.linspace(-_BETWEEN, _BETWEEN, GIANTS)
    rate = np.exp(math.log(_MEDIAN_RATE) + off[host] + chance.normal(0, _WITHIN, number))
    weight = chance.pareto(1.5, number) + 0.1
    address = np.concatenate([np.arange(GIANTS), np.full(sharing, GIANTS)])
    address = np.concatenate([address, np.arange(len(address), hosts) - sharing + 1])
    turns = np.full(hosts, _DAY_S / (delay_s * _JITTER))
    turns[:GIANTS] = _DAY_S * scale / (crawl_delay_s * _JITTER)
    address_turns = np.full(int(address.max()) + 1, np.inf)
    address_turns[GIANTS] = _DAY_S * scale / address_delay_s
    return MadeWeb(
        rate.clip(_LEAST_RATE, _MOST_RATE),
        weight / weight.mean(),
        host,
        address,
        turns,
        address_turns,
    )
