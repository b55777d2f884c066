"""What every exchange promises about questions, and about rows of content-seen among its
parcels.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.parcel_items import PartitionKey
from lycosa.cluster.network.credentials import Credentials, TlsFiles
from lycosa.cluster.network.inquiry import NetworkInquiry
from lycosa.cluster.network.sockets import SocketExchange
from lycosa.state.exchange.exchange_errors import CallRefused, ExchangeError, NoAnswer
from lycosa.state.exchange.exchange_port import Handover, Inquiry, Parcel
from lycosa.state.exchange.local import InProcessExchange
from lycosa.state.exchange.outbox import Inbox, Outbox
from lycosa.state.exchange.outbox_sender import OutboxSender
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from tls_server import tls_files

PostAndInquiry = InProcessExchange | SocketExchange
Asking = TypeVar("Asking", covariant=True)


async def takes_nothing(parcel: Parcel) -> None:
    """A receiver that never commits."""
    await asyncio.Event().wait()


class Ends(Generic[Asking]):
    """The asking end, and how to register a partition at the answering one."""

    def __init__(self, asking: Asking, register: Callable[..., None]) -> None:
        self.asking, self.register = asking, register


@asynccontextmanager
async def in_process() -> AsyncIterator[Ends[InProcessExchange]]:
    exchange = InProcessExchange(deadline_s=1.0, call_s=1.0)
    yield Ends(exchange, exchange.receivers.register_partition)
    await exchange.close()


@asynccontextmanager
async def over_sockets() -> AsyncIterator[Ends[SocketExchange]]:
    with tempfile.TemporaryDirectory(prefix="ly") as folder:
        sockets = Path(folder)
        both = [
            SocketExchange(
                sockets / f"w{end}",
                lambda partition: sockets / f"w{partition % 2}",
                "c",
                1.0,
                8,
                answer_s=5.0,
                call_s=1.0,
            )
            for end in (0, 1)
        ]
        for end in both:
            await end.open()
        yield Ends(both[0], both[1].receivers.register_partition)
        for end in both:
            await end.close()


@asynccontextmanager
async def over_network(credentials: Credentials) -> AsyncIterator[Ends[NetworkInquiry]]:
    both = [NetworkInquiry(credentials, "c", answer_s=5.0, call_s=1.0) for _ in range(2)]
    addresses = [await end.open("127.0.0.1:0") for end in both]
    for end in both:
        end.follow_routes({partition: addresses[partition % 2] for partition in range(6)})
    yield Ends(both[0], both[1].receivers.register_partition)
    for end in both:
        await end.close()


@pytest.fixture(params=["in_process", "sockets", "network", "network with TLS"])
async def ends(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ends[Inquiry]]:
    if request.param == "in_process":
        async with in_process() as exchange:
            yield exchange
    elif request.param == "sockets":
        async with over_sockets() as sockets:
            yield sockets
    else:
        tls = TlsFiles(tls_files(tmp_path)) if "TLS" in request.param else None
        async with over_network(Credentials(bytes(range(32)), tls)) as network:
            yield network


@pytest.fixture(params=["in_process", "sockets"])
async def posting(request: pytest.FixtureRequest) -> AsyncIterator[Ends[PostAndInquiry]]:
    """Those that deliver parcels over the same connections."""
    if request.param == "in_process":
        async with in_process() as exchange:
            yield exchange
    else:
        async with over_sockets() as sockets:
            yield sockets


async def test_a_question_is_answered_with_what_each_partition_holds(ends: Ends[Inquiry]) -> None:
    tables = {1: {b"Ca": b"1"}, 3: {b"Cb": b"3", b"Cempty": b""}}
    for number, table in tables.items():
        ends.register(number, takes_nothing, table.get)
    keys: list[PartitionKey] = [(1, b"Ca"), (1, b"Cb"), (3, b"Cb"), (3, b"Cempty"), (3, b"Cnone")]
    assert await ends.asking.look_up_keys(keys[:1] + keys[2:]) == {
        b"Ca": b"1",
        b"Cb": b"3",
        b"Cempty": b"",
        b"Cnone": None,
    }
    assert await ends.asking.look_up_keys([(1, b"Cb")]) == {b"Cb": None}
    assert await ends.asking.look_up_keys([]) == {}


async def test_a_partition_that_nobody_answers_for_is_left_out(ends: Ends[Inquiry]) -> None:
    ends.register(1, takes_nothing, {b"C": b"1"}.get)
    ends.register(3, takes_nothing, None)
    assert await ends.asking.look_up_keys([(1, b"C"), (3, b"D"), (5, b"E")]) == {b"C": b"1"}


async def test_questions_overtake_parcels_that_wait_for_their_commit(
    posting: Ends[PostAndInquiry],
) -> None:
    posting.register(1, takes_nothing, {b"C": b"1"}.get)
    parcels = [
        asyncio.create_task(posting.asking.deliver_parcel(Parcel(0, 1, number, [])))
        for number in range(1, 30)
    ]
    await asyncio.sleep(0)
    for _ in range(20):
        assert await posting.asking.look_up_keys([(1, b"C")]) == {b"C": b"1"}
    assert not any(task.done() for task in parcels)
    for task in parcels:
        task.cancel()
    await asyncio.gather(*parcels, return_exceptions=True)


async def test_many_questions_at_once_each_get_their_own_answer(ends: Ends[Inquiry]) -> None:
    ends.register(1, takes_nothing, lambda key: key[::-1])
    keys = [b"C%d" % number for number in range(500)]
    answers = await asyncio.gather(*(ends.asking.look_up_keys([(1, key)]) for key in keys))
    assert answers == [{key: key[::-1]} for key in keys]


async def test_nobody_there_is_no_answer_within_the_time_given() -> None:
    with tempfile.TemporaryDirectory(prefix="ly") as folder:
        asking = SocketExchange(
            Path(folder) / "w0",
            lambda partition: Path(folder) / f"w{partition}",
            "c",
            answer_s=0.05,
        )
        await asking.open()
        began = time.monotonic()
        assert await asking.look_up_keys([(1, b"C"), (2, b"D")]) == {}
        assert time.monotonic() - began < 20.0
        await asking.close()


async def test_a_worker_of_another_run_does_not_answer() -> None:
    with tempfile.TemporaryDirectory(prefix="ly") as folder:
        route = lambda partition: Path(folder) / f"w{partition}"  # noqa: E731
        both = [SocketExchange(route(end), route, f"run {end}", answer_s=1.0) for end in (0, 1)]
        for end in both:
            await end.open()
        both[1].receivers.register_partition(1, takes_nothing, {b"C": b"1"}.get)
        assert await both[0].look_up_keys([(1, b"C")]) == {}
        for end in both:
            await end.close()


async def test_three_workers_are_asked_at_the_same_time() -> None:
    with tempfile.TemporaryDirectory(prefix="ly") as folder:
        route = lambda partition: Path(folder) / f"w{partition % 3}"  # noqa: E731
        all_ends = [SocketExchange(route(end), route, "c", answer_s=5.0) for end in range(3)]
        for number, end in enumerate(all_ends):
            await end.open()
            end.receivers.register_partition(
                number, takes_nothing, lambda key, number=number: key + b"%d" % number
            )  # type: ignore[misc]
        assert await all_ends[0].look_up_keys([(n, b"C%d" % n) for n in range(3)]) == {
            b"C0": b"C00",
            b"C1": b"C11",
            b"C2": b"C22",
        }
        for end in all_ends:
            await end.close()


# -- calls


async def reversed_body(body: bytes) -> bytes:
    return body[::-1]


async def test_a_call_gets_the_owners_reply_when_its_effect_is_committed(
    ends: Ends[Inquiry],
) -> None:
    committed = asyncio.Event()
    bodies: list[bytes] = []

    async def answering(body: bytes) -> bytes:
        bodies.append(body)
        await committed.wait()
        return b"done " + body

    ends.register(1, takes_nothing, None, answering)
    call = asyncio.create_task(ends.asking.call_owner(1, b"seeds"))
    async with asyncio.timeout(60):
        while not bodies:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    assert not call.done()
    committed.set()
    assert await call == b"done seeds"


async def test_many_calls_at_once_each_get_their_own_reply_beside_parcels_and_questions(
    posting: Ends[PostAndInquiry],
) -> None:
    posting.register(1, takes_nothing, lambda key: key, reversed_body)
    posting.register(3, takes_nothing, lambda key: key, reversed_body)
    parcels = [
        asyncio.create_task(posting.asking.post_parcels([Parcel(0, 1, number, [])]))
        for number in range(1, 9)
    ]
    bodies = [b"%d" % number for number in range(100, 300)]
    calls = asyncio.gather(
        *(
            posting.asking.call_owner(1 + 2 * (number % 2), body)
            for number, body in enumerate(bodies)
        )
    )
    assert await posting.asking.look_up_keys([(1, b"C")]) == {b"C": b"C"}
    assert await calls == [body[::-1] for body in bodies]
    for task in parcels:
        task.cancel()
    await asyncio.gather(*parcels, return_exceptions=True)


async def test_an_error_of_the_owner_is_its_answer_and_nobody_there_is_none(
    ends: Ends[Inquiry],
) -> None:
    async def refusing(body: bytes) -> bytes:
        raise ValueError("not a call")

    with pytest.raises(NoAnswer, match="partition 1 has no owner"):
        await ends.asking.call_owner(1, b"x")
    ends.register(1, takes_nothing)
    with pytest.raises(CallRefused, match="partition 1 answers no calls"):
        await ends.asking.call_owner(1, b"x")
    ends.register(1, takes_nothing, None, refusing)
    with pytest.raises(CallRefused, match=r"partition 1 refused a call.*not a call"):
        await ends.asking.call_owner(1, b"x")


async def test_a_call_that_is_not_answered_in_time_is_an_error_and_repeating_it_gets_the_answer(
    ends: Ends[Inquiry],
) -> None:
    committed = asyncio.Event()
    ended: list[bytes] = []

    async def answering(body: bytes) -> bytes:
        await committed.wait()
        ended.append(body)
        return b"done"

    ends.register(1, takes_nothing, None, answering)
    with pytest.raises(NoAnswer, match=r"within 1.0 s"):
        await ends.asking.call_owner(1, b"x")
    committed.set()
    assert await ends.asking.call_owner(1, b"x") == b"done"
    assert ended == [b"x", b"x"]  # the first one was not cancelled


async def test_a_new_owner_answers_instead_of_the_old_one(ends: Ends[Inquiry]) -> None:
    was_called = asyncio.Event()

    async def never(body: bytes) -> bytes:
        was_called.set()
        await asyncio.Event().wait()
        return b""

    ends.register(1, takes_nothing, None, never)
    waiting = asyncio.create_task(ends.asking.call_owner(1, b"x"))
    await was_called.wait()
    ends.register(1, takes_nothing, None, reversed_body)
    assert await ends.asking.call_owner(1, b"ab") == b"ba"
    await ends.asking.close()
    with pytest.raises(NoAnswer, match="closed"):
        await waiting


# -- rows of content-seen


class Side:
    """A partition with both ends of the exchange; what it took, with how often."""

    def __init__(self, number: int) -> None:
        self.store = MemoryKeyValue()
        self.table = Overlay(self.store)
        self.outbox, self.inbox = (
            Outbox(number, self.table, self.store),
            Inbox(self.table, self.store),
        )
        self.urls: list[str] = []

    async def receive_parcel(self, parcel: Parcel) -> None:
        if self.inbox.is_new(parcel.source, parcel.sequence):
            self.inbox.accept_parcel(parcel.source, parcel.sequence)
            self.urls += [found.url for found in parcel.discovered]
            for key, _ in parcel.contents:
                self.table.put(key, (int(self.table.get(key) or b"0") + 1).__str__().encode())
            self.commit()

    def commit(self) -> None:
        self.store.write(self.table.freeze())
        self.table.settle()


async def test_rows_and_urls_go_through_one_outbox_in_order_and_take_effect_once(
    posting: Ends[PostAndInquiry],
) -> None:
    chance, source, target = random.Random(1), Side(0), Side(1)
    posting.register(1, target.receive_parcel, target.store.get)

    class Lossy:
        """Loses acknowledgements."""

        async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
            handed = await posting.asking.post_parcels(parcels)
            lost = next((number for number in range(handed.count) if chance.random() < 0.4), None)
            return handed if lost is None else Handover(lost, ExchangeError("lost on the way back"))

        async def close(self) -> None:
            """Nothing is held."""

    sender = OutboxSender(source.outbox, Lossy(), lambda _: asyncio.sleep(0))
    for number in range(30):
        source.outbox.enqueue_contents(1, [(b"C%d.%d" % (number, each), b"v") for each in range(3)])
        source.outbox.enqueue(
            1, [Discovered(f"http://a.test/{number}", b"h" * 8, number.to_bytes(8), LinkKind.A, 1)]
        )
        source.commit()
        sender.send_to([1])
    async with asyncio.timeout(60):
        while not sender.is_idle:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    assert target.urls == [f"http://a.test/{number}" for number in range(30)]
    rows = dict(target.store.scan(b"C", b"D"))
    assert len(rows) == 90 and set(rows.values()) == {b"1"}
    await sender.close()


def test_rows_are_divided_into_parcels_and_an_empty_list_is_none() -> None:
    side = Side(0)
    side.outbox.enqueue_contents(4, [])
    side.outbox.enqueue_contents(4, [(b"C%d" % number, b"v") for number in range(1201)])
    side.commit()
    assert [
        (parcel.sequence, len(parcel.contents), parcel.discovered)
        for parcel in side.outbox.pending_parcels(4, 9)
    ] == [
        (1, 500, []),
        (2, 500, []),
        (3, 201, []),
    ]


_ANSWERING = """
import asyncio, sys
from pathlib import Path
from lycosa.cluster.network.sockets import SocketExchange
async def main():
    async def receive(parcel): await asyncio.Event().wait()
    exchange = SocketExchange(Path(sys.argv[1]), lambda partition: Path(), "c")
    exchange.receivers.register_partition(1, receive, lambda key: key * 2)
    await exchange.open()
    print("open", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_another_process_answers_and_one_that_is_killed_and_started_again_does_so_again() -> (
    None
):
    with tempfile.TemporaryDirectory(prefix="ly") as folder:
        route = lambda partition: Path(folder) / f"w{partition}"  # noqa: E731
        asking = SocketExchange(route(0), route, "c", answer_s=0.5)
        await asking.open()
        for _ in range(2):
            process = subprocess.Popen(  # noqa: ASYNC220  a short start
                [sys.executable, "-c", _ANSWERING, str(route(1))], stdout=subprocess.PIPE
            )
            try:
                assert process.stdout is not None and process.stdout.readline() == b"open\n"
                async with asyncio.timeout(60):
                    while (
                        found := await asking.look_up_keys([(1, b"C")])
                    ) == {}:  # a connection that broke is made anew after a moment
                        pass
                assert found == {b"C": b"CC"}
                process.send_signal(signal.SIGKILL)
                process.wait()
                assert await asking.look_up_keys([(1, b"C")]) == {}
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
        await asking.close()
