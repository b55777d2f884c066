"""Histories of parcels between a few partitions in virtual time: processes that crash or are
replaced while the old one runs on, commits at any moment, and a way that loses, repeats and delays.
What is committed is compared after every step.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.state.exchange.exchange_errors import ExchangeError, ParcelGap
from lycosa.state.exchange.exchange_port import Handover, Inbound, Parcel, Post
from lycosa.state.exchange.local import InProcessExchange
from lycosa.state.exchange.outbox import Inbox, Outbox
from lycosa.state.exchange.outbox_sender import OutboxSender
from lycosa.state.exchange.topic import MemoryTopics, TopicPost
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.synthetic import run_virtual

SOURCES, DESTINATION = (0, 1), 9
PARTIES = (*SOURCES, DESTINATION)
KINDS = ("", "lost", "lost and late", "unanswered", "answered late", "lands late", "twice", "never")
Wrap = Callable[[Post], Post]

Step = tuple[str, int]
"""``enqueue``, ``commit``, ``crash``, ``replace`` with a party, ``wait`` with tenths of a
second, ``fault`` with a kind of the next.
"""


def found(source: int, number: int) -> Discovered:
    return Discovered(
        f"http://{source}.test/{number}", b"hosthost", number.to_bytes(8), LinkKind.A, 1
    )


def copied(store: MemoryKeyValue) -> MemoryKeyValue:
    """What a new process restores: the old one goes on with its own."""
    new = MemoryKeyValue()
    new.write(list(store.scan(b"\x00", b"\xff")))
    return new


class Source:
    """One process of a partition that sends."""

    def __init__(self, number: int, store: MemoryKeyValue, post: Post) -> None:
        self.store, self.table = store, Overlay(store)
        self.outbox = Outbox(number, self.table, store)
        self.sender = OutboxSender(self.outbox, post, asyncio.sleep, window=4)
        self.sender.send_to(self.outbox.destinations())

    def commit(self) -> None:
        self.store.write(self.table.freeze())
        self.table.settle()
        self.sender.send_to([DESTINATION])


class Target:
    """One process of the partition that receives; its effects are rows, so that one that is
    repeated or lost shows.
    """

    def __init__(self, store: MemoryKeyValue, inbound: Inbound | None) -> None:
        self.store, self.table = store, Overlay(store)
        self.inbox = Inbox(self.table, store, DESTINATION)
        self.position = int.from_bytes(store.get(b"P") or b"")
        self.waiters: list[asyncio.Future[None]] = []
        self.failures: list[BaseException] = []
        self.reading = (
            asyncio.get_running_loop().create_task(self.read(inbound))
            if inbound is not None
            else None
        )

    def take(self, parcel: Parcel) -> None:
        if self.inbox.is_new(parcel.source, parcel.sequence, parcel.acknowledged):
            self.inbox.accept_parcel(parcel.source, parcel.sequence)
            for each in parcel.discovered:
                effects = int.from_bytes(self.table.get(b"E") or b"") + 1
                self.table.put(b"E", effects.to_bytes(4))
                self.table.put(b"U" + effects.to_bytes(4), each.url.encode())

    async def read(self, inbound: Inbound) -> None:
        try:
            while True:
                for position, parcel in await inbound.read_parcels(self.position):
                    with suppress(ParcelGap):
                        self.take(parcel)
                    self.position = position
        except ExchangeError as error:
            self.failures.append(error)

    async def receive_parcel(self, parcel: Parcel) -> None:
        self.take(parcel)
        while not self.inbox.is_committed(parcel.source, parcel.sequence):
            self.waiters.append(asyncio.get_running_loop().create_future())
            await self.waiters[-1]

    def commit(self) -> None:
        self.table.put(b"P", self.position.to_bytes(8))
        self.store.write(self.table.freeze())
        self.table.settle()
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def effects(self) -> list[str]:
        """What is committed, in the order in which it was taken."""
        return [value.decode() for _, value in self.store.scan(b"U", b"V")]


class History:
    """``wrap`` makes a mistake of a ``Post``."""

    def __init__(self, kind: str, wrap: Wrap = lambda post: post) -> None:
        self.is_topic, self._wrap = kind == "topic", wrap
        self.topics, self.exchange = MemoryTopics(), InProcessExchange(deadline_s=5.0)
        self.faults: list[str] = []
        self.made: Counter[int] = Counter()
        self.sources = {number: self._source(number, MemoryKeyValue()) for number in SOURCES}
        self.stored = {number: source.store for number, source in self.sources.items()}
        self.target = self._target(MemoryKeyValue())
        self.zombies: list[Source | Target] = []

    def _source(self, number: int, store: MemoryKeyValue) -> Source:
        post: Post = TopicPost(self._append, deadline_s=5.0) if self.is_topic else _Faulty(self)
        return Source(number, store, self._wrap(post))

    def _target(self, store: MemoryKeyValue) -> Target:
        target = Target(store, self.topics.inbound(DESTINATION) if self.is_topic else None)
        self.exchange.receivers.register_partition(DESTINATION, target.receive_parcel)
        return target

    def fault(self) -> str:
        return self.faults.pop(0) if self.faults else ""

    async def _append(self, parcel: Parcel) -> int:
        return await self.through(self.fault(), lambda: self.topics.append_parcel(parcel))

    async def through(self, fault: str, work: Callable[[], Awaitable[int]]) -> int:
        """The work, with a fault on its way or on the way back."""
        if fault == "never":
            await asyncio.Event().wait()
        if fault == "lost and late":
            asyncio.get_running_loop().call_later(3.0, work)
        if fault in ("lost", "lost and late"):
            raise ExchangeError("lost on the way")
        if fault == "lands late":
            await asyncio.sleep(1.0)
        if fault == "twice":
            await work()
        result = await work()
        if fault == "unanswered":
            raise ExchangeError("lost on the way back")
        if fault == "answered late":
            await asyncio.sleep(2.0)
        return result

    async def do(self, name: str, value: int) -> None:
        if name == "fault":
            self.faults.append(KINDS[value % len(KINDS)])
        elif name == "wait":
            await asyncio.sleep(value / 10)
        elif value == DESTINATION:
            await self._do_target(name)
        elif name == "enqueue":
            self.made[value] += 1
            self.sources[value].outbox.enqueue(DESTINATION, [found(value, self.made[value])])
        elif name == "commit":
            self.sources[value].commit()
        else:
            await self._end(self.sources[value], name)
            source = self.sources[value] = self._source(value, copied(self.sources[value].store))
            self.made[value] = int.from_bytes(
                source.table.get(b"O" + DESTINATION.to_bytes(4)) or b""
            )
        for _ in range(3):
            await asyncio.sleep(0)

    async def _do_target(self, name: str) -> None:
        if name == "commit":
            self.target.commit()
        elif name != "enqueue":
            await self._end(self.target, name)
            self.target = self._target(copied(self.target.store))

    async def _end(self, process: Source | Target, name: str) -> None:
        """A crash ends a process. One that is replaced goes on, but no commit of it counts: what
        it has is its own copy.
        """
        if name == "replace" and self.is_topic:
            self.zombies.append(process)
        elif isinstance(process, Source):
            await process.sender.close()
        elif process.reading is not None:
            process.reading.cancel()

    def check(self) -> None:
        """What a committed deletion of a row promises: the topic, or the receiver's table, has
        the parcel and all before it.
        """
        effects = self.target.effects()
        for number, source in self.sources.items():
            rows = [
                int.from_bytes(key[5:])
                for key, _ in source.store.scan(_rows(number)[0], _rows(number)[1])
            ]
            made = int.from_bytes(source.store.get(b"O" + DESTINATION.to_bytes(4)) or b"")
            gone = min(rows) - 1 if rows else made
            assert rows == list(range(gone + 1, made + 1)), "rows go in order"
            durable = (
                self._in_topic(number)
                if self.is_topic
                else sum(url.startswith(f"http://{number}.") for url in effects)
            )
            assert gone <= durable, (
                f"the row of parcel {gone} of partition {number} is deleted, and {durable} parcels"
                " are durable"
            )
            mine = [url for url in effects if url.startswith(f"http://{number}.")]
            assert mine == [f"http://{number}.test/{each}" for each in range(1, len(mine) + 1)], (
                "once, in order"
            )

    def _in_topic(self, source: int) -> int:
        """The parcels that a reader finds who takes each that is the next one."""
        taken = 0
        for parcel in self.topics.records(DESTINATION):
            taken += parcel.source == source and parcel.sequence == taken + 1
        return taken

    async def finish(self) -> None:
        """The faults end: everything arrives."""
        self.faults.clear()
        for number in SOURCES:
            await self.do("commit", number)
        for _ in range(40):
            await asyncio.sleep(1.0)
            for party in PARTIES:
                await self.do("commit", party)
            self.check()
        assert self.target.failures == []
        expected = {
            f"http://{number}.test/{each}"
            for number in SOURCES
            for each in range(1, self.made[number] + 1)
        }
        assert set(self.target.effects()) == expected and len(expected) == len(
            self.target.effects()
        )
        assert all(
            source.outbox.destinations() == [] and source.sender.is_idle
            for source in self.sources.values()
        )
        if self.is_topic:
            assert int.from_bytes(self.target.store.get(b"P") or b"") == self.topics.last_position(
                DESTINATION
            )

    async def close(self) -> None:
        for process in [*self.zombies, *self.sources.values(), self.target]:
            if isinstance(process, Source):
                await process.sender.close()
            elif process.reading is not None:
                process.reading.cancel()
        await self.exchange.close()


class _Faulty:
    """Posts in the process of the test, with faults."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
        for number, parcel in enumerate(parcels):
            try:
                async with asyncio.timeout(6.0):
                    await self._history.through(
                        self._history.fault(), lambda parcel=parcel: self._deliver(parcel)
                    )  # type: ignore[misc]
            except (ExchangeError, TimeoutError) as error:
                return Handover(
                    number,
                    error if isinstance(error, ExchangeError) else ExchangeError("no answer"),
                )
        return Handover(len(parcels))

    def _deliver(self, parcel: Parcel) -> asyncio.Task[int]:
        async def deliver() -> int:
            await self._history.exchange.deliver_parcel(parcel)
            return 1

        task = asyncio.get_running_loop().create_task(deliver())
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    async def close(self) -> None:
        """Nothing is held."""


def _rows(number: int) -> tuple[bytes, bytes]:
    return b"O" + DESTINATION.to_bytes(4) + b"\x00", b"O" + (DESTINATION + 1).to_bytes(4)


def run_history(kind: str, steps: Sequence[Step], wrap: Wrap = lambda post: post) -> None:
    """Raises ``AssertionError`` at the first step after which something is wrong."""

    async def main() -> None:
        history = History(kind, wrap)
        try:
            for name, value in steps:
                await history.do(name, value)
                history.check()
            await history.finish()
        finally:
            await history.close()

    run_virtual(main())


def random_steps(chance: random.Random, number: int = 60) -> list[Step]:
    """Steps of which most let something arrive."""
    steps: list[Step] = []
    for _ in range(number):
        name = chance.choices(
            ("enqueue", "commit", "wait", "fault", "crash", "replace"), (30, 30, 15, 15, 4, 6)
        )[0]
        if name == "fault":
            steps += [(name, chance.randrange(len(KINDS))) for _ in range(chance.randint(1, 4))]
        else:
            steps.append((name, chance.randrange(60) if name == "wait" else chance.choice(PARTIES)))
    return steps
