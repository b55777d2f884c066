"""Sends parcels to partitions of other workers.

    outlink to a foreign partition -> outbox row, in the commit of the page -> posted when that
    commit is on disk -> handed over: taken in a commit of the receiver, or held by its topic
    -> row deleted, in the next commit

URLs are gathered by destination until the commit is cut. So are errands, wants, answers, and rows
of content-seen that other workers own. A page has links into most partitions and about a dozen such
rows. A parcel for each would be made, sent, taken, acknowledged and deleted, which would cost more
than the page's own records.

URLs leave from the partition that found them. There is one exception, for a worker of several
partitions: small groups of URLs for the same destination leave together, from the partition that
found most of them. A commit contains the batches of all partitions, so the choice does not matter.
A parcel for each pair would cost 4 % of a page's CPU time with 4 workers on 16 partitions.

A place that joins the scope goes to every partition of other workers, before everything that is
found from then on. So a partition that gets a URL of that place knows the place already and follows
the page's links.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from lycosa.base.model.discovered import Discovered
from lycosa.base.model.parcel_items import Fingerprint, PartitionKey, Verdict
from lycosa.stages.frontier.partition import Partition
from lycosa.state.exchange.exchange_port import ExchangeEnds
from lycosa.state.exchange.outbox import PARCEL_URLS, Outbox, OwnerItem
from lycosa.state.exchange.outbox_sender import OutboxSender
from lycosa.state.kv.kv_port import KeyValue

_OWN_URLS = 100  # found by one partition for another in a commit: they get a separate parcel
_STALLED_S = 30.0  # the deadline of a delivery; shorter delays are not reported
PartitionPair = tuple[int, int]
"""Source and destination of parcels."""


class OutgoingParcels:
    """One per worker.

    ``exchange`` is ``None`` when no other worker runs. Without its ``post``, parcels stay in their
    outboxes. ``fail`` is called when sending cannot continue. The crawl has ``count`` partitions.
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
        if exchange is not None and exchange.post is not None:
            for number, outbox in self.outboxes.items():
                self._senders[number] = OutboxSender(
                    outbox, exchange.post, sleep, lateness=exchange.lateness, on_failure=fail
                )
        self._first = min(tables)
        self._others = [number for number in range(count) if number not in tables]
        self._places: list[str] = []
        self._posted: set[PartitionPair] = set()
        self._found: dict[int, dict[int, list[Discovered]]] = {}  # by destination and source
        self._contents: dict[int, list[tuple[bytes, bytes]]] = {}
        self._near: dict[int, list[Fingerprint | Verdict]] = {}
        self._errands: dict[PartitionPair, list[OwnerItem]] = {}
        self.activity = 0
        self._is_urgent = False

    def __repr__(self) -> str:
        return (
            f"<OutgoingParcels posted={len(self._posted)} activity={self.activity}"
            f" idle={self.is_idle}>"
        )

    @property
    def is_idle(self) -> bool:
        """Whether everything that was posted is handed over."""
        waiting = (
            self._posted,
            self._found,
            self._contents,
            self._near,
            self._errands,
            self._places,
        )
        return not any(waiting) and all(sender.is_idle for sender in self._senders.values())

    def stalled(self) -> str:
        """The parcel that has waited longest for another worker, for people.

        Empty when no parcel has waited for 30 seconds.
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

    def lag(self) -> tuple[int, float]:
        """Destinations with parcels that wait, and the seconds since the oldest was refused."""
        seconds = [each.seconds for sender in self._senders.values() for each in sender.stalled()]
        return sum(sender.waiting for sender in self._senders.values()), max(seconds, default=0.0)

    def post_urls(self, source: Partition, destination: int, found: list[Discovered]) -> None:
        """Put URLs that a partition found for another worker's partition into the open commit."""
        by_source = self._found.setdefault(destination, {})
        gathered = by_source.setdefault(source.number, [])
        gathered += found
        # This bounds the memory, however late the next commit is.
        if len(gathered) >= PARCEL_URLS:
            self._enqueue(source.number, destination, by_source.pop(source.number))
        self.activity += 1

    def post_place(self, url: str) -> None:
        """Put a place that joined the scope into the open commit.

        It goes to all partitions of other workers.
        """
        if self._others:
            self._places.append(url)
            self.activity += 1

    def _enqueue_places(self) -> None:
        """Enqueue places in each outbox.

        A single one is not enough, because parcels of different partitions may overtake each other.
        """
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
        """Enqueue what each partition found for a destination, small groups together."""
        small = {source: found for source, found in by_source.items() if len(found) < _OWN_URLS}
        for source, found in by_source.items():
            if source not in small:
                self._enqueue(source, destination, found)
        if small:
            most = max(small, key=lambda source: len(small[source]))
            self._enqueue(most, destination, [each for found in small.values() for each in found])

    def post_errand(self, source: int, destination: int, item: OwnerItem) -> None:
        """Put an errand, a want or an answer for another worker into the open commit."""
        self._errands.setdefault((source, destination), []).append(item)
        self.activity += 1

    def tell_owner(self, partition: int, key: bytes, value: bytes) -> None:
        """Put a row of content-seen for another worker's partition into the open commit."""
        self._contents.setdefault(partition, []).append((key, value))
        self.activity += 1

    def post_near(self, destination: int, item: Fingerprint | Verdict) -> None:
        """Put a fingerprint or a verdict for another worker's partition into the open commit."""
        self._near.setdefault(destination, []).append(item)
        self.activity += 1

    async def ask_owners(self, keys: Sequence[PartitionKey]) -> Mapping[bytes, bytes | None]:
        """Look up content keys at other workers' partitions, as far as these answer in time."""
        return await self._exchange.inquiry.look_up_keys(keys) if self._exchange is not None else {}

    def start(self) -> None:
        """Send what earlier runs left in the outboxes."""
        for number, sender in self._senders.items():
            sender.send_to(self.outboxes[number].destinations())

    def send_at_once(self, is_urgent: bool) -> None:
        """Send small numbers of URLs without delay while the worker has nothing to crawl.

        It will not find more to send with them, and others may have nothing else to crawl.
        """
        if is_urgent != self._is_urgent:
            self._is_urgent = is_urgent
            for sender in self._senders.values():
                sender.send_without_delay(is_urgent)

    def cut_parcels(self) -> frozenset[PartitionPair]:
        """Close the parcels of the commit that is being cut; return the pairs that have any."""
        self._enqueue_places()
        found, self._found = self._found, {}
        for destination, by_source in found.items():
            self._enqueue_found(destination, by_source)
        contents, self._contents = self._contents, {}
        near, self._near = self._near, {}
        for destination in contents | near:
            # All from one partition, whichever stored the bodies. One commit contains the captures
            # of all partitions and these rows. A later owner of that partition sends the parcel.
            # A shard of a cluster has only one partition.
            self.outboxes[self._first].enqueue_contents(
                destination, contents.get(destination, []), near.get(destination, [])
            )
            self._posted.add((self._first, destination))
        errands, self._errands = self._errands, {}
        for (source, destination), items in errands.items():
            self.outboxes[source].enqueue_errands(destination, items)
            self._posted.add((source, destination))
        posted, self._posted = frozenset(self._posted), set()
        return posted

    def send_parcels(self, posted: frozenset[PartitionPair]) -> None:
        """Send the parcels of a commit that is on disk."""
        for source, destination in posted if self._senders else ():
            self._senders[source].send_to([destination])

    async def close(self) -> None:
        """Stop sending. Parcels that are not handed over stay in the outboxes."""
        for sender in self._senders.values():
            await sender.close()
