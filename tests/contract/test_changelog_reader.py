"""A reader that follows the logs of all shards gives each commit once, in order within a shard, also
over a takeover, a trim and a broker's connection that is made again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from kafka_broker import PATIENCE_S, Broker
from lycosa.cluster.kafka.changelog import ClaimRecord, encoded
from lycosa.cluster.kafka.changelog_reader import ChangelogReader
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.topics import Topics
from lycosa.state.commit import Commit, LogDamaged, Mark, PartitionBatch

pytestmark = pytest.mark.service
CRAWL = "7d1c0a52"
Owner = Callable[[int], KafkaLog]


def commit(shard: int, term: int, sequence: int, size: int = 3) -> Commit:
    batch = PartitionBatch(shard, {b"key": os.urandom(size)})
    return Commit(term=term, sequence=sequence, wall=1.0, batches=[batch], crawl=CRAWL, shard=shard)


@pytest.fixture
def topics(kafka: Broker) -> Topics:
    return kafka.topics()


@pytest.fixture
def owner(kafka: Broker, topics: Topics) -> Iterator[Owner]:
    logs: list[KafkaLog] = []

    def made(shard: int) -> KafkaLog:
        logs.append(KafkaLog(kafka.client, topics, CRAWL, shard))
        logs[-1].claim()
        return logs[-1]

    yield made
    for log in logs:
        log.close()


@pytest.fixture
def follower(kafka: Broker, topics: Topics) -> Iterator[ChangelogReader]:
    made = ChangelogReader(kafka.client, topics, CRAWL, lambda text: None)
    yield made
    made.close()


def news(
    follower: ChangelogReader, last: Mapping[int, Mark] | None = None
) -> dict[int, list[Mark]]:
    """The next commits by shard; waits for those in ``last``, which come a little later than the
    owner is told of them.
    """
    found: dict[int, list[Mark]] = {}
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE_S
    while True:
        for each in follower.read_new():
            found.setdefault(each.shard, []).append(each.mark)
        if all(mark in found.get(shard, ()) for shard, mark in (last or {}).items()):
            return found
        assert time.monotonic() < deadline, found
        pause.wait(0.02)


def test_each_commit_is_given_once_over_takeovers(owner: Owner, follower: ChangelogReader) -> None:
    assert news(follower) == {}
    first, second = owner(0), owner(1)
    first.append(commit(0, 1, 1))
    second.append(commit(1, 1, 1, size=2_000_000))  # several records
    first.append(commit(0, 1, 2))
    found = news(follower, {0: Mark(1, 2), 1: Mark(1, 1)})
    assert found == {0: [Mark(1, 1), Mark(1, 2)], 1: [Mark(1, 1)]}
    assert news(follower) == {}
    assert follower.count_waiting() == 0
    owner(0).append(commit(0, 2, 3))
    assert news(follower, {0: Mark(2, 3)}) == {0: [Mark(2, 3)]}


def test_a_follower_that_was_closed_begins_with_the_oldest_commit(
    owner: Owner, follower: ChangelogReader
) -> None:
    log = owner(1)
    log.append(commit(1, 1, 1))
    assert news(follower) == {1: [Mark(1, 1)]}
    follower.close()
    assert news(follower) == {1: [Mark(1, 1)]}


def test_a_log_trimmed_beyond_what_was_read_is_given_from_its_oldest_commit(
    owner: Owner, follower: ChangelogReader
) -> None:
    first, second = owner(0), owner(1)
    first.append(commit(0, 1, 1))
    second.append(commit(1, 1, 1))
    assert news(follower) == {0: [Mark(1, 1)], 1: [Mark(1, 1)]}
    for sequence in range(2, 30):  # more than a consumer fetches in advance
        first.append(commit(0, 1, sequence, size=400_000))
    first.trim(28)
    first.trim(29)
    second.append(commit(1, 1, 2))
    found = news(follower, {0: Mark(1, 29), 1: Mark(1, 2)})
    assert found[0][-1] == Mark(1, 29)
    assert len(found[0]) < 28
    assert found[1] == [Mark(1, 2)]


def test_a_log_of_another_crawl_is_damage(
    kafka: Broker, topics: Topics, follower: ChangelogReader
) -> None:
    kafka.write(topics.changelog, 0, [encoded(ClaimRecord("another", b"0" * 16))])
    with pytest.raises(LogDamaged, match="another"):
        news(follower)
