"""Empties an outbox: for each destination, the parcels in front, a few at a time, until all are acknowledged.

Parcels of one destination go out in order. When one fails, those behind it are refused by the receiver as well (it takes no parcel before
the one in front), so sending starts again from the last that was acknowledged, after a wait that doubles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from lycosa.exchange.outbox import Outbox
from lycosa.exchange.port import Exchange, ExchangeError, Parcel

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 5.0


class Sender:
    """Sends one partition's outbox. ``sleep`` is the clock's; ``window`` parcels of a destination are under way at once."""

    def __init__(self, outbox: Outbox, exchange: Exchange, sleep: Callable[[float], Awaitable[None]], window: int = 8) -> None:
        self._outbox, self._exchange, self._sleep, self._window = outbox, exchange, sleep, window
        self._running: dict[int, asyncio.Task[None]] = {}
        self.failures = 0
        """Parcels that were not acknowledged and are tried again."""

    def send(self, destinations: Iterable[int]) -> None:
        """Parcels for these partitions were committed. At the start: ``send(outbox.destinations())``."""
        for destination in destinations:
            if destination not in self._running:
                self._running[destination] = asyncio.get_running_loop().create_task(self._send(destination))

    @property
    def is_idle(self) -> bool:
        """Whether everything that was given to ``send`` is acknowledged."""
        return not self._running

    async def close(self) -> None:
        """Stops; what is not acknowledged stays in the outbox."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __repr__(self) -> str:
        return f"Sender(destinations={sorted(self._running)}, failures={self.failures})"

    async def _send(self, destination: int) -> None:
        wait_s = _FIRST_WAIT_S
        try:
            while parcels := self._outbox.pending(destination, self._window):
                if await self._deliver(parcels):
                    wait_s = _FIRST_WAIT_S
                else:
                    await self._sleep(wait_s)
                    wait_s = min(_LONGEST_WAIT_S, wait_s * 2)
        finally:
            del self._running[destination]

    async def _deliver(self, parcels: list[Parcel]) -> bool:
        """Whether all were acknowledged."""
        results = await asyncio.gather(*map(self._exchange.deliver, parcels), return_exceptions=True)
        for parcel, result in zip(parcels, results, strict=True):
            if result is None:
                self._outbox.acknowledged(parcel.destination, parcel.sequence)
            elif isinstance(result, ExchangeError):
                self.failures += 1
            else:
                raise result
        return not any(results)
