"""Frames over a connected stream socket: a length of four bytes, big-endian, then the payload.

A receiver gets exactly the payloads that were sent, in order, or learns that it did not. A socket
that ends between two frames gives ``None``. One that ends inside a frame raises ``FrameError``. A
length beyond the limit raises before any of that payload is buffered, so a faulty peer cannot
exhaust our memory. The caller gives payloads their meaning (here always msgspec's MessagePack).

Two classes carry frames. ``FrameSocket`` blocks and is for a process without an event loop.
``frame_stream.FrameStream`` is for an event loop; it is in another module so that the parse child
does not import asyncio. Both use ``frame_pieces`` and ``FrameReader``, which define the format.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

_LENGTH = struct.Struct(">I")
_READ = 64 * 1024

CHUNK = 256 * 1024
"""Size of a payload, in bytes, from which it is sent separately from its length, without a copy."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for unexpected bytes.

msgspec raises Python's own errors for text that is not UTF-8 and for deep nesting.
"""

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Default limit of one payload: larger than any document we fetch, small enough to allocate."""


class FrameError(Exception):
    """The bytes are not frames: a length beyond the limit, or an end inside a frame."""


def frame_pieces(payload: bytes) -> tuple[bytes, ...]:
    """One frame as the byte strings to write one after the other.

    Raises ``FrameError`` for a payload of 4 GiB or more.
    """
    if len(payload) > 0xFFFFFFFF:
        raise FrameError(f"a payload of {len(payload)} bytes is too large for a frame")
    length = _LENGTH.pack(len(payload))
    return (length + payload,) if len(payload) < CHUNK else (length, payload)


class FrameReader:
    """Cuts a stream of bytes into payloads, whatever the pieces in which the bytes arrive.

    ``early_bytes`` has the limits of the first payloads, which come from a peer that has not proved
    who it is; ``max_bytes`` is the limit of all others.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES, early_bytes: Sequence[int] = ()) -> None:
        self._limits = [max_bytes, *reversed(early_bytes)]  # the last one counts now
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
            self._count()
            yield data[size:]  # exactly one frame: the usual case for a small payload
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
                self._count()
                yield payload
        finally:
            # Also if the caller stops early: a payload is never given twice.
            del self._pending[:start]

    def end(self) -> None:
        """Record the end of the stream. Raises ``FrameError`` inside a frame."""
        if self._pending:
            raise FrameError("the peer closed inside a frame")

    def _check(self, length: int) -> None:
        if length > self._limits[-1]:
            raise FrameError(f"frame of {length} bytes; the limit is {self._limits[-1]}")

    def _count(self) -> None:
        if len(self._limits) > 1:
            self._limits.pop()


class FrameSocket:
    """Frames on a connected socket. Both calls block; no other reader may use the socket."""

    def __init__(self, sock: socket.socket, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._sock = sock
        self._reader = FrameReader(max_bytes)
        self._received: deque[bytes] = deque()

    def send(self, payload: bytes) -> None:
        """Send one frame, blocking until the kernel has all of it. Raises ``OSError``."""
        for piece in frame_pieces(payload):
            self._sock.sendall(piece)

    def receive(self) -> bytes | None:
        """The next payload, blocking; ``None`` when the peer closed between frames.

        Raises ``FrameError`` and ``OSError``.
        """
        while not self._received:
            data = self._sock.recv(_READ)  # all frames that have arrived, by one system call
            if not data:
                self._reader.end()
                return None
            self._received.extend(self._reader.feed(data))
        return self._received.popleft()
