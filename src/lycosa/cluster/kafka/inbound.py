"""The inbox of one shard, read by its owner: ``Inbound`` over a partition of the topic ``inbox``.

Position p says that all records with offsets below p are taken. Reading blocks, so it runs in one
thread. The last position is requested in another, because a read may wait without limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import KafkaException, TopicPartition

from lycosa.base.model.foreign_record import ForeignRecord, OnForeign, not_noted
from lycosa.cluster.kafka.kafka_clients import KafkaClient, Tell
from lycosa.cluster.kafka.parcel_records import parcels_of
from lycosa.cluster.kafka.partition_reader import PartitionReader, PositionGone, RecordBroken
from lycosa.cluster.kafka.topics import Topics
from lycosa.state.exchange.exchange_errors import InboxDamaged, PositionLost
from lycosa.state.exchange.exchange_port import Parcel

_TRIM_S = 30.0


class KafkaInbound:
    """One shard's inbox."""

    def __init__(
        self,
        client: KafkaClient,
        topics: Topics,
        crawl: str,
        shard: int,
        tell: Tell = lambda text: None,
        on_foreign: OnForeign = not_noted,
    ) -> None:
        self._client, self._topic, self._crawl, self._shard = client, topics.inbox, crawl, shard
        self._tell, self._on_foreign = tell, on_foreign
        self._noted = 0  # all records in front of this offset that are foreign were reported
        self._reader = PartitionReader(client, topics.inbox, shard, tell)
        self._asker = PartitionReader(client, topics.inbox, shard, tell)
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="lycosa-inbox")
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="lycosa-inbox-end")

    async def read_parcels(self, after: int) -> list[tuple[int, Parcel | None]]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._reading, self._read, after)
        except asyncio.CancelledError:
            self._reader.interrupt()  # the next read waits for the thread
            raise

    async def last_position(self) -> int:
        loop = asyncio.get_running_loop()
        _, behind = await loop.run_in_executor(self._asking, self._asker.limits)
        return behind

    async def trim(self, position: int) -> None:
        await asyncio.get_running_loop().run_in_executor(self._asking, self._trim, position)

    async def close(self) -> None:
        """End a wait that is in progress, and close the connections."""
        for reader, pool in ((self._reader, self._reading), (self._asker, self._asking)):
            reader.end()
            await asyncio.get_running_loop().run_in_executor(pool, reader.close)
            pool.shutdown(wait=False)

    def _read(self, after: int) -> list[tuple[int, Parcel | None]]:
        try:
            return [
                (position, None if isinstance(found, ForeignRecord) else found)
                for offset, value in self._reader.batch(after)
                for position, found in self._parcels(offset, value)
            ]
        except PositionGone as error:
            first, behind = self._asker_limits()
            raise PositionLost(self._shard, after, first + 1, behind) from error
        except RecordBroken as error:
            raise InboxDamaged(f"the inbox of shard {self._shard}: {error}") from error

    def _parcels(
        self, offset: int, value: bytes | None
    ) -> Iterator[tuple[int, Parcel | ForeignRecord]]:
        for position, found in parcels_of(self._topic, self._crawl, self._shard, offset, value):
            if isinstance(found, ForeignRecord) and offset >= self._noted:
                self._noted = offset + 1
                self._on_foreign(found)
            yield position, found

    def _asker_limits(self) -> tuple[int, int]:
        return self._asking.submit(self._asker.limits).result()

    def _trim(self, position: int) -> None:
        admin = self._client.admin()
        place = TopicPartition(self._topic, self._shard, position)
        try:
            admin.delete_records([place], request_timeout=_TRIM_S)[place].result(_TRIM_S)
        except (KafkaException, TimeoutError) as error:
            # Trimming only saves space, and the next one does the same. The line tells the
            # operator, for example, of a missing right.
            self._tell(f"trimming {self._topic}/{self._shard}: {error}")
        else:
            self._tell("")
