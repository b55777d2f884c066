"""Which nodes a coordinator accepts, and callers of one that is silent: loopback, without Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from lycosa.base.config.cluster_file import ClusterFile, KafkaSection
from lycosa.base.config.sections import Config, LimitSection
from lycosa.base.messages.control_records import Control, Record
from lycosa.base.messages.coordinator_messages import (
    Assignments,
    CoordinatorHello,
    NodeReport,
    Refused,
    ServedCrawl,
    decode_to_node,
    encode_node_message,
)
from lycosa.base.system.frame_stream import FrameStream
from lycosa.cluster.kafka.control_topic import ControlDamaged
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.frame_server import FrameServer
from lycosa.cluster.serve.caller import NoCoordinator, call_coordinator
from lycosa.cluster.serve.coordinator_server import CoordinatorServer
from lycosa.cluster.serve.running_coordinator import RunningCoordinator, ServeEnd
from lycosa.cluster.serve.saved_records import SavedRecords

OURS, THEIRS = "e3210d89-0000-4000-8000-000000000000", "5241750b-0000-4000-8000-000000000000"
REPORT = encode_node_message(NodeReport(1.0, 1, 0, 0, 0.0, 1 << 40, 1 << 40, []))


class MemoryRecords:
    """The control topic of a crawl that has one coordinator."""

    foreign = 0

    async def claim(self) -> tuple[int, Control]:
        return 1, Control(is_first=True)

    async def save(self, records: Sequence[Record]) -> None: ...

    async def newest_number(self) -> int:
        return 1


@asynccontextmanager
async def served(crawl: ServedCrawl) -> AsyncIterator[str]:
    """The address of a coordinator of that crawl."""
    given = ClusterFile(
        Path("cluster.toml"), "news", KafkaSection(("127.0.0.1:1",)), 1, objects="s3://news"
    )
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def tell(line: str) -> None:
        if line.startswith("listening at "):
            listening.set_result(line.removeprefix("listening at "))

    runner = RunningCoordinator(given.name, cast(SavedRecords, MemoryRecords()), tell)
    server = CoordinatorServer(given, runner, LimitSection, tell, crawl=crawl)
    serving = asyncio.create_task(server.run(Credentials(), ["127.0.0.1:0"], Config()))
    try:
        yield await listening
    finally:
        runner.finish(ServeEnd())
        await serving


async def answer(crawl_id: str, generation: str = "") -> object:
    """What a node hears that read the crawl of that UUID."""
    async with served(ServedCrawl(OURS, "")) as address, asyncio.timeout(60):
        hello = CoordinatorHello("node", "n", "news", generation=generation, crawl_id=crawl_id)
        stream = await connect(address, Credentials(), encode_node_message(hello))
        await stream.send(REPORT)
        frame = await stream.receive()
        stream.close()
        assert frame is not None
        return decode_to_node(frame)


async def test_a_node_whose_bucket_has_another_crawl_is_refused_before_it_gets_a_shard() -> None:
    refused = await answer(THEIRS)
    assert refused == Refused(
        f"its bucket has the crawl {THEIRS}, and the coordinator's (s3://news) has the crawl"
        f" {OURS} of the same name: give the same objects.url in cluster.toml on all machines"
    )


async def test_a_node_of_the_crawl_is_accepted() -> None:
    assert isinstance(await answer(OURS), Assignments)


async def test_a_node_of_a_version_that_does_not_tell_its_crawl_is_accepted() -> None:
    assert isinstance(await answer(""), Assignments)


async def test_a_coordinator_that_does_not_answer_stops_no_probe() -> None:
    async def silent(stream: FrameStream, hello: bytes, peer: str) -> None:
        await asyncio.sleep(3600)

    server = FrameServer(Credentials(), silent, 1 << 20)
    address = await server.open("127.0.0.1:0")
    given = ClusterFile(
        Path("cluster.toml"), "news", KafkaSection(("127.0.0.1:1",)), 1, coordinators=(address,)
    )
    with pytest.raises(NoCoordinator, match="gave no answer within"):
        async with asyncio.timeout(60):
            await call_coordinator(given, Credentials(), [], lambda line: None, patience_s=0.2)
    await server.close()


async def test_a_node_of_another_generation_is_refused() -> None:
    refused = await answer(OURS, generation="g2")
    assert isinstance(refused, Refused) and "imported into other shards" in refused.reason


async def test_a_coordinator_behind_an_address_that_is_silent_is_found() -> None:
    """The machine of an earlier coordinator may be gone, or its program may hang."""

    async def silent(stream: FrameStream, hello: bytes, peer: str) -> None:
        await asyncio.sleep(3600)

    server = FrameServer(Credentials(), silent, 1 << 20)
    hanging = await server.open("127.0.0.1:0")
    async with served(ServedCrawl(OURS, "")) as address, asyncio.timeout(60):
        for addresses in ((hanging, address), (address, hanging)):
            given = ClusterFile(
                Path("cluster.toml"),
                "news",
                KafkaSection(("127.0.0.1:1",)),
                1,
                coordinators=addresses,
            )
            found = await call_coordinator(given, Credentials(), [], lambda line: None, 5.0)
            assert found.crawl == "news"
    await server.close()


async def test_a_coordinator_whose_topic_is_damaged_ends_with_what_to_do() -> None:
    class Remade(MemoryRecords):
        async def newest_number(self) -> int:
            raise ControlDamaged("the topic was deleted and made again; continue by a rescue")

    given = ClusterFile(Path("cluster.toml"), "news", KafkaSection(("127.0.0.1:1",)), 1)
    runner = RunningCoordinator(given.name, cast(SavedRecords, Remade()), lambda line: None)
    server = CoordinatorServer(given, runner, LimitSection, lambda line: None)
    with pytest.raises(ControlDamaged, match="continue by a rescue"):
        async with asyncio.timeout(60):
            await server.run(Credentials(), ["127.0.0.1:0"], Config())
