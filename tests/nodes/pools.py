"""All machines share the limits of addresses through a pool, while the pool is emptied, unreachable,
slow, split in two by a failover, and its clock is set.

At every moment, by the web's own log, no address has more than ``nodes`` starts within ``nodes``
delays: that is the limit while machines divide the limits, and while they share them the same
follows from the delay. Slots are judged by the bound that holds after the loss of a pool.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec

from lycosa.base.model.progress_parts import PoolState
from lycosa.base.ports import Addresses, Clock, SlotNote
from lycosa.stages.politeness.address_pool import MICRO, PoolAnswer, PoolCall, PoolWorker
from lycosa.stages.politeness.node_addresses import WorkerAddresses
from lycosa.stages.politeness.pooled_addresses import PooledAddresses
from lycosa.synthetic import RequestLog
from memory_pool import PoolServer
from nodes.history import NodesHistory
from nodes.machine import Machine, Process
from nodes.plugin import Plugin
from pool_links import PoolLink

DELAY_S, SLOTS, HOSTS_OF_ADDRESS = 1.0, 5, 10.0
_TINY_S = 1e-6


class GatedAddresses:
    """A process takes nothing while its machine hangs."""

    def __init__(self, process: Process, pooled: PooledAddresses, plugin: Pool) -> None:
        self._process, self._pooled, self._plugin = process, pooled, plugin
        self.record_start, self.release_slot = pooled.record_start, pooled.release_slot
        self.close = pooled.close

    async def take_slot(self, address: str, now: float, holder: object = None) -> float:
        await self._process.gate()
        wait_s = await self._pooled.take_slot(address, now, holder)
        await self._process.gate()
        return wait_s

    def describe_slot(self, address: str, at: float, holder: object = None) -> SlotNote:
        note = self._pooled.describe_slot(address, at, holder)
        self._plugin.shared += note.text.startswith(PoolState.SHARED.value)
        return note


class NodePool:
    """The pool as one process reaches it: calls and answers are lost and late."""

    def __init__(self, process: Process, plugin: Pool) -> None:
        self._process, self._plugin = process, plugin
        self._link = PoolLink(process.gate)

    async def exchange(self, call: PoolCall) -> PoolAnswer:
        await self._process.gate()
        machine, plugin = self._process.machine, self._plugin
        world = machine.world
        number = None if machine.is_cut_off else plugin.reached.get(machine.name, 0)
        lost = None
        if number is not None and world.is_troubled and (kind := world.chance.random()) < 0.02:
            # the call is lost, arrives in time without an answer, or late
            world.faults["pool call"] += 1
            late_s = world.chance.choice((0.0, 0.1, 3.0, 20.0))
            lost = (late_s,) if kind < 0.015 else ()
        server = None if number is None else plugin.servers[number]
        return await self._link.call(server, call, (plugin.latency_s, plugin.latency_s), lost)

    async def close(self) -> None:
        """There is no connection."""


class Pool(Plugin):
    """Two servers of the pool, of which each machine reaches one, or none."""

    LEAST_NODES = 2

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        history.hosts_per_address = HOSTS_OF_ADDRESS
        politeness = msgspec.structs.replace(
            history.config.politeness, address_delay_s=DELAY_S, address_slots=SLOTS
        )
        history.config = msgspec.structs.replace(history.config, politeness=politeness)
        self.offset_us, self.latency_s = 0, 0.001
        self.servers = [PoolServer(f"server {n}", self._clock_us) for n in range(2)]
        self.reached: dict[str, int | None] = {}  # by machine; the first one otherwise
        self.shared = 0  # slots that the pool gave
        self._pooled: dict[Process, PooledAddresses] = {}
        self._joined: Counter[str] = Counter()

    def _clock_us(self) -> int:
        return int(self.world.now() * MICRO) + 1000 * MICRO + self.offset_us

    def wrap_addresses(self, process: Process, table: Addresses, clock: Clock) -> Addresses:
        assert isinstance(table, WorkerAddresses)
        name = process.machine.name
        self._joined[name] += 1
        worker = PoolWorker(
            f"{name}-{self._joined[name]}-",
            "x",
            process.shard,
            self.world.shards,
            self.history.nodes,
            self.world.config.politeness,
            self.world.config.fetch.total_s,
            is_first=process.term == 1,
        )
        pooled = PooledAddresses(worker, table, NodePool(process, self), clock)
        self._pooled[process] = pooled
        return GatedAddresses(process, pooled, self)

    async def leave(self, process: Process) -> None:
        await self._pooled[process].leave()

    async def disturb(self) -> None:
        chance = self.history.chance
        kinds = [self._empty, self._away, self._away_for_one, self._split, self._slow]
        kinds += [self._set_clock]
        await asyncio.sleep(chance.uniform(40.0, 70.0))  # it is shared by then
        while True:
            chance.choice(kinds)()
            await asyncio.sleep(chance.uniform(5.0, 60.0))

    async def repair(self) -> None:
        self.reached.clear()
        self.latency_s = 0.001

    def _empty(self) -> None:
        self.history.tell("empty pool")
        for server in self.servers:
            server.empty()

    def _away(self) -> None:
        """No machine reaches the pool for a while."""
        seconds = self.history.chance.choice((2.0, 8.0, 30.0))
        self.history.tell(f"away pool for {seconds:.0f}")
        for machine in self.world.living():
            self._part(machine, None, seconds)

    def _away_for_one(self) -> None:
        """One machine does not reach it, while the others do."""
        machine = self.history.any_machine()
        if machine is not None:
            seconds = self.history.chance.choice((2.0, 8.0, 30.0))
            self.history.tell(f"unreachable pool for {machine.name}, {seconds:.0f}")
            self._part(machine, None, seconds)

    def _split(self) -> None:
        """Some machines reach another server, which is empty or was filled long ago."""
        chance = self.history.chance
        seconds = chance.choice((10.0, 40.0, 80.0))
        self.history.tell(f"split pool for {seconds:.0f}")
        for machine in self.world.living():
            self._part(machine, chance.randrange(2), seconds)

    def _part(self, machine: Machine, number: int | None, seconds: float) -> None:
        self.reached[machine.name] = number
        asyncio.get_running_loop().call_later(seconds, self.reached.pop, machine.name, None)

    def _slow(self) -> None:
        seconds = self.history.chance.choice((0.03, 0.1, 0.2))
        self.history.tell(f"slow pool of {seconds:.2f}")
        self.latency_s = seconds
        asyncio.get_running_loop().call_later(20.0, setattr, self, "latency_s", 0.001)

    def _set_clock(self) -> None:
        """Back. A step forward may let one request of an address start early, as documented."""
        seconds = self.history.chance.choice((0.02, 0.7, 30.0))
        self.history.tell(f"set clock of the pool back by {seconds:.2f}")
        self.offset_us -= int(seconds * MICRO)

    def judge(self) -> None:
        nodes, log = self.history.nodes, RequestLog()
        # An outside fetcher cannot know when other hosts of an address were requested.
        log.exchanges = self.world.log.of_processes
        for address in log.addresses():
            # one machine may have all slots when the pool is lost, and others have their parts
            most = SLOTS + (nodes - 1) * max(SLOTS // nodes, 1)
            assert log.max_parallel(address) <= most, (address, "too many at once")
            starts = sorted(each.start for each in log.exchanges if each.address == address)
            for first, last in zip(starts, starts[nodes:], strict=False):
                assert last - first >= nodes * DELAY_S - _TINY_S, (address, first, last)
        assert self.shared > len(log) // 20, "the pool was hardly used"
