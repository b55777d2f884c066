"""A coordinator whose broker is killed and comes back: it says what it waits for, loses no record,
and sends nothing that depends on one that is not safe.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clusters import RealCluster, real_cluster
from kafka_broker import Broker, started
from lycosa.cluster.kafka.control_topic import KafkaControl
from lycosa.cluster.kafka.topics import TRANSACTION_TIMEOUT_MS
from lycosa.state.commit import Fenced
from small_node import SmallNode

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with started() as broker:
        yield broker


@pytest.fixture
def cluster(broker: Broker, tmp_path: Path) -> Iterator[RealCluster]:
    broker.start()
    with real_cluster(tmp_path, broker, {}, shards=2) as cluster:
        yield cluster


def small_node(cluster: RealCluster) -> SmallNode:
    address = cluster.file.read_text().rpartition('"')[0].rpartition('"')[2]
    return SmallNode(cluster.name, [address])


async def test_a_stop_takes_effect_when_its_record_is_safe(
    broker: Broker, cluster: RealCluster
) -> None:
    serving = cluster.serve()
    async with small_node(cluster) as node:
        await node.until(lambda: len(node.workers) == 2)
        broker.kill()
        stopping = cluster.run("cluster", "stop", "cluster.toml")
        await asyncio.to_thread(serving.await_line, "waiting: ")
        status = await asyncio.to_thread(cluster.status)  # answered all the same
        assert status["waits_for"] and node.plan.end is None and len(node.workers) == 2
        await asyncio.to_thread(broker.start)
        await asyncio.to_thread(serving.await_line, "waiting is over")
        await node.until(lambda: not node.workers)
        assert await asyncio.to_thread(stopping.wait) == 0, str(stopping)
    serving.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(serving.wait) == 0
    serving = await asyncio.to_thread(cluster.serve)
    assert (await asyncio.to_thread(cluster.status))["end"] == "stopped"


@pytest.mark.long
def test_a_coordinator_that_starts_without_a_broker_waits_and_says_so(
    broker: Broker, cluster: RealCluster
) -> None:
    broker.kill()
    serving = cluster.run("serve", "--cluster", "cluster.toml")
    serving.await_line("waiting: reading")
    asking = cluster.run("cluster", "status", "cluster.toml")
    assert asking.wait() == 1
    assert "the coordinator does not have the crawl yet: reading" in str(asking)
    broker.start()
    serving.await_line("coordinator 1 of the crawl")
    assert cluster.status()["coordinator"] == 1


def test_a_coordinator_that_waits_for_a_broker_ends_when_it_is_told_to(
    broker: Broker, cluster: RealCluster
) -> None:
    broker.kill()
    serving = cluster.run("serve", "--cluster", "cluster.toml")
    serving.await_line("waiting: reading")
    serving.process.send_signal(signal.SIGTERM)
    assert serving.wait(60) == 0, str(serving)
    broker.start()


@pytest.mark.long
def test_of_two_that_wait_for_a_broker_one_has_the_crawl(
    broker: Broker, cluster: RealCluster
) -> None:
    first = cluster.serve()
    broker.kill()
    second = cluster.run("serve", "--cluster", "cluster.toml", "--listen", "127.0.0.1:0")
    second.await_line("waiting: reading")
    broker.start()
    second.await_line("coordinator 2 of the crawl")
    assert first.wait(60) == 0
    assert "another coordinator has taken over" in str(first)


@pytest.mark.long
def test_records_that_were_acknowledged_survive_brokers_that_are_killed(broker: Broker) -> None:
    broker.start()
    topics = broker.topics()
    control = KafkaControl(broker.new_client(), topics, "crawl")
    control.claim()
    ended = threading.Event()

    def write() -> int:
        number = 0
        while not ended.is_set():
            number += 1
            control.append([("end", str(number).encode()), (f"permit/{number % 3}", b"x")])
        return number

    with ThreadPoolExecutor(1) as thread:
        try:
            writing = thread.submit(write)
            for _ in range(3):
                broker.kill()
                broker.start()
            ended.set()
            last = writing.result(120)
        finally:
            control.close()
    state = KafkaControl(broker.new_client(), topics, "crawl").claim()
    assert (state.number, state.values["end"]) == (2, str(last).encode())


@pytest.mark.long
def test_a_coordinator_keeps_the_topic_over_an_outage_longer_than_a_transaction(
    broker: Broker,
) -> None:
    broker.start()
    topics = broker.topics()
    control = KafkaControl(broker.new_client(), topics, "crawl")
    control.claim()
    control.append([("end", b"1")])
    with ThreadPoolExecutor(1) as thread:
        broker.kill()
        try:
            writing = thread.submit(control.append, [("end", b"2")])
            with pytest.raises(TimeoutError):
                writing.result(TRANSACTION_TIMEOUT_MS / 1000 + 10)
            broker.start()
            writing.result(120)
            control.append([("asks", b"3")])
        finally:
            control.close()
    after = KafkaControl(broker.new_client(), topics, "crawl")
    state = after.claim()
    assert dict(state.values) == {"end": b"2", "asks": b"3"}
    with pytest.raises(Fenced):
        KafkaControl(broker.new_client(), topics, "crawl").claim() and after.append([("x", b"")])
