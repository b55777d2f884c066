"""Frames: what goes in comes out whole, and a peer that goes wrong is noticed."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.system.frame_stream import FrameStream
from lycosa.system.wire import FrameError, FrameReader, encode_frame, recv_frame, send_frame


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300)), st.integers(1, 50))
def test_reader_gives_the_payloads_whatever_the_pieces(payloads: list[bytes], piece: int) -> None:
    data = b"".join(map(encode_frame, payloads))
    reader, seen = FrameReader(), []
    for start in range(0, len(data), piece):
        seen += reader.feed(data[start : start + piece])
    assert seen == payloads
    assert reader.is_between_frames


def test_reader_refuses_a_length_beyond_the_limit() -> None:
    reader = FrameReader(max_bytes=10)
    assert list(reader.feed(encode_frame(b"x" * 10))) == [b"x" * 10]
    with pytest.raises(FrameError):
        list(reader.feed(struct.pack(">I", 11)))


def test_blocking_side_ends_with_none_between_frames() -> None:
    left, right = socket.socketpair()
    with left, right:
        send_frame(left, b"one")
        send_frame(left, b"")
        left.close()
        assert [recv_frame(right), recv_frame(right), recv_frame(right)] == [b"one", b"", None]


@pytest.mark.parametrize(
    "part", [b"\x00", encode_frame(b"abcdef")[:4], encode_frame(b"abcdef")[:7]]
)
def test_blocking_side_notices_an_end_inside_a_frame(part: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(part)
        left.close()
        with pytest.raises(FrameError):
            recv_frame(right)


def test_blocking_side_refuses_a_length_beyond_the_limit() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(struct.pack(">I", 100))
        with pytest.raises(FrameError):
            recv_frame(right, max_bytes=99)


async def test_streams_carry_frames_both_ways() -> None:
    left, right = map(FrameStream, socket.socketpair())
    big = bytes(3_000_000)
    sending = asyncio.gather(left.send(b"small"), left.send(big), left.send(b""))
    assert [await right.receive() for _ in range(3)] == [b"small", big, b""]
    await sending
    await right.send(b"back")
    assert await left.receive() == b"back"
    left.close()
    assert await right.receive() is None
    right.close()
    right.close()


async def test_concurrent_senders_do_not_mix_their_frames() -> None:
    left, right = map(FrameStream, socket.socketpair())
    payloads = [bytes([number]) * (number * 20_000) for number in range(20)]
    sending = asyncio.gather(*(left.send(payload) for payload in payloads))
    received = [await right.receive() for _ in payloads]
    await sending
    assert sorted(filter(None, received)) == sorted(filter(None, payloads))
    left.close()
    right.close()


async def test_stream_notices_an_end_inside_a_frame() -> None:
    left, right = socket.socketpair()
    stream = FrameStream(right)
    left.sendall(encode_frame(b"abcdef")[:7])
    left.close()
    with pytest.raises(FrameError):
        await stream.receive()
    stream.close()


async def test_stream_refuses_a_length_beyond_the_limit() -> None:
    left, right = socket.socketpair()
    stream = FrameStream(right, max_bytes=9)
    left.sendall(encode_frame(bytes(10)))
    with pytest.raises(FrameError):
        await stream.receive()
    stream.close()
    left.close()


async def test_closed_stream_sends_nothing() -> None:
    left, right = socket.socketpair()
    stream = FrameStream(right)
    stream.close()
    assert await stream.receive() is None
    with pytest.raises(ConnectionError):
        await stream.send(b"x")
    left.close()
