"""The search for the price of a refetch in a simulation, by the code of worker and coordinator.

A worker and the coordinator talk once a minute. Here they do so eight times a day of virtual time,
each time for as many minutes as the price still moves: a search over a month would otherwise take
longer than the crawl.
"""

from __future__ import annotations

from lycosa.base.system.meter import Histogram
from lycosa.cluster.coordinator.price_search import PRICE_STEP_S, PriceSearch
from lycosa.simulate.resources import Meters
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.policy_walk import DelayOf
from lycosa.stages.schedule.price_in_force import PriceInForce
from lycosa.worker.refetch_grids import AddressLimits, RefetchReports

PRICES_EVERY_S = 10_800.0
_MINUTES = 30  # in which the price moves by a factor of 800
_SAME = 1e-3
_OWNER = (1, 0)


class SimulatedPrices:
    """The price of one part; ``find_price`` is called every ``PRICES_EVERY_S`` virtual seconds."""

    def __init__(
        self,
        partition: Partition,
        prices: PriceInForce,
        delay_of: DelayOf,
        meters: Meters,
        limits: AddressLimits,
    ) -> None:
        self._partition, self._prices, self._meters = partition, prices, meters
        self._requests = Histogram(())
        self._grids = RefetchReports(
            prices,
            {0: partition},
            delay_of,
            self._requests,
            lambda: meters.slots.per_s,  # type: ignore[arg-type,return-value]
            lambda: meters.cpu.spent,
            limits,
        )
        self._search = PriceSearch(1)
        self._minute = 0.0

    def note_request(self, duration_s: float) -> None:
        """Count a request, for the capacity."""
        self._requests.observe(duration_s)

    def find_price(self) -> None:
        """Find the prices of hosts, and that of the crawl if it has a budget."""
        if not self._prices.uses_value:
            return
        for _ in range(_MINUTES):
            self._minute += PRICE_STEP_S
            before = self._prices.price
            if not self._talk() or abs(self._prices.price / before - 1) < _SAME:
                return

    def _talk(self) -> bool:
        """One minute; ``False`` when there is no price to seek."""
        # A pass over the large hosts is done in slices.
        for _ in range(2 + self._partition.counters.discovered // 500):
            message = self._grids.step(self._minute, 1)
            if message is not None:
                self._grids.follow(self._search.receive(0, _OWNER, message, self._minute))
                self._search.tick(self._minute)
                self._grids.follow(self._search.receive(0, _OWNER, message, self._minute))
                return True
        return False
