"""What every exchange promises: each parcel takes effect once, in order, whatever is lost,
repeated, restarted or killed in between.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.system.frames import frame_pieces
from lycosa.cluster.network.sockets import SocketExchange
from lycosa.state.commit import Commit, CommitLog, PartitionBatch
from lycosa.state.exchange.exchange_errors import (
    ExchangeError,
    ParcelGap,
    ParcelRefused,
    ParcelsStuck,
)
from lycosa.state.exchange.exchange_port import Handover, Parcel, Receiver
from lycosa.state.exchange.local import InProcessExchange
from lycosa.state.exchange.outbox import Inbox, Outbox
from lycosa.state.exchange.outbox_sender import OutboxSender, Stalled
from lycosa.state.kv.kv_port import pairs_of
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.synthetic import run_virtual

Delivering = InProcessExchange | SocketExchange


def frame(payload: bytes) -> bytes:
    return b"".join(frame_pieces(payload))


def found(number: int) -> Discovered:
    return Discovered(f"http://a.test/{number}", b"hosthost", number.to_bytes(8), LinkKind.A, 1)


def parcel(sequence: int, source: int = 0, destination: int = 1) -> Parcel:
    return Parcel(source, destination, sequence, [found(sequence)])


async def reached(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  conditions of another process have no event
            await asyncio.sleep(0.002)


async def delivered(exchange: Delivering, parcel: Parcel) -> None:
    """Tries again until it is."""
    while True:
        try:
            return await exchange.deliver_parcel(parcel)
        except ExchangeError:
            await asyncio.sleep(0)


class Partition:
    """A partition with a table, both ends of the exchange, and commits that happen when the test
    says so.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.store = MemoryKeyValue()
        self.table = Overlay(self.store)
        self.inbox, self.outbox = (
            Inbox(self.table, self.store),
            Outbox(number, self.table, self.store),
        )
        self._commit = asyncio.Event()
        self.effects: list[str] = []

    async def receive_parcel(self, parcel: Parcel) -> None:
        if self.inbox.is_new(parcel.source, parcel.sequence, parcel.acknowledged):
            self.inbox.accept_parcel(parcel.source, parcel.sequence)
            self.effects += [item.url for item in parcel.discovered]
        if not self.inbox.is_committed(parcel.source, parcel.sequence):
            await self._commit.wait()

    def commit(self) -> None:
        self.store.write(self.table.freeze())
        self.table.settle()
        self._commit.set()
        self._commit = asyncio.Event()


@pytest.fixture
def sockets() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(
        prefix="ly"
    ) as folder:  # short: a socket's address has at most 100 bytes
        yield Path(folder)


class Pair:
    """Two ends: the sender's exchange, and the one that partition 1 is registered with."""

    def __init__(self, sending: Delivering, register: Callable[[int, Receiver], None]) -> None:
        self.sending, self.register = sending, register


@pytest.fixture(params=["in_process", "sockets"])
async def pair(request: pytest.FixtureRequest, sockets: Path) -> AsyncIterator[Pair]:
    if request.param == "in_process":
        exchange = InProcessExchange(deadline_s=1.0)
        yield Pair(exchange, exchange.receivers.register_partition)
        await exchange.close()
        return
    ends = [
        SocketExchange(
            sockets / f"w{end}", lambda partition: sockets / f"w{partition}", "crawl-1", 1.0, 8
        )
        for end in (0, 1)
    ]
    for end in ends:
        await end.open()
    yield Pair(ends[0], ends[1].receivers.register_partition)
    for end in ends:
        await end.close()


async def test_delivery_ends_when_the_receiver_has_committed_and_not_before(pair: Pair) -> None:
    receiver = Partition(1)
    pair.register(1, receiver.receive_parcel)
    delivery = asyncio.create_task(pair.sending.deliver_parcel(parcel(1)))
    await reached(lambda: bool(receiver.effects))
    assert not delivery.done()
    receiver.commit()
    await delivery


async def test_parcels_arrive_in_the_order_in_which_they_were_given(pair: Pair) -> None:
    receiver = Partition(1)
    pair.register(1, receiver.receive_parcel)
    deliveries = [
        asyncio.create_task(pair.sending.deliver_parcel(parcel(number))) for number in range(1, 9)
    ]
    await reached(lambda: len(receiver.effects) == 8)
    receiver.commit()
    await asyncio.gather(*deliveries)
    assert receiver.effects == [f"http://a.test/{number}" for number in range(1, 9)]


async def test_a_repeated_parcel_changes_nothing_and_is_acknowledged_when_committed(
    pair: Pair,
) -> None:
    receiver = Partition(1)
    pair.register(1, receiver.receive_parcel)
    first, again = (asyncio.create_task(pair.sending.deliver_parcel(parcel(1))) for _ in range(2))
    await reached(lambda: bool(receiver.effects))
    assert not again.done()
    receiver.commit()
    await asyncio.gather(first, again)
    await pair.sending.deliver_parcel(parcel(1))
    assert receiver.effects == ["http://a.test/1"]


async def test_a_parcel_beyond_a_gap_is_refused(pair: Pair) -> None:
    receiver = Partition(1)
    pair.register(1, receiver.receive_parcel)
    with pytest.raises(ExchangeError, match="parcel 2 from partition 0 came after 0"):
        await pair.sending.deliver_parcel(parcel(2))
    assert receiver.effects == []


async def test_a_parcel_whose_forerunners_were_acknowledged_and_are_lost_is_told_from_one_that_is_early(
    pair: Pair,
) -> None:
    receiver = Partition(1)
    pair.register(1, receiver.receive_parcel)
    early = parcel(4)
    with pytest.raises(ParcelRefused, match="parcel 4 from partition 0 came after 0"):
        await pair.sending.deliver_parcel(early)
    with pytest.raises(
        ParcelRefused,
        match=(
            "has taken 0 parcels from partition 0, of which 3 were acknowledged: commits of the"
            " receiving"
        ),
    ):
        await pair.sending.deliver_parcel(msgspec.structs.replace(early, acknowledged=3))
    assert receiver.effects == []


async def test_what_an_outbox_sends_names_the_last_parcel_that_was_acknowledged(pair: Pair) -> None:
    source, target = Partition(0), Partition(1)
    for number in range(5):
        source.outbox.enqueue(1, [found(number)])
    source.commit()
    assert [(each.sequence, each.acknowledged) for each in source.outbox.pending_parcels(1, 2)] == [
        (1, 0),
        (2, 0),
    ]
    source.outbox.acknowledge(1, 2)
    assert [(each.sequence, each.acknowledged) for each in source.outbox.pending_parcels(1, 2)] == [
        (3, 2),
        (4, 2),
    ]
    source.commit()
    again = Outbox(0, source.table, source.store)  # after a restart the rows say it
    assert [(each.sequence, each.acknowledged) for each in again.pending_parcels(1, 9)] == [
        (3, 2),
        (4, 2),
        (5, 2),
    ]
    assert not target.inbox.is_new(0, 0)


def trouble(
    answer: Callable[[Parcel], Awaitable[None]], seconds: float
) -> tuple[list[Stalled], list[BaseException]]:
    """What a sender says after so long of having a parcel answered like this, and what ended it;
    in virtual time.
    """

    async def main() -> tuple[list[Stalled], list[BaseException]]:
        source, failures = Partition(3), list[BaseException]()
        source.outbox.enqueue(6, [found(1)])
        source.commit()
        sender = OutboxSender(
            source.outbox, Answering(answer), asyncio.sleep, on_failure=failures.append
        )
        sender.send_to([6])
        await asyncio.sleep(seconds)
        stalled = sender.stalled()
        await sender.close()
        return stalled, failures

    return run_virtual(main())


class Answering:
    """An exchange that treats every parcel alike."""

    def __init__(self, answer: Callable[[Parcel], Awaitable[None]]) -> None:
        self._answer = answer

    async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
        try:
            await self._answer(parcels[0])
        except ExchangeError as error:
            return Handover(0, error)
        return Handover(len(parcels))

    async def close(self) -> None:
        """Nothing is held."""


def test_a_worker_that_cannot_be_reached_is_waited_for_and_it_is_said() -> None:
    async def unreachable(parcel: Parcel) -> None:
        await asyncio.sleep(30.0)
        raise ExchangeError("no acknowledgement from w1 within 30 s")

    stalled, failures = trouble(unreachable, 5000.0)
    assert failures == []
    [each] = stalled
    assert (each.source, each.destination, each.sequence, each.why) == (
        3,
        6,
        1,
        "no acknowledgement from w1 within 30 s",
    )
    assert 4900.0 < each.seconds < 5000.0


def test_a_parcel_that_is_refused_for_ten_minutes_is_a_failure_that_names_it() -> None:
    async def refused(parcel: Parcel) -> None:
        raise ParcelRefused("partition 6 has no owner here")

    stalled, failures = trouble(refused, 590.0)
    assert (len(stalled), failures) == (1, [])
    stalled, failures = trouble(refused, 620.0)
    assert stalled == []
    [error] = failures
    assert isinstance(error, ParcelsStuck)
    assert "parcel 1 from partition 3 was refused by partition 6 for 60" in str(
        error
    ) and "has no owner here" in str(error)


async def test_a_partition_without_owner_is_an_error(pair: Pair) -> None:
    with pytest.raises(ExchangeError, match="partition 1 has no owner"):
        await pair.sending.deliver_parcel(parcel(1))


async def test_an_error_of_the_receiver_reaches_the_sender_and_later_parcels_pass(
    pair: Pair,
) -> None:
    taken: list[int] = []

    async def receive(parcel: Parcel) -> None:
        if parcel.sequence == 1:
            raise ValueError("no room")
        taken.append(parcel.sequence)

    pair.register(1, receive)
    with pytest.raises(ExchangeError, match=r"refused parcel 1.*no room"):
        await pair.sending.deliver_parcel(parcel(1))
    await pair.sending.deliver_parcel(parcel(2))
    assert taken == [2]


async def test_a_receiver_that_does_not_commit_runs_into_the_deadline_and_is_not_cancelled(
    pair: Pair,
) -> None:
    receiver = Partition(1)
    ended: list[bool] = []

    async def receive(parcel: Parcel) -> None:
        await receiver.receive_parcel(parcel)
        ended.append(True)

    pair.register(1, receive)
    with pytest.raises(ExchangeError, match=r"within 1.0 s"):
        await pair.sending.deliver_parcel(parcel(1))
    receiver.commit()
    await reached(lambda: bool(ended))


async def test_closing_ends_what_is_under_way(pair: Pair) -> None:
    receiver = Partition(1)
    pair.register(1, receiver.receive_parcel)
    delivery = asyncio.create_task(pair.sending.deliver_parcel(parcel(1)))
    await reached(lambda: bool(receiver.effects))
    await pair.sending.close()
    with pytest.raises(ExchangeError):
        await delivery


async def test_a_sender_empties_the_outbox_through_refusals_and_lost_answers(pair: Pair) -> None:
    chance, source, target = random.Random(7), Partition(0), Partition(1)

    async def receive(parcel: Parcel) -> None:
        if chance.random() < 0.2:
            raise OSError("before")
        await target.receive_parcel(parcel)
        if chance.random() < 0.2:
            raise OSError("after")

    pair.register(1, receive)
    for number in range(40):
        source.outbox.enqueue(1, [found(number)])
    source.commit()
    sender = OutboxSender(source.outbox, pair.sending, lambda delay_s: asyncio.sleep(0), window=5)
    sender.send_to(source.outbox.destinations())
    async with asyncio.timeout(60):
        while not sender.is_idle:
            target.commit()
            await asyncio.sleep(0.001)
    assert target.effects == [f"http://a.test/{number}" for number in range(40)]
    assert sender.failures > 0
    source.commit()
    assert list(source.store.scan(b"O\x00\x00\x00\x01\x00", b"O\x00\x00\x00\x02")) == []
    assert source.outbox.destinations() == []


async def test_parcels_that_are_not_committed_are_not_sent(pair: Pair) -> None:
    source, target = Partition(0), Partition(1)
    pair.register(1, target.receive_parcel)
    sender = OutboxSender(source.outbox, pair.sending, asyncio.sleep)
    source.outbox.enqueue(1, [found(1)])
    sender.send_to([1])
    await reached(lambda: sender.is_idle)
    assert (target.effects, source.outbox.destinations()) == ([], [])


async def test_sockets_keep_at_most_a_window_unanswered(sockets: Path) -> None:
    ends = [
        SocketExchange(
            sockets / f"w{end}", lambda partition: sockets / f"w{partition}", "c", 5.0, 4
        )
        for end in (0, 1)
    ]
    for end in ends:
        await end.open()
    receiver = Partition(1)
    ends[1].receivers.register_partition(1, receiver.receive_parcel)
    deliveries = [
        asyncio.create_task(ends[0].deliver_parcel(parcel(number))) for number in range(1, 11)
    ]
    await reached(lambda: len(receiver.effects) == 4)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (len(receiver.effects), ends[0].snapshot()) == (4, {"w1": 4})
    while not all(delivery.done() for delivery in deliveries):
        receiver.commit()
        await asyncio.sleep(0.001)
    assert len(receiver.effects) == 10
    for end in ends:
        await end.close()


async def test_sockets_reach_a_worker_that_starts_later_and_one_that_starts_again(
    sockets: Path,
) -> None:
    sending = SocketExchange(sockets / "w0", lambda partition: sockets / f"w{partition}", "c", 10.0)
    receiver = Partition(1)
    for number in (1, 2):
        delivery = asyncio.create_task(delivered(sending, parcel(number)))
        await asyncio.sleep(0)
        receiving = SocketExchange(sockets / "w1", lambda partition: sockets / "w0", "c")
        receiving.receivers.register_partition(1, receiver.receive_parcel)
        await receiving.open()
        await reached(lambda number=number: len(receiver.effects) == number)  # type: ignore[misc]
        receiver.commit()
        await delivery
        await receiving.close()
        assert not (sockets / "w1").exists()
    await sending.close()


async def test_sockets_hear_nobody_from_another_run(sockets: Path) -> None:
    ends = [
        SocketExchange(
            sockets / f"w{end}",
            lambda partition: sockets / f"w{partition}",
            f"crawl run {end}",
            1.0,
        )
        for end in (0, 1)
    ]
    await ends[1].open()
    receiver = Partition(1)
    ends[1].receivers.register_partition(1, receiver.receive_parcel)
    with pytest.raises(ExchangeError, match=r"belongs to crawl and run crawl run 1|was lost"):
        await ends[0].deliver_parcel(parcel(1))
    assert receiver.effects == []
    for end in ends:
        await end.close()


@pytest.mark.parametrize(
    "rubbish",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        frame(b"\x93\x01"),
        frame(b"\x92\x00\xa1c") + frame(b"\xc0"),
        b"\xff\xff\xff\xff",
    ],
)
async def test_a_visitor_who_does_not_speak_the_language_is_closed_and_harms_nobody(
    sockets: Path, rubbish: bytes
) -> None:
    ends = [
        SocketExchange(sockets / f"w{end}", lambda partition: sockets / f"w{partition}", "c", 5.0)
        for end in (0, 1)
    ]
    await ends[1].open()
    reader, writer = await asyncio.open_unix_connection(sockets / "w1")
    writer.write(rubbish)
    writer.write_eof()
    assert b"refused" not in await reader.read()
    writer.close()
    receiver = Partition(1)
    ends[1].receivers.register_partition(1, receiver.receive_parcel)
    delivery = asyncio.create_task(ends[0].deliver_parcel(parcel(1)))
    await reached(lambda: bool(receiver.effects))
    receiver.commit()
    await delivery
    for end in ends:
        await end.close()


def test_an_address_that_is_too_long_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="longer than the 100 bytes"):
        SocketExchange(Path("/" + "x" * 100), lambda partition: Path(), "c")


def test_long_lists_are_divided_into_parcels_and_numbered_per_destination() -> None:
    partition = Partition(3)
    partition.outbox.enqueue(1, [found(number) for number in range(1200)])
    partition.outbox.enqueue(2, [found(5)])
    partition.outbox.enqueue(1, [found(6)])
    partition.outbox.enqueue(4, [])
    assert partition.outbox.pending_parcels(1, 10) == []
    partition.commit()
    assert [
        (sent.sequence, len(sent.discovered)) for sent in partition.outbox.pending_parcels(1, 10)
    ] == [
        (1, 500),
        (2, 500),
        (3, 200),
        (4, 1),
    ]
    assert [sent.sequence for sent in partition.outbox.pending_parcels(1, 2, after=1)] == [2, 3]
    assert partition.outbox.pending_parcels(2, 10) == [Parcel(3, 2, 1, [found(5)])]
    assert partition.outbox.destinations() == [1, 2]


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.sampled_from(
            [
                "enqueue",
                "commit_source",
                "commit_target",
                "send",
                "send_late",
                "crash_source",
                "crash_target",
                "acknowledge",
            ]
        ),
        max_size=60,
    )
)
def test_whatever_crashes_each_committed_parcel_takes_effect_once(steps: list[str]) -> None:
    """The rows alone, without an exchange: the target's committed effects are a prefix of the
    source's committed parcels.
    """
    ends = [Ends(), Ends()]
    source, target = ends
    number = 0
    unanswered: list[int] = []
    for step in [
        *steps,
        "commit_source",
        "crash_source",
        *["send", "commit_target", "acknowledge", "commit_source"] * 60,
    ]:
        if step == "enqueue":
            number += 1
            source.outbox.enqueue(1, [found(number)])
            source.table.put(b"U%06d" % number, b"")
        elif step.startswith("send"):
            for sent in source.outbox.pending_parcels(1, 3, after=0 if step == "send" else 1):
                try:
                    if target.inbox.is_new(0, sent.sequence):
                        target.inbox.accept_parcel(0, sent.sequence)
                        target.table.put(
                            b"U%06d" % int(sent.discovered[0].url[14:]), target.count()
                        )
                except ParcelGap:
                    break
        elif step == "acknowledge":
            unanswered = [
                sent.sequence
                for sent in source.outbox.pending_parcels(1, 3)
                if target.inbox.is_committed(0, sent.sequence)
            ]
            for sequence in unanswered:
                source.outbox.acknowledge(1, sequence)
        elif step.startswith("commit"):
            ends["target" in step].commit()
        else:
            ends["target" in step].crash()
    sent_urls = [key for key, _ in source.store.scan(b"U", b"V")]
    received = list(target.store.scan(b"U", b"V"))
    assert [key for key, _ in received] == sent_urls
    assert sorted(value for _, value in received) == [value for _, value in received]
    assert list(source.store.scan(b"O\x00\x00\x00\x01\x00", b"O\x00\x00\x00\x02")) == []


class Ends:
    """A table with both ends; a crash forgets what is not committed."""

    def __init__(self) -> None:
        self.store = MemoryKeyValue()
        self._effects = 0
        self.crash()

    def crash(self) -> None:
        self.table = Overlay(self.store)
        self.inbox, self.outbox = Inbox(self.table, self.store), Outbox(0, self.table, self.store)

    def commit(self) -> None:
        self.store.write(self.table.freeze())
        self.table.settle()

    def count(self) -> bytes:
        self._effects += 1
        return b"%06d" % self._effects


# A worker with one partition, whose table is rebuilt from its commit log at the start. Its effects
# are counters per URL, so that a parcel that took effect twice would show.
WORKER = """
import asyncio, sys
from pathlib import Path
from lycosa.state.commit import CommitLog, Commit, Mark, PartitionBatch
from lycosa.cluster.network.sockets import SocketExchange
from lycosa.state.exchange.outbox import Inbox
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay

async def main(folder, sockets):
    log, store = CommitLog(folder, 1), MemoryKeyValue()
    for record in log.records():
        for batch in record.batches:
            store.write(batch.writes)
    table = Overlay(store)
    inbox = Inbox(table, store)
    committed = asyncio.Event()
    async def receive(parcel):
        if inbox.is_new(parcel.source, parcel.sequence):
            inbox.accept_parcel(parcel.source, parcel.sequence)
            for item in parcel.discovered:
                key = b"U" + item.url.encode()
                table.put(key, (int.from_bytes(table.get(key) or b"") + 1).to_bytes(4))
        while not inbox.is_committed(parcel.source, parcel.sequence):
            await committed.wait()
    exchange = SocketExchange(sockets / "w1", lambda partition: sockets / "w0", "c")
    exchange.receivers.register_partition(1, receive)
    await exchange.open()
    print("ready", flush=True)
    while True:
        await asyncio.sleep(0.003)
        if table.open_writes:
            writes = table.freeze()
            record = Commit(term=1, sequence=log.next_sequence, wall=0.0, batches=[PartitionBatch(1, writes)])
            await asyncio.to_thread(log.append, record)
            store.write(writes)
            table.settle()
            committed.set(); committed.clear()

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


async def test_two_processes_lose_nothing_and_repeat_nothing_when_the_receiver_is_killed(
    tmp_path: Path, sockets: Path
) -> None:
    chance, source, parcels = random.Random(3), Partition(0), 400
    sending = SocketExchange(sockets / "w0", lambda partition: sockets / "w1", "c", 20.0)
    sender = OutboxSender(
        source.outbox, sending, lambda delay_s: asyncio.sleep(delay_s / 10), window=6
    )
    for number in range(parcels):
        source.outbox.enqueue(1, [found(number * 3 + extra) for extra in range(3)])
    source.commit()
    sender.send_to([1])
    kills = 0
    while True:
        process = start(tmp_path, sockets)
        stop_below = parcels * (5 - kills) // 6 + chance.randrange(20) if kills < 5 else 0
        await reached(lambda below=stop_below: sender.is_idle or 0 < below >= left(source))  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.wait()
        if sender.is_idle:
            break
        kills += 1
    await sending.close()
    assert kills >= 4
    counts = replayed(tmp_path)
    assert counts == {f"http://a.test/{number}": 1 for number in range(parcels * 3)}
    assert sender.failures > 0


def start(folder: Path, sockets: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-W", "error", "-c", WORKER, folder, sockets])


def left(source: Partition) -> int:
    """Parcels that are not acknowledged."""
    return sum(1 for _ in source.table.scan(b"O\x00\x00\x00\x01\x00", b"O\x00\x00\x00\x02"))


def replayed(folder: Path) -> dict[str, int]:
    """How often each URL took effect, from the killed worker's log."""
    log = CommitLog(folder, 1)
    table = dict(pair for record in log.records() for pair in writes(record))
    log.close()
    return {
        key[1:].decode(): int.from_bytes(value or b"")
        for key, value in table.items()
        if key.startswith(b"U")
    }


def writes(record: Commit) -> list[tuple[bytes, bytes | None]]:
    batches: list[PartitionBatch] = record.batches
    return [pair for batch in batches for pair in pairs_of(batch.writes)]
