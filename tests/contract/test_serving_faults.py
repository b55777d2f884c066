"""``lycosa serve`` with peers and services that are lost at a bad moment, over a real broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from kafka_broker import PATIENCE_S, Broker
from lycosa.base.config.cluster_file import ClusterFile, KafkaSection
from lycosa.base.config.sections import Config, LimitSection
from lycosa.base.messages.coordinator_messages import (
    Ask,
    Assignments,
    CoordinatorHello,
    NodeReport,
    Refused,
    Relay,
    Said,
    ShardReport,
    ShardState,
    decode_to_caller,
    decode_to_node,
    encode_node_message,
)
from lycosa.base.messages.worker_messages import NoMoreCalls, Seeds, WorkerStatus
from lycosa.base.system.frame_stream import FrameStream
from lycosa.cluster.kafka.kafka_clients import KafkaClient, KafkaSettings
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.serve.coordinator_server import CoordinatorServer
from lycosa.cluster.serve.running_coordinator import RunningCoordinator, ServeEnd
from lycosa.cluster.serve.saved_records import SavedRecords
from progress_making import progress_with

pytestmark = pytest.mark.service
_Found = TypeVar("_Found")


@asynccontextmanager
async def served(client: KafkaClient, topics: Topics, left_s: float) -> AsyncIterator[str]:
    """The address of a coordinator of one shard."""
    given = ClusterFile(Path("cluster.toml"), topics.name, KafkaSection(("127.0.0.1:1",)), shards=1)
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def tell(line: str) -> None:
        if line.startswith("listening at "):
            listening.set_result(line.removeprefix("listening at "))

    records = SavedRecords(client, topics, "2f0cf3d2", lambda text: None)
    runner = RunningCoordinator(given.name, records, tell)
    server = CoordinatorServer(given, runner, LimitSection, tell, left_s)
    serving = asyncio.create_task(server.run(Credentials(), ["127.0.0.1:0"], Config()))
    try:
        yield await listening
    finally:
        runner.finish(ServeEnd())
        records.close()
        await serving


async def connected(address: str, role: str, crawl: str) -> FrameStream:
    hello = CoordinatorHello(role, "a", crawl)
    return await connect(address, Credentials(), encode_node_message(hello))


async def received(
    stream: FrameStream, decode: Callable[[bytes], object], kind: type[_Found]
) -> _Found:
    """The next message of that kind."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            frame = await stream.receive()
            assert frame is not None, f"closed before a {kind.__name__}"
            if isinstance(message := decode(frame), kind):
                return message


def report(serial: int, shards: list[ShardReport], coordinator: int = 0) -> bytes:
    """A report of a node that has heard that coordinator (0 = none)."""
    room = 10**15
    return encode_node_message(
        NodeReport(1.0, serial, coordinator, 0, time.time(), room, room, shards)
    )


async def test_a_crawl_does_not_wait_for_a_caller_that_was_lost_with_its_coordinator(
    kafka: Broker,
) -> None:
    topics = kafka.topics(1)
    async with served(kafka.client, topics, left_s=0.1) as address:
        node = await connected(address, "node", topics.name)
        serial = coordinator = 0
        while True:  # until the clocks are compared and the node has the shard
            serial += 1
            await node.send(report(serial, [], coordinator))
            told = await received(node, decode_to_node, Assignments)
            coordinator = told.coordinator
            if shards := told.shards:
                break
        serial += 1
        await node.send(report(serial, [ShardReport(0, shards[0], 1, ShardState.RUNNING)]))
        for message in (WorkerStatus(1, 0, 0, 0), progress_with(discovered=5)):
            await node.send(encode_node_message(Said(0, shards[0], 1, message)))
        while not isinstance((await received(node, decode_to_node, Relay)).message, NoMoreCalls):
            pass  # its permits


async def test_a_connection_is_not_kept_while_the_crawl_cannot_be_claimed() -> None:
    away = KafkaClient(KafkaSettings(("127.0.0.1:1",)))
    async with served(away, Topics("c-away", 1, 1, 1), left_s=60.0) as address:
        for role, decode in (("node", decode_to_node), ("caller", decode_to_caller)):
            stream = await connected(address, role, "c-away")
            await stream.send(report(1, []))
            assert not (await received(stream, decode, Refused)).is_final
            assert await stream.receive() is None


async def test_requests_that_nobody_answers_are_bounded(kafka: Broker) -> None:
    topics = kafka.topics(1)
    async with served(kafka.client, topics, left_s=60.0) as address:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                caller = await connected(address, "caller", topics.name)
                await caller.send(encode_node_message(Ask(Seeds("0", ["http://a.example/"]), (9,))))
                refused = await received(caller, decode_to_caller, Refused)
                if refused.is_final:
                    break  # the coordinator has the crawl
        assert "no shard 9" in refused.reason
        for number in range(65):
            seeds = Seeds(str(number), ["http://a.example/"])
            await caller.send(encode_node_message(Ask(seeds)))
        refused = await received(caller, decode_to_caller, Refused)
        assert not refused.is_final and "64 requests" in refused.reason
