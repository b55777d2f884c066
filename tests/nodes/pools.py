"""Histories in which all machines share the limits of addresses through a pool, while the pool is
emptied, unreachable, slow, split in two by a failover, and its clock is set.

At every moment, by the web's own log, no address has more than ``nodes`` starts within ``nodes``
delays: that is the limit while machines divide the limits, and while they share them the same
follows from the delay. Slots are judged by the bound that holds after the loss of a pool.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.model.pool_use import PoolState
from lycosa.base.ports import Addresses, Clock, SlotNote
from lycosa.stages.politeness.address_pool import (
    ANSWER_S,
    MICRO,
    PoolAnswer,
    PoolAway,
    PoolCall,
    PoolClock,
    PoolWorker,
)
from lycosa.stages.politeness.pooled_addresses import PooledAddresses
from lycosa.synthetic import SyntheticResolver
from lycosa.synthetic.virtual_clock import VirtualClock
from memory_pool import PoolServer
from nodes.history import TROUBLE_S, NodesHistory
from nodes.machine import Machine, Process
from nodes.world import World

DELAY_S, SLOTS, HOSTS_OF_ADDRESS = 1.0, 5, 10.0
_TINY_S = 1e-6


class PoolWorld(World):
    """The world with two servers of the pool, of which each machine reaches one, or none."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.resolver = SyntheticResolver(
            self.web.hosts, VirtualClock(), hosts_per_address=HOSTS_OF_ADDRESS
        )
        self.offset_us = 0
        self.servers = [PoolServer(f"server {n}", self._clock_us) for n in range(2)]
        self.reached: dict[str, int | None] = {}  # by machine; the first one otherwise
        self.pool_latency_s = 0.001
        self.pooled: dict[Process, PooledAddresses] = {}
        self.shared = 0  # slots that the pool gave

    def _clock_us(self) -> int:
        return int(self.now() * MICRO) + 1000 * MICRO + self.offset_us

    def addresses_of(self, process: Process, clock: Clock) -> Addresses:
        process.machine.joined = getattr(process.machine, "joined", 0) + 1  # type: ignore[attr-defined]
        worker = PoolWorker(
            f"{process.machine.name}-{process.machine.joined}-",  # type: ignore[attr-defined]
            "x",
            process.shard,
            self.shards,
            self._nodes,
            self.config.politeness,
            self.config.fetch.total_s,
            is_first=process.term == 1,
        )
        local = process.machine.addresses.join(self.node_politeness)
        pooled = PooledAddresses(worker, local, NodePool(process, self), clock)
        self.pooled[process] = pooled
        return GatedAddresses(process, pooled)

    async def leave_pool(self, process: Process) -> None:
        await self.pooled[process].leave()


class GatedAddresses:
    """A process takes nothing while its machine hangs."""

    def __init__(self, process: Process, pooled: PooledAddresses) -> None:
        self._process, self._pooled = process, pooled
        self.record_start, self.release_slot = pooled.record_start, pooled.release_slot
        self.close = pooled.close

    async def take_slot(self, address: str, now: float, holder: object = None) -> float:
        await self._process.gate()
        wait_s = await self._pooled.take_slot(address, now, holder)
        await self._process.gate()
        return wait_s

    def describe_slot(self, address: str, at: float, holder: object = None) -> SlotNote:
        note = self._pooled.describe_slot(address, at, holder)
        world = self._process.machine.world
        assert isinstance(world, PoolWorld)
        world.shared += note.text.startswith(PoolState.SHARED.value)
        return note


class NodePool:
    """The pool as one process reaches it: calls and answers are lost and late."""

    def __init__(self, process: Process, world: PoolWorld) -> None:
        self._process, self._world = process, world
        self._known, self._times = "", PoolClock()

    async def exchange(self, call: PoolCall) -> PoolAnswer:
        process, world, loop = self._process, self._world, asyncio.get_running_loop()
        await process.gate()
        machine = process.machine
        number = world.reached.get(machine.name, 0)
        if machine.is_cut_off or number is None:
            await asyncio.sleep(0.01)
            await process.gate()
            raise PoolAway("unreachable")
        server = world.servers[number]
        if server.name != self._known:
            self._known, self._times = server.name, PoolClock()
            self._times.note_answer(server.clock_us(), loop.time(), loop.time())
        sent = loop.time()
        deadline = self._times.deadline_us(sent)
        kind = world.chance.random() if world.is_troubled else 1.0
        if kind < 0.02:  # the call is lost, arrives in time without an answer, or late
            world.faults["pool call"] += 1
            late_s = world.chance.choice((0.0, 0.1, 3.0, 20.0))
            if kind < 0.015:
                loop.call_later(late_s, server.answer, call, deadline)
            await asyncio.sleep(ANSWER_S)
            await process.gate()
            raise PoolAway("no answer", server.name)
        await asyncio.sleep(world.pool_latency_s)
        answer = server.answer(call, deadline)
        await asyncio.sleep(world.pool_latency_s)
        await process.gate()
        if loop.time() - sent > ANSWER_S:
            raise PoolAway("no answer in time", server.name)
        self._times.note_answer(answer.now_us, sent, loop.time())
        return answer

    async def close(self) -> None:
        """There is no connection."""


class PoolHistory(NodesHistory):
    """What happens to the pool comes in addition to everything else."""

    WORLD = PoolWorld

    def __init__(
        self, seed: int, folder: Path, shards: int = 0, nodes: int = 0, plant: str = ""
    ) -> None:
        super().__init__(seed, folder, shards, nodes or 2 + seed % 3, plant)
        politeness = msgspec.structs.replace(
            self.config.politeness, address_delay_s=DELAY_S, address_slots=SLOTS
        )
        self.config = msgspec.structs.replace(self.config, politeness=politeness)

    async def _seed(self) -> None:
        self.world.spawn(self._pool_trouble())
        await super()._seed()

    async def _pool_trouble(self) -> None:
        chance, loop = self.chance, asyncio.get_running_loop()
        kinds = [self._empty, self._away, self._away_for_one, self._split_pool, self._slow]
        kinds += [self._set_clock]
        await asyncio.sleep(chance.uniform(40.0, 70.0))  # it is shared by then
        while loop.time() < TROUBLE_S:
            chance.choice(kinds)()
            await asyncio.sleep(chance.uniform(5.0, 60.0))
        self._pool().reached.clear()
        self._pool().pool_latency_s = 0.001

    def _pool(self) -> PoolWorld:
        assert isinstance(self.world, PoolWorld)
        return self.world

    def _empty(self) -> None:
        self._tell("empty pool")
        for server in self._pool().servers:
            server.empty()

    def _away(self) -> None:
        """No machine reaches the pool for a while."""
        seconds, world = self.chance.choice((2.0, 8.0, 30.0)), self._pool()
        self._tell(f"away pool for {seconds:.0f}")
        for machine in world.living():
            self._part(machine, None, seconds)

    def _away_for_one(self) -> None:
        """One machine does not reach it, while the others do."""
        machine = self._any()
        if machine is not None:
            seconds = self.chance.choice((2.0, 8.0, 30.0))
            self._tell(f"unreachable pool for {machine.name}, {seconds:.0f}")
            self._part(machine, None, seconds)

    def _split_pool(self) -> None:
        """Some machines reach another server, which is empty or was filled long ago."""
        seconds = self.chance.choice((10.0, 40.0, 80.0))
        self._tell(f"split pool for {seconds:.0f}")
        for machine in self._pool().living():
            self._part(machine, self.chance.randrange(2), seconds)

    def _part(self, machine: Machine, number: int | None, seconds: float) -> None:
        reached = self._pool().reached
        reached[machine.name] = number
        asyncio.get_running_loop().call_later(seconds, reached.pop, machine.name, None)

    def _slow(self) -> None:
        world, seconds = self._pool(), self.chance.choice((0.03, 0.1, 0.2))
        self._tell(f"slow pool of {seconds:.2f}")
        world.pool_latency_s = seconds
        asyncio.get_running_loop().call_later(20.0, setattr, world, "pool_latency_s", 0.001)

    def _set_clock(self) -> None:
        """Back. A step forward may let one request of an address start early, as documented."""
        seconds = self.chance.choice((0.02, 0.7, 30.0))
        self._tell(f"set clock of the pool back by {seconds:.2f}")
        self._pool().offset_us -= int(seconds * MICRO)

    def judge(self) -> None:
        """Raises ``AssertionError`` for the first promise that does not hold."""
        super().judge()
        log, nodes = self.world.log, self._nodes
        for address in log.addresses():
            # one machine may have all slots when the pool is lost, and others have their parts
            most = SLOTS + (nodes - 1) * max(SLOTS // nodes, 1)
            assert log.max_parallel(address) <= most, (address, "too many at once")
            starts = sorted(each.start for each in log.exchanges if each.address == address)
            for first, last in zip(starts, starts[nodes:], strict=False):
                assert last - first >= nodes * DELAY_S - _TINY_S, (address, first, last)
        assert self._pool().shared > len(log) // 20, "the pool was hardly used"
