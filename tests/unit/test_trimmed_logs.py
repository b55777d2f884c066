"""A log that its owner trims while another program reads it, and one that cannot be read at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.log_ends import log_end
from lycosa.cluster.kafka.log_reader import KafkaLogReader
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.upkeep import KafkaAway
from lycosa.state.commit import NOTHING, Commit, LogDamaged, LogTrimmed, Mark, PartitionBatch
from memory_kafka import MemoryBroker, MemoryKafkaClient

CRAWL = "2f0cf3d2"
COMMITS = 1200  # more than a reader has at once


def commit(sequence: int) -> Commit:
    batch = PartitionBatch(0, {b"key": b"value"})
    return Commit(term=1, sequence=sequence, wall=1.0, batches=[batch], crawl=CRAWL, shard=1)


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def topics(broker: MemoryBroker) -> Topics:
    topics = broker.topics()
    owner = KafkaLog(broker.client, topics, CRAWL, 1)
    owner.claim()
    for sequence in range(1, COMMITS + 1):
        owner.append(commit(sequence))
    owner.close()
    return topics


def trim(broker: MemoryBroker, topics: Topics, sequence: int) -> None:
    """The part of a trim that a fence does not stop: an owner that was suspended before it may
    send it when another one has the shard.
    """
    found = broker.cluster.partition(topics.changelog, 1)
    commits = [offset for offset, _ in found.visible(0)][1:]  # behind the claim
    found.begin = commits[sequence - 1]


def test_an_owner_whose_log_is_trimmed_by_the_one_before_reads_it_again(
    broker: MemoryBroker, topics: Topics
) -> None:
    owner = KafkaLog(broker.client, topics, CRAWL, 1)
    assert owner.claim().term == 2
    reading = owner.read()
    next(reading)
    trim(broker, topics, 900)
    with pytest.raises(LogTrimmed, match="read again"):
        list(reading)
    assert [each.sequence for each in owner.read()] == [*range(900, COMMITS + 1)]


def test_a_reader_of_a_log_that_is_trimmed_meanwhile_is_told_of_no_damage(
    broker: MemoryBroker, topics: Topics
) -> None:
    reader = KafkaLogReader(broker.client, topics, CRAWL, 1, lambda text: None)
    reading = reader.read()
    next(reading)
    trim(broker, topics, 900)
    with pytest.raises(LogTrimmed, match="read again"):
        list(reading)
    assert next(iter(reader.read())).mark == Mark(1, 900)


def test_a_log_that_was_whole_and_is_trimmed_before_its_first_record_is_read(
    broker: MemoryBroker, topics: Topics
) -> None:
    """Its terms are counted from the first record, of which the reader had another idea."""

    class Trimming(MemoryKafkaClient):
        def consumer(self, follows: bool = False) -> Any:
            consumer = super().consumer(follows)
            assign = consumer.assign

            def late(places: Any) -> None:
                trim(broker, topics, 900)
                assign(places)

            consumer.assign = late
            return consumer

    reader = KafkaLogReader(Trimming(broker.cluster), topics, CRAWL, 1, lambda text: None)
    with pytest.raises(LogTrimmed):
        list(reader.read())


class Refusing(MemoryKafkaClient):
    """Access control, or a partition without a leader, keeps its readers waiting."""

    def consumer(self, follows: bool = False) -> Any:
        consumer = super().consumer(follows)

        def refuse(*given: object, **options: object) -> None:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed"))

        consumer.get_watermark_offsets = refuse
        return consumer


class Silent(MemoryKafkaClient):
    """Records never come."""

    def consumer(self, follows: bool = False) -> Any:
        consumer = super().consumer(follows)
        consumer.consume = lambda count, timeout: self.advance(timeout) or []
        return consumer


class Broken(MemoryKafkaClient):
    """A broker gives a record with a wrong checksum."""

    def consumer(self, follows: bool = False) -> Any:
        consumer = super().consumer(follows)
        broken = SimpleNamespace(error=lambda: KafkaError(KafkaError._BAD_MSG, "wrong checksum"))
        consumer.consume = lambda count, timeout: [broken]
        return consumer


def test_a_broken_record_at_the_end_of_a_log_is_damage(
    broker: MemoryBroker, topics: Topics
) -> None:
    with pytest.raises(LogDamaged, match="wrong checksum"):
        log_end(Broken(broker.cluster), topics, 1, NOTHING)


@pytest.mark.parametrize(
    ("client", "why"), [(Refusing, "not allowed"), (Silent, "changelog/1: no answer")]
)
def test_the_end_of_a_log_that_cannot_be_read_is_not_waited_for_endlessly(
    broker: MemoryBroker, topics: Topics, client: type[MemoryKafkaClient], why: str
) -> None:
    with pytest.raises(KafkaAway, match=why):
        log_end(client(broker.cluster), topics, 1, NOTHING)
    assert log_end(broker.client, topics, 1, NOTHING).mark == Mark(1, COMMITS)
