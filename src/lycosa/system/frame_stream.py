"""Frames over a socket for a running event loop; the frames themselves, and the blocking side, are
in ``wire``.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from lycosa.system.wire import CHUNK, MAX_FRAME_BYTES, FrameError, FrameReader, frame_pieces


class FrameStream(asyncio.Protocol):
    """Frames on a connected socket, which the stream owns from then on.

    Payloads are awaited (``receive``), or, where each page is a frame there and one back, handed to
    ``on_frame`` as they arrive: then no task has to be woken for a frame. ``on_end`` is called
    once, with ``None`` when the peer closed or ``close`` was called, else with a ``FrameError`` or
    ``OSError``. With ``on_frame`` nothing stops the peer, so the caller bounds what it asks for;
    without it, nothing more is read from the socket while ``receive`` is behind.
    """

    def __init__(
        self,
        sock: socket.socket,
        max_bytes: int = MAX_FRAME_BYTES,
        on_frame: Callable[[bytes], None] | None = None,
        on_end: Callable[[Exception | None], None] = lambda error: None,
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._frames = FrameReader(max_bytes)
        self._on_frame, self._on_end = on_frame or self._keep, on_end
        self._transport: asyncio.Transport | None = None
        self._opening = asyncio.Lock()
        self._is_over = False
        self._error: Exception | None = None
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._is_full = False
        self._arrival: asyncio.Future[None] | None = None  # what ``receive`` waits for
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def open(self) -> None:
        """Begins to read; the first ``send`` or ``receive`` does it otherwise. Raises
        ``ConnectionError`` when the stream is closed.
        """
        async with self._opening:
            if self._is_over:
                raise ConnectionResetError("the stream is closed")
            if self._transport is None:
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: self, sock=self._sock)

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def send(self, payload: bytes) -> None:
        """Sends one frame, and waits while the peer does not read (the transport's high-water
        mark), which is the only backpressure that is needed. Several tasks may send at once, each
        frame stays whole. Raises ``ConnectionError`` when the peer is gone or the stream is closed.
        """
        if self._transport is None or self._is_over:
            await self.open()
        self.write(payload)
        await self._has_room.wait()
        if self._is_over:
            raise ConnectionResetError("the peer is gone")

    def write(self, payload: bytes) -> None:
        """Sends one frame of an open stream, now or when the peer reads, without waiting for that;
        when the connection has ended, nothing.
        """
        transport = self._transport
        if transport is not None and not transport.is_closing():
            for piece in frame_pieces(payload):
                transport.write(piece)

    async def receive(self) -> bytes | None:
        """The next payload; ``None`` when the peer closed between frames or this side closed. One
        task at a time may wait for it.

        Raises ``FrameError`` for an end inside a frame or a length beyond the limit,
        ``ConnectionError`` when the peer reset.
        """
        if self._transport is None and not self._is_over:
            await self.open()
        while not self._kept:
            if self._error is not None:
                raise self._error
            if self._is_over:
                return None
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        payload = self._kept.popleft()
        self._kept_bytes -= len(payload)
        if self._is_full and self._kept_bytes <= CHUNK:
            self._is_full = False
            if self._transport is not None and self.is_open:
                self._transport.resume_reading()
        return payload

    def close(self) -> None:
        """Closes the socket; what was sent but not yet taken by the kernel is still written by the
        loop. Harmless when repeated.
        """
        self._kept.clear()
        self._end(None)
        self._error = None

    # -- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                self._on_frame(payload)
        except FrameError as error:
            self._end(error)

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self._is_over:
            self._read_rest()
        if exc is None:
            try:
                self._frames.end()
            except FrameError as error:
                exc = error
        self._end(exc)

    def _read_rest(self) -> None:
        """Reads what the peer sent before it died. A write that fails makes the event loop stop
        reading at once, although answers of the peer may still be in the socket.
        """
        assert self._transport is not None
        socket_number = self._transport.get_extra_info("socket").fileno()
        with suppress(OSError):  # nothing more is there
            while not self._is_over and (data := os.read(socket_number, CHUNK)):
                self.data_received(data)

    def _keep(self, payload: bytes) -> None:
        """For ``receive``."""
        self._kept.append(payload)
        self._kept_bytes += len(payload)
        if self._kept_bytes > 2 * CHUNK and not self._is_full:
            self._is_full = True
            if self._transport is not None and self.is_open:
                self._transport.pause_reading()
        self._wake()

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over, self._error = True, error
        if self._transport is not None:
            self._transport.close()
        else:
            self._sock.close()
        self._has_room.set()  # nothing that waits for it is sent any more
        self._wake()
        self._on_end(error)

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
