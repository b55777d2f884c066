"""Parcels through topics: what a sender counts as posted, and topics in memory.

Each destination has one append-only list, which its owner reads.

The rule of a sender (``TopicPost``): a parcel counts as posted only when it and every parcel before
it are acknowledged and are in that order in the topic. After a failure the sender posts again from
the first that does not count. That includes later ones that were acknowledged, because the receiver
has skipped them. So when the deletion of row n is committed, the topic contains 1 to n as a
subsequence without gaps. Between them there may be repeated parcels, parcels beyond the next one,
and those of an earlier owner of the source, which has the same rows and so the same parcels. A
receiver that takes only the next parcel each time takes 1 to n.

``MemoryTopics`` are topics in memory, for many workers in one process. They outlive the workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from lycosa.state.exchange.exchange_errors import ExchangeError, PositionLost
from lycosa.state.exchange.exchange_port import Handover, Parcel
from lycosa.state.exchange.local import awaited

Append = Callable[[Parcel], Awaitable[int]]
"""Appends a parcel to the topic of its destination.

Returns its position when the topic holds it durably. A parcel whose append begins after another was
acknowledged is placed after it. Concurrent appends may end in any order, but those that are not in
the order of the calls are posted again. Raises ``ExchangeError`` when it is unknown whether the
parcel was appended; it may be appended later.
"""

_READ_AT_ONCE = 64


class TopicPost:
    """``Post`` through a topic.

    Parcels not acknowledged within ``deadline_s`` are posted again; repeated parcels do no harm.
    """

    def __init__(self, append: Append, deadline_s: float = 30.0) -> None:
        self._append, self._deadline_s = append, deadline_s
        self._running: set[asyncio.Future[int]] = set()

    async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
        tasks = [asyncio.ensure_future(self._append(parcel)) for parcel in parcels]
        self._running.update(tasks)
        count = last = 0
        try:
            for parcel, task in zip(parcels, tasks, strict=True):
                position = await awaited(task, self._deadline_s)
                if position <= last:
                    return Handover(
                        count,
                        ExchangeError(
                            f"parcel {parcel.sequence} was placed before the one in front of it"
                        ),
                    )
                count, last = count + 1, position
        except ExchangeError as error:
            return Handover(count, error)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._running.difference_update(tasks)
        return Handover(count)

    async def close(self) -> None:
        for task in self._running:
            task.cancel()


class MemoryTopics:
    """The inbox topics of all destinations, in memory."""

    def __init__(self) -> None:
        self._records: dict[int, list[Parcel | None]] = {}
        self._trimmed: dict[int, int] = {}
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}  # readers waiting for a record

    def append_parcel(self, parcel: Parcel) -> asyncio.Future[int]:
        """Append a parcel, as ``Append``; it is in the topic when this returns."""
        return self._append(parcel.destination, parcel)

    def append_foreign(self, destination: int) -> None:
        """Append a record that is no parcel of the crawl."""
        self._append(destination, None)

    def _append(self, destination: int, record: Parcel | None) -> asyncio.Future[int]:
        self._records.setdefault(destination, []).append(record)
        loop = asyncio.get_running_loop()
        for waiting in self._waiting.pop(destination, ()):
            # readers of an earlier event loop are gone, but the topics outlive it
            if waiting.get_loop() is loop and not waiting.done():
                waiting.set_result(None)
        appended: asyncio.Future[int] = loop.create_future()
        appended.set_result(self.last_position(destination))
        return appended

    def last_position(self, destination: int) -> int:
        """The position of the last record; 0 when there was none yet."""
        return self._trimmed.get(destination, 0) + len(self._records.get(destination, ()))

    def records(self, destination: int) -> list[Parcel]:
        """The parcels in a topic, in order."""
        return [each for each in self._records.get(destination, ()) if each is not None]

    def trim(self, destination: int, until: int) -> None:
        """Drop the records up to a position."""
        dropped = min(until, self.last_position(destination)) - self._trimmed.get(destination, 0)
        if dropped > 0:
            del self._records[destination][:dropped]
            self._trimmed[destination] = self._trimmed.get(destination, 0) + dropped

    def inbound(self, destination: int) -> MemoryInbound:
        """The reading end for one destination."""
        return MemoryInbound(self, destination)

    async def read_parcels(self, destination: int, after: int) -> list[tuple[int, Parcel | None]]:
        """The next parcels after a position, as ``Inbound.read_parcels``."""
        while True:
            trimmed, end = self._trimmed.get(destination, 0), self.last_position(destination)
            if not trimmed <= after <= end:
                raise PositionLost(destination, after, trimmed + 1, end)
            if after < end:
                start = after - trimmed
                return list(
                    enumerate(self._records[destination][start : start + _READ_AT_ONCE], after + 1)
                )
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(destination, []).append(news)
            await news


class MemoryInbound:
    """``Inbound`` of one destination."""

    def __init__(self, topics: MemoryTopics, destination: int) -> None:
        self._topics, self._destination = topics, destination

    async def read_parcels(self, after: int) -> list[tuple[int, Parcel | None]]:
        return await self._topics.read_parcels(self._destination, after)

    async def last_position(self) -> int:
        return self._topics.last_position(self._destination)

    async def trim(self, position: int) -> None:
        self._topics.trim(self._destination, position)
