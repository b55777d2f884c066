"""Histories of the address pool: workers on several machines take slots of a few addresses as fast
as they may, in virtual time, while the pool is emptied, unreachable for some or all, slow, split in
two by a failover, and its clock is set; calls and answers are lost and late; workers die, stand
still and start again.

The judge knows what a server of the web would see. At every moment an address has at most ``nodes``
starts within ``nodes`` delays, and its slots open; only while requests of a pool that was lost may
last are there parts of the slots more, as the documents say. Between two moments at which all
workers had shared the pool for a while, starts lie a delay apart.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count, pairwise
from typing import Any

import msgspec

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.model.progress_parts import PoolState
from lycosa.base.ports import SlotNote
from lycosa.stages.politeness.address_pool import MICRO, PoolAnswer, PoolCall, PoolWorker
from lycosa.stages.politeness.node_addresses import NodeAddresses
from lycosa.stages.politeness.pooled_addresses import PooledAddresses
from lycosa.synthetic import VirtualClock, run_virtual
from memory_pool import PoolServer
from planting import Change, Plant
from pool_links import PoolLink

NODES, SHARDS, TOTAL_S = 3, 6, 8.0
SECTION = PolitenessSection(address_delay_s=1.0, address_slots=6)
# How long their answers take: at the first the delay is what limits, at the second the slots.
ADDRESSES = {"192.0.2.1": (0.02, 0.3), "192.0.2.2": (5.0, TOTAL_S, TOTAL_S)}
TROUBLE_S, CALM_S = 500.0, 25.0
_TINY_S = 1e-6


class PoolLived(msgspec.Struct, frozen=True):
    """What a history came to: requests, faults, and the share of requests with a shared slot."""

    requests: int
    faults: int
    shared: float
    kinds: dict[str, int]


class _Machine:
    def __init__(self) -> None:
        self.addresses = NodeAddresses()
        self.reaches: int | None = 0  # a server, or none
        self.runs = asyncio.Event()
        self.runs.set()


class _Link:
    """The pool as one worker reaches it."""

    def __init__(self, history: PoolHistory, machine: _Machine) -> None:
        self._history, self._machine = history, machine
        self._link = PoolLink(machine.runs.wait)

    async def exchange(self, call: PoolCall) -> PoolAnswer:
        history, chance = self._history, self._history.chance
        await self._machine.runs.wait()
        if self._machine.reaches is None:
            return await self._link.call(None, call, (0.0, 0.0))
        there_s, back_s = (history.latency_s * chance.uniform(0.5, 1.5) for _ in "ab")
        lost: tuple[float, ...] | None = None
        if chance.random() < history.loss:  # lost, or late, or without an answer
            history.faults += 1
            lost = ()
            if chance.random() < 0.7:
                lost = (chance.choice((there_s, 0.2, 3.0, 15.0)),)
        server = history.servers[self._machine.reaches]
        return await self._link.call(server, call, (there_s, back_s), lost)

    async def close(self) -> None:
        """There is no connection."""


class _Process:
    """One process of a shard: asks for slots until it is dead."""

    def __init__(self, history: PoolHistory, shard: int, machine: _Machine, number: int) -> None:
        worker = PoolWorker(
            f"{shard}-{number}-", "x", shard, SHARDS, NODES, SECTION, TOTAL_S, number == 0
        )
        self._history, self._machine = history, machine
        self._local = machine.addresses.join(SECTION)
        self.pooled = PooledAddresses(worker, self._local, _Link(history, machine), VirtualClock())
        self._tasks = [
            asyncio.create_task(self._request(address, holder))
            for address in ADDRESSES
            for holder in range(2)
        ]
        self._ends: list[Callable[[], None]] = []

    async def _request(self, address: str, holder: int) -> None:
        loop, history, runs = asyncio.get_running_loop(), self._history, self._machine.runs
        while True:
            await runs.wait()
            wait_s = await self.pooled.take_slot(address, loop.time(), holder)
            taken = loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
                continue
            await asyncio.sleep(history.chance.choice((0.0, 0.0, 0.0, 0.0, 0.05, 2.0)))
            await runs.wait()
            note = self.pooled.describe_slot(address, loop.time(), holder)
            if loop.time() - taken > note.late_s:
                await self.pooled.release_slot(address, loop.time(), holder)
                continue
            end = history.begin(address, note.text)
            self._ends.append(end)
            await self.pooled.record_start(address, loop.time(), 0.0, holder)
            await asyncio.sleep(history.chance.choice(ADDRESSES[address]))
            end()
            await runs.wait()
            await self.pooled.release_slot(address, loop.time(), holder)
            if history.chance.random() < 0.2:
                await asyncio.sleep(history.chance.uniform(0.0, 15.0))

    async def kill(self, in_order: bool) -> None:
        """End it; what it had open ends with it."""
        for task in self._tasks:
            if task.done():  # an error, for which the server's judge is one too
                task.result()
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for end in self._ends:
            end()
        if in_order:
            await self.pooled.leave()
        self.pooled.close()


class PoolHistory:
    """All chance follows from ``seed``."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"pool {seed}")
        self.faults, self.latency_s, self.loss = 0, 0.001, 0.0
        self.kinds: dict[str, int] = defaultdict(int)
        self._offset_us = 0
        self._open: dict[str, int] = defaultdict(int)
        self._starts: dict[str, list[float]] = defaultdict(list)
        self._shared = 0
        self._last_shared: dict[str, float] = defaultdict(lambda: float("-inf"))
        self._calm: list[tuple[float, float]] = []
        self.breaches: list[str] = []

    def live(self) -> PoolLived:
        """Raises ``AssertionError`` for the first promise that does not hold."""
        run_virtual(self._main())
        assert not self.breaches, self.breaches[:5]
        requests = sum(map(len, self._starts.values()))
        return PoolLived(requests, self.faults, self._shared / requests, dict(self.kinds))

    def begin(self, address: str, text: str) -> Callable[[], None]:
        """A server receives a request; call the result at its end."""
        now, starts = asyncio.get_running_loop().time(), self._starts[address]
        starts.append(now)
        is_shared = text.startswith(PoolState.SHARED.value)
        self._shared += is_shared
        self._open[address] += 1
        most = SECTION.address_slots
        if is_shared:
            self._last_shared[address] = now
        elif now - self._last_shared[address] <= TOTAL_S:
            # One machine may have all slots when the pool is lost, and the others have their parts.
            most += (NODES - 1) * (most // NODES)
        if self._open[address] > most:
            self.breaches.append(f"{address} at {now:.3f}: {self._open[address]} at once")
        took_s = now - starts[-1 - NODES] if len(starts) > NODES else float("inf")
        if took_s < NODES * SECTION.address_delay_s - _TINY_S:
            self.breaches.append(f"{address} at {now:.3f}: {NODES + 1} starts in {took_s:.3f} s")
        ended = False

        def end() -> None:
            nonlocal ended
            self._open[address] -= not ended
            ended = True

        return end

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()

        def clock() -> int:
            return int(loop.time() * MICRO) + 1000 * MICRO + self._offset_us

        self.servers = [PoolServer(f"server {number}", clock) for number in range(2)]
        self._machines = [_Machine() for _ in range(NODES)]
        self._processes: dict[int, _Process] = {}
        self._numbers = [count() for _ in range(SHARDS)]
        for shard in range(SHARDS):
            self._start(shard)
        while loop.time() < TROUBLE_S:
            await self._rest()
            for _ in range(self.chance.randint(1, 4)):
                await self._misfortune()
                await asyncio.sleep(self.chance.choice((0.3, 2.0, 10.0, 30.0)))
            self._recover()
        await self._rest()
        for process in self._processes.values():
            await process.kill(in_order=True)
        for address, starts in self._starts.items():
            for began, ended in self._calm:
                calm = [start for start in starts if began <= start < ended]
                for earlier, later in pairwise(calm):
                    least = SECTION.address_delay_s - _TINY_S
                    assert later - earlier >= least, (address, earlier, later)

    async def _rest(self) -> None:
        """Nothing happens; the pool is shared in the end."""
        await asyncio.sleep(CALM_S)
        states = {process.pooled.use.state for process in self._processes.values()}
        assert states == {PoolState.SHARED}, [p.pooled.use for p in self._processes.values()]
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(15.0)
        self._calm.append((began, began + 15.0))

    def _recover(self) -> None:
        self.latency_s, self.loss = 0.001, 0.0
        primary = self.chance.randrange(2)
        for machine in self._machines:
            machine.reaches = primary
            machine.runs.set()
        for shard in range(SHARDS):
            if shard not in self._processes:
                self._start(shard)

    def _start(self, shard: int) -> None:
        number = next(self._numbers[shard])
        machine = self._machines[(shard + number) % NODES]
        self._processes[shard] = _Process(self, shard, machine, number)

    # -- what happens

    async def _misfortune(self) -> None:
        name = self.chance.choice(
            ("empty", "away", "one away", "split", "slow", "lossy", "back", "kill", "move", "hang")
        )
        self.faults += 1
        self.kinds[name] += 1
        await getattr(self, "_" + name.replace(" ", "_"))()

    async def _empty(self) -> None:
        for server in self.servers:
            server.empty()

    async def _away(self) -> None:
        for machine in self._machines:
            machine.reaches = None

    async def _one_away(self) -> None:
        self.chance.choice(self._machines).reaches = None

    async def _split(self) -> None:
        for machine in self._machines:
            machine.reaches = self.chance.randrange(2)

    async def _slow(self) -> None:
        self.latency_s = self.chance.choice((0.03, 0.1, 0.15))

    async def _lossy(self) -> None:
        self.loss = self.chance.choice((0.05, 0.5))

    async def _back(self) -> None:
        # Forward, a start may be early, which the documents say.
        self._offset_us -= int(self.chance.choice((0.01, 0.9, 60.0)) * MICRO)

    async def _kill(self) -> None:
        """It is started again, at once or later, on another machine or the same."""
        shard = self.chance.choice(sorted(self._processes) or [0])
        if shard in self._processes:
            await self._processes.pop(shard).kill(in_order=False)
            if self.chance.random() < 0.5:
                self._start(shard)

    async def _move(self) -> None:
        shard = self.chance.choice(sorted(self._processes) or [0])
        run = all(machine.runs.is_set() for machine in self._machines)
        if run and shard in self._processes:
            await self._processes.pop(shard).kill(in_order=True)
            self._start(shard)

    async def _hang(self) -> None:
        machine = self.chance.choice(self._machines)
        machine.runs.clear()
        asyncio.get_running_loop().call_later(
            self.chance.choice((0.2, 2.0, 6.0, 12.0)), machine.runs.set
        )


# -- planted bugs


def _absent_worker() -> Sequence[Change]:
    right = PoolServer._enter

    def enter(self: PoolServer, call: PoolCall, now: int) -> tuple[int, int]:
        return right(self, call, now)[0], 1

    return [Change(PoolServer, "_enter", enter)]


def _no_settling() -> Sequence[Change]:
    right = PoolServer._enter

    def enter(self: PoolServer, call: PoolCall, now: int) -> tuple[int, int]:
        return 0, right(self, call, now)[1]

    return [Change(PoolServer, "_enter", enter)]


def _no_wait() -> Sequence[Change]:
    return [Change(PooledAddresses, "_note_counted", lambda self, server, now: None)]


def _no_rest() -> Sequence[Change]:
    right = PooledAddresses._receive

    def receive(self: PooledAddresses, answer: PoolAnswer, sent: float) -> None:
        before = self._rests_until
        right(self, answer, sent)
        self._rests_until = before

    return [Change(PooledAddresses, "_receive", receive)]


def _same_server() -> Sequence[Change]:
    right = PoolServer.__init__

    def init(self: PoolServer, name: str, clock_us: Callable[[], int]) -> None:
        right(self, "the server", clock_us)

    return [Change(PoolServer, "__init__", init)]


def _late_use() -> Sequence[Change]:
    right = PooledAddresses.describe_slot

    def describe(self: PooledAddresses, *where: Any) -> SlotNote:
        return right(self, *where)._replace(late_s=1e9)

    return [Change(PooledAddresses, "describe_slot", describe)]


PLANTS = {
    "absent worker": Plant("the pool is shared although workers are absent", _absent_worker),
    "no settling": Plant("the pool is shared before it can know all requests", _no_settling),
    "no wait": Plant("a worker that gets no answer uses the divided limits at once", _no_wait),
    "no rest": Plant(
        "a worker that changes to the other limits does not wait one divided delay", _no_rest
    ),
    "same server": Plant(
        "a server that continues old data of another is taken for the same", _same_server
    ),
    "late use": Plant("a slot is used however late its answer comes", _late_use),
}
"""Bugs that the histories must find."""
