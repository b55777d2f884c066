"""How late the hosts of shared addresses are: the worst addresses of a crawl."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lycosa.stages.frontier.visit_state import VisitRecord

MOST_LISTED = 10


class AddressWait(msgspec.Struct, frozen=True):
    """``hosts`` wait for a turn at the address, the last one for about ``wait_s`` seconds.

    ``price`` is that of a refetch at the address in days, 0 where it is the common one.
    """

    address: str
    hosts: int
    wait_s: float
    price: float = 0.0


class AddressWaits:
    """Hosts in the lines of addresses, of which there are as many as addresses have lines."""

    def __init__(self, address_delay_s: float) -> None:
        self._delay_s = address_delay_s
        self._waiting: dict[str, int] = {}
        self._prices: dict[str, float] = {}

    def add_host(self, record: VisitRecord) -> None:
        """Count a host if it waits for its address."""
        if record.line:
            self._waiting[record.line] = self._waiting.get(record.line, 0) + 1

    def add_prices(self, prices: Mapping[str, float]) -> None:
        """Take the prices of addresses that a partition goes by."""
        self._prices.update(prices)

    def worst(self, mean_weight: float) -> list[AddressWait]:
        """The addresses whose hosts wait longest, then those with the highest price."""
        named = self._waiting.keys() | self._prices.keys()
        waits = (
            AddressWait(
                address,
                hosts := self._waiting.get(address, 0),
                round(hosts * self._delay_s, 1),
                round(self._prices.get(address, 0.0) / mean_weight, 6),
            )
            for address in named
        )
        ordered = sorted(waits, key=lambda each: (-each.wait_s, -each.price, each.address))
        return ordered[:MOST_LISTED]
