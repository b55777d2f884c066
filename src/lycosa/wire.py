"""Frames over a connected stream socket: four bytes of big-endian length, then that many bytes of payload.

The parse child and the exchange both talk this way. The promise is that a receiver gets exactly the payloads that were sent, in
order, or learns that it did not: a socket that ends between two frames gives ``None``, one that ends inside a frame
raises ``FrameError``, and a length beyond the limit raises before a byte of that payload is buffered, so that a peer
which went wrong cannot take our memory. What a payload means is the caller's business (msgspec's MessagePack here).

There are two sides because a child process has no event loop: ``send_frame`` and ``recv_frame`` block, ``FrameStream`` awaits. Where each
page is a frame there and one back, ``FrameProtocol`` calls back instead: no task has to be woken for a frame.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from typing import cast

import msgspec

_LENGTH = struct.Struct(">I")
_CHUNK = 256 * 1024
_READ = 64 * 1024

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises when bytes are not what was expected: msgspec raises Python's own for text not in UTF-8 and for deep nesting."""

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Default limit of one payload: larger than any document we fetch, small enough to allocate."""


class FrameError(Exception):
    """The bytes are not frames: a length beyond the limit, or an end inside a frame."""


def encode_frame(payload: bytes) -> bytes:
    """The bytes of one frame. Raises ``FrameError`` when the payload does not fit a length of four bytes."""
    if len(payload) > 0xFFFFFFFF:
        raise FrameError(f"payload of {len(payload)} bytes")
    return _LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts a stream of bytes into payloads. Bytes go in by ``feed`` in any pieces; ``feed`` yields each payload that is complete."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Adds bytes; gives the payloads that they complete. Raises ``FrameError`` for a length beyond the limit."""
        if not self._pending and len(data) > _LENGTH.size and _LENGTH.unpack_from(data)[0] == len(data) - _LENGTH.size:
            _check(len(data) - _LENGTH.size, self._max_bytes)
            yield data[_LENGTH.size :]  # one whole frame, which is what a small answer comes as
            return
        self._pending += data
        start = 0
        try:
            while len(self._pending) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._pending, start)
                _check(length, self._max_bytes)
                end = start + _LENGTH.size + length
                if len(self._pending) < end:
                    break
                payload = bytes(memoryview(self._pending)[start + _LENGTH.size : end])
                start = end
                yield payload
        finally:
            del self._pending[:start]

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream may end here without loss."""
        return not self._pending


def send_frame(sock: socket.socket, payload: bytes) -> None:
    """Sends one frame, blocking until the kernel has all of it."""
    if len(payload) < _CHUNK:
        sock.sendall(encode_frame(payload))
    else:  # no copy of a large body for the sake of four bytes
        sock.sendall(_LENGTH.pack(len(payload)))
        sock.sendall(payload)


def recv_frame(sock: socket.socket, max_bytes: int = MAX_FRAME_BYTES) -> bytes | None:
    """Receives one payload, blocking; ``None`` when the peer closed between frames. Raises ``FrameError`` and ``OSError``."""
    head = _recv_exactly(sock, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    _check(length, max_bytes)
    payload = _recv_exactly(sock, length)
    if payload is None:
        raise FrameError("the peer closed inside a frame")
    return bytes(payload)


def received_frames(sock: socket.socket) -> Iterator[bytes]:
    """Payloads as they come, blocking, until the peer closes. Nobody else may read from the socket. Errors as in ``recv_frame``.

    One call of the system gives as many of them as have arrived, where ``recv_frame`` takes two for each.
    """
    reader = FrameReader()
    while data := sock.recv(_READ):
        yield from reader.feed(data)
    if not reader.is_between_frames:
        raise FrameError("the peer closed inside a frame")


def _recv_exactly(sock: socket.socket, size: int) -> bytearray | None:
    buffer = bytearray(size)
    view, filled = memoryview(buffer), 0
    while filled < size:
        count = sock.recv_into(view[filled:])
        if count == 0:
            if filled:
                raise FrameError("the peer closed inside a frame")
            return None
        filled += count
    return buffer


def _check(length: int, max_bytes: int) -> None:
    if length > max_bytes:
        raise FrameError(f"frame of {length} bytes; the limit is {max_bytes}")


class FrameStream:
    """Frames on a connected socket, for a running event loop. The stream owns the socket from then on.

    ``send`` waits while the peer does not read (the transport's high-water mark), which is the only backpressure that is needed;
    several tasks may send at once, each frame stays whole. One task at a time may receive.
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
        """Sends one frame. Raises ``ConnectionError`` when the peer is gone or the stream is closed."""
        _, writer = await self._streams()
        if len(payload) < _CHUNK:
            writer.write(encode_frame(payload))
        else:  # both writes happen before any other task runs, so the frame stays whole
            writer.write(_LENGTH.pack(len(payload)))
            writer.write(payload)
        await writer.drain()

    async def receive(self) -> bytes | None:
        """The next payload; ``None`` when the peer closed between frames or this side closed.

        Raises ``FrameError`` for an end inside a frame or a length beyond the limit, ``ConnectionError`` when the peer reset.
        """
        if self._closed:
            return None
        reader, _ = await self._streams()
        try:
            (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            _check(length, self._max_bytes)
            return await reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            if self._closed or (not error.partial and error.expected == _LENGTH.size):
                return None
            raise FrameError("the peer closed inside a frame") from error

    def close(self) -> None:
        """Closes the socket; what was sent but not yet taken by the kernel is still written by the loop. Harmless when repeated."""
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
                self._reader, self._writer = await asyncio.open_connection(sock=self._sock, limit=_CHUNK)
            return self._reader, self._writer


class FrameProtocol(asyncio.Protocol):
    """Frames on a transport, by calls: ``on_frame`` with each payload, then ``on_end`` once.

    ``on_end`` gets ``None`` when the peer closed or ``close`` was called, else a ``FrameError`` or ``OSError``. Nothing waits in ``send``:
    its caller bounds what is under way.
    """

    def __init__(self, on_frame: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
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
        self._end(exc)

    def send(self, payload: bytes) -> None:
        """Sends one frame, now or when the peer reads; when the connection has ended, nothing."""
        if self._transport is None or self._transport.is_closing():
            return
        if len(payload) < _CHUNK:
            self._transport.write(encode_frame(payload))
        else:
            self._transport.write(_LENGTH.pack(len(payload)))
            self._transport.write(payload)

    def close(self) -> None:
        """Ends the connection. Harmless when repeated."""
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
            self._on_end(error)
