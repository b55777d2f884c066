"""A real Kafka broker for tests, on loopback, by ``script/services``."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from killing import kill_server
from lycosa.cluster.kafka.kafka_clients import KafkaClient, KafkaSettings
from lycosa.cluster.kafka.partition_reader import PartitionReader
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.upkeep import make_topics

_SERVICES = Path(__file__).parents[1] / "script" / "services"

PATIENCE_S = 120.0
"""How long a test waits for what must happen: long, because several brokers start slowly on a
machine that is busy, and a wait that succeeds costs nothing.
"""


class Broker:
    """One broker, or several of one cluster, with a client of it."""

    def __init__(self, folder: Path, count: int, session_s: float) -> None:
        self._folder, self._count = folder, count
        self._options = {
            "KAFKA_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
            "KAFKA_HEAP": "256m",
            "KAFKA_SESSION_MS": str(int(session_s * 1000)),
            "SERVICES_TIMEOUT": str(int(PATIENCE_S)),
        }
        self.pids: list[int] = []
        self.start()

    def start(self) -> None:
        """Starts what does not run, on the same ports with the same data."""
        run = subprocess.run(
            [_SERVICES, "start", "kafka", self._folder, str(self._count)],
            env={**os.environ, **self._options},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        values = dict(line.split("=", 1) for line in run.stdout.split())
        self.addresses = tuple(values.pop("KAFKA").split(","))
        self.pids = [int(pid) for pid in values.values()]
        self.client = self.new_client()

    def new_client(self) -> KafkaClient:
        """A client that remembers no complaint yet."""
        return KafkaClient(KafkaSettings(self.addresses))

    def kill(self, number: int = 0) -> None:
        """As power loss ends a broker; it is gone when this returns."""
        kill_server(self.pids[number], PATIENCE_S)

    def stop(self) -> None:
        subprocess.run([_SERVICES, "stop", "kafka", self._folder], check=True)

    def values(self, topic: str, partition: int) -> list[bytes]:
        """What is committed in a partition, in order."""
        reader = PartitionReader(self.client, topic, partition, lambda text: None)
        try:
            return [value or b"" for _, value in reader.read(None, None)]
        finally:
            reader.close()

    def write(
        self, topic: str, partition: int, values: Iterable[bytes], key: bytes | None = None
    ) -> None:
        """Appends records; a compacted topic takes only those with a key."""
        producer, failures = self.client.idempotent(), list[object]()
        for value in values:
            producer.produce(
                topic,
                value,
                key,
                partition=partition,
                on_delivery=lambda error, message: failures.append(error) if error else None,
            )
        assert producer.flush(PATIENCE_S) == 0 and failures == []

    def remake(self, topics: Topics, name: str) -> None:
        """Deletes a topic and makes it again, empty, as a careless operator does."""
        admin = self.client.admin()
        admin.delete_topics([name], operation_timeout=PATIENCE_S)[name].result(PATIENCE_S)
        while name in admin.list_topics(timeout=PATIENCE_S).topics:
            admin.poll(0.1)
        assert make_topics(self.client, topics) == [name]

    def topics(self, shards: int = 2) -> Topics:
        """The topics of a crawl that nothing else uses."""
        topics = Topics(f"t-{uuid.uuid4().hex[:12]}", shards, self._count, max(self._count - 1, 1))
        make_topics(self.client, topics)
        return topics


def lacks_kafka() -> str:
    """What is missing here to start a broker at once; empty when nothing is."""
    lacks = subprocess.run(
        [_SERVICES, "lacks", "kafka"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    return lacks.splitlines()[0] if lacks else ""


@contextmanager
def started(count: int = 1, session_s: float = 3.0) -> Iterator[Broker]:
    """A cluster of its own; skips the test when one cannot be started here. A broker that is silent
    for ``session_s`` is left out, as one that was killed; it starts again after as long.
    """
    if lacks := lacks_kafka():
        pytest.skip(f"Kafka cannot be started, missing: {lacks} (script/services kafka)")
    with TemporaryDirectory(prefix="lycosa-kafka-") as folder:
        broker = Broker(Path(folder), count, session_s)
        try:
            yield broker
        finally:
            broker.stop()
