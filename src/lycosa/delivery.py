"""The exchange as one worker uses it: outboxes of its partitions towards other workers', and what arrives from them.

outlink of a foreign partition -> outbox row, in the commit of the page -> sent when that commit is on disk -> taken there, in a
commit of the receiver -> acknowledged -> row deleted, in the next commit
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from lycosa.exchange import Exchange, Inbox, Outbox, Parcel
from lycosa.exchange import Sender as OutboxSender
from lycosa.frontier.partition import Partition
from lycosa.intake import Intake
from lycosa.kv.port import KeyValue
from lycosa.model.discovered import Discovered
from lycosa.worker import Worker

Posted = set[tuple[int, int]]
"""Pairs of source and destination partition with new parcels."""


class Delivery:
    """One per worker of several. ``post`` is the intake's outbox; ``cut`` and ``send`` are called by the worker around a commit."""

    def __init__(self, partitions: Mapping[int, Partition], tables: Mapping[int, KeyValue]) -> None:
        self._partitions = partitions
        self._outboxes = {number: Outbox(number, partitions[number].table, table) for number, table in tables.items()}
        self._inboxes = {number: Inbox(partitions[number].table, table) for number, table in tables.items()}
        self._senders: dict[int, OutboxSender] = {}
        self._posted: Posted = set()
        self._intake: Intake | None = None
        self._worker: Worker | None = None
        self.activity = 0

    def __repr__(self) -> str:
        return f"<Delivery posted={len(self._posted)} activity={self.activity} idle={self.is_idle}>"

    @property
    def is_idle(self) -> bool:
        """Whether everything that was posted is acknowledged."""
        return not self._posted and all(sender.is_idle for sender in self._senders.values())

    def post(self, source: Partition, destination: int, found: list[Discovered]) -> None:
        """Puts URLs for another worker's partition into the open commit."""
        self._outboxes[source.number].enqueue(destination, found)
        self._posted.add((source.number, destination))
        self.activity += 1

    def start(self, exchange: Exchange, intake: Intake, worker: Worker, sleep: Callable[[float], Awaitable[None]]) -> None:
        """The exchange is open: what earlier runs left in the outboxes goes out."""
        self._intake, self._worker = intake, worker
        self._senders = {number: OutboxSender(outbox, exchange, sleep) for number, outbox in self._outboxes.items()}
        for number, outbox in self._outboxes.items():
            self._senders[number].send(outbox.destinations())

    def cut(self) -> Posted:
        """A commit is being cut: the parcels that are in it."""
        posted, self._posted = self._posted, set()
        return posted

    def send(self, posted: object) -> None:
        """The commit is on disk."""
        assert isinstance(posted, set)
        for source, destination in posted:
            self._senders[source].send([destination])

    async def receive(self, parcel: Parcel) -> None:
        """Takes a parcel; returns when the commit that took it is on disk."""
        assert self._intake is not None and self._worker is not None
        inbox, partition = self._inboxes[parcel.destination], self._partitions[parcel.destination]
        if inbox.is_new(parcel.source, parcel.sequence):
            self._intake.receive(partition, parcel.discovered)
            inbox.accept(parcel.source, parcel.sequence)
            self.activity += 1
        while not inbox.is_committed(parcel.source, parcel.sequence):
            committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._worker.committer.waiters.append(committed)
            self._worker.wake()
            await committed

    async def close(self) -> None:
        for sender in self._senders.values():
            await sender.close()
