"""Frames over a socket on an event loop; ``frames`` has the format and the blocking side."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import cast

from lycosa.base.system.frames import CHUNK, MAX_FRAME_BYTES, FrameError, FrameReader, frame_pieces
from lycosa.base.system.tls_end import TlsEnd

_COUNT = struct.Struct("i")


class FrameStream(asyncio.Protocol):
    """Frames on a connected socket, with TLS if ``tls`` is given. The stream owns the socket.

    Payloads are awaited (``receive``) or passed to ``on_frame`` as they arrive. The callback is for
    uses where each page takes one frame in each direction, so that no task has to be woken for a
    frame. ``on_end`` is called once, with ``None`` when the peer closed or ``close`` was called,
    otherwise with a ``FrameError`` or ``OSError``. With ``on_frame`` nothing stops the peer, so the
    caller must bound the data that it requests. Without it, reading from the socket stops while
    ``receive`` is behind. ``early_bytes`` are limits of the first payloads (``FrameReader``).
    """

    def __init__(
        self,
        sock: socket.socket,
        max_bytes: int = MAX_FRAME_BYTES,
        on_frame: Callable[[bytes], None] | None = None,
        on_end: Callable[[Exception | None], None] = lambda error: None,
        early_bytes: Sequence[int] = (),
        tls: TlsEnd | None = None,
    ) -> None:
        sock.setblocking(False)
        self._sock, self._tls = sock, tls
        self._frames = FrameReader(max_bytes, early_bytes)
        self._on_frame, self._on_end = on_frame or self._keep, on_end
        self._transport: asyncio.Transport | None = None
        self._opening = asyncio.Lock()
        self._is_ready = False  # to send payloads
        self._is_over = False
        self._error: Exception | None = None
        self._unsent: list[bytes] = []  # before the stream is open
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._is_full = False
        self._arrival: asyncio.Future[None] | None = None  # what ``receive`` waits for
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def open(self) -> None:
        """Begin to read; otherwise the first ``send`` or ``receive`` does.

        With TLS it waits for the handshake, and raises ``ssl.SSLError`` when that fails. Raises
        ``ConnectionError`` when the stream is closed.
        """
        # The first ``send`` and the first ``receive`` may come at once; one of them makes the
        # connection.
        async with self._opening:
            if self._is_over:
                raise ConnectionResetError("the stream is closed")
            if self._is_ready:
                return
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: self, sock=self._sock)
            if self._tls is not None:
                await self._handshake()

    async def _handshake(self) -> None:
        try:
            while not self._is_ready:
                if self._is_over:
                    raise self._error or ConnectionResetError("the peer closed the connection")
                self._arrival = asyncio.get_running_loop().create_future()
                await self._arrival
        except BaseException:
            # Also at a cancellation: the caller gets no stream that it could close.
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return self._is_ready and self._transport is not None and not self._transport.is_closing()

    @property
    def unread_bytes(self) -> int:
        """Bytes that were sent and that the peer has not read, as far as the system tells."""
        waiting = self._transport.get_write_buffer_size() if self._transport is not None else 0
        with suppress(OSError):  # closed, or a system that does not count them for sockets
            (in_kernel,) = _COUNT.unpack(ioctl(self._sock, TIOCOUTQ, bytes(_COUNT.size)))
            waiting += in_kernel
        return waiting

    async def send(self, payload: bytes) -> None:
        """Send one frame, waiting while the peer does not read (the transport's high-water mark).

        No other backpressure is needed. Several tasks may send at once, and each frame stays whole,
        in the order of the calls. Raises ``ConnectionError`` when the peer is gone or the stream is
        closed.
        """
        self.write(payload)
        if not self._is_ready:
            await self.open()
        await self._has_room.wait()
        if self._is_over:
            raise ConnectionResetError("the peer is gone, or the stream is closed")

    def write(self, payload: bytes) -> None:
        """Send one frame as soon as the stream is open and the peer reads, without waiting.

        Does nothing after the connection has ended.
        """
        transport = self._transport
        if transport is None or not self._is_ready:
            self._unsent += frame_pieces(payload)
        elif not transport.is_closing():
            for piece in frame_pieces(payload):
                transport.write(piece if self._tls is None else self._tls.encrypt(piece))

    async def receive(self) -> bytes | None:
        """The next payload; ``None`` when the peer closed between frames or this side closed.

        Only one task at a time may wait for it. Raises ``FrameError`` for an end inside a frame or
        a length beyond the limit, and ``ConnectionError`` when the peer reset the connection.
        """
        if not self._is_ready and not self._is_over:
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
        # Not at the first byte of room: each change of reading costs a system call.
        if self._is_full and self._kept_bytes <= CHUNK:
            self._is_full = False
            if self._transport is not None and self.is_open:
                self._transport.resume_reading()
        return payload

    def close(self) -> None:
        """Close the socket. The loop still writes what was sent but not yet accepted by the kernel.

        Further calls do nothing.
        """
        # What was received and not taken is of no use to a caller that closes.
        self._kept.clear()
        self._end(None)
        self._error = None

    # -- callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._tls is None:
            self._send_unsent()
        else:
            self._tls.begin()
            self._transport.write(self._tls.pending())

    def data_received(self, data: bytes) -> None:
        if self._tls is not None:
            self._decrypt(self._tls, data)
            return
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                self._on_frame(payload)
        except FrameError as error:
            self._end(error)

    def _decrypt(self, tls: TlsEnd, data: bytes) -> None:
        assert self._transport is not None
        try:
            for piece in tls.feed(data):
                self._feed(piece)
                if self._is_over:
                    return
        except ssl.SSLError as error:
            self._end(error)  # sends the alert too
            return
        self._transport.write(tls.pending())
        if tls.is_open and not self._is_ready:
            self._send_unsent()
            self._wake()
        if tls.is_over:
            self._transport.close()

    def _send_unsent(self) -> None:
        assert self._transport is not None
        self._is_ready = True
        for piece in self._unsent:
            self._transport.write(piece if self._tls is None else self._tls.encrypt(piece))
        self._unsent.clear()

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self._is_over:
            # A reset may overtake the last bytes, such as a refusal with its reason.
            self._read_rest()
        if exc is None:
            try:
                self._frames.end()
            except FrameError as error:
                exc = error
        self._end(exc)

    def _read_rest(self) -> None:
        """Read what the peer sent before it died.

        After a failed write the event loop stops reading at once, although answers of the peer may
        still be in the socket.
        """
        assert self._transport is not None
        socket_number = self._transport.get_extra_info("socket").fileno()
        with suppress(OSError):  # there is nothing more to read
            while not self._is_over and (data := os.read(socket_number, CHUNK)):
                self.data_received(data)

    def _keep(self, payload: bytes) -> None:
        """Keep a payload for ``receive``; stops reading when too many bytes are kept."""
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
            if self._tls is not None and not self._transport.is_closing():
                self._tls.end()
                self._transport.write(self._tls.pending())
            self._transport.close()
        else:
            self._sock.close()
        self._has_room.set()  # wakes the senders, which then raise
        self._wake()
        self._on_end(error)

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
