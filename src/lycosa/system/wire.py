"""Frames over a connected stream socket: four bytes of big-endian length, then that many bytes of
payload.

The parse child and the exchange both talk this way. The promise is that a receiver gets exactly the
payloads that were sent, in order, or learns that it did not: a socket that ends between two frames
gives ``None``, one that ends inside a frame raises ``FrameError``, and a length beyond the limit
raises before a byte of that payload is buffered, so that a peer which went wrong cannot take our
memory. What a payload means is the caller's business (msgspec's MessagePack here).

A child process has no event loop: ``send_frame`` and ``recv_frame`` block. What needs a loop is in
``frame_stream``, so that the child does not import asyncio.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import msgspec

LENGTH = struct.Struct(">I")
CHUNK = 256 * 1024  # bytes; a longer payload is sent apart from its length, without a copy of it
_READ = 64 * 1024

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises when bytes are not what was expected: msgspec raises Python's own for
text not in UTF-8 and for deep nesting.
"""

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Default limit of one payload: larger than any document we fetch, small enough to allocate."""


class FrameError(Exception):
    """The bytes are not frames: a length beyond the limit, or an end inside a frame."""


def encode_frame(payload: bytes) -> bytes:
    """The bytes of one frame. Raises ``FrameError`` when the payload does not fit a length of
    four bytes.
    """
    if len(payload) > 0xFFFFFFFF:
        raise FrameError(f"payload of {len(payload)} bytes")
    return LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts a stream of bytes into payloads. Bytes go in by ``feed`` in any pieces; ``feed``
    yields each payload that is complete.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Adds bytes; gives the payloads that they complete. Raises ``FrameError`` for a length
        beyond the limit.
        """
        if (
            not self._pending
            and len(data) > LENGTH.size
            and LENGTH.unpack_from(data)[0] == len(data) - LENGTH.size
        ):
            check_length(len(data) - LENGTH.size, self._max_bytes)
            yield data[LENGTH.size :]  # one whole frame, which is what a small answer comes as
            return
        self._pending += data
        start = 0
        try:
            while len(self._pending) - start >= LENGTH.size:
                (length,) = LENGTH.unpack_from(self._pending, start)
                check_length(length, self._max_bytes)
                end = start + LENGTH.size + length
                if len(self._pending) < end:
                    break
                payload = bytes(memoryview(self._pending)[start + LENGTH.size : end])
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
    if len(payload) < CHUNK:
        sock.sendall(encode_frame(payload))
    else:  # no copy of a large body for the sake of four bytes
        sock.sendall(LENGTH.pack(len(payload)))
        sock.sendall(payload)


def recv_frame(sock: socket.socket, max_bytes: int = MAX_FRAME_BYTES) -> bytes | None:
    """Receives one payload, blocking; ``None`` when the peer closed between frames. Raises
    ``FrameError`` and ``OSError``.
    """
    head = _recv_exactly(sock, LENGTH.size)
    if head is None:
        return None
    (length,) = LENGTH.unpack(head)
    check_length(length, max_bytes)
    payload = _recv_exactly(sock, length)
    if payload is None:
        raise FrameError("the peer closed inside a frame")
    return bytes(payload)


def received_frames(sock: socket.socket) -> Iterator[bytes]:
    """Payloads as they come, blocking, until the peer closes. Nobody else may read from the socket.
    Errors as in ``recv_frame``.

    One call of the system gives as many of them as have arrived, where ``recv_frame`` takes two for
    each.
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


def check_length(length: int, max_bytes: int) -> None:
    """Raises ``FrameError`` for a payload beyond the limit."""
    if length > max_bytes:
        raise FrameError(f"frame of {length} bytes; the limit is {max_bytes}")
