"""The exchange as one worker uses it: outboxes of its partitions towards other workers', and what arrives from them.

outlink of a foreign partition -> outbox row, in the commit of the page -> sent when that commit is on disk -> taken there, in a
commit of the receiver -> acknowledged -> row deleted, in the next commit

URLs are gathered by destination until the commit is cut, and so are errands, answers, and what was stored under content keys of other
workers': a page has
links into most partitions and about a dozen such keys, and a row each, made, sent, taken, acknowledged and deleted, would cost more
than the page's own records. All leave from one partition of this worker's, whichever page they are from: a commit holds the batches
of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from lycosa.exchange import PARCEL_URLS, Exchange, Inbox, Key, LookUp, Outbox, Parcel, ParcelsLost
from lycosa.exchange import Sender as OutboxSender
from lycosa.frontier.partition import Partition
from lycosa.kv.port import KeyValue
from lycosa.model.discovered import Discovered
from lycosa.model.errand import Answer, Errand
from lycosa.seen.duplicates import Duplicates
from lycosa.worker.errands import Errands
from lycosa.worker.intake import Intake
from lycosa.worker.worker import Worker

_PARCELS = 100
_STALLED_S = 30.0  # a delivery's own deadline: what is late by less is no news
Posted = set[tuple[int, int]]
"""Pairs of source and destination partition with new parcels."""


class Delivery:
    """One per worker of several. ``post`` is the intake's outbox; ``cut`` and ``send`` are called by the worker around a commit."""

    def __init__(self, partitions: Mapping[int, Partition], tables: Mapping[int, KeyValue]) -> None:
        self._partitions = partitions
        self._tables = tables
        self._outboxes = {number: Outbox(number, partitions[number].table, table) for number, table in tables.items()}
        self._inboxes = {number: Inbox(partitions[number].table, table, number) for number, table in tables.items()}
        self._source = min(tables)  # any of them would do
        self._senders: dict[int, OutboxSender] = {}
        self._posted: Posted = set()
        self._found: dict[int, list[Discovered]] = {}
        self._told: dict[int, list[tuple[bytes, bytes]]] = {}
        self._errands_posted: dict[int, list[Errand | Answer]] = {}
        self._intake: Intake | None = None
        self._duplicates: Duplicates | None = None
        self._errands: Errands | None = None
        self._worker: Worker | None = None
        self._exchange: Exchange | None = None
        self.activity = 0

    def __repr__(self) -> str:
        return f"<Delivery posted={len(self._posted)} activity={self.activity} idle={self.is_idle}>"

    @property
    def is_idle(self) -> bool:
        """Whether everything that was posted or told is acknowledged."""
        is_open = self._posted or self._found or self._told or self._errands_posted
        return not is_open and all(sender.is_idle for sender in self._senders.values())

    def stalled(self) -> str:
        """For people: the parcel that has waited longest for another worker; empty when none waits for long."""
        waiting = [each for sender in self._senders.values() for each in sender.stalled() if each.seconds >= _STALLED_S]
        if not waiting:
            return ""
        worst = max(waiting, key=lambda each: each.seconds)
        pair = f"partition {worst.destination} to take parcel {worst.sequence} from partition {worst.source}"
        return f"{pair}, tried for {worst.seconds:.0f} s ({worst.why})"

    def post(self, source: Partition, destination: int, found: list[Discovered]) -> None:
        """Puts URLs for another worker's partition into the open commit."""
        gathered = self._found.setdefault(destination, [])
        gathered += found
        if len(gathered) >= PARCEL_URLS:  # what waits in memory is bounded, however late the next commit is
            self._enqueue(destination)
        self.activity += 1

    def _enqueue(self, destination: int) -> None:
        self._outboxes[self._source].enqueue(destination, self._found.pop(destination))
        self._posted.add((self._source, destination))

    def post_errand(self, destination: int, item: Errand | Answer) -> None:
        """Puts an errand, or an answer to one, for another worker's partition into the open commit."""
        self._errands_posted.setdefault(destination, []).append(item)
        self.activity += 1

    def tell(self, partition: int, key: bytes, value: bytes) -> None:
        """Puts a row of content-seen for another worker's partition into the open commit."""
        self._told.setdefault(partition, []).append((key, value))
        self.activity += 1

    async def ask(self, keys: Sequence[Key]) -> Mapping[bytes, bytes | None]:
        """What other workers' partitions hold under content keys, as far as they answer in time."""
        return await self._exchange.ask(keys) if self._exchange is not None else {}

    def look_up(self, partition: int) -> LookUp:
        """What answers others about a partition's keys: what is committed, since a crash may take back all else."""
        return self._tables[partition].get

    def connect(self, intake: Intake, duplicates: Duplicates, errands: Errands) -> None:
        """Who takes what arrives. Parcels between two partitions that this worker owns are taken at once, in its first commit: an earlier
        run with more workers left them."""
        self._intake, self._duplicates, self._errands = intake, duplicates, errands
        for outbox in self._outboxes.values():
            for destination in outbox.destinations():
                if destination in self._inboxes:
                    self._take_own(outbox, destination)

    def _take_own(self, outbox: Outbox, destination: int) -> None:
        after = 0
        while parcels := outbox.pending(destination, _PARCELS, after):
            for parcel in parcels:
                self._take(parcel)
                outbox.acknowledged(destination, parcel.sequence)
            after = parcels[-1].sequence

    def start(self, exchange: Exchange, intake: Intake, worker: Worker, sleep: Callable[[float], Awaitable[None]]) -> None:
        """The exchange is open: what earlier runs left in the outboxes goes out."""
        self._intake, self._worker, self._exchange = intake, worker, exchange
        self._senders = {number: OutboxSender(outbox, exchange, sleep) for number, outbox in self._outboxes.items()}
        for number, outbox in self._outboxes.items():
            self._senders[number].on_failure = worker.fail
            self._senders[number].send(outbox.destinations())

    def cut(self) -> Posted:
        """A commit is being cut: the parcels that are in it."""
        for destination in list(self._found):
            self._enqueue(destination)
        told, self._told = self._told, {}
        for destination, rows in told.items():
            self._outboxes[self._source].enqueue_contents(destination, rows)
            self._posted.add((self._source, destination))
        errands, self._errands_posted = self._errands_posted, {}
        for destination, items in errands.items():
            self._outboxes[self._source].enqueue_errands(destination, items)
            self._posted.add((self._source, destination))
        posted, self._posted = self._posted, set()
        return posted

    def send(self, posted: object) -> None:
        """The commit is on disk."""
        assert isinstance(posted, set)
        for source, destination in posted:
            self._senders[source].send([destination])

    async def receive(self, parcel: Parcel) -> None:
        """Takes a parcel; returns when the commit that took it is on disk."""
        assert self._worker is not None
        try:
            self._take(parcel)
        except ParcelsLost as error:
            self._worker.fail(error)  # nobody may wait for what cannot come
            raise
        inbox = self._inboxes[parcel.destination]
        while not inbox.is_committed(parcel.source, parcel.sequence):
            committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._worker.committer.waiters.append(committed)
            self._worker.wake()
            await committed

    def _take(self, parcel: Parcel) -> None:
        assert self._intake is not None and self._duplicates is not None and self._errands is not None
        inbox = self._inboxes[parcel.destination]
        if not inbox.is_new(parcel.source, parcel.sequence, parcel.acknowledged):
            return
        if parcel.discovered:
            self._intake.receive(self._partitions[parcel.destination], parcel.discovered)
        for key, value in parcel.contents:
            self._duplicates.take(parcel.destination, key, value)
        for errand in parcel.errands:
            self._errands.take(parcel.destination, errand)
        for answer in parcel.answers:
            self._errands.take(parcel.destination, answer)
        inbox.accept(parcel.source, parcel.sequence)
        self.activity += 1

    async def close(self) -> None:
        for sender in self._senders.values():
            await sender.close()
