"""What questions and calls to other machines cost when those are late, gone or moved."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from test_network import OTHER_TOKEN, TOKEN, serving, until
from test_network_hostile import answering

from lycosa.base.model.compatibility import PROTOCOL
from lycosa.base.system.frame_stream import FrameStream
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.connection import ENCODER, Hello, Parcels
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.inquiry import NetworkInquiry
from lycosa.state.exchange.exchange_errors import NoAnswer
from lycosa.state.exchange.exchange_port import Parcel

CREDENTIALS = Credentials(TOKEN)
ANSWER_S = 0.2
PATIENCE_S = 10 * ANSWER_S  # on a busy machine


async def takes_nothing(parcel: Parcel) -> None:
    raise AssertionError("parcels come through a topic")


async def reversed_body(body: bytes) -> bytes:
    return body[::-1]


@asynccontextmanager
async def inquiry(
    crawl: str = "c",
    credentials: Credentials = CREDENTIALS,
    call_s: float = 20.0,
    silent_s: float = 30.0,
) -> AsyncIterator[NetworkInquiry]:
    end = NetworkInquiry(credentials, crawl, answer_s=ANSWER_S, call_s=call_s, silent_s=silent_s)
    try:
        yield end
    finally:
        await end.close()


@asynccontextmanager
async def owner(
    partition: int = 1, address: str = "127.0.0.1:0", crawl: str = "c", value: bytes = b"v"
) -> AsyncIterator[str]:
    async with inquiry(crawl) as end:
        end.receivers.register_partition(partition, takes_nothing, lambda key: value, reversed_body)
        yield await end.open(address)


async def is_found(asking: NetworkInquiry, partition: int = 1, value: bytes = b"v") -> None:
    """Waits until the question is answered with that."""
    async with asyncio.timeout(60):
        while await asking.look_up_keys([(partition, b"C")]) != {b"C": value}:  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def seconds(asking: NetworkInquiry, partition: int = 1) -> float:
    """The duration of a question that is not answered."""
    began = time.monotonic()
    assert await asking.look_up_keys([(partition, b"C")]) == {}
    return time.monotonic() - began


async def none_waits(asking: NetworkInquiry) -> None:
    """A hundred questions would take twenty seconds if each waited for an answer."""
    assert sum([await seconds(asking) for _ in range(100)]) < 50 * ANSWER_S


async def test_a_partition_without_an_address_is_not_asked_and_a_call_waits_for_one() -> None:
    async with inquiry() as asking, owner() as address:
        await none_waits(asking)
        call = asyncio.create_task(asking.call_owner(1, b"ab"))
        await asyncio.sleep(0)
        asking.follow_routes({2: address})
        for _ in range(5):
            await asyncio.sleep(0)
        assert not call.done()
        asking.follow_routes({1: address})
        assert await call == b"ba"
        assert await asking.look_up_keys([(1, b"C"), (2, b"D")]) == {b"C": b"v"}


async def test_a_call_that_gets_no_address_or_no_connection_in_time_says_so() -> None:
    async with inquiry(call_s=0.5) as asking:
        with pytest.raises(NoAnswer, match=r"partition 1 was not answered.*no address"):
            await asking.call_owner(1, b"x")
        async with serving(CREDENTIALS) as port:
            address = port.address
        asking.follow_routes({1: address})
        with pytest.raises(NoAnswer, match=f"partition 1 was not answered.*{address}"):
            await asking.call_owner(1, b"x")


async def test_an_owner_that_moved_is_asked_at_its_new_address() -> None:
    async with inquiry() as asking, owner(value=b"old") as first, owner(value=b"new") as second:
        asking.follow_routes({1: first})
        assert await asking.look_up_keys([(1, b"C")]) == {b"C": b"old"}
        asking.follow_routes({1: second})
        assert await asking.look_up_keys([(1, b"C")]) == {b"C": b"new"}
        assert asking.snapshot() == {second: "connected"}


async def test_a_call_in_flight_to_an_owner_that_moved_ends_without_an_answer() -> None:
    was_called = asyncio.Event()

    async def never(body: bytes) -> bytes:
        was_called.set()
        await asyncio.Event().wait()
        return b""

    async with inquiry() as asking, inquiry() as old:
        old.receivers.register_partition(1, takes_nothing, None, never)
        asking.follow_routes({1: await old.open("127.0.0.1:0")})
        call = asyncio.create_task(asking.call_owner(1, b"x"))
        await was_called.wait()
        asking.follow_routes({})
        with pytest.raises(NoAnswer, match="closed"):
            await call


async def test_an_address_where_nothing_listens_costs_nothing_until_there_is_an_owner() -> None:
    async with serving(CREDENTIALS) as port:
        address = port.address
    async with inquiry() as asking:
        asking.follow_routes({1: address})
        assert await seconds(asking) < PATIENCE_S
        await none_waits(asking)
        assert asking.snapshot()[address].startswith(f"not connected: {address}: ")
        async with owner(address=address):
            await is_found(asking)
        await until(lambda: asking.snapshot()[address] != "connected")
        assert await seconds(asking) < PATIENCE_S
        async with owner(address=address, value=b"next"):
            await is_found(asking, value=b"next")


async def test_an_address_that_accepts_and_says_nothing_costs_the_time_limit_once() -> None:
    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client gives up: Server.wait_closed waits for this

    async with answering(nothing) as address, inquiry() as asking:
        asking.follow_routes({1: address})
        began = time.monotonic()
        await asyncio.gather(*(seconds(asking) for _ in range(20)))
        assert ANSWER_S * 0.9 < time.monotonic() - began < PATIENCE_S
        await none_waits(asking)


_ANSWERING = """
import asyncio, sys
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.inquiry import NetworkInquiry
async def main():
    async def receive(parcel): pass
    end = NetworkInquiry(Credentials(sys.argv[1].encode()), "c")
    end.receivers.register_partition(1, receive, lambda key: b"v")
    print(await end.open("127.0.0.1:0"), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@contextmanager
def owner_process() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _ANSWERING, TOKEN.decode()], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def test_a_process_that_hangs_costs_the_time_limit_once_and_is_asked_again_when_it_wakes() -> (
    None
):
    with owner_process() as (process, address):
        async with inquiry() as asking, owner(2) as other:
            asking.follow_routes({1: address, 2: other})
            await is_found(asking)
            await is_found(asking, 2)
            os.kill(process.pid, signal.SIGSTOP)
            began = time.monotonic()
            answers = await asyncio.gather(
                *(asking.look_up_keys([(1, b"C"), (2, b"D")]) for _ in range(50))
            )
            assert answers == [{b"D": b"v"}] * 50, "the other owner's answers are not lost"
            assert time.monotonic() - began < PATIENCE_S
            assert asking.snapshot() == {address: "late", other: "connected"}
            await none_waits(asking)
            os.kill(process.pid, signal.SIGCONT)
            await is_found(asking)
            assert asking.snapshot()[address] == "connected"


async def test_a_process_that_is_killed_costs_the_time_limit_once() -> None:
    with owner_process() as (process, address):
        async with inquiry() as asking:
            asking.follow_routes({1: address})
            await is_found(asking)
            process.kill()
            process.wait()
            assert sum([await seconds(asking) for _ in range(1000)]) < PATIENCE_S


@pytest.mark.parametrize("fault", ["another crawl", "another token", "no answers", "garbage"])
async def test_a_peer_that_is_none_of_the_crawl_is_no_answer_and_the_state_says_why(
    fault: str,
) -> None:
    async def talk(stream: FrameStream, hello: bytes, peer: str) -> None:
        if fault == "garbage":
            await stream.send(b"\xff\xff\xff")
        while await stream.receive() is not None:
            pass

    async with inquiry() as asking:
        if fault in ("another crawl", "another token"):
            credentials = CREDENTIALS if fault == "another crawl" else Credentials(OTHER_TOKEN)
            async with inquiry("d" if fault == "another crawl" else "c", credentials) as end:
                end.receivers.register_partition(1, takes_nothing, lambda key: b"v")
                asking.follow_routes({1: await end.open("127.0.0.1:0")})
                assert await seconds(asking) < PATIENCE_S
                why = "belongs to crawl" if fault == "another crawl" else "token is not the one"
                await until(lambda: why in str(asking.snapshot()))
                await none_waits(asking)
        else:
            async with serving(CREDENTIALS, talk) as port:
                asking.follow_routes({1: port.address})
                assert await seconds(asking) < PATIENCE_S
                await none_waits(asking)


@pytest.mark.parametrize(
    "hello", [Hello("d"), Hello("c", protocol=99), Parcels([])], ids=["crawl", "protocol", "none"]
)
async def test_a_client_that_is_none_of_the_crawl_is_refused_with_the_reason(
    hello: Hello | Parcels,
) -> None:
    async with owner() as address:
        stream = await connect(address, CREDENTIALS, ENCODER.encode(hello))
        reason = await stream.receive()
        assert reason is not None
        wanted = (
            b"protocol %d" % PROTOCOL
            if getattr(hello, "protocol", 1) == 99
            else b"belongs to crawl"
        )
        assert wanted in reason
        assert await stream.receive() is None
        stream.close()


async def test_parcels_are_refused_because_they_come_through_a_topic() -> None:
    async with owner() as address:
        stream = await connect(address, CREDENTIALS, ENCODER.encode(Hello("c")))
        await stream.send(ENCODER.encode(Parcels([(1, Parcel(0, 1, 1, []))])))
        answer = await stream.receive()
        assert answer is not None and b"go to its topic" in answer
        stream.close()


async def test_after_closing_nothing_is_asked() -> None:
    async with inquiry() as asking, owner() as address:
        asking.follow_routes({1: address})
        await is_found(asking)
        await asking.close()
        assert await seconds(asking) < PATIENCE_S


async def test_workers_that_do_not_answer_for_long_are_reported_until_they_do() -> None:
    async with serving(CREDENTIALS) as port:
        address = port.address
    async with inquiry(silent_s=0.05) as asking:
        asking.follow_routes({1: address})
        assert asking.trouble == ""
        await seconds(asking)
        await until(lambda: asking.trouble != "")
        assert f"1 give none (not connected: {address}: " in asking.trouble
        async with owner(address=address):
            await is_found(asking)
            assert asking.trouble == ""
