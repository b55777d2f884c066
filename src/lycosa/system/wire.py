"""Frames over a connected stream socket: a length of four bytes, big-endian, then the payload.

The parse child and the exchange both use them. A receiver gets exactly the payloads that were
sent, in order, or learns that it did not. A socket that ends between two frames gives ``None``. One
that ends inside a frame raises ``FrameError``. A length beyond the limit raises before any of that
payload is buffered, so a faulty peer cannot exhaust our memory. The caller gives payloads their
meaning (here always msgspec's MessagePack).

A child process has no event loop, so ``send_frame`` and ``recv_frame`` block. Frames for an event
loop are in ``frame_stream``, so that the child does not import asyncio.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import msgspec

LENGTH = struct.Struct(">I")
CHUNK = 256 * 1024  # bytes; a payload from this size on is sent separately, without copying it
_READ = 64 * 1024

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for unexpected bytes.

msgspec raises Python's own errors for text that is not UTF-8 and for deep nesting.
"""

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Default limit of one payload: larger than any document we fetch, small enough to allocate."""


class FrameError(Exception):
    """The bytes are not frames: a length beyond the limit, or an end inside a frame."""


def encode_frame(payload: bytes) -> bytes:
    """The bytes of one frame. Raises ``FrameError`` for a payload of 4 GiB or more."""
    if len(payload) > 0xFFFFFFFF:
        raise FrameError(f"a payload of {len(payload)} bytes is too large for a frame")
    return LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts a stream of bytes into payloads, whatever the pieces in which the bytes arrive."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes and yield each payload that they complete.

        Raises ``FrameError`` for a length beyond the limit.
        """
        if (
            not self._pending
            and len(data) > LENGTH.size
            and LENGTH.unpack_from(data)[0] == len(data) - LENGTH.size
        ):
            check_length(len(data) - LENGTH.size, self._max_bytes)
            yield data[LENGTH.size :]  # exactly one frame: the usual case for a small payload
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
    """Send one frame, blocking until the kernel has all of it."""
    if len(payload) < CHUNK:
        sock.sendall(encode_frame(payload))
    else:  # avoids copying a large payload only to prepend four bytes
        sock.sendall(LENGTH.pack(len(payload)))
        sock.sendall(payload)


def recv_frame(sock: socket.socket, max_bytes: int = MAX_FRAME_BYTES) -> bytes | None:
    """Receive one payload, blocking; ``None`` when the peer closed between frames.

    Raises ``FrameError`` and ``OSError``.
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
    """Yield payloads as they arrive, blocking, until the peer closes.

    No other reader may use the socket. Errors as in ``recv_frame``. One system call returns all
    frames that have arrived, where ``recv_frame`` makes two calls for each.
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
    """Raise ``FrameError`` for a length beyond the limit."""
    if length > max_bytes:
        raise FrameError(f"frame of {length} bytes; the limit is {max_bytes}")
