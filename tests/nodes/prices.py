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
        best = max(self.seen)
        assert best[0] >= 3 and best[1] > 1.0
        for number, price in self.seen:
            assert 1.0 <= price <= MOST_STEP**number * 1.001, (number, price)
        assert 1.0 < self.history._view().seen.last.price <= best[1] * MOST_STEP**20
