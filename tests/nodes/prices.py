"""The price of a refetch is found while machines die and coordinators are replaced.

The budget is small, so the price only rises, by at most a quarter a minute. It never begins again,
whoever coordinates, and the owner of each shard goes by it.
"""

from __future__ import annotations

import asyncio

from lycosa.base.messages.coordinator_messages import CALLER, ChangeSettings
from lycosa.cluster.coordinator.price_search import MOST_STEP, PriceSearch
from nodes.history import NodesHistory
from nodes.plugin import Plugin

_AGAIN_S = 5.0
_LOOKED_S = 20.0


class Prices(Plugin):
    """``seen`` are the numbers and prices that coordinators had, in their order."""

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        self.seen: list[tuple[int, float]] = []
        self.coordinators: set[int] = set()

    async def operate(self) -> None:
        change = ChangeSettings({"refetch.rule": "value", "refetch.budget": "0.01/d"})
        while self.world.newest.coordinator.settings.version < 1:
            self.world.newest.receive(CALLER, change)
            await asyncio.sleep(_AGAIN_S)
        # Pages are found and fetched meanwhile, and a price takes some minutes.
        for _ in range(30):
            await asyncio.sleep(_LOOKED_S)
            self._look()

    def _look(self) -> None:
        coordinator = self.world.newest.coordinator
        search: PriceSearch = coordinator._prices
        if search._number:
            self.seen.append((search._number, search._price))
            self.coordinators.add(coordinator.number)

    def judge(self) -> None:
        assert len(self.seen) > 3, self.seen
        # A coordinator whose workers have not told it everything yet may know an older price.
        first, best = min(self.seen), max(self.seen)
        # It began low, because the budget was a share of the capacity until the change.
        assert best[0] >= 3 and best[1] > first[1] > 0
        for number, price in self.seen:
            steps = number - first[0]
            assert first[1] <= price <= first[1] * MOST_STEP**steps * 1.001, (number, price)
        last = self.history._view().seen.last.price
        assert first[1] < last <= best[1] * MOST_STEP**20
