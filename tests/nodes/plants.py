"""Bugs that the histories of many nodes must find. Each changes the crawler's own code, which is
the purpose here and nowhere else.

The list is that of the design of many machines, 11.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from lycosa.cluster.coordinator.node_plan import NodePlan
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.visibility import Visibility
from lycosa.stages.frontier.frontier import Frontier
from lycosa.state.commit import Commit
from lycosa.state.exchange.exchange_port import Handover, Parcel
from lycosa.state.exchange.topic import TopicPost
from lycosa.state.shard.opened_shard import PartitionData
from lycosa.state.store.segments_port import FoundSegments
from lycosa.worker.commit.committer import Committer
from memory_kafka import MemoryProducer, Partition
from memory_segments import MemorySegments
from memory_snapshots import MemorySnapshots
from nodes.outside import Outside
from outside_fetching import EAGER, FREE
from planting import Change, Plant

_LAG_S = 8.0


def _no_fence() -> Sequence[Change]:
    return [Change(MemoryProducer, "_is_fenced", False)]


def _no_hold() -> Sequence[Change]:
    return [Change(Frontier, "hold_all", lambda self, until, delay_of: None)]


def _early_acknowledgement() -> Sequence[Change]:
    async def post(self: TopicPost, parcels: Sequence[Parcel]) -> Handover:
        for parcel in parcels:
            self._running.add(
                asyncio.get_running_loop().create_task(_quietly(self._append(parcel)))
            )
        return Handover(len(parcels))

    return [Change(TopicPost, "post_parcels", post)]


async def _quietly(work: Any) -> int:
    with contextlib.suppress(Exception):
        await work
    return 0


def _late_lease() -> Sequence[Change]:
    right = Committer._write

    async def write(self: Committer, pending: Any, commit: Commit, *others: Any) -> None:
        await right(self, pending, commit, *others)
        self._files.lease.renew(self._clock.monotonic())

    return [Change(Committer, "_write", write)]


def _row_n() -> Sequence[Change]:
    async def post(self: TopicPost, parcels: Sequence[Parcel]) -> Handover:
        results = await asyncio.gather(*map(self._append, parcels), return_exceptions=True)
        landed = [number for number, result in enumerate(results, 1) if isinstance(result, int)]
        failure = next((result for result in results if isinstance(result, Exception)), None)
        count = max(landed, default=0)
        return Handover(count, None if count == len(parcels) else failure)  # type: ignore[arg-type]  # an ExchangeError

    return [Change(TopicPost, "post_parcels", post)]


def _stale_snapshot() -> Sequence[Change]:
    def keys(self: MemorySnapshots) -> list[str]:
        # in the order in which they were written
        return [key for key in self._objects if key.startswith(self._prefix())]

    def restore(self: MemorySnapshots, partition: int) -> PartitionData:
        data = self._make()
        for name in msgspec.msgpack.decode(self._objects[self._keys()[-1]]) if self._keys() else ():
            data.table.write(msgspec.msgpack.decode(self._objects[name], type=dict[bytes, bytes]))
        return data

    return [
        Change(MemorySnapshots, "_keys", keys),
        Change(MemorySnapshots, "restore_partition", restore),
    ]


def _early_end() -> Sequence[Change]:
    right_append, right_records = Partition.append, KafkaLog._records
    times: WeakKeyDictionary[Partition, dict[int, float]] = WeakKeyDictionary()

    def append(self: Partition, *record: Any) -> int:
        offset = right_append(self, *record)
        times.setdefault(self, {})[offset] = asyncio.get_running_loop().time()
        return offset

    def records(
        self: KafkaLog, fold: Any, until: Any, start: Any
    ) -> Iterator[tuple[int, bytes | None]]:
        partition = self._client.cluster.partition(self._topics.changelog, self.shard)  # type: ignore[attr-defined]
        now, seen = asyncio.get_running_loop().time(), times.get(partition, {})
        for offset, value in right_records(self, fold, until, start):
            is_new = start is None and now - seen.get(offset, 0.0) < _LAG_S
            if not (is_new and msgspec.msgpack.decode(value or b"")[0] == "commit"):
                yield offset, value

    return [Change(Partition, "append", append), Change(KafkaLog, "_records", records)]


def _marker() -> Sequence[Change]:
    def append(self: KafkaLog) -> int:
        return self._transactions.run(self._with_feeds(self._saved_record(self._saved)))[0]

    return [Change(KafkaLog, "_append_marker", append)]


def _acknowledged() -> Sequence[Change]:
    return [Change(Visibility, "is_reached", lambda self, last, patience_s: True)]


def _mixed_files() -> Sequence[Change]:
    def store(self: MemorySnapshots, number: int, content: bytes) -> str:
        name = f"{self._files()}{number}"
        self._objects[name] = content
        return name

    return [Change(MemorySnapshots, "_store", store)]


def _old_coordinator() -> Sequence[Change]:
    right = NodePlan.handle_message

    def receive(self: NodePlan, message: Any, now: float) -> Any:
        if message.coordinator < self.coordinator:
            self.coordinator = message.coordinator
            self._obeyed = self._upon = 0
            self._greatest.clear()
        return right(self, message, now)

    return [Change(NodePlan, "handle_message", receive)]


def _shared_key() -> Sequence[Change]:
    right = MemorySegments.find_segments

    def find(self: MemorySegments, term: int) -> FoundSegments:
        return msgspec.structs.replace(right(self, term), term=0)

    return [Change(MemorySegments, "find_segments", find)]


PLANTS = {
    "no fence": Plant("an owner that lost its shard may go on appending", _no_fence),
    "no hold": Plant("hosts are not held after an unclean takeover", _no_hold),
    "early acknowledgement": Plant(
        "a parcel counts as posted before the topic has it", _early_acknowledgement
    ),
    "late lease": Plant("the lease is counted from the acknowledgement of the append", _late_lease),
    "row n": Plant("row n is deleted when parcel n + 1 was acknowledged", _row_n),
    "stale snapshot": Plant(
        "the snapshot that was written last is used, not the one of the latest commit",
        _stale_snapshot,
    ),
    "early end": Plant(
        "the log is read to an end that was asked for before all appends were decided", _early_end
    ),
    "mixed files": Plant(
        "files of snapshots are named by their number and not by their content", _mixed_files
    ),
    "old coordinator": Plant(
        "nodes obey a coordinator that another has followed", _old_coordinator
    ),
    "marker": Plant(
        "a marker that is rolled back is taken for a commit that was rolled back", _marker
    ),
    "acknowledged": Plant("a commit is safe when the broker acknowledges it", _acknowledged),
    "shared key": Plant(
        "a new owner continues the segment of the one before, under the same keys", _shared_key
    ),
    "free": FREE._replace(plugins=(Outside,)),
    "eager": EAGER._replace(plugins=(Outside,)),
}
