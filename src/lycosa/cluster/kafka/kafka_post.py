"""The ``Post`` port over Kafka: parcels go to the inbox of their destination, one or more to a
record.

A parcel counts as posted only when it and every one before it to that destination are acknowledged,
in that order in the topic. The producer is idempotent and repeats a record until it is
acknowledged, without a limit of time. A record that the brokers refuse for good fails; a new
producer then posts again from the first parcel that does not count, those behind it included
whatever became of them. Receivers step over what they have and over what is not the next one.

``post_parcels`` returns after ``deadline_s`` in any case, so that its caller can say what it waits
for. Records that are in flight then stay in flight: the next call for the same parcels waits for
these records and writes nothing twice.

An owner whose lease has ended posts nothing: a process that slept while its shard moved would
otherwise post again what the next owner posts.

The library reports deliveries on a separate thread, which passes them to the loop in batches.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lycosa.cluster.kafka.kafka_clients import POLL_S, KafkaClient, cause_of
from lycosa.cluster.kafka.parcel_records import records
from lycosa.cluster.kafka.topics import Topics
from lycosa.state.exchange.exchange_errors import ExchangeError
from lycosa.state.exchange.exchange_port import Handover, Parcel


class _Record:
    """A record in flight: ``count`` parcels from ``first`` on; ``done`` has its offset."""

    def __init__(self, first: int, count: int, producer: Producer) -> None:
        self.first, self.count, self.producer = first, count, producer
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class KafkaPost:
    """``Post`` for one owner of a shard, whose term is ``term``; ``may_post`` says whether its
    lease holds.
    """

    def __init__(
        self,
        client: KafkaClient,
        topics: Topics,
        crawl: str,
        term: int = 0,
        deadline_s: float = 30.0,
        may_post: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client, self._topic, self._crawl = client, topics.inbox, crawl
        self._term, self._deadline_s, self._may_post = term, deadline_s, may_post
        self._producer: Producer | None = None
        self._retired: deque[Producer] = deque()
        self._under_way: dict[int, list[_Record]] = {}
        self._reports: deque[tuple[_Record, KafkaError | None, int]] = deque()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._has_news = threading.Event()  # there is a producer, or the post was closed

    async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
        destination = parcels[0].destination
        under_way = self._under_way.setdefault(destination, [])
        if under_way and under_way[0].first != parcels[0].sequence:
            under_way.clear()
        known = sum(record.count for record in under_way)
        refused = self._write(under_way, parcels[known:])
        if under_way:
            await self._settled(under_way)
        count, failure = self._judge(under_way)
        if not under_way:
            del self._under_way[destination]
        count = min(count, len(parcels))
        return Handover(count, None if count == len(parcels) else failure or refused)

    async def close(self) -> None:
        self._is_closed = True
        self._has_news.set()
        for under_way in self._under_way.values():
            for record in under_way:
                record.done.cancel()
        if self._thread is not None:
            # The thread ends its last poll within ``POLL_S``; joining on the loop would stop
            # everything for that time.
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    async def _settled(self, under_way: list[_Record]) -> None:
        """Until all are acknowledged, one has failed and the others know it, or time is over."""
        waiting = {record.done for record in under_way}
        done, _ = await asyncio.wait(
            waiting, timeout=self._deadline_s, return_when=asyncio.FIRST_EXCEPTION
        )
        failed = [
            record
            for record in under_way
            if record.done in done and not record.done.cancelled() and record.done.exception()
        ]
        # The others of that producer may still be retried for minutes. Purging it makes them fail
        # now, so that the order can be restored by posting all again.
        if failed:
            self._renew(failed[0].producer)
            await asyncio.wait(waiting, timeout=self._deadline_s)

    def _write(self, under_way: list[_Record], parcels: Sequence[Parcel]) -> ExchangeError | None:
        """Give the parcels to the producer; return why it did not take them all."""
        if self._is_closed:
            return ExchangeError("the post is closed")
        if not self._may_post():
            return ExchangeError("the lease of the shard has ended; the next commit renews it")
        producer = self._opened()
        at = 0
        for count, value in records(self._crawl, self._term, parcels):
            record = _Record(parcels[at].sequence, count, producer)
            at += count
            try:
                producer.produce(
                    self._topic,
                    value,
                    partition=parcels[0].destination,
                    on_delivery=self._reporting(record),
                )
            except BufferError:
                # The queue of the library is full (its limit bounds our memory). Records in it stay
                # in flight; the sender comes back with the parcels that were not taken.
                return ExchangeError("too much waits for Kafka already" + self._complaint())
            except KafkaException as error:
                # An idempotent producer that refuses a record is in a fatal state, in which it
                # stays.
                self._renew(producer)
                return ExchangeError(cause_of(error).str())
            under_way.append(record)
        return None

    def _judge(self, under_way: list[_Record]) -> tuple[int, ExchangeError | None]:
        """How many parcels from the front are in the topic, and why the next one is not; keeps the
        records that may still get there.
        """
        count, last = 0, -1
        while under_way:
            record = under_way[0]
            if not record.done.done():
                return count, ExchangeError(
                    f"no acknowledgement within {self._deadline_s} s{self._complaint()}"
                )
            if record.done.cancelled():
                under_way.clear()
                return count, ExchangeError("the post was closed")
            error = record.done.exception()
            # Two producers wrote, and the later one was faster. Receivers would refuse the order.
            if error is None and record.done.result() <= last:
                error = ExchangeError(f"parcel {record.first} lies in front of the one before it")
            if error is not None:
                under_way.clear()
                self._renew(record.producer)
                return count, ExchangeError(str(error))
            count, last = count + record.count, record.done.result()
            del under_way[0]
        return count, None

    def _complaint(self) -> str:
        return f": {self._client.complaint}" if self._client.complaint else ""

    def _opened(self) -> Producer:
        if self._producer is None:
            self._producer = self._client.idempotent()
            self._has_news.set()
        if self._thread is None:
            run = partial(self._serve, asyncio.get_running_loop())
            self._thread = threading.Thread(target=run, name="lycosa-post", daemon=True)
            self._thread.start()
        return self._producer

    def _renew(self, failed: Producer) -> None:
        """Give the next record a new producer; what the failed one has in flight fails."""
        if failed is self._producer:
            self._retired.append(failed)
            self._producer = None

    def _reporting(self, record: _Record) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            self._reports.append((record, error, -1 if error else message.offset() or 0))

        return report

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Runs on the thread."""
        while not self._is_closed:
            producer = self._producer
            if producer is not None:
                producer.poll(POLL_S)
            else:
                self._has_news.wait(POLL_S)
                self._has_news.clear()
            while self._retired:
                retired = self._retired.popleft()
                # Without the purge the flush would wait for records that the failed producer keeps.
                retired.purge()
                retired.flush(1.0)
                del retired  # frees its descriptors
            # A batch of reports in one call: a wake-up of the loop for each would cost more than
            # the reports.
            if self._reports and not loop.is_closed():
                loop.call_soon_threadsafe(self._settle)
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(1.0)
            self._producer = None

    def _settle(self) -> None:
        while self._reports:
            record, error, offset = self._reports.popleft()
            if record.done.done():
                continue
            if error is None:
                self._client.complaint = ""
                record.done.set_result(offset)
            else:
                record.done.set_exception(ExchangeError(error.str()))
                record.done.exception()  # seen, even when no call waits for it

    def __repr__(self) -> str:
        waiting = {number: sum(r.count for r in each) for number, each in self._under_way.items()}
        return f"KafkaPost({self._topic}, waiting={waiting})"
