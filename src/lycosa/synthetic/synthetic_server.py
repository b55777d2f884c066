"""Serves a synthetic web (or any ``Responder``) over real sockets on loopback.

Misbehaviours are exact to the byte: it uses asyncio streams without an HTTP library, because a
library would repair what is meant to be broken. The Host header selects the host, so one port
serves every name. Several addresses share the port, so that limits per address can be tested.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable, Sequence

import msgspec

from lycosa.synthetic.bad_wire import steps
from lycosa.synthetic.request_log import RequestLog
from lycosa.synthetic.sent_response import Response, WireEnd, WireStep
from lycosa.synthetic.synthetic_web import Responder

_HEAD_LIMIT = 65536
_TURN = 1 << 17  # bytes that one connection sends before it yields to others
_SLICE_S = 0.05  # how often a pause checks whether the client is gone


class _Asked(msgspec.Struct, frozen=True):
    method: str
    target: str
    host: str
    headers: dict[str, str]
    keeps_alive: bool


class SyntheticServer:
    """An HTTP/1.1 server; use it as ``async with SyntheticServer(web) as server: server.port``.

    ``addresses`` are bound with one ``port`` (0 = any free one). ``pace`` scales every latency and
    pause (0 = none); ``wall`` gives the time for which pages are computed.
    """

    def __init__(
        self,
        web: Responder,
        *,
        addresses: Sequence[str] = ("127.0.0.1",),
        port: int = 0,
        log: RequestLog | None = None,
        pace: float = 1.0,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.web = web
        self.addresses = tuple(addresses)
        self.port = port
        self.log = log if log is not None else RequestLog()
        self._pace = pace
        self._wall = wall
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> SyntheticServer:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen. Raises ``OSError`` when a port is in use."""
        for address in self.addresses:
            server = await asyncio.start_server(
                self._accept, address, self.port, limit=_HEAD_LIMIT, backlog=1024
            )
            self._servers.append(server)
            self.port = server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
        self.log.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (
            ConnectionError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            asyncio.CancelledError,
        ):
            # the client is gone or sent an invalid request, or the server stops: this connection is
            # over
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; returns whether the connection can be used again."""
        first = await reader.readexactly(1)
        start, wall = time.monotonic(), self._wall()
        asked = _parse(first + await reader.readuntil(b"\r\n\r\n"))
        if asked is None:
            writer.write(
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            return False
        exchange = self.log.begin_request(
            asked.host, writer.get_extra_info("sockname")[0], asked.target, start, wall
        )
        end = None
        try:
            response = self._respond(asked, wall)
            exchange.status = response.status
            keeps_alive, end = await self._play(response, asked, reader, writer)
            return keeps_alive
        finally:
            self.log.finish_request(exchange, time.monotonic() if end is None else end)

    def _respond(self, asked: _Asked, wall: float) -> Response:
        if asked.method not in ("GET", "HEAD"):
            return Response(
                405,
                [("Allow", "GET, HEAD"), ("Content-Type", "text/plain")],
                b"Only GET and HEAD.\n",
            )
        return self.web.respond(f"http://{asked.host}{asked.target}", wall, asked.headers)

    async def _play(
        self,
        response: Response,
        asked: _Asked,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> tuple[bool, float | None]:
        """Send a response; returns whether the connection can be used again, and when a response
        that is whole ended.
        """
        await self._pause(response.latency_s, reader)
        sent, last = 0, None
        for step in steps(response, head_only=asked.method == "HEAD"):
            if isinstance(step, bytes):
                # Before the write: the client may have it, and wait for its delay, long before a
                # busy server runs again.
                last = time.monotonic()
                writer.write(step)
                await writer.drain()
                sent += len(step)
                if sent > _TURN:
                    sent = 0
                    # draining does not suspend while the client keeps up, so one flood would
                    # block all other connections
                    await asyncio.sleep(0)
                if writer.is_closing():
                    return False, None
            elif isinstance(step, float):
                await self._pause(step, reader)
            else:
                await self._end(step, reader, writer)
                return False, None
        return asked.keeps_alive, last

    async def _pause(self, seconds: float, reader: asyncio.StreamReader) -> None:
        """Wait, but end with an error when the client is gone."""
        left = seconds * self._pace
        while left > 0.0:
            if reader.at_eof():
                raise ConnectionResetError
            await asyncio.sleep(min(left, _SLICE_S))
            left -= _SLICE_S

    async def _end(
        self, end: WireStep, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if end is WireEnd.HANG:
            while await reader.read(4096):
                pass
        elif end is WireEnd.RESET:
            connection = writer.get_extra_info("socket")
            # makes close send RST
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


def _parse(block: bytes) -> _Asked | None:
    """Parse a request head (RFC 9112 section 3); ``None`` when it is invalid.

    The target may be in absolute form.
    """
    request_line, *lines = block.decode("latin-1").split("\r\n")
    words = request_line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    method, target, version = words
    headers = {
        name.strip().lower(): value.strip()
        for name, colon, value in (line.partition(":") for line in lines)
        if colon
    }
    host = headers.get("host", "")
    if target.startswith("http://"):
        host, _, rest = target[7:].partition("/")
        target = f"/{rest}"
    connection = headers.get("connection", "").lower()
    keeps_alive = connection == "keep-alive" if version == "HTTP/1.0" else connection != "close"
    return _Asked(method, target, host, headers, keeps_alive)
