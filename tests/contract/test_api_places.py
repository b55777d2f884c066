"""Connections of the HTTP process to a crawl: none is kept that is no longer used."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lycosa.base.calls import CountsQuery
from lycosa.base.config.sections import Config, LimitSection
from lycosa.base.messages.coordinator_messages import ClusterStatus, Refused, encode_node_message
from lycosa.base.messages.timeouts import ONE_PROCESS
from lycosa.base.system.frame_stream import FrameStream
from lycosa.cluster.coordinator.coordinator import Coordinator
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.frame_server import FrameServer
from lycosa.cluster.serve.caller import CoordinatorFinder, CoordinatorPlace, RequestRefused
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.places import FolderCrawl
from lycosa.service.api.service import CrawlService
from lycosa.state.folder.names import settings_path
from written_crawl import WrittenCrawl

PATIENCE_S = 20.0


@pytest.fixture
def sockets() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a short path
        yield Path(folder)


def status_of_run(number: int) -> ClusterStatus:
    return Coordinator(number, 1, LimitSection(), ONE_PROCESS, 0.0).status("x", 1.0)


async def test_connections_to_the_workers_of_an_earlier_run_are_closed_at_once(
    tmp_path: Path, sockets: Path
) -> None:
    written = WrittenCrawl(tmp_path / "c", partitions=1)
    settings_path(written.folder).write_bytes(msgspec.json.encode(Config()))
    written.close()
    has_connected, has_closed = asyncio.Event(), asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_connected.set()
        while await reader.read(1000):
            pass
        has_closed.set()
        writer.close()

    place = FolderCrawl(written.folder, sockets)
    worker = await asyncio.start_unix_server(accept, sockets / "w0")
    async with worker, asyncio.timeout(PATIENCE_S):
        place.follow(status_of_run(1))
        calling = asyncio.create_task(place.call_owner(0, CountsQuery()))
        await has_connected.wait()
        assert not has_closed.is_set()
        place.follow(status_of_run(2))
        await has_closed.wait()
        await asyncio.gather(calling, return_exceptions=True)
        await place.close()


async def test_a_coordinator_that_refuses_is_left(sockets: Path) -> None:
    has_closed = asyncio.Event()

    async def refuse(stream: FrameStream, hello: bytes, peer: str) -> None:
        await stream.receive()
        await stream.send(encode_node_message(Refused("install the same version")))
        assert await stream.receive() is None
        has_closed.set()

    server = FrameServer(Credentials(), refuse, 100_000)
    address = f"unix:{sockets / 'coordinator'}"
    await server.open(address)
    try:
        place = CoordinatorPlace("x", (address,), "start it")
        with pytest.raises(RequestRefused, match="the same version"):
            await CoordinatorFinder(place, Credentials(), lambda line: None).connect(1.0)
        async with asyncio.timeout(PATIENCE_S):
            await has_closed.wait()
    finally:
        await server.close()


@pytest.mark.long
async def test_a_coordinator_that_is_silent_is_told_once_and_that_it_answers_again(
    tmp_path: Path, sockets: Path
) -> None:
    written = WrittenCrawl(tmp_path / "c", partitions=1)
    settings_path(written.folder).write_bytes(msgspec.json.encode(Config()))
    written.close()

    async def answer(stream: FrameStream, hello: bytes, peer: str) -> None:
        while await stream.receive() is not None:
            await stream.send(encode_node_message(status_of_run(1)))

    place = FolderCrawl(written.folder, sockets)
    told: asyncio.Queue[str] = asyncio.Queue()
    service = CrawlService(place, ApiLimits(), told.put_nowait)
    watching = asyncio.create_task(service.watch.run())
    server = FrameServer(Credentials(), answer, 100_000)
    try:
        async with asyncio.timeout(60):
            assert "no coordinator" in await told.get()
            await server.open(f"unix:{sockets / 'coordinator'}")
            assert await told.get() == ""
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await server.close()
        await place.close()
