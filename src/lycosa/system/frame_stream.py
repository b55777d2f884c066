"""Frames over a socket for a running event loop; the frames themselves, and the blocking side, are
in ``wire``.

``FrameStream`` awaits. Where each page is a frame there and one back, ``FrameProtocol`` calls back
instead: no task has to be woken for a frame.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from lycosa.system.wire import (
    CHUNK,
    LENGTH,
    MAX_FRAME_BYTES,
    FrameError,
    FrameReader,
    check_length,
    encode_frame,
)


class FrameStream:
    """Frames on a connected socket, for a running event loop. The stream owns the socket from then
    on.

    ``send`` waits while the peer does not read (the transport's high-water mark), which is the only
    backpressure that is needed; several tasks may send at once, each frame stays whole. One task at
    a time may receive.
    """

    def __init__(self, sock: socket.socket, max_bytes: int = MAX_FRAME_BYTES) -> None:
        sock.setblocking(False)
        self._sock: socket.socket | None = sock
        self._max_bytes = max_bytes
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def send(self, payload: bytes) -> None:
        """Sends one frame. Raises ``ConnectionError`` when the peer is gone or the stream is
        closed.
        """
        _, writer = await self._streams()
        if len(payload) < CHUNK:
            writer.write(encode_frame(payload))
        else:  # both writes happen before any other task runs, so the frame stays whole
            writer.write(LENGTH.pack(len(payload)))
            writer.write(payload)
        await writer.drain()

    async def receive(self) -> bytes | None:
        """The next payload; ``None`` when the peer closed between frames or this side closed.

        Raises ``FrameError`` for an end inside a frame or a length beyond the limit,
        ``ConnectionError`` when the peer reset.
        """
        if self._closed:
            return None
        reader, _ = await self._streams()
        try:
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            check_length(length, self._max_bytes)
            return await reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            if self._closed or (not error.partial and error.expected == LENGTH.size):
                return None
            raise FrameError("the peer closed inside a frame") from error

    def close(self) -> None:
        """Closes the socket; what was sent but not yet taken by the kernel is still written by
        the loop. Harmless when repeated.
        """
        self._closed = True
        if self._writer is not None:
            self._writer.close()
        elif self._sock is not None:
            self._sock.close()
            self._sock = None

    async def _streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self._opening:
            if self._reader is None or self._writer is None:
                if self._closed or self._sock is None:
                    raise ConnectionResetError("the stream is closed")
                self._reader, self._writer = await asyncio.open_connection(
                    sock=self._sock, limit=CHUNK
                )
            return self._reader, self._writer


class FrameProtocol(asyncio.Protocol):
    """Frames on a transport, by calls: ``on_frame`` with each payload, then ``on_end`` once.

    ``on_end`` gets ``None`` when the peer closed or ``close`` was called, else a ``FrameError`` or
    ``OSError``. Nothing waits in ``send``: its caller bounds what is under way.
    """

    def __init__(
        self, on_frame: Callable[[bytes], None], on_end: Callable[[Exception | None], None]
    ) -> None:
        self._on_frame, self._on_end = on_frame, on_end
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._reader.feed(data):
                self._on_frame(payload)
        except FrameError as error:
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and self._transport is not None:
            self._read_rest(self._transport)
        self._end(exc)

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, payload: bytes) -> None:
        """Sends one frame, now or when the peer reads; when the connection has ended, nothing."""
        if self._transport is None or self._transport.is_closing():
            return
        if len(payload) < CHUNK:
            self._transport.write(encode_frame(payload))
        else:
            self._transport.write(LENGTH.pack(len(payload)))
            self._transport.write(payload)

    def close(self) -> None:
        """Ends the connection. Harmless when repeated."""
        self._end(None)

    def _read_rest(self, transport: asyncio.Transport) -> None:
        """Reads what the peer sent before it died. A write that fails makes the event loop stop
        reading at once, although answers of the peer may still be in the socket.
        """
        socket_number = transport.get_extra_info("socket").fileno()
        with suppress(OSError):  # nothing more is there
            while self._transport is not None and (data := os.read(socket_number, CHUNK)):
                self.data_received(data)

    def _end(self, error: Exception | None) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
            self._on_end(error)
