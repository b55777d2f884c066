"""What the log over Kafka does beyond what every log must: owners that overtake each other, a
transaction over several topics, and damage that only a topic can have. Each test runs on a Kafka in
memory, which the histories of many nodes use, and on a real broker where there is one.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from kafka_broker import PATIENCE_S, Broker
from lycosa.cluster.kafka.changelog import TopicRemade
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.transactions import OutgoingRecord, Transactions
from lycosa.state.commit import (
    Commit,
    FeedRow,
    Fenced,
    LogDamaged,
    Mark,
    OutcomeUnknown,
    PartitionBatch,
    RolledBack,
)
from memory_kafka import MemoryBroker

CRAWL = "2f0cf3d2"
Owner = Callable[..., KafkaLog]
Brokers = Broker | MemoryBroker


def commit(term: int, sequence: int, size: int = 3) -> Commit:
    batch = PartitionBatch(0, {b"key": bytes(size)})
    return Commit(term=term, sequence=sequence, wall=1.0, batches=[batch], crawl=CRAWL, shard=1)


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.service)])
def broker(request: pytest.FixtureRequest) -> Brokers:
    if request.param == "memory":
        return MemoryBroker()
    real: Broker = request.getfixturevalue("kafka")
    return real


@pytest.fixture
def topics(broker: Brokers) -> Topics:
    return broker.topics()


@pytest.fixture
def owner(broker: Brokers, topics: Topics) -> Iterator[Owner]:
    logs: list[KafkaLog] = []

    def made(assignment: int = 0) -> KafkaLog:
        logs.append(KafkaLog(broker.client, topics, CRAWL, 1, assignment))
        return logs[-1]

    yield made
    for log in logs:
        log.close()


def marks(log: KafkaLog) -> list[Mark]:
    return [each.mark for each in log.read()]


def test_a_fence_without_a_claim_shuts_the_owner_out_too(
    broker: Brokers, topics: Topics, owner: Owner
) -> None:
    log = owner()
    log.claim()
    log.append(commit(1, 1))
    Transactions(broker.client, topics.transactional_id(1), topics.changelog, print).begin()
    with pytest.raises(Fenced, match="later owner"):
        log.append(commit(1, 2))
    assert marks(owner()) == [Mark(1, 1)]


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing waits for a garbage collection: in a large process the next one may be far away."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


SOME = 20  # of one client; six keep four times as many


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_owners_that_were_shut_out_and_closed_keep_no_descriptors(
    broker: Brokers, topics: Topics, uncollected: None
) -> None:
    before, kept = descriptors(), list[object]()
    for turn in range(6):
        log, after = (KafkaLog(broker.client, topics, CRAWL, 1) for _ in range(2))
        log.claim()
        after.claim()
        with pytest.raises(Fenced) as raised:
            log.append(commit(2 * turn + 1, 1))
        after.close()
        kept += [log, after, raised.value]
    assert descriptors() < before + SOME


def test_a_log_that_is_regained_keeps_the_descriptors_of_one_producer(
    broker: Brokers,
    topics: Topics,
    owner: Owner,
    uncollected: None,
) -> None:
    log = owner()
    # any transaction counts as one that the broker ended because it was open for too long
    log._transactions.long_s = -1.0
    log.claim()
    log.append(commit(1, 1))
    before, errors = descriptors(), list[RolledBack]()
    for sequence in range(2, 8):
        Transactions(broker.client, topics.transactional_id(1), topics.changelog, print).begin()
        with pytest.raises(RolledBack) as raised:
            log.append(commit(1, sequence))
        log.append(commit(1, sequence))
        errors.append(raised.value)
    assert descriptors() < before + SOME
    assert marks(log) == [Mark(1, sequence) for sequence in range(1, 8)]


def test_a_claim_that_another_one_overtook_is_fenced(
    broker: Brokers, topics: Topics, owner: Owner
) -> None:
    early = Transactions(broker.client, topics.transactional_id(1), topics.changelog, print)
    early.begin()
    assert owner().claim().term == 1
    with pytest.raises(Fenced):
        early.run([OutgoingRecord(topics.changelog, 1, b"never read")])
    assert owner().claim().term == 2


def test_what_an_owner_had_open_is_rolled_back_by_the_next_claim(
    broker: Brokers, topics: Topics, owner: Owner
) -> None:
    log = owner()
    log.claim()
    log.append(commit(1, 1))
    producer = log._transactions._producer
    assert producer is not None
    producer.begin_transaction()
    producer.produce(topics.changelog, b"never read", partition=1)
    producer.flush(PATIENCE_S)
    claim = owner().claim()
    assert (claim.term, claim.latest) == (2, commit(1, 1))


def test_an_owner_that_was_chosen_earlier_than_another_ends(owner: Owner) -> None:
    owner(assignment=7).claim()
    with pytest.raises(Fenced, match="assignment 7 is newer than 6"):
        owner(assignment=6).claim()
    assert owner(assignment=7).claim().term == 3  # the same node again, after its worker ended


def test_a_commit_larger_than_a_record_is_split_and_read_as_one(owner: Owner) -> None:
    log = owner()
    log.claim()
    large = commit(1, 1, size=5_000_000)
    log.append(large)
    log.append(commit(1, 2))
    assert list(log.read()) == [large, commit(1, 2)]


def test_rows_for_readers_outside_are_visible_with_their_commit_and_not_without(
    broker: Brokers, topics: Topics, owner: Owner
) -> None:
    log = owner()
    log.claim()
    rows = [FeedRow("pages", b"url8", json.dumps({"n": n}).encode()) for n in range(3)]
    dead = FeedRow("dlq", b"url8", b"{}")
    log.append(commit(1, 1), lambda: rows)
    log.append(commit(1, 2), lambda: [*rows, dead])
    owner().claim()
    with pytest.raises(Fenced):
        log.append(commit(1, 3), lambda: [*rows, dead])
    assert broker.values(topics.named("pages"), 1) == [row.value for row in rows] * 2
    assert broker.values(topics.named("dlq"), 1) == [b"{}"]


def test_a_trim_keeps_the_numbers_of_terms(owner: Owner) -> None:
    for term in (1, 2, 3):
        log = owner()
        assert log.claim().term == term
    for sequence in range(1, 10):
        log.append(commit(3, sequence))
    log.trim(4)
    log.trim(8)
    again = owner()
    claim = again.claim()
    assert (claim.term, claim.reach, claim.latest) == (4, Mark(3, 5), commit(3, 9))


def test_a_trim_keeps_the_greatest_assignment(owner: Owner) -> None:
    log = owner(assignment=7)
    log.claim()
    for sequence in range(1, 10):
        log.append(commit(1, sequence))
    log.trim(4)
    log.trim(8)
    with pytest.raises(Fenced, match="assignment 7 is newer than 6"):
        owner(assignment=6).claim()


def test_a_front_that_somebody_cut_is_damage(broker: Brokers, topics: Topics, owner: Owner) -> None:
    log = owner()
    log.claim()
    log.append(commit(1, 1, size=2_000_000))
    log.append(commit(1, 2))
    admin = broker.client.admin()
    place = TopicPartition(topics.changelog, 1, 3)  # within the first commit
    admin.delete_records([place])[place].result(PATIENCE_S)
    with pytest.raises(LogDamaged, match="the front of the log was cut"):
        marks(log)
    with pytest.raises(LogDamaged):
        owner().claim()


def test_an_owner_stops_at_its_first_commit_to_a_topic_that_was_deleted_and_made_again(
    broker: Brokers, topics: Topics, owner: Owner
) -> None:
    log = owner()
    log.claim()
    for sequence in (1, 2, 3):
        log.append(commit(1, sequence))
    broker.remake(topics, topics.changelog)
    with pytest.raises(TopicRemade, match=r"deleted and made again.*cluster rescue"):
        append_until_safe(log, commit(1, 4))
    with pytest.raises((Fenced, OutcomeUnknown)):
        log.append(commit(1, 4))


def append_until_safe(log: KafkaLog, made: Commit) -> None:
    """As the committer does."""
    for _ in range(20):
        with suppress(RolledBack):
            log.append(made)
            return
    raise AssertionError("rolled back endlessly")


def test_a_topic_of_another_crawl_is_damage_and_that_crawl_continues(
    broker: Brokers, topics: Topics, owner: Owner
) -> None:
    log = owner()
    log.claim()
    foreign = KafkaLog(broker.client, topics, "another", 1)
    with pytest.raises(LogDamaged, match="of the crawl 2f0cf3d2, not of another"):
        foreign.claim()
    foreign.close()
    log.append(commit(1, 1))
    assert owner().claim().latest == commit(1, 1)
