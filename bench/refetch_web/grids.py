"""How the prices of a crawl and of its hosts are found, from what is known of the pages of a web.

The search is the program's own (``cluster.coordinator.price_search``), and so is the price of a
host with too few turns (``schedule.price_in_force``). Only the counting differs: pages are in
arrays here, and in partitions there (``worker.refetch_grids``). The program seeks the price each
minute; here the same steps are made together, twice a day.
"""

from __future__ import annotations

import numpy as np
from bench.refetch_web.judged_rate import CELLS
from bench.refetch_web.made_web import Floats, Ints, MadeWeb

from lycosa.base.config.refetch_budget import is_capacity_share
from lycosa.base.config.sections import RefetchRule
from lycosa.base.messages.worker_messages import PriceTerms, RefetchGrid
from lycosa.cluster.coordinator.price_search import PRICE_STEP_S, PriceSearch
from lycosa.stages.frontier.host_grids import LARGE
from lycosa.stages.schedule.price_in_force import PriceInForce, price_of_host

_MOVES, _SAME = 12, 0.005
_DAY_S = 86_400.0


class WebGrids:
    """The grids of all shards, with a row for each host with many pages.

    ``turns_share`` is that of refetches in the turns of a host. With ``shards`` the grid of one of
    them is new at a time, and that of the others is from before.
    """

    def __init__(
        self,
        web: MadeWeb,
        *,
        has_host_prices: bool = True,
        has_address_prices: bool = False,
        turns_share: float = 1.0,
        shards: int = 1,
    ) -> None:
        sizes = np.bincount(web.host, minlength=web.hosts)
        is_shared = np.isfinite(web.address_turns)[web.address] & has_address_prices
        large = np.flatnonzero((sizes > LARGE) & ~is_shared & has_host_prices)
        self._units = [
            (np.array([host]), float(web.host_turns[host]) * turns_share) for host in large
        ]
        unit = np.full(web.hosts, -1)
        unit[large] = np.arange(len(large))
        if has_address_prices:
            for address in np.flatnonzero(np.isfinite(web.address_turns)):
                members = np.flatnonzero(web.address == address)
                unit[members] = len(self._units)
                self._units.append((members, float(web.address_turns[address]) * turns_share))
        self._shards = shards
        # A row for the rest of each shard, then one for each unit.
        row = np.where(unit >= 0, shards + unit, np.arange(web.hosts) % shards)
        self._row_of_page = row[web.host]
        self._hosts, self._rounds = web.hosts, 0
        self._search = PriceSearch(shards)
        self._now = 0.0

    def find_prices(self, prices: PriceInForce, cell: Ints, budget: float, now: float) -> Floats:
        """The price at each host; with a ``budget`` that of the crawl is sought first."""
        counts = np.bincount(
            self._row_of_page * CELLS + cell,
            minlength=(self._shards + len(self._units)) * CELLS,
        ).reshape(-1, CELLS)
        found: dict[int, float] = {}
        units = counts[self._shards :]
        for number, (row, (_, turns)) in enumerate(zip(units, self._units, strict=True)):
            price = price_of_host(prices.section, _as_grid(row), turns, prices.price)
            if price is not None:
                found[number] = price
        if budget:
            self._report(prices, counts, set(found), budget)
        of_host = np.full(self._hosts, prices.price)
        for number, price in found.items():
            of_host[self._units[number][0]] = max(price, prices.price)
        return of_host

    def _report(self, prices: PriceInForce, counts: Ints, bound: set[int], budget: float) -> None:
        """Send the grids, of which one is new, and follow the search for some steps."""
        self._rounds += 1
        for shard in range(self._shards):
            if self._rounds > 1 and shard != self._rounds % self._shards:
                continue
            rest, bound_a_day = counts[shard].copy(), 0.0
            for number in range(shard, len(self._units), self._shards):
                if number in bound:
                    bound_a_day += self._units[number][1]
                else:
                    rest += counts[self._shards + number]
            message = RefetchGrid(
                self._rounds,
                0,
                _as_grid(rest),
                len(bound),
                bound_a_day,
                budget / self._shards,
                _terms(prices, budget, self._rounds),
                prices.price,
                prices.number,
            )
            self._search.receive(shard, (1, shard), message, self._now)
            last = shard
        for _ in range(_MOVES):
            old = prices.price
            self._now += PRICE_STEP_S
            self._search.tick(self._now)
            answer = self._search.receive(last, (1, last), message, self._now)
            prices.follow(answer.price, answer.number)
            if abs(prices.price / old - 1) < _SAME:
                break


def _terms(prices: PriceInForce, budget: float, settings: int) -> PriceTerms:
    section, is_share = prices.section, is_capacity_share(prices.section.budget)
    return PriceTerms(
        settings,
        0.0 if is_share else budget,
        1.0 if is_share else 0.0,
        section.rule is RefetchRule.VALUE,
        section.price,
        section.min_s,
        section.max_s,
        section.least_chance,
        section.probes,
    )


def _as_grid(counts: Ints) -> dict[int, int]:
    cells = np.flatnonzero(counts)
    return dict(zip((cells + 1).tolist(), counts[cells].tolist(), strict=True))
