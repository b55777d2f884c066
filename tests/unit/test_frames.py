"""Frames: what goes in comes out whole, and a peer that goes wrong is noticed."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import FrameError, FrameReader, FrameSocket, frame_pieces


def encoded(payload: bytes) -> bytes:
    return b"".join(frame_pieces(payload))


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300)), st.integers(1, 50))
def test_reader_gives_the_payloads_whatever_the_pieces(payloads: list[bytes], piece: int) -> None:
    data = b"".join(encoded(payload) for payload in payloads)
    reader, seen = FrameReader(), []
    for start in range(0, len(data), piece):
        seen += reader.feed(data[start : start + piece])
    assert seen == payloads
    reader.end()


def test_reader_refuses_a_length_beyond_the_limit() -> None:
    reader = FrameReader(max_bytes=10)
    assert list(reader.feed(encoded(b"x" * 10))) == [b"x" * 10]
    with pytest.raises(FrameError):
        list(reader.feed(struct.pack(">I", 11)))


@pytest.mark.parametrize("piece", [1, 5, 1000])
def test_the_first_payloads_have_limits_of_their_own(piece: int) -> None:
    reader = FrameReader(max_bytes=100, early_bytes=(10, 20))
    data = b"".join(map(encoded, (b"x" * 10, b"y" * 20, b"z" * 100)))
    seen = []
    for start in range(0, len(data), piece):
        seen += reader.feed(data[start : start + piece])
    assert [len(payload) for payload in seen] == [10, 20, 100]
    for size, before in ((11, 0), (21, 1), (101, 2)):
        reader = FrameReader(max_bytes=100, early_bytes=(10, 20))
        assert len(list(reader.feed(encoded(b"") * before))) == before
        with pytest.raises(FrameError):
            list(reader.feed(encoded(bytes(size))[:4] + b"x"))


def test_blocking_side_ends_with_none_between_frames() -> None:
    left, right = socket.socketpair()
    with left, right:
        ours, theirs = FrameSocket(left), FrameSocket(right)
        ours.send(b"one")
        ours.send(b"")
        left.close()
        assert [theirs.receive() for _ in range(3)] == [b"one", b"", None]


@pytest.mark.parametrize("part", [b"\x00", encoded(b"abcdef")[:4], encoded(b"abcdef")[:7]])
def test_blocking_side_notices_an_end_inside_a_frame(part: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(part)
        left.close()
        with pytest.raises(FrameError):
            FrameSocket(right).receive()


def test_blocking_side_refuses_a_length_beyond_the_limit() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(struct.pack(">I", 100))
        with pytest.raises(FrameError):
            FrameSocket(right, max_bytes=99).receive()


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


@pytest.mark.parametrize("turns", range(6))
async def test_frames_leave_in_the_order_of_the_calls_while_the_stream_opens(turns: int) -> None:
    left, right = map(FrameStream, socket.socketpair())
    sending = [asyncio.create_task(left.send(b"first")), asyncio.create_task(left.send(b"second"))]
    for _ in range(turns):
        await asyncio.sleep(0)
    sending.append(asyncio.create_task(left.send(b"third")))
    received = [await right.receive() for _ in range(3)]
    await asyncio.gather(*sending)
    assert received == [b"first", b"second", b"third"]
    left.close()
    right.close()


async def test_stream_notices_an_end_inside_a_frame() -> None:
    left, right = socket.socketpair()
    stream = FrameStream(right)
    left.sendall(encoded(b"abcdef")[:7])
    left.close()
    with pytest.raises(FrameError):
        await stream.receive()
    stream.close()


async def test_stream_refuses_a_length_beyond_the_limit() -> None:
    left, right = socket.socketpair()
    stream = FrameStream(right, max_bytes=9)
    left.sendall(encoded(bytes(10)))
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


async def test_what_arrives_is_read_no_faster_than_it_is_received() -> None:
    left, right = map(FrameStream, socket.socketpair())
    payloads = [bytes([number]) * 200_000 for number in range(40)]
    sending = asyncio.gather(*(left.send(payload) for payload in payloads))
    assert await right.receive() == payloads[0]
    for _ in range(100):
        await asyncio.sleep(0)
    assert not sending.done(), "eight megabytes wait with the sender, not in our memory"
    assert [await right.receive() for _ in payloads[1:]] == payloads[1:]
    await sending
    left.close()
    assert await right.receive() is None
    right.close()


async def test_frames_that_came_before_the_end_are_received() -> None:
    left, right = map(FrameStream, socket.socketpair())
    await left.send(b"last words")
    left.close()
    with pytest.raises(ConnectionError):
        await left.send(b"more")
    assert [await right.receive(), await right.receive()] == [b"last words", None]
    right.close()


async def test_frames_are_handed_over_as_they_come_and_the_end_is_told_once() -> None:
    left, right = socket.socketpair()
    seen: list[bytes | Exception | None] = []
    ended = asyncio.Event()

    def end(error: Exception | None) -> None:
        seen.append(error)
        ended.set()

    stream = FrameStream(right, on_frame=seen.append, on_end=end)
    await stream.open()
    left.sendall(encoded(b"one") + encoded(b"two"))
    stream.write(b"answer")
    assert FrameSocket(left).receive() == b"answer"
    left.close()
    await ended.wait()
    stream.close()
    assert seen == [b"one", b"two", None]


async def test_the_end_says_that_it_came_inside_a_frame() -> None:
    left, right = socket.socketpair()
    end: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    stream = FrameStream(right, on_frame=lambda payload: None, on_end=end.set_result)
    await stream.open()
    left.sendall(encoded(b"abcdef")[:7])
    left.close()
    assert isinstance(await end, FrameError)


async def test_what_the_peer_said_before_it_died_is_received_although_a_write_fails() -> None:
    left, right = socket.socketpair()
    stream = FrameStream(right)
    await stream.open()
    left.sendall(encoded(b"last") + encoded(b"words"))
    left.close()
    for _ in range(3):
        stream.write(bytes(1000))  # before the loop has looked whether there is something to read
    assert [await stream.receive(), await stream.receive()] == [b"last", b"words"]
    with suppress(ConnectionError):
        assert await stream.receive() is None
    stream.close()


async def test_a_writer_knows_what_its_peer_has_not_read() -> None:
    left, right = map(FrameStream, socket.socketpair())
    await left.send(b"x" * 50_000)
    assert left.unread_bytes >= 50_000
    left.write(b"x" * 300_000)  # more than the kernel keeps
    assert left.unread_bytes >= 350_000
    for length in (50_000, 300_000):
        payload = await right.receive()
        assert payload is not None and len(payload) == length
    assert left.unread_bytes == 0
    left.close()
    assert left.unread_bytes == 0
    right.close()
