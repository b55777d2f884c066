"""The topic of coordinators on a real broker: numbers of claims, the state that they find, and that
a coordinator with a successor writes nothing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from kafka_broker import Broker
from lycosa.cluster.kafka.control_topic import ControlDamaged, KafkaControl
from lycosa.cluster.kafka.topics import CONTROL, Topics
from lycosa.state.commit import Fenced

pytestmark = pytest.mark.service
CRAWL = "2f0cf3d2"
Coordinator = Callable[..., KafkaControl]


@pytest.fixture
def topics(kafka: Broker) -> Topics:
    return kafka.topics()


@pytest.fixture
def coordinator(kafka: Broker, topics: Topics) -> Iterator[Coordinator]:
    made: list[KafkaControl] = []

    def make(crawl: str = CRAWL) -> KafkaControl:
        made.append(KafkaControl(kafka.client, topics, crawl))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_claims_are_numbered_and_find_what_earlier_ones_wrote(coordinator: Coordinator) -> None:
    first = coordinator()
    state = first.claim()
    assert (state.number, dict(state.values)) == (1, {})
    first.append([("end", b"1"), ("permit/3", b"x")])
    first.append([("end", b"2")])
    second = coordinator()
    state = second.claim()
    assert (state.number, dict(state.values)) == (2, {"end": b"2", "permit/3": b"x"})
    assert coordinator().claim().number == 3


def test_a_coordinator_that_has_a_successor_writes_nothing(coordinator: Coordinator) -> None:
    first = coordinator()
    first.claim()
    first.append([("end", b"1")])
    assert first.newest_number() == 1
    second = coordinator()
    second.claim()
    with pytest.raises(Fenced):
        first.append([("end", b"never")])
    assert first.newest_number() == 2
    second.append([("asks", b"2")])
    assert dict(coordinator().claim().values) == {"end": b"1", "asks": b"2"}


def test_of_two_that_claim_at_once_one_has_the_crawl(coordinator: Coordinator) -> None:
    ends: list[object] = []

    def claim(each: KafkaControl) -> None:
        try:
            ends.append(each.claim().number)
            each.append([("end", b"1")])
        except Fenced as error:
            ends.append(error)

    both = [coordinator(), coordinator()]
    threads = [threading.Thread(target=claim, args=(each,)) for each in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    numbers = [end for end in ends if isinstance(end, int)]
    assert len(numbers) == len(set(numbers)) and numbers, ends
    left = [each for each in both if each.number and not _is_fenced(each)]
    assert len(left) == 1


def _is_fenced(each: KafkaControl) -> bool:
    try:
        each.append([("asks", b"1")])
    except Fenced:
        return True
    return False


def test_what_compaction_leaves_is_the_same_state(
    kafka: Broker, topics: Topics, coordinator: Coordinator
) -> None:
    topic = topics.named(CONTROL)
    settings = {
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
        "delete.retention.ms": "100",
    }
    resource = ConfigResource(
        ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in settings.items()
        ],
    )
    admin = kafka.client.admin()  # one that is dropped ends what it was asked
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)
    first = coordinator()
    first.claim()
    wanted = {}
    for number in range(300):
        wanted[f"permit/{number % 3}"] = json.dumps(number).encode()
        first.append([(f"permit/{number % 3}", wanted[f"permit/{number % 3}"])])
    second = coordinator()
    assert second.claim().number == 2
    second.append([("asks", b"1")])
    deadline = time.monotonic() + 60
    while len(kafka.values(topic, 0)) > 100:  # the broker compacts every 15 s
        assert time.monotonic() < deadline, "the topic was not compacted"
        second.append([("asks", b"1")])
    state = coordinator().claim()
    assert state.number == 3
    assert dict(state.values) == {**wanted, "asks": b"1"}


def test_a_topic_of_another_crawl_is_refused_and_that_crawl_continues(
    coordinator: Coordinator,
) -> None:
    other = coordinator("another")
    other.claim()
    with pytest.raises(ControlDamaged, match="of the crawl another, not of 2f0cf3d2"):
        coordinator().claim()
    other.append([("end", b"1")])
    assert dict(coordinator("another").claim().values) == {"end": b"1"}
