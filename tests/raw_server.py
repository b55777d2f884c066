"""A server that says raw bytes, scripted by a coroutine, and a fetcher beside it: for tests on
real sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from lycosa.base.config.sections import FetchSection
from lycosa.base.model.fetched import Fetched, FetchRequest, Limits
from lycosa.base.system.clock import SystemClock
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.headers import build_user_agent
from lycosa.stages.fetch.http_client import NO_HOOKS, CurlFetcher, RequestHooks

Talk = Callable[["RawServer", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SHORT = Limits(connect_s=0.3, first_byte_s=0.2, total_s=0.6, min_bytes_per_s=0)
"""Only for what must run into a limit: a busy machine may stand still for longer."""
PATIENT = Limits(connect_s=30.0, first_byte_s=30.0, total_s=60.0, min_bytes_per_s=0)
PATIENCE_S = 90.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class RawServer:
    """Says what ``talk`` says, and remembers what it was asked."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.connections = 0
        self.requests: list[bytes] = []
        self.closed_by_client = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)
        self.closed = asyncio.Semaphore(0)  # once for each connection that is closed

    async def start(self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.server = await asyncio.start_server(self._serve, host, 0, ssl=tls, limit=1 << 20)
        self.port = self.server.sockets[0].getsockname()[1]
        self.tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def read_request(self, reader: asyncio.StreamReader) -> bytes:
        request = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(request)
        self.arrived.release()
        return request

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        try:
            await self._talk(self, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            self.closed_by_client.set()
        except asyncio.CancelledError:
            writer.transport.abort()  # the test is over
        finally:
            self.tasks.discard(task)
            writer.close()
            with contextlib.suppress(
                ConnectionError, ssl.SSLError, TimeoutError, asyncio.CancelledError
            ):
                await writer.wait_closed()
            self.closed.release()


def saying(*answers: bytes, keep_open: bool = False) -> Talk:
    """Reads a request, says the next of ``answers``, and so on; then closes, or waits until the
    client does.
    """

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for answer in answers:
            await server.read_request(reader)
            writer.write(answer)
            await writer.drain()
        if keep_open:
            await reader.read()
            server.closed_by_client.set()

    return talk


def always(answer: bytes) -> Talk:
    """The same answer to every request, on kept connections."""

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            await server.read_request(reader)
            writer.write(answer)
            await writer.drain()

    return talk


def dripping(head: bytes, drip: bytes) -> Talk:
    """Says ``head``, then ``drip`` without end, a little at a time."""

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await server.read_request(reader)
        writer.write(head)
        while True:
            writer.write(drip)
            await writer.drain()
            await asyncio.sleep(0.02)

    return talk


def flooding(head: bytes, flood: bytes) -> Talk:
    """Says ``head``, then ``flood`` without end, as fast as it goes."""

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await server.read_request(reader)
        writer.write(head)
        while True:
            writer.write(flood)
            await writer.drain()

    return talk


class World:
    """A fetcher and the servers of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._servers: list[RawServer] = []
        self._fetchers: list[CurlFetcher] = []

    async def serve(
        self, talk: Talk, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> RawServer:
        server = RawServer(talk)
        await server.start(host, tls)
        self._servers.append(server)
        return server

    def fetcher(
        self,
        allowed: tuple[str, ...] = ("127.0.0.0/8", "::1"),
        contact: str = "",
        hooks: RequestHooks = NO_HOOKS,
        **settings: object,
    ) -> CurlFetcher:
        agent = build_user_agent("lycosa", "0.1", contact)
        section = FetchSection(**settings)  # type: ignore[arg-type]
        fetcher = CurlFetcher(
            section,
            agent,
            contact,
            Guard(allowed),
            SystemClock(),
            self.folder / "spool",
            hooks,
        )
        self._fetchers.append(fetcher)
        return fetcher

    async def get(self, talk: Talk, limits: Limits = PATIENT, **settings: object) -> Fetched:
        """One page of a server that says ``talk``."""
        server = await self.serve(talk)
        fetched = await asyncio.wait_for(
            self.fetcher(**settings).fetch(to(server, limits=limits)), PATIENCE_S
        )  # type: ignore[arg-type]
        assert fetched.truncated == "" or fetched.header_block
        return fetched

    def spooled(self) -> list[Path]:
        folder = self.folder / "spool"
        return sorted(folder.iterdir()) if folder.exists() else []

    async def close(self) -> None:
        for fetcher in self._fetchers:
            await fetcher.close()
        for server in self._servers:
            await server.stop()


def to(
    server: RawServer, path: str = "/", scheme: str = "http", limits: Limits = PATIENT, **more: str
) -> FetchRequest:
    return FetchRequest(
        f"{scheme}://www.example.org:{server.port}{path}",
        more.pop("address", "127.0.0.1"),
        limits=limits,
        **more,
    )
