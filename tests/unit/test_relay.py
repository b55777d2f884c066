"""The network that proofs cut off: what is under way when it is cut, and what comes after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from relay import Cut, Network


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """The port of a server that sends back what it gets."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes, most_s: float = 20.0
) -> bytes:
    writer.write(data)
    return await asyncio.wait_for(reader.readexactly(len(data)), most_s)


async def test_a_silent_network_passes_nothing_and_loses_nothing(echo: int) -> None:
    with Network("a") as network:
        reader, writer = await asyncio.open_connection("127.0.0.1", network.lead_to(echo))
        assert await exchange(reader, writer, b"before") == b"before"
        network.cut_off(Cut.SILENT)
        with pytest.raises(TimeoutError):
            await exchange(reader, writer, b"under way", most_s=0.3)
        network.heal()
        assert await asyncio.wait_for(reader.readexactly(9), 60) == b"under way"
        writer.close()


async def test_a_network_that_resets_closes_old_and_new_connections_until_it_is_healed(
    echo: int,
) -> None:
    with Network("a") as network:
        port = network.lead_to(echo)
        old = await asyncio.open_connection("127.0.0.1", port)
        assert await exchange(*old, b"before") == b"before"
        network.cut_off(Cut.RESET)
        for reader, writer in (old, await asyncio.open_connection("127.0.0.1", port)):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await exchange(reader, writer, b"lost")
            writer.close()
        network.heal()
        healed = await asyncio.open_connection("127.0.0.1", port)
        assert await exchange(*healed, b"again") == b"again"
        healed[1].close()


async def test_networks_are_cut_one_by_one(echo: int) -> None:
    with Network("a") as cut, Network("b") as whole:
        cut.cut_off(Cut.SILENT)
        reader, writer = await asyncio.open_connection("127.0.0.1", whole.lead_to(echo))
        assert await exchange(reader, writer, b"passes") == b"passes"
        assert whole.passed_bytes == 12
        writer.close()
