"""Clients that take connections, places and bytes: what one of them can keep from the others.

The loopback addresses 127.0.0.x are the clients.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from lycosa.base.logs.log_writer import EventLog
from lycosa.service.api.access_log import AccessLog
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.gate import Gate, GateRules
from lycosa.service.api.process_log import ProcessLog
from lycosa.service.api.slow_clients import BoundedServer, http_server
from lycosa.service.api.tokens import Tokens

PATIENCE_S = 60.0
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answer(scope, receive, send) -> None:
    body = b""
    while (message := await receive()).get("more_body"):
        body += message["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"%d" % len(body + message["body"])})


@asynccontextmanager
async def served(
    app: Callable[..., Awaitable[None]], **limits: float
) -> AsyncIterator[tuple[BoundedServer, int]]:
    """The application, and its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = http_server(app, ApiLimits(**limits), "", "")  # type: ignore[arg-type]
    serving = asyncio.create_task(server._serve([listener]))
    try:
        yield server, listener.getsockname()[1]
    finally:
        server.close_all()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        listener.close()


def gated(**limits: float) -> Gate:
    rules = GateRules("127.0.0.1", True, False, ApiLimits(**limits))  # type: ignore[arg-type]
    return Gate(answer, rules, Tokens([]), AccessLog(ProcessLog(EventLog(None, "api"))))


async def connected(port: int, client: str = "127.0.0.1") -> socket.socket:
    """A connection that sends nothing."""
    one = socket.socket()
    one.setblocking(False)
    one.bind((client, 0))
    await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", port))
    return one


async def answered(one: socket.socket, request: bytes) -> bytes:
    """What is answered first; nothing when the connection is closed."""
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(one, request)
        async with asyncio.timeout(PATIENCE_S):
            return await loop.sock_recv(one, 10_000)
    except ConnectionError:
        return b""


async def is_open(one: socket.socket) -> bool:
    try:
        return bool(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(one, 1), 0.05))
    except TimeoutError:
        return True
    except ConnectionError:
        return False


async def test_the_bound_of_connections_is_kept_while_one_client_opens_many() -> None:
    async with served(answer, connections=20) as (server, port):
        other = await connected(port, "127.0.0.2")
        many = []
        for _ in range(300):
            many.append(await connected(port))
            assert len(server.connections) <= 20
        assert (await answered(other, GET)).startswith(b"HTTP/1.1 200")
        assert await is_open(other), "its connection was opened first, by a client with few"
        still = [await is_open(one) for one in many]
        assert sum(still) == 19 and all(still[-19:]), "the newest of the client are open"
        for one in (other, *many):
            one.close()


async def test_the_bound_is_kept_when_many_come_in_one_turn_of_the_loop() -> None:
    """All are in the queue of the system before the process looks at the first."""
    async with served(answer, connections=20) as (server, port):
        burst = []
        for _ in range(400):
            one = socket.socket()
            one.setblocking(False)
            assert one.connect_ex(("127.0.0.1", port)) in (0, 115)
            burst.append(one)
        most = 0
        other = await connected(port, "127.0.0.2")
        asking = asyncio.ensure_future(answered(other, GET))
        while not asking.done():
            most = max(most, len(server.server_state.connections))
            await asyncio.sleep(0)
        assert asking.result().startswith(b"HTTP/1.1 200")
        assert most <= 60, "those that are closing, which were accepted in one or two turns"
        for one in (other, *burst):
            one.close()


async def test_requests_that_are_refused_before_their_bodies_keep_no_connection() -> None:
    """Their bodies never end, and each piece is in time."""

    async def refuse(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
    async with served(refuse, connections=5) as (_, port):
        endless = [await connected(port) for _ in range(5)]
        for one in endless:
            assert (await answered(one, head)).startswith(b"HTTP/1.1 401")
        other = await connected(port, "127.0.0.2")
        assert (await answered(other, GET)).startswith(b"HTTP/1.1 401")
        for one in (other, *endless):
            one.close()


HEAD = (
    "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Length: {size}\r\n\r\n"
)


def post(path: str, size: int) -> bytes:
    return HEAD.format(path=path, size=size).encode()


async def test_bodies_that_are_announced_and_not_sent_hold_nothing() -> None:
    async with served(gated()) as (_, port):
        silent = [await connected(port) for _ in range(8)]
        for one in silent:
            request = post("/api/v1/frontier/results", 16_000_000)
            await asyncio.get_running_loop().sock_sendall(one, request)
        for client in ("127.0.0.1", "127.0.0.2"):
            other = await connected(port, client)
            reply = await answered(other, post("/api/v1/crawl/pause", 2) + b"{}")
            assert reply.startswith(b"HTTP/1.1 200")
            other.close()
        for one in silent:
            one.close()


async def test_one_client_holds_a_share_of_the_bytes_of_bodies() -> None:
    loop = asyncio.get_running_loop()
    async with served(gated()) as (_, port):
        held = [await connected(port) for _ in range(3)]
        piece = b" " * 15_000_000
        for one in held:
            await loop.sock_sendall(one, post("/api/v1/frontier/results", 16_000_000))
        replies = [asyncio.ensure_future(answered(one, piece)) for one in held]
        done, waiting = await asyncio.wait(replies, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result()[:12] for each in done] == [b"HTTP/1.1 503"], "two are half of all"
        other = await connected(port, "127.0.0.2")
        reply = await answered(
            other, post("/api/v1/frontier/results", 2_000_000) + piece[:2_000_000]
        )
        assert reply.startswith(b"HTTP/1.1 200")
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for one in (other, *held):
            one.close()


async def test_a_body_that_stops_is_given_up_however_long_it_is() -> None:
    async with served(gated(request_s=0.2)) as (_, port):
        one = await connected(port)
        request = post("/api/v1/frontier/results", 16_000_000) + b" " * 3_000_000
        reply = await answered(one, request)
        assert reply.startswith(b"HTTP/1.1 408") and b"connection: close" in reply.lower()
        one.close()


@pytest.mark.parametrize("path", ["/", "/api/v1/crawl/pause"])
async def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(path: str) -> None:
    both = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    async with served(gated()) as (_, port):
        one = await connected(port)
        reply = await answered(
            one, both.encode() + b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        assert reply.startswith(b"HTTP/1.1 400")
        assert reply.count(b"HTTP/1.1") == 1 and not await is_open(one)
        one.close()


async def test_a_compressed_body_is_not_read() -> None:
    async with served(gated()) as (_, port):
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        url = f"http://127.0.0.1:{port}/api/v1/crawl/pause"
        async with httpx.AsyncClient() as client:
            reply = await client.post(url, content=b"{}", headers=headers)
        assert reply.status_code == 415 and "Content-Encoding" in reply.json()["detail"]
