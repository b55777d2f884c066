"""One fetch is one request on the wire, judged by what the server received: libcurl repeats some
requests by itself, and may not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from http2_server import Shed, shedding
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from raw_server import OK, PATIENCE_S, PATIENT, RawServer, World, always, to
from tls_server import AUTHORITY, server_tls


@pytest.fixture
def ca_file(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(str(path))
    return str(path)


async def _http2(
    world: World, ca_file: str, shed: Shed
) -> tuple[RawServer, Callable[[str], object]]:
    server = await world.serve(
        shedding(shed), tls=server_tls(AUTHORITY.issue_cert("www.example.org"), ("h2", "http/1.1"))
    )
    fetcher = world.fetcher(ca_file=ca_file)

    async def get(path: str) -> Fetched:
        return await asyncio.wait_for(
            fetcher.fetch(to(server, path, scheme="https", limits=PATIENT)), PATIENCE_S
        )

    return server, get


@pytest.mark.parametrize(
    "shed", [Shed.RST_REFUSED, Shed.GOAWAY_UNPROCESSED, Shed.RST_CALM, Shed.CLOSE]
)
async def test_an_http2_server_that_sheds_load_gets_one_request_for_each_fetch(
    world: World, ca_file: str, shed: Shed
) -> None:
    server, get = await _http2(world, ca_file, shed)
    for number in range(1, 4):
        fetched = await get("/shed")
        assert (fetched.reason is not Reason.NONE, fetched.status) == (True, 0)
        assert server.requests == [b"/shed"] * number
        assert server.connections <= number
    if shed in (Shed.RST_REFUSED, Shed.GOAWAY_UNPROCESSED, Shed.RST_CALM):
        assert fetched.reason is Reason.REQUEST_REFUSED


@pytest.mark.parametrize(
    "shed", [Shed.RST_REFUSED, Shed.GOAWAY_UNPROCESSED, Shed.RST_CALM, Shed.CLOSE]
)
async def test_a_kept_http2_connection_that_sheds_load_gets_one_request_for_each_fetch(
    world: World, ca_file: str, shed: Shed
) -> None:
    server, get = await _http2(world, ca_file, shed)
    assert (await get("/good")).status == 200
    assert (await get("/shed")).status == 0
    assert server.requests == [b"/good", b"/shed"]
    assert (await get("/good")).status == 200
    assert server.requests == [b"/good", b"/shed", b"/good"]


async def test_a_server_that_wants_http1_is_asked_again_only_by_the_next_fetch(
    world: World, ca_file: str
) -> None:
    server, get = await _http2(world, ca_file, Shed.HTTP_1_1_REQUIRED)
    fetched = await get("/shed")
    assert (fetched.reason, fetched.status) == (Reason.REQUEST_UNANSWERED, 0)
    assert server.requests == [b"/shed"]
    fetched = await get("/shed")
    assert (fetched.reason, fetched.status, fetched.protocol) == (Reason.NONE, 200, "http/1.1")
    assert len(server.requests) == 2


async def _closing_on_each_second(
    server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    await server.read_request(reader)
    writer.write(OK)
    await writer.drain()
    await server.read_request(reader)


async def test_a_server_that_closes_kept_connections_gets_each_request_once(world: World) -> None:
    server = await world.serve(_closing_on_each_second)
    fetcher = world.fetcher()
    answers = []
    for number in range(1, 9):
        answers.append(await fetcher.fetch(to(server, f"/{number}")))
        assert len(server.requests) == number
    assert [each.reason for each in answers] == [Reason.NONE, Reason.REQUEST_UNANSWERED] + 6 * [
        Reason.NONE
    ]
    assert server.connections == 7  # none is kept once one has failed so


async def test_a_handle_that_was_stopped_often_works_as_before(world: World, ca_file: str) -> None:
    server, get = await _http2(world, ca_file, Shed.RST_REFUSED)
    for number in range(1, 12):  # libcurl stops repeating after five
        assert (await get("/shed")).reason is Reason.REQUEST_REFUSED
        assert len(server.requests) == number
    fetched = await get("/good")
    assert (fetched.status, fetched.protocol, fetched.body) == (200, "h2", b"hello")


async def test_http1_is_kept_to_the_origin_that_wants_it(world: World, ca_file: str) -> None:
    tls = server_tls(AUTHORITY.issue_cert("www.example.org"), ("h2", "http/1.1"))
    picky, other = (
        await world.serve(shedding(Shed.HTTP_1_1_REQUIRED), tls=tls),
        await world.serve(shedding(Shed.CLOSE), tls=tls),
    )
    fetcher = world.fetcher(ca_file=ca_file)  # one after another, so on one handle
    protocols = [
        (await fetcher.fetch(to(server, path, scheme="https", limits=PATIENT))).protocol
        for server, path in ((picky, "/shed"), (other, "/good"), (picky, "/shed"), (other, "/good"))
    ]
    assert protocols == ["", "h2", "http/1.1", "h2"]


async def test_no_connection_is_used_near_the_end_of_its_announced_time(world: World) -> None:
    server = await world.serve(
        always(OK.replace(b"OK\r\n", b"OK\r\nKeep-Alive: timeout=1, max=100\r\n"))
    )
    fetcher = world.fetcher()
    for number in range(1, 4):
        assert (await fetcher.fetch(to(server))).status == 200
        assert (server.connections, len(server.requests)) == (number, number)


async def test_a_first_connection_that_dies_is_no_reason_to_ask_twice(world: World) -> None:
    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await server.read_request(reader)

    server = await world.serve(talk)
    fetched = await world.fetcher().fetch(to(server))
    assert (fetched.reason, len(server.requests)) == (Reason.EMPTY_RESPONSE, 1)
