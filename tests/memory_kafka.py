"""Kafka in memory: brokers and client library in one, as far as the log of a shard uses them.

Transactions are as on brokers. Their records have offsets before they are decided, and readers see
nothing from the first undecided record on. ``init_transactions`` shuts out earlier producers of the
name and rolls back what they have open. A marker decides every undecided record of its producer in
the partition, and has an offset of its own. The contract suite of the log runs on this and on a
real broker.

``faults`` of a client is asked at each step of a transaction and names what goes wrong there
(``FAULTS``). No call blocks: a wait advances the clock of its client.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from enum import Enum
from types import SimpleNamespace
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from lycosa.cluster.kafka.kafka_clients import KafkaClient, KafkaSettings
from lycosa.cluster.kafka.topics import TRANSACTION_TIMEOUT_MS, Topics

DELIVER, COMMIT = "deliver", "commit"
FAULTS = {
    DELIVER: {
        "timed out": "no leader takes the records within their time: the transaction must end",
    },
    COMMIT: {
        "refused": "the broker refuses, and the transaction has to be rolled back",
        "lost": "the client gives up before the broker decides: the next producer rolls it back",
        "unanswered": "the broker commits, and the client gives up before it hears of it",
        "expired": "it was open for too long: the broker rolled it back and shuts the client out",
        "answered late": "the broker commits, and shuts the client out before it hears of it",
        "unmarked": "it is acknowledged, and the partitions do not hear of it",
    },
}
"""What may go wrong at each step of a transaction."""

Faults = Callable[[str], str]
Place = tuple[str, int]
_EXPIRY_S = TRANSACTION_TIMEOUT_MS / 1000 + 1.0
_LONGEST_S = 1e6  # all that one client may wait: beyond it a call waits endlessly


class _State(Enum):
    OPEN = "not decided"
    VISIBLE = "committed"
    GONE = "rolled back, or a marker"


class _Entry:
    def __init__(self, value: bytes | None, key: bytes | None, name: str, state: _State) -> None:
        self.value, self.key, self.name, self.state = value, key, name, state


class Partition:
    """One partition; ``begin`` is the first offset that it still has."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.begin = 0

    @property
    def stable(self) -> int:
        """The first offset that is not decided, or the one behind the last."""
        numbers = range(self.begin, len(self.entries))
        is_open = (n for n in numbers if self.entries[n].state is _State.OPEN)
        return next(is_open, len(self.entries))

    def append(self, value: bytes | None, key: bytes | None, name: str = "") -> int:
        """A record, of the transaction that ``name`` has open, or of none; gives its offset."""
        state = _State.OPEN if name else _State.VISIBLE
        self.entries.append(_Entry(value, key, name, state))
        return len(self.entries) - 1

    def mark(self, name: str, is_committed: bool) -> None:
        """The marker of a transaction."""
        for entry in self.entries[self.stable :]:
            if entry.state is _State.OPEN and entry.name == name:
                entry.state = _State.VISIBLE if is_committed else _State.GONE
        self.entries.append(_Entry(None, None, name, _State.GONE))

    def visible(self, start: int) -> list[tuple[int, _Entry]]:
        """The records from an offset on that readers see."""
        return [
            (number, self.entries[number])
            for number in range(start, self.stable)
            if self.entries[number].state is _State.VISIBLE
        ]


class MemoryKafka:
    """The brokers. They outlive their clients."""

    def __init__(self) -> None:
        self.partitions: dict[Place, Partition] = {}
        self.epochs: dict[str, int] = {}
        self._open: dict[str, set[Place]] = {}

    def partition(self, topic: str, number: int) -> Partition:
        return self.partitions.setdefault((topic, number), Partition())

    def fence(self, name: str) -> int:
        """Shuts out the producers of a name, and rolls back what they have open."""
        self.decide(name, is_committed=False)
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def write(self, place: Place, value: bytes | None, key: bytes | None, name: str) -> int:
        """A record of an open transaction."""
        self._open.setdefault(name, set()).add(place)
        return self.partition(*place).append(value, key, name)

    def decide(self, name: str, is_committed: bool, is_marked: bool = True) -> None:
        """Decides the open transaction; without ``is_marked`` no partition hears of it."""
        for place in sorted(self._open.pop(name, ())):
            if is_marked:
                self.partition(*place).mark(name, is_committed)

    def remake(self, topic: str) -> None:
        """The topic is deleted and made again, empty."""
        for place in [each for each in self.partitions if each[0] == topic]:
            del self.partitions[place]

    def truncate(self, topic: str, number: int, end: int) -> None:
        """The end of a partition is lost, as when a replica that is behind becomes the leader."""
        del self.partition(topic, number).entries[end:]


class MemoryKafkaClient(KafkaClient):
    """Makes clients of these brokers."""

    def __init__(self, cluster: MemoryKafka, faults: Faults = lambda step: "") -> None:
        super().__init__(KafkaSettings(("memory:9092",)))
        self.cluster, self.faults = cluster, faults
        self.clock_s = 0.0

    def monotonic(self) -> float:
        return self.clock_s

    def wait(self, ended: threading.Event, seconds: float) -> bool:
        self.advance(seconds)
        return ended.is_set()

    def advance(self, seconds: float) -> None:
        self.clock_s += seconds
        assert self.clock_s < _LONGEST_S, "a call waits endlessly"

    def transactional(self, transactional_id: str, topic: str) -> Any:
        return MemoryProducer(self, transactional_id)

    def idempotent(self) -> Any:
        return MemoryProducer(self, "")

    def consumer(self, follows: bool = False) -> Any:
        return _Consumer(self)

    def admin(self) -> Any:
        return _Admin(self)


class _Message:
    def __init__(
        self,
        place: Place,
        offset: int,
        value: bytes | None = None,
        key: bytes | None = None,
        error: KafkaError | None = None,
    ) -> None:
        self._place, self._offset, self._value, self._key = place, offset, value, key
        self._error = error

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes | None:
        return self._key

    def error(self) -> KafkaError | None:
        return self._error


Report = Callable[[KafkaError | None, _Message], None]


class MemoryProducer:
    """Of transactions with this name, or without transactions if it has none."""

    def __init__(self, client: MemoryKafkaClient, name: str) -> None:
        self._client, self._cluster, self._name = client, client.cluster, name
        self._epoch = -1
        self._fatal: KafkaError | None = None
        self._must_abort = False
        self._queue: list[tuple[Place, bytes | None, bytes | None, Report | None]] = []

    def init_transactions(self, timeout: float) -> None:
        self._epoch = self._cluster.fence(self._name)

    def begin_transaction(self) -> None:
        self._check()
        self._must_abort = False

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = 0,
        on_delivery: Report | None = None,
    ) -> None:
        self._check()
        self._queue.append(((topic, partition), value, key, on_delivery))

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        queue, self._queue = self._queue, []
        fault = self._client.faults(DELIVER) if self._name else ""
        is_fenced = self._is_fenced
        for place, value, key, report in queue:
            offset, error = -1, None
            if is_fenced:
                error = self._shut_out()
            elif not self._name:
                offset = self._cluster.partition(*place).append(value, key)
            else:
                # one that timed out may be in the partition all the same
                offset = self._cluster.write(place, value, key, self._name)
            if fault and error is None:
                self._must_abort = True
                error = KafkaError(KafkaError._MSG_TIMED_OUT, f"injected: {fault}")
            if report is not None:
                report(error, _Message(place, offset))
        if fault:
            self._client.advance(_EXPIRY_S)
        return 0

    def commit_transaction(self, timeout: float) -> None:
        self._check()
        fault = self._client.faults(COMMIT)
        if fault in ("lost", "unanswered"):
            if fault == "unanswered":
                self._cluster.decide(self._name, is_committed=True)
            self._fatal = KafkaError(KafkaError._FATAL, f"injected: {fault}", fatal=True)
            raise KafkaException(self._fatal)
        self._check()  # another producer may have begun meanwhile
        if self._must_abort or fault == "refused":
            self._must_abort = True
            raise KafkaException(
                KafkaError(KafkaError._STATE, "injected: refused", txn_requires_abort=True)
            )
        if fault in ("expired", "answered late"):
            self._client.advance(_EXPIRY_S)
            self._cluster.decide(self._name, is_committed=fault == "answered late")
            self._cluster.fence(self._name)
            raise KafkaException(self._shut_out())
        self._cluster.decide(self._name, is_committed=True, is_marked=fault != "unmarked")

    def abort_transaction(self, timeout: float) -> None:
        self._check()
        self._queue.clear()
        self._cluster.decide(self._name, is_committed=False)
        self._must_abort = False

    @property
    def _is_fenced(self) -> bool:
        return bool(self._name) and self._cluster.epochs.get(self._name) != self._epoch

    def _shut_out(self) -> KafkaError:
        self._fatal = KafkaError(KafkaError._FENCED, "a later producer has the name", fatal=True)
        return self._fatal

    def _check(self) -> None:
        if self._is_fenced:
            self._shut_out()
        if self._fatal is not None:
            raise KafkaException(self._fatal)


class _Consumer:
    """Reads what is committed; tells once that it has reached the end."""

    def __init__(self, client: MemoryKafkaClient) -> None:
        self._client, self._cluster = client, client.cluster
        self._next: dict[Place, int] = {}
        self._told: dict[Place, int] = {}  # the end that was told of

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self._next, self._told = {}, {}
        for each in places:
            place = each.topic, each.partition
            begin = self._cluster.partition(*place).begin
            self._next[place] = begin if each.offset == OFFSET_BEGINNING else each.offset

    def get_watermark_offsets(
        self, place: TopicPartition, timeout: float = 0.0, cached: bool = False
    ) -> tuple[int, int]:
        partition = self._cluster.partition(place.topic, place.partition)
        return partition.begin, partition.stable

    def poll(self, timeout: float) -> _Message | None:
        messages = self.consume(1, timeout)
        return messages[0] if messages else None

    def consume(self, count: int, timeout: float) -> list[_Message]:
        found: list[_Message] = []
        for place in list(self._next):
            found += self._from(place, count - len(found))
        if not found:
            self._client.advance(timeout)
        return found

    def close(self) -> None:
        self._next = {}

    def _from(self, place: Place, count: int) -> Sequence[_Message]:
        partition, start = self._cluster.partition(*place), self._next[place]
        if count <= 0:
            return []
        if not partition.begin <= start <= len(partition.entries):
            del self._next[place]
            return [_Message(place, start, error=KafkaError(KafkaError._AUTO_OFFSET_RESET))]
        there = partition.visible(start)
        found = [_Message(place, number, entry.value, entry.key) for number, entry in there[:count]]
        end = partition.stable
        self._next[place] = end if len(found) == len(there) else found[-1].offset() + 1
        if len(found) < count and self._next[place] == end and self._told.get(place) != end:
            self._told[place] = end
            found.append(_Message(place, end, error=KafkaError(KafkaError._PARTITION_EOF)))
        return found


class _Admin:
    def __init__(self, client: MemoryKafkaClient) -> None:
        self._cluster = client.cluster

    def list_offsets(self, asked: Iterable[TopicPartition], **options: Any) -> dict[Any, Any]:
        """The last stable offset of each."""
        return {
            each: _answer(
                SimpleNamespace(offset=self._cluster.partition(each.topic, each.partition).stable)
            )
            for each in asked
        }

    def delete_records(self, places: Iterable[TopicPartition], **options: Any) -> dict[Any, Any]:
        for each in places:
            partition = self._cluster.partition(each.topic, each.partition)
            partition.begin = max(partition.begin, min(each.offset, partition.stable))
        return {each: _answer(None) for each in places}


def _answer(result: object) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


class MemoryBroker:
    """What tests of a log use of ``kafka_broker.Broker``, in memory."""

    def __init__(self) -> None:
        self.cluster = MemoryKafka()
        self.client: KafkaClient = self.new_client()

    def new_client(self, faults: Faults = lambda step: "") -> MemoryKafkaClient:
        return MemoryKafkaClient(self.cluster, faults)

    def remake(self, topics: Topics, name: str) -> None:
        """Deletes a topic and makes it again, empty."""
        self.cluster.remake(name)

    def topics(self, shards: int = 2) -> Topics:
        return Topics(f"t-{uuid.uuid4().hex[:12]}", shards)

    def values(self, topic: str, partition: int) -> list[bytes]:
        """What is committed in a partition, in order."""
        there = self.cluster.partition(topic, partition)
        return [entry.value or b"" for _, entry in there.visible(there.begin)]

    def write(self, topic: str, partition: int, values: Iterable[bytes]) -> None:
        """Appends records, as a producer without transactions."""
        for value in values:
            self.cluster.partition(topic, partition).append(value, None)
