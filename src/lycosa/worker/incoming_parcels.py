"""What arrives at a worker from partitions of others: parcels, questions about keys, and calls.

Parcels come in two ways. Another worker delivers one over a connection and waits until the commit
that took it is on disk (``receive_parcel``). Or they lie in the inbox topic of the worker's
partition, which is read from the position that the last commit names: every commit names the
position up to which all that was read is taken, so what it lost is read again. A parcel in a topic
that is not the next one is stepped over, because its sender posts it again behind the missing one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from lycosa.cluster.worker_messages import (
    Seeds,
    SeedsTaken,
    decode_to_worker,
    encode_worker_message,
)
from lycosa.exchange import Inbound, Inbox, LookUp, Outbox, Parcel, ParcelGap, ParcelsLost
from lycosa.frontier.partition import Partition
from lycosa.kv.port import KeyValue
from lycosa.seen.duplicates import Duplicates
from lycosa.worker.errands import Errands
from lycosa.worker.intake import Intake
from lycosa.worker.worker import Worker

_PARCELS = 100
_MOST_UNCOMMITTED = (
    128  # records of the topic that are taken and not committed: what waits in memory is bounded
)


class ParcelReceivers(msgspec.Struct, frozen=True):
    """Who takes what is in a parcel."""

    intake: Intake
    duplicates: Duplicates
    errands: Errands


class IncomingParcels:
    """One per worker. ``inbound`` is its inbox topic, and ``after`` the position that its last
    commit names.
    """

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        tables: Mapping[int, KeyValue],
        takers: ParcelReceivers,
        worker: Worker,
        inbound: Inbound | None = None,
        after: int = 0,
    ) -> None:
        assert inbound is None or len(partitions) == 1, "a topic is of one partition"
        self._partitions, self._tables, self._takers, self._worker = (
            partitions,
            tables,
            takers,
            worker,
        )
        self._inboxes = {
            number: Inbox(partitions[number].table, table, number)
            for number, table in tables.items()
        }
        self._inbound, self._reading = inbound, set[asyncio.Task[None]]()
        self.position = self._committed = after
        """All up to this position of the topic is read and taken."""
        self.activity = 0
        self.stepped_over = 0
        """Parcels of the topic that were not the next one."""

    def __repr__(self) -> str:
        return (
            f"<Arrivals position={self.position} activity={self.activity}"
            f" stepped_over={self.stepped_over}>"
        )

    @property
    def is_idle(self) -> bool:
        """Whether all that was read is committed."""
        return self.position == self._committed

    async def lag(self) -> int:
        """How many records of the topic are not taken yet; 0 without one."""
        return (
            max(await self._inbound.last_position() - self.position, 0)
            if self._inbound is not None
            else 0
        )

    def start(self) -> None:
        """Reads the topic from now on, when there is one."""
        if self._inbound is not None:
            task = asyncio.get_running_loop().create_task(self._read(self._inbound))
            self._reading.add(task)
            task.add_done_callback(self._ended)

    def note_committed(self, position: int) -> None:
        """The commit that names this position is on disk."""
        self._committed = position

    def look_up(self, partition: int) -> LookUp:
        """What answers others about a partition's keys: what is committed, since a crash may
        take back all else.
        """
        return self._tables[partition].get

    async def answer_call(self, body: bytes) -> bytes:
        """Answers a call when its effect is committed. Known are ``Seeds``, to which
        ``SeedsTaken`` is the reply. Raises ``ValueError``.
        """
        message = decode_to_worker(body)
        if not isinstance(message, Seeds):
            raise ValueError(f"{type(message).__name__} is not a call")
        refused = self._takers.intake.take_seeds(message.raw)
        await self._next_commit()
        return encode_worker_message(SeedsTaken(message.call, refused))

    async def receive_parcel(self, parcel: Parcel) -> None:
        """Takes a parcel; returns when the commit that took it is on disk."""
        try:
            self._take(parcel)
        except ParcelsLost as error:
            self._worker.fail(error)  # nobody may wait for what cannot come
            raise
        inbox = self._inboxes[parcel.destination]
        while not inbox.is_committed(parcel.source, parcel.sequence):
            await self._next_commit()

    def take_own_parcels(self, outboxes: Mapping[int, Outbox]) -> None:
        """Parcels between two partitions that this worker owns are taken at once, in its first
        commit: an earlier run with more workers left them.
        """
        for outbox in outboxes.values():
            for destination in self._inboxes.keys() & set(outbox.destinations()):
                after = 0
                while parcels := outbox.pending_parcels(destination, _PARCELS, after):
                    for parcel in parcels:
                        self._take(parcel)
                        outbox.acknowledge(destination, parcel.sequence)
                    after = parcels[-1].sequence

    def _take(self, parcel: Parcel) -> None:
        inbox, takers = self._inboxes[parcel.destination], self._takers
        if not inbox.is_new(parcel.source, parcel.sequence, parcel.acknowledged):
            return
        if parcel.places:
            takers.intake.receive_places(self._partitions[parcel.destination], parcel.places)
        if parcel.discovered:
            takers.intake.receive_urls(self._partitions[parcel.destination], parcel.discovered)
        for key, value in parcel.contents:
            takers.duplicates.file_row(parcel.destination, key, value)
        for errand in parcel.errands:
            takers.errands.deliver_item(parcel.destination, errand)
        for answer in parcel.answers:
            takers.errands.deliver_item(parcel.destination, answer)
        inbox.accept_parcel(parcel.source, parcel.sequence)
        self.activity += 1

    async def _next_commit(self) -> None:
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._worker.committer.waiters.append(committed)
        self._worker.wake()
        await committed

    async def _read(self, inbound: Inbound) -> None:
        while True:
            for position, parcel in await inbound.read_parcels(self.position):
                await asyncio.sleep(0)  # a parcel may hold 500 URLs: one in a step of the loop
                try:
                    self._take(parcel)
                except ParcelGap:
                    self.stepped_over += 1
                # in one step with what the parcel caused, so that no commit is cut in between
                self.position = position
                self._worker.wake()
            while self.position - self._committed >= _MOST_UNCOMMITTED:
                await self._next_commit()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._reading.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._worker.fail(error)

    async def close(self) -> None:
        """Reads no more."""
        tasks = list(self._reading)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
