"""The addresses at which owners of shards answer each other, as the coordinator knows them."""

from __future__ import annotations

from lycosa.base.messages.worker_messages import Routes
from lycosa.cluster.coordinator.placement import COUNT_BITS


class RouteTable:
    """The present addresses, with a version that increases over all coordinators."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._count = 0
        self.routes = Routes(0, {})

    def update(self, addresses: dict[int, str]) -> None:
        """Note the addresses of the current owners, by shard."""
        if addresses != self.routes.addresses:
            self._count += 1
            self.routes = Routes((self._number << COUNT_BITS) + self._count, addresses)
