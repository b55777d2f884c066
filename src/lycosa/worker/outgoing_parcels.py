"""What leaves a worker for partitions of others: gathered until its commit is cut, then sent from
the outboxes.

outlink of a foreign partition -> outbox row, in the commit of the page -> posted when that commit
is on disk -> handed over: taken there in a commit of the receiver, or held by its topic -> row
deleted, in the next commit

URLs are gathered by destination until the commit is cut, and so are errands, answers, and what was
stored under content keys of other workers': a page has links into most partitions and about a dozen
such keys, and a row each, made, sent, taken, acknowledged and deleted, would cost more than the
page's own records.

What a partition found leaves from that partition. The exception is for a worker of several
partitions: URLs too few for a parcel of their own leave with those that other partitions found for
the same destination, from the one that found most of them. A commit holds the batches of all
partitions, so nothing depends on which it is; a parcel for each pair would cost 4 % of a page's CPU
time with 4 workers on 16 partitions.

A place that joins the scope goes to every partition of other workers, in front of all that is found
from then on: whoever gets a URL of that place knows the place, and follows the page's links.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from lycosa.exchange import PARCEL_URLS, ExchangeEnds, Outbox
from lycosa.exchange import OutboxSender as OutboxSender
from lycosa.frontier.partition import Partition
from lycosa.kv.port import KeyValue
from lycosa.model.discovered import Discovered
from lycosa.model.errand import Answer, Errand
from lycosa.model.partition_key import PartitionKey

_OWN_URLS = 100  # found by one partition for another in a commit: they get a parcel of their own
_STALLED_S = 30.0  # a delivery's own deadline: what is late by less is no news
PartitionPair = tuple[int, int]
"""Source and destination of parcels."""


class OutgoingParcels:
    """One per worker. ``post_urls`` is the intake's outbox. ``exchange`` is ``None`` when no other
    worker runs; ``fail`` is told when sending cannot go on; the crawl has ``count`` partitions.
    """

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        tables: Mapping[int, KeyValue],
        exchange: ExchangeEnds | None,
        sleep: Callable[[float], Awaitable[None]],
        fail: Callable[[BaseException], None],
        count: int,
    ) -> None:
        self.outboxes = {
            number: Outbox(number, partitions[number].table, table)
            for number, table in tables.items()
        }
        self._exchange = exchange
        self._senders: dict[int, OutboxSender] = {}
        if exchange is not None:
            for number, outbox in self.outboxes.items():
                sender = self._senders[number] = OutboxSender(
                    outbox, exchange.post, sleep, lateness=exchange.lateness
                )
                sender.on_failure = fail
        self._first = min(tables)
        self._others = [number for number in range(count) if number not in tables]
        self._places: list[str] = []
        self._posted: set[PartitionPair] = set()
        self._found: dict[int, dict[int, list[Discovered]]] = {}  # by destination and source
        self._told: dict[int, list[tuple[bytes, bytes]]] = {}
        self._errands: dict[PartitionPair, list[Errand | Answer]] = {}
        self.activity = 0

    def __repr__(self) -> str:
        return (
            f"<Departures posted={len(self._posted)} activity={self.activity} idle={self.is_idle}>"
        )

    @property
    def is_idle(self) -> bool:
        """Whether everything that was posted or told is handed over."""
        is_open = self._posted or self._found or self._told or self._errands or self._places
        return not is_open and all(sender.is_idle for sender in self._senders.values())

    def stalled(self) -> str:
        """For people: the parcel that has waited longest for another worker; empty when none
        waits for long.
        """
        waiting = [
            each
            for sender in self._senders.values()
            for each in sender.stalled()
            if each.seconds >= _STALLED_S
        ]
        if not waiting:
            return ""
        worst = max(waiting, key=lambda each: each.seconds)
        pair = (
            f"partition {worst.destination} to take parcel {worst.sequence} from partition"
            f" {worst.source}"
        )
        return f"{pair}, tried for {worst.seconds:.0f} s ({worst.why})"

    def post_urls(self, source: Partition, destination: int, found: list[Discovered]) -> None:
        """Puts URLs that a partition found, for another worker's partition, into the open
        commit.
        """
        by_source = self._found.setdefault(destination, {})
        gathered = by_source.setdefault(source.number, [])
        gathered += found
        # what waits in memory is bounded, however late the next commit is
        if len(gathered) >= PARCEL_URLS:
            self._enqueue(source.number, destination, by_source.pop(source.number))
        self.activity += 1

    def post_place(self, url: str) -> None:
        """Puts a URL whose place joined the scope, for all partitions of other workers, into the
        open commit.
        """
        if self._others:
            self._places.append(url)
            self.activity += 1

    def _enqueue_places(self) -> None:
        """From each partition, because parcels of different ones may overtake each other."""
        places, self._places = self._places, []
        for source, outbox in self.outboxes.items() if places else ():
            for destination in self._others:
                outbox.enqueue_places(destination, places)
                self._posted.add((source, destination))

    def _enqueue(self, source: int, destination: int, found: list[Discovered]) -> None:
        self._enqueue_places()
        self.outboxes[source].enqueue(destination, found)
        self._posted.add((source, destination))

    def _enqueue_found(self, destination: int, by_source: dict[int, list[Discovered]]) -> None:
        """What each partition found for a destination; small parts leave together."""
        small = {source: found for source, found in by_source.items() if len(found) < _OWN_URLS}
        for source, found in by_source.items():
            if source not in small:
                self._enqueue(source, destination, found)
        if small:
            most = max(small, key=lambda source: len(small[source]))
            self._enqueue(most, destination, [each for found in small.values() for each in found])

    def post_errand(self, source: int, destination: int, item: Errand | Answer) -> None:
        """Puts an errand of a partition, or its answer to one, for another worker's partition
        into the open commit.
        """
        self._errands.setdefault((source, destination), []).append(item)
        self.activity += 1

    def tell_owner(self, partition: int, key: bytes, value: bytes) -> None:
        """Puts a row of content-seen for another worker's partition into the open commit."""
        self._told.setdefault(partition, []).append((key, value))
        self.activity += 1

    async def ask_owners(self, keys: Sequence[PartitionKey]) -> Mapping[bytes, bytes | None]:
        """What other workers' partitions hold under content keys, as far as they answer in time."""
        return await self._exchange.inquiry.look_up_keys(keys) if self._exchange is not None else {}

    def start(self) -> None:
        """What earlier runs left in the outboxes goes out."""
        for number, sender in self._senders.items():
            sender.send_to(self.outboxes[number].destinations())

    def cut_parcels(self) -> frozenset[PartitionPair]:
        """A commit is being cut: the pairs with parcels that are in it."""
        self._enqueue_places()
        found, self._found = self._found, {}
        for destination, by_source in found.items():
            self._enqueue_found(destination, by_source)
        told, self._told = self._told, {}
        for destination, rows in told.items():
            # From one partition, whichever stored the bodies: one commit holds the captures of all
            # partitions and these rows, and a parcel belongs to its partition, so it is sent by
            # whoever owns that later. A shard has one partition, which is the one that found them.
            self.outboxes[self._first].enqueue_contents(destination, rows)
            self._posted.add((self._first, destination))
        errands, self._errands = self._errands, {}
        for (source, destination), items in errands.items():
            self.outboxes[source].enqueue_errands(destination, items)
            self._posted.add((source, destination))
        posted, self._posted = frozenset(self._posted), set()
        return posted

    def send_parcels(self, posted: frozenset[PartitionPair]) -> None:
        """The commit is on disk."""
        for source, destination in posted:
            self._senders[source].send_to([destination])

    async def close(self) -> None:
        """Stops; what is not handed over stays in the outboxes."""
        for sender in self._senders.values():
            await sender.close()
