"""A client of the DevTools protocol, over the pipe that Chromium offers instead of a port.

No other program can reach a pipe, and the browser ends itself when its other end closes. Messages
are JSON texts with a zero byte between them; sessions of pages and workers share the pipe ("flat"
sessions). https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import msgspec

MAX_MESSAGE = 128 << 20
"""Bytes of one message: the largest is a document or a picture that we asked for."""

EventHandler = Callable[[str, str, msgspec.Raw], None]
"""Called with the session, the method and the parameters of an event; it must not raise."""


class DevToolsError(Exception):
    """The browser refused a command; its text says why."""


class BrowserEnded(DevToolsError):
    """The pipe is closed: the browser ended, was killed, or sent what is no message."""


class _Fault(msgspec.Struct):
    message: str = ""


class _Message(msgspec.Struct):
    id: int = 0
    method: str = ""
    sessionId: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: _Fault | None = None


class DevTools(asyncio.Protocol):
    """Sends commands and passes events on.

    ``ended`` is set when the conversation is over; all commands then fail as ``BrowserEnded``.
    """

    def __init__(self, on_event: EventHandler) -> None:
        self._on_event = on_event
        self._open: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._number = 0
        self._unread = bytearray()
        self._searched = 0  # bytes of ``_unread`` in which there is no end of a message
        self._decoder = msgspec.json.Decoder(_Message)
        self._transport: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self.ended = asyncio.Event()

    async def open(self, sock: socket.socket) -> None:
        """Talk over a socket from now on."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=sock)

    async def call(self, method: str, params: Any = None, session: str = "") -> msgspec.Raw:
        """Send a command and return its result.

        Raises ``DevToolsError`` when it is refused, ``BrowserEnded`` when there is no answer.
        """
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        number = self._send(method, params, session)
        self._open[number] = answer
        try:
            # A page may ask for more bodies than fit into the pipe.
            await self._writable.wait()
            return await answer
        finally:
            self._open.pop(number, None)

    def tell(self, method: str, params: Any = None, session: str = "") -> None:
        """Send a command whose result does not matter, such as one to a page that may be gone."""
        if not self.ended.is_set():
            self._send(method, params, session)

    def close(self) -> None:
        """End the conversation. Further calls do nothing."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    def _send(self, method: str, params: Any, session: str) -> int:
        if self._transport is None or self.ended.is_set():
            raise BrowserEnded("the browser has ended")
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method}
        if params is not None:
            message["params"] = params
        if session:
            message["sessionId"] = session
        self._transport.write(msgspec.json.encode(message) + b"\0")
        return self._number

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while (end := self._unread.find(b"\0", self._searched)) >= 0:
            message = bytes(memoryview(self._unread)[:end])
            del self._unread[: end + 1]
            self._searched = 0
            self._take(message)
        self._searched = len(self._unread)
        if self._searched > MAX_MESSAGE:
            self.close()

    def _take(self, data: bytes) -> None:
        try:
            message = self._decoder.decode(data)
        except msgspec.MsgspecError:  # of a lone surrogate, say, that a page put into a text
            self._take_unreadable(data)
            return
        if message.method:
            self._on_event(message.sessionId, message.method, message.params)
            return
        answer = self._open.get(message.id)
        if answer is None or answer.done():
            return
        if message.error is not None:
            answer.set_exception(DevToolsError(message.error.message))
        else:
            answer.set_result(message.result)

    def _take_unreadable(self, data: bytes) -> None:
        """Refuse the command that this answers; an event that cannot be read is left out."""
        head = data[:40].partition(b'"id":')[2].partition(b",")[0].strip()
        answer = self._open.get(int(head)) if head.isdigit() else None
        if answer is not None and not answer.done():
            answer.set_exception(DevToolsError("the answer is no JSON text in UTF-8"))

    def _end(self) -> None:
        self.ended.set()
        self._writable.set()
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(BrowserEnded("the browser has ended"))
        self._open.clear()
