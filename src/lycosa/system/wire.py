"""Frames over a connected stream socket: a length of four bytes, big-endian, then the payload.

The promise is that a receiver gets exactly the payloads that were sent, in order, or learns that it
did not: a socket that ends between two frames gives ``None``, one that ends inside a frame raises
``FrameError``, and a length beyond the limit raises before a byte of that payload is buffered, so
that a peer which went wrong cannot take our memory. What a payload means is the caller's business
(msgspec's MessagePack here).

Two classes carry frames: ``FrameSocket`` blocks, for a process without an event loop;
``frame_stream.FrameStream`` is for a running loop, in a module of its own so that the parse child
does not import asyncio. What a frame is stands here for both: ``frame_pieces`` and ``FrameReader``.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Iterator

import msgspec

_LENGTH = struct.Struct(">I")
_READ = 64 * 1024

CHUNK = 256 * 1024
"""Bytes of a payload from which on it is written apart from its length, without a copy of it."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for unexpected bytes.

msgspec raises Python's own errors for text that is not UTF-8 and for deep nesting.
"""

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Default limit of one payload: larger than any document we fetch, small enough to allocate."""


class FrameError(Exception):
    """The bytes are not frames: a length beyond the limit, or an end inside a frame."""


def frame_pieces(payload: bytes) -> tuple[bytes, ...]:
    """One frame, as what is to be written one after the other. Raises ``FrameError`` when the
    payload does not fit a length of four bytes.
    """
    if len(payload) > 0xFFFFFFFF:
        raise FrameError(f"payload of {len(payload)} bytes")
    length = _LENGTH.pack(len(payload))
    return (length + payload,) if len(payload) < CHUNK else (length, payload)


class FrameReader:
    """Cuts a stream of bytes into payloads. Bytes go in by ``feed`` in any pieces; ``feed`` yields
    each payload that is complete.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes and yield each payload that they complete.

        Raises ``FrameError`` for a length beyond the limit.
        """
        size = _LENGTH.size
        if (
            not self._pending
            and len(data) > size
            and _LENGTH.unpack_from(data)[0] == len(data) - size
        ):
            self._check(len(data) - size)
            yield data[size:]  # one whole frame, which is what a small answer comes as
            return
        self._pending += data
        start = 0
        try:
            while len(self._pending) - start >= size:
                (length,) = _LENGTH.unpack_from(self._pending, start)
                self._check(length)
                end = start + size + length
                if len(self._pending) < end:
                    break
                payload = bytes(memoryview(self._pending)[start + size : end])
                start = end
                yield payload
        finally:
            # Also when the caller takes no more of them: what was given is never given twice.
            del self._pending[:start]

    def end(self) -> None:
        """No more bytes come. Raises ``FrameError`` when the last frame is not complete."""
        if self._pending:
            raise FrameError("the peer closed inside a frame")

    def _check(self, length: int) -> None:
        if length > self._max_bytes:
            raise FrameError(f"frame of {length} bytes; the limit is {self._max_bytes}")


class FrameSocket:
    """Frames on a connected socket. Both calls block, and nothing else may read from the socket."""

    def __init__(self, sock: socket.socket, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._sock = sock
        self._reader = FrameReader(max_bytes)
        self._received: deque[bytes] = deque()

    def send(self, payload: bytes) -> None:
        """Sends one frame; the kernel has all of it when this returns. Raises ``OSError``."""
        for piece in frame_pieces(payload):
            self._sock.sendall(piece)

    def receive(self) -> bytes | None:
        """The next payload; ``None`` when the peer closed between frames. Raises ``FrameError`` and
        ``OSError``.
        """
        while not self._received:
            data = self._sock.recv(_READ)  # as many frames as have arrived, by one system call
            if not data:
                self._reader.end()
                return None
            self._received.extend(self._reader.feed(data))
        return self._received.popleft()
