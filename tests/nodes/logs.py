"""The logs of all shards, in a Kafka in memory, and one process's way to its own: the crawler's log
over Kafka, whose transactions are lost, rolled back, expired and answered late, in spells.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from lycosa.cluster.kafka.changelog import CommitRecord
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.log_reader import KafkaLogReader
from lycosa.cluster.kafka.topics import Topics
from lycosa.state.commit import (
    Claim,
    Commit,
    FeedSource,
    Fenced,
    OutcomeUnknown,
    RolledBack,
    no_rows,
)
from memory_kafka import COMMIT, DELIVER, FAULTS, Faults, MemoryKafka, MemoryKafkaClient

if TYPE_CHECKING:
    from nodes.machine import Process

T = TypeVar("T")
_COMMIT = msgspec.msgpack.Decoder(CommitRecord)
_NEWEST = 1 << 40  # an assignment after all that coordinators give


class ShardLogs:
    """What outlives all owners."""

    def __init__(self, crawl: str, shards: int) -> None:
        self.kafka, self.topics, self._crawl = MemoryKafka(), Topics("nodes", shards), crawl

    def client(self, faults: Faults = lambda step: "") -> MemoryKafkaClient:
        return MemoryKafkaClient(self.kafka, faults)

    def log(
        self, shard: int, client: MemoryKafkaClient | None = None, assignment: int = _NEWEST
    ) -> KafkaLog:
        """The log of a shard for one owner; without a client for one that meets no fault."""
        return KafkaLog(client or self.client(), self.topics, self._crawl, shard, assignment)

    def fence(self, shard: int) -> None:
        """Shuts the owner out, without a claim."""
        self.kafka.fence(self.topics.transactional_id(shard))

    def claim_in_passing(self, shard: int) -> None:
        """A claim of a process that ends at once, and was chosen before every owner."""
        with closing(self.log(shard, assignment=0)) as log, suppress(Fenced):
            log.claim()

    def write_foreign(self, shard: int) -> None:
        """Another program writes into the log."""
        self.kafka.partition(self.topics.changelog, shard).append(b"junk", None)

    def commits(self, shard: int) -> list[Commit]:
        with closing(self._reader(shard)) as reader:
            return list(reader.read())

    def written_twice(self) -> list[tuple[int, CommitRecord]]:
        """Shards and parts of commits that are in a log more than once, trimmed or not."""
        found = list[tuple[int, CommitRecord]]()
        for shard in range(self.topics.shards):
            entries = self.kafka.partition(self.topics.changelog, shard).visible(0)
            values = [entry.value or b"" for _, entry in entries]
            parts = [each for each in map(_commit_part, values) if each is not None]
            found += [(shard, each) for each, count in Counter(parts).items() if count > 1]
        return found

    def terms(self, shard: int) -> int:
        """How many claims there were."""
        with closing(self._reader(shard)) as reader:
            for _ in reader.read():
                pass
            return reader.newest_term

    def feed(self, kind: str) -> Iterator[Any]:
        """The rows of a feed as readers outside get them."""
        for shard in range(self.topics.shards):
            partition = self.kafka.partition(self.topics.named(kind), shard)
            for _, entry in partition.visible(partition.begin):
                if entry.value:  # a record without a value means nothing
                    yield json.loads(entry.value)

    def _reader(self, shard: int) -> KafkaLogReader:
        return KafkaLogReader(self.client(), self.topics, self._crawl, shard, lambda text: None)


def _commit_part(value: bytes) -> CommitRecord | None:
    try:
        return _COMMIT.decode(value)
    except msgspec.DecodeError:
        return None  # a claim, a marker, or foreign


class NodeLog:
    """A shard's log as a process on some machine reaches it."""

    def __init__(self, process: Process, assignment: int, chance: random.Random) -> None:
        self._process, self._chance, self._logs = process, chance, process.machine.world.logs
        self._client = self._logs.client(self._fault)
        self._inner = self._logs.log(process.shard, self._client, assignment)
        self._spell = 0  # transactions that the present trouble of Kafka still lasts

    @property
    def term(self) -> int:
        return self._inner.term

    def claim(self) -> Claim:
        return self._call(self._inner.claim)

    def read(self) -> Iterator[Commit]:
        return iter(self._call(lambda: list(self._inner.read())))

    def append(self, commit: Commit, feed: FeedSource = no_rows) -> None:
        """Now and then the process ends while it waits for the answer."""
        world = self._process.machine.world
        kind = (
            self._chance.choices(("", "unknown", "lost"), (980, 10, 10))[0]
            if world.is_troubled
            else ""
        )
        world.faults["append"] += bool(kind)
        if kind == "lost":
            raise OutcomeUnknown("injected, not appended")
        self._call(lambda: self._inner.append(commit, feed))
        self._process.appended += 1
        if kind == "unknown":
            raise OutcomeUnknown("injected, appended")

    def trim(self, sequence: int) -> None:
        if not self._process.machine.is_cut_off:
            self._call(lambda: self._inner.trim(sequence))

    def close(self) -> None:
        self._inner.close()

    def _call(self, work: Callable[[], T]) -> T:
        """Work that reaches Kafka; what it waited there passes before its result is known."""
        self._process.check()
        if self._process.machine.is_cut_off:
            raise RolledBack("the log cannot be reached")
        before = self._client.clock_s
        try:
            return work()
        finally:
            self._process.waited_s += self._client.clock_s - before

    def _fault(self, step: str) -> str:
        world, chance = self._process.machine.world, self._chance
        if not world.is_troubled:
            return ""
        if step == DELIVER and not self._spell and chance.random() < 0.03:
            self._spell = chance.randint(1, 4)
        if not self._spell:
            return ""
        self._spell -= step == COMMIT
        fault = chance.choice([*FAULTS[step], "", ""])
        world.faults["kafka"] += bool(fault)
        if fault and chance.random() < 0.03:
            world.faults["claim in passing"] += 1
            self._logs.claim_in_passing(self._process.shard)
        return fault
