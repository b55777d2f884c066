"""Empties an outbox: for each destination, the parcels in front, a few at a time, until all are acknowledged.

Parcels of one destination go out in order. When one fails, those behind it are refused by the receiver as well (it takes no parcel before
the one in front), so sending starts again from the last that was acknowledged, after a wait that doubles.

A connection that is lost or a worker that does not answer is waited for, however long: its supervisor starts another one. It is said,
though. A receiver that answers and refuses the parcel in front does not change its mind, so after ten minutes that is a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from lycosa.exchange.outbox import Outbox
from lycosa.exchange.port import Exchange, ExchangeError, Parcel, ParcelRefused, ParcelsStuck

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 5.0
REFUSED_S = 600.0
"""How long the parcel in front may be refused before that is a failure."""


class Stalled(NamedTuple):
    """A parcel in front that is not acknowledged: tried for ``seconds``, the last time without success because of ``why``."""

    source: int
    destination: int
    sequence: int
    seconds: float
    why: str


class _Trouble(NamedTuple):
    """Since when (seconds of the loop's clock) the parcel in front cannot be delivered, since when it is refused (-1 = it is not), why."""

    sequence: int
    since: float
    refused_since: float
    why: str


class Sender:
    """Sends one partition's outbox. ``sleep`` is the clock's; ``window`` parcels of a destination are under way at once."""

    def __init__(self, outbox: Outbox, exchange: Exchange, sleep: Callable[[float], Awaitable[None]], window: int = 8) -> None:
        self._outbox, self._exchange, self._sleep, self._window = outbox, exchange, sleep, window
        self._running: dict[int, asyncio.Task[None]] = {}
        self.failures = 0
        """Parcels that were not acknowledged and are tried again."""
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        """Told when sending to a destination cannot go on."""
        self._troubles: dict[int, _Trouble] = {}

    def send(self, destinations: Iterable[int]) -> None:
        """Parcels for these partitions were committed. At the start: ``send(outbox.destinations())``."""
        for destination in destinations:
            if destination not in self._running:
                task = self._running[destination] = asyncio.get_running_loop().create_task(self._send(destination))
                task.add_done_callback(self._ended)

    def stalled(self) -> list[Stalled]:
        """Destinations that have not taken the parcel in front at the last try."""
        now = asyncio.get_running_loop().time()
        return [
            Stalled(self._outbox.source, destination, trouble.sequence, now - trouble.since, trouble.why)
            for destination, trouble in self._troubles.items()
        ]

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
            self._troubles.pop(destination, None)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.on_failure(error)

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
        self._note(parcels[0], results[0])
        return not any(results)

    def _note(self, front: Parcel, result: BaseException | None) -> None:
        """How the parcel in front fared. Raises ``ParcelsStuck``."""
        if result is None:
            self._troubles.pop(front.destination, None)
            return
        now = asyncio.get_running_loop().time()
        before = self._troubles.get(front.destination) or _Trouble(front.sequence, now, -1.0, "")
        refused_since = -1.0
        if isinstance(result, ParcelRefused):
            refused_since = before.refused_since if before.refused_since >= 0 else now
            if now - refused_since > REFUSED_S:
                raise ParcelsStuck(front.source, front.destination, front.sequence, now - refused_since, str(result))
        self._troubles[front.destination] = _Trouble(front.sequence, before.since, refused_since, str(result))
