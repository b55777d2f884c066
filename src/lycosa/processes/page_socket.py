"""Gives pages of worker processes to the sinks of the program that started them.

The sinks of a Python program may be any functions, which only that program can call. So each worker
connects to a socket in the crawl's private folder, sends each page before it is stored, and waits
for what failed. A large body travels as the name of its file.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgspec

from lycosa.base.model.code_failure import CodeFailure
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import FrameError
from lycosa.base.system.kept_tasks import KeptTasks
from lycosa.stages.parse.page import Page, Received
from lycosa.worker.extensions import PageSinks

PAGES_SOCKET = "pages"
"""The name of the socket in the private folder."""
_NOBODY = CodeFailure("sink", "lycosa.Crawl", "ConnectionError", "the program takes no pages")


class _Given(msgspec.Struct, frozen=True, array_like=True):
    """A page for the sinks."""

    number: int
    page: Page


class _Taken(msgspec.Struct, frozen=True, array_like=True):
    """What failed at a page."""

    number: int
    failed: list[CodeFailure]


_encode = msgspec.msgpack.Encoder().encode
_decode_given = msgspec.msgpack.Decoder(_Given).decode
_decode_taken = msgspec.msgpack.Decoder(_Taken).decode


class PageServer:
    """The program's end: gives the pages of all workers to its sinks, while this context lasts.

    ``note`` gets each failure.
    """

    def __init__(self, path: Path, sinks: PageSinks, note: Callable[[CodeFailure], object]) -> None:
        self._path, self._sinks, self._note = path, sinks, note
        self._streams: set[FrameStream] = set()
        self._tasks = KeptTasks(lambda error: None)

    async def __aenter__(self) -> PageServer:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._path))
        listener.listen(64)
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(listener))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        for stream in list(self._streams):
            stream.close()
        await self._tasks.cancel()
        self._sinks.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                connection, _ = await loop.sock_accept(listener)
                self._tasks.begin(self._serve(FrameStream(connection)))

    async def _serve(self, stream: FrameStream) -> None:
        self._streams.add(stream)
        try:
            while (frame := await stream.receive()) is not None:
                self._tasks.begin(self._give(stream, _decode_given(frame)))
        except (ConnectionError, FrameError):
            pass  # the worker died; its supervisor starts another
        finally:
            self._streams.discard(stream)
            stream.close()

    async def _give(self, stream: FrameStream, given: _Given) -> None:
        source = msgspec.convert(given.page.source, Received)
        failed = await self._sinks.give_page(msgspec.structs.replace(given.page, source=source))
        for each in failed:
            self._note(each)
        with suppress(ConnectionError):  # the worker has ended without this answer
            await stream.send(_encode(_Taken(given.number, failed)))


class PageCaller:
    """A worker's end; implements ``PageSinks``. The program bounds the time of its sinks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: FrameStream | None = None
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[list[CodeFailure]]] = {}
        self._is_lost = False

    async def give_page(self, page: Page) -> list[CodeFailure]:
        """See ``PageSinks``."""
        if self._is_lost:
            return [_NOBODY]
        number, loop = next(self._numbers), asyncio.get_running_loop()
        taken: asyncio.Future[list[CodeFailure]] = loop.create_future()
        self._waiting[number] = taken
        try:
            await self._connected().send(_encode(_Given(number, page)))
            return await taken
        except OSError:
            return [_NOBODY]
        finally:
            del self._waiting[number]

    def _connected(self) -> FrameStream:
        if self._stream is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(self._path))
            except OSError:
                connection.close()
                self._is_lost = True
                raise
            self._stream = FrameStream(connection, on_frame=self._take, on_end=self._lose)
        return self._stream

    def _take(self, frame: bytes) -> None:
        taken = _decode_taken(frame)
        waiting = self._waiting.get(taken.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(taken.failed)

    def _lose(self, error: Exception | None) -> None:
        self._is_lost = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result([_NOBODY])

    def close(self) -> None:
        """See ``PageSinks``."""
        if self._stream is not None:
            self._stream.close()
