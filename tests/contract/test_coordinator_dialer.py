"""A node's connection to a coordinator's address, over real sockets: it is made again after every
kind of loss, and the operator is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from lycosa.base.messages.coordinator_messages import (
    Assignments,
    CoordinatorHello,
    NodeReport,
    Refused,
    ToNode,
    decode_hello,
    decode_to_coordinator,
    encode_node_message,
)
from lycosa.base.system.frame_stream import FrameStream
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.frame_server import FrameServer
from lycosa.processes.cluster.coordinator_dialer import CoordinatorDialer

_HELLO = CoordinatorHello("node", "a", "news")
_LIST = Assignments(7, 1, 0, {3: 9})
_REPORT = NodeReport(1.0, 1, 0, 0, 0.0, 0, 0, [])
Serve = Callable[[FrameStream], Awaitable[None]]


class Heard:
    """What a dialer gives, and what it shows."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[ToNode] = asyncio.Queue()
        self.notes: asyncio.Queue[str] = asyncio.Queue()

    async def message(self) -> ToNode:
        return await asyncio.wait_for(self.messages.get(), 20)

    async def note(self) -> str:
        return await asyncio.wait_for(self.notes.get(), 20)


@asynccontextmanager
async def dialing(address: str) -> AsyncIterator[tuple[CoordinatorDialer, Heard]]:
    heard = Heard()
    dialer = CoordinatorDialer(
        address,
        Credentials(),
        _HELLO,
        lambda _, message: heard.messages.put_nowait(message),
        heard.notes.put_nowait,
    )
    running = asyncio.create_task(dialer.run())
    try:
        yield dialer, heard
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def coordinator(serve: Serve, address: str = "127.0.0.1:0") -> AsyncIterator[str]:
    async def on_connection(stream: FrameStream, hello: bytes, peer: str) -> None:
        assert decode_hello(hello) == _HELLO
        await serve(stream)

    server = FrameServer(Credentials(), on_connection)
    given = await server.open(address)
    try:
        yield given
    finally:
        await server.close()


async def gives_a_list(stream: FrameStream) -> None:
    await stream.send(encode_node_message(_LIST))
    while await stream.receive() is not None:
        pass


def test_messages_go_both_ways() -> None:
    async def main() -> None:
        reports: asyncio.Queue[bytes] = asyncio.Queue()

        async def serve(stream: FrameStream) -> None:
            await stream.send(encode_node_message(_LIST))
            while (frame := await stream.receive()) is not None:
                reports.put_nowait(frame)

        async with coordinator(serve) as address, dialing(address) as (dialer, heard):
            assert await heard.message() == _LIST
            assert await heard.note() == f"connected to coordinator 7 at {address}"
            dialer.send(encode_node_message(_REPORT))
            assert decode_to_coordinator(await asyncio.wait_for(reports.get(), 20)) == _REPORT

    asyncio.run(main())


def test_the_operator_is_told_once_of_a_coordinator_that_is_away_and_when_it_is_back() -> None:
    async def main() -> None:
        async with coordinator(gives_a_list) as address:
            pass  # the port is free now
        async with dialing(address) as (dialer, heard):
            assert f"no connection to a coordinator at {address}: " in await heard.note()
            dialer.send(b"dropped, because there is no connection")
            async with coordinator(gives_a_list, address):
                assert await heard.message() == _LIST
                assert await heard.note() == f"connected to coordinator 7 at {address}"
            assert f"{address}: it closed the connection" in await heard.note()
            async with coordinator(gives_a_list, address):
                # nothing was said of the attempts in between
                assert await heard.note() == f"connected to coordinator 7 at {address}"

    asyncio.run(main())


def test_a_refusal_is_shown_with_its_reason() -> None:
    async def refuses(stream: FrameStream) -> None:
        await stream.send(encode_node_message(Refused("this is the crawl 'other'")))

    async def main() -> None:
        async with coordinator(refuses) as address, dialing(address) as (_, heard):
            assert "it refuses this node: this is the crawl 'other'" in await heard.note()

    asyncio.run(main())


def test_what_is_no_message_ends_the_connection_and_nothing_else() -> None:
    async def main() -> None:
        numbers = iter(range(100))

        async def serve(stream: FrameStream) -> None:
            if not next(numbers):
                await stream.send(b"\xc1")
            await gives_a_list(stream)

        async with coordinator(serve) as address, dialing(address) as (_, heard):
            assert "it sent a message that is not understood" in await heard.note()
            assert await heard.message() == _LIST

    asyncio.run(main())


def test_a_coordinator_that_reads_nothing_does_not_fill_the_nodes_memory() -> None:
    async def main() -> None:
        async def reads_nothing(stream: FrameStream) -> None:
            await stream.send(encode_node_message(_LIST))
            await asyncio.Event().wait()

        async with coordinator(reads_nothing) as address, dialing(address) as (dialer, heard):
            await heard.message()
            for _ in range(5000):
                dialer.send(b"x" * 10_000)
            assert "unsent=1000" in repr(dialer)

    asyncio.run(main())


def test_a_silent_coordinator_counts_as_gone() -> None:
    async def main() -> None:
        async def silent(stream: FrameStream) -> None:
            await stream.receive()

        async with coordinator(silent) as address, dialing(address) as (_, heard):
            assert "it has sent nothing for 10 s" in await heard.note()

    asyncio.run(main())
