"""TCP relays: what a machine has of the network to the services of a cluster, so that a test can
cut it off and heal it without rights of its own.

A cut network is silent, like one that drops packets: connections stay open and no byte passes; new
ones are accepted and get no answer. What was under way arrives when the network is healed. Or it is
reset, as by a firewall: all connections are closed, and new ones at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
_BYTES = 1 << 16


class Cut(Enum):
    """How a network is cut off."""

    SILENT = "silent"
    RESET = "reset"


class Network:
    """The relays of one machine: ports of 127.0.0.1, each of which leads to another one. They are
    cut and healed together. A context manager.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.passed_bytes = 0
        self.cut: Cut | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"network-{name}")
        self._servers: list[asyncio.Server] = []
        self._pairs: set[asyncio.Task[None]] = set()
        self._healed = asyncio.Event()
        self._healed.set()

    def __enter__(self) -> Network:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def lead_to(self, port: int, listen: int = 0) -> int:
        """Opens a relay to a port; gives its own."""
        return self._call(self._open(port, listen))

    def cut_off(self, how: Cut) -> None:
        """Returns when nothing passes any more."""
        self._call(self._cut(how))

    def heal(self) -> None:
        """What waits passes, and new connections are possible again."""
        self._call(self._heal())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    # -- on the thread

    async def _open(self, port: int, listen: int) -> int:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._pairs.add(task)
            try:
                await self._relay(reader, writer, port)
            except (OSError, asyncio.CancelledError):
                pass  # both ends are closed below: a reset of one is one of the other
            finally:
                self._pairs.discard(task)
                _abort(writer)

        server = await asyncio.start_server(accepted, "127.0.0.1", listen, backlog=512)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        if self.cut is Cut.RESET:
            return
        await self._healed.wait()
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            ways = [
                asyncio.create_task(self._pass(reader, there_writer)),
                asyncio.create_task(self._pass(there_reader, writer)),
            ]
            try:
                await asyncio.gather(*ways)
            finally:
                for way in ways:
                    way.cancel()
        finally:
            _abort(there_writer)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            data = await reader.read(_BYTES)
            await self._healed.wait()
            if not data:
                break
            self.passed_bytes += len(data)
            writer.write(data)
            await writer.drain()
        with suppress(OSError):  # the other way may still be used
            writer.write_eof()

    async def _cut(self, how: Cut) -> None:
        self.cut = how
        self._healed.clear()
        if how is Cut.RESET:
            await self._break()

    async def _heal(self) -> None:
        self.cut = None
        self._healed.set()

    async def _break(self) -> None:
        pairs = list(self._pairs)
        for task in pairs:
            task.cancel()
        await asyncio.gather(*pairs, return_exceptions=True)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        await self._break()

    def __repr__(self) -> str:
        return f"<Network {self.name} cut={self.cut} connections={len(self._pairs)}>"


def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
