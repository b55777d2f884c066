"""Which limits a worker applies while the address pool answers, does not, and answers again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.model.progress_parts import PoolState
from lycosa.stages.politeness.address_pool import (
    ABSENT_S,
    MICRO,
    PoolAnswer,
    PoolAway,
    PoolCall,
    PoolClock,
    PoolWorker,
)
from lycosa.stages.politeness.node_addresses import NodeAddresses
from lycosa.stages.politeness.pooled_addresses import PooledAddresses
from lycosa.synthetic import VirtualClock, run_virtual
from memory_pool import PoolServer

SECTION = PolitenessSection(address_delay_s=0.5, address_slots=4)
TOTAL_S = 20.0
SETTLED_S = 40.0
A = "192.0.2.1"


class Link:
    """One worker's way to the servers of a pool. ``server`` is ``None`` when it leads nowhere;
    with ``is_deaf`` calls arrive and answers are lost.
    """

    def __init__(self, server: PoolServer | None) -> None:
        self.server, self.is_deaf, self.latency_s = server, False, 0.001
        self._times, self._known = PoolClock(), ""

    async def exchange(self, call: PoolCall) -> PoolAnswer:
        loop = asyncio.get_running_loop()
        server = self.server
        if server is None:
            raise PoolAway("nothing listens")
        if server.name != self._known:
            self._known, self._times = server.name, PoolClock()
            self._times.note_answer(server.clock_us(), loop.time(), loop.time())
        sent = loop.time()
        deadline = self._times.deadline_us(sent)
        await asyncio.sleep(self.latency_s)
        answer = server.answer(call, deadline)
        if self.is_deaf:
            raise PoolAway("no answer", server.name)
        await asyncio.sleep(self.latency_s)
        self._times.note_answer(answer.now_us, sent, loop.time())
        return answer

    async def close(self) -> None:
        pass


class Cluster:
    """Workers of one crawl, each on a machine of its own."""

    def __init__(self, count: int, nodes: int = 2, crawl: str = "x") -> None:
        self.offset_us = self.holders = 0
        self.server = PoolServer("one", self.clock_us)
        self.links = [Link(self.server) for _ in range(count)]
        self.workers = [
            PooledAddresses(
                PoolWorker(f"{crawl}{n}-", crawl, n, count, nodes, SECTION, TOTAL_S, is_first=True),
                NodeAddresses().join(SECTION),
                self.links[n],
                VirtualClock(),
            )
            for n in range(count)
        ]

    def clock_us(self) -> int:
        return int(asyncio.get_running_loop().time() * MICRO) + MICRO * 1000 + self.offset_us

    def states(self) -> set[PoolState]:
        return {worker.use.state for worker in self.workers}

    async def request(self, number: int, longest_s: float = 60.0) -> float:
        """Take a slot of the address, wait as it says, and start; gives the start."""
        loop = asyncio.get_running_loop()
        end = loop.time() + longest_s
        self.holders += 1
        holder = self.holders
        while (wait := await self.workers[number].take_slot(A, loop.time(), holder)) > 0:
            assert loop.time() < end, f"no slot within {longest_s} s: {self.workers[number]!r}"
            await asyncio.sleep(wait)
        at = loop.time()
        await self.workers[number].record_start(A, at, 0.0, holder)
        return at

    async def end(self, number: int, holder: object = None) -> None:
        now = asyncio.get_running_loop().time()
        await self.workers[number].release_slot(A, now, holder)

    async def close(self) -> None:
        for worker in self.workers:
            await worker.leave()
            worker.close()


async def _starts(cluster: Cluster, numbers: Sequence[int]) -> list[float]:
    found = []
    for number in numbers:
        found.append(await cluster.request(number))
        await cluster.end(number, cluster.holders)
    return found


def _gaps(starts: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(starts)]


def test_a_pool_is_shared_when_all_workers_called_for_as_long_as_a_request_lasts() -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(1.0)
        assert cluster.states() == {PoolState.DIVIDED}
        assert min(_gaps(await _starts(cluster, [0, 0, 0]))) >= 1.0  # twice the delay
        await asyncio.sleep(SETTLED_S)
        assert cluster.states() == {PoolState.SHARED}
        gaps = _gaps(await _starts(cluster, [0, 1, 0, 0, 1]))
        assert min(gaps) >= 0.5
        assert max(gaps) < 0.65
        await cluster.close()

    run_virtual(live())


def test_a_worker_that_reaches_no_pool_waits_until_the_others_divide_the_limits() -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(SETTLED_S)
        [before] = await _starts(cluster, [0])
        cluster.links[0].server = None
        lost = asyncio.get_running_loop().time()
        alone = await cluster.request(0)
        assert alone - lost > ABSENT_S - 1.5 > 2.0
        assert alone - lost < ABSENT_S + 3.0  # the crawl is slowed, and not stopped
        assert alone > before
        assert cluster.workers[1].use.state is PoolState.DIVIDED
        assert "1 of 2" in cluster.workers[1].use.why
        cluster.links[0].server = cluster.server
        await asyncio.sleep(3.0)
        assert cluster.states() == {PoolState.DIVIDED}
        await asyncio.sleep(SETTLED_S)
        assert cluster.states() == {PoolState.SHARED}
        await cluster.close()

    run_virtual(live())


def test_a_call_that_arrives_while_its_answer_is_lost_keeps_the_worker_waiting() -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(SETTLED_S)
        cluster.links[0].is_deaf = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        while loop.time() < began + 20.0:  # the other may use all: this one is present
            assert await cluster.workers[0].take_slot(A, loop.time()) > 0
            await asyncio.sleep(0.5)
        assert cluster.workers[1].use.state is PoolState.SHARED
        cluster.links[0].server = None
        await cluster.request(0)
        assert cluster.workers[1].use.state is PoolState.DIVIDED
        await cluster.close()

    run_virtual(live())


def test_two_servers_that_share_the_workers_are_not_shared_pools() -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(SETTLED_S)
        other = PoolServer("two", cluster.clock_us)
        cluster.links[0].server = other
        loop = asyncio.get_running_loop()
        moved = loop.time()
        alone = await cluster.request(0)
        assert alone - moved > 4.0  # until the first server misses it
        assert cluster.states() == {PoolState.DIVIDED}
        await asyncio.sleep(SETTLED_S)
        assert cluster.states() == {PoolState.DIVIDED}
        cluster.links[1].server = other
        await asyncio.sleep(SETTLED_S)
        assert cluster.states() == {PoolState.SHARED}
        await cluster.close()

    run_virtual(live())


def test_a_pool_that_was_emptied_divides_the_limits_at_once() -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(SETTLED_S)
        [first] = await _starts(cluster, [0])
        cluster.server.empty()
        second = await cluster.request(1)
        assert second - first >= 0.5
        assert cluster.workers[1].use.state is PoolState.DIVIDED
        assert min(_gaps([second, *await _starts(cluster, [1, 1])])) >= 1.0
        await cluster.close()

    run_virtual(live())


@pytest.mark.parametrize("step_s", [-100.0, 3.0, 100.0])
def test_a_clock_of_the_pool_that_is_set_divides_the_limits(step_s: float) -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(SETTLED_S)
        cluster.offset_us = int(step_s * MICRO)
        await asyncio.sleep(2.5)
        assert cluster.states() == {PoolState.DIVIDED}
        await asyncio.sleep(SETTLED_S)
        assert cluster.states() == {PoolState.SHARED}
        await cluster.close()

    run_virtual(live())


def test_slots_of_a_dead_worker_are_free_when_their_time_is_over() -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(SETTLED_S)
        for _ in range(4):
            await cluster.request(0)
        loop = asyncio.get_running_loop()
        assert await cluster.workers[1].take_slot(A, loop.time() + 1.0) > 0
        cluster.workers[0].close()
        began = loop.time()
        # The worker is missed, so limits are divided: the other machine has two slots of its own.
        await cluster.request(1, 20.0)
        assert loop.time() - began < 10.0
        cluster.workers.pop(0)
        await cluster.close()

    run_virtual(live())


def test_a_worker_that_leaves_in_order_ends_no_settling() -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(SETTLED_S)
        left = cluster.workers[0]
        await left.leave()
        left.close()
        await asyncio.sleep(2.0)
        assert cluster.workers[1].use.state is PoolState.DIVIDED
        cluster.workers[0] = PooledAddresses(
            PoolWorker("next-", "x", 0, 2, 2, SECTION, TOTAL_S),
            NodeAddresses().join(SECTION),
            Link(cluster.server),
            VirtualClock(),
        )
        await asyncio.sleep(2.0)
        assert cluster.states() == {PoolState.SHARED}
        await cluster.close()

    run_virtual(live())


def test_crawls_share_addresses_and_each_waits_for_the_workers_of_the_other() -> None:
    async def live() -> None:
        first = Cluster(1, crawl="x")
        second = Cluster(1, crawl="y")
        second.links[0].server = first.server
        await asyncio.sleep(SETTLED_S)
        assert first.states() == second.states() == {PoolState.SHARED}
        starts = []
        for cluster in (first, second, first, second):
            starts += await _starts(cluster, [0])
        assert min(_gaps(starts)) >= 0.5
        second.workers[0].close()
        await asyncio.sleep(6.0)
        assert first.states() == {PoolState.DIVIDED}
        await asyncio.sleep(SETTLED_S)
        assert first.states() == {PoolState.SHARED}  # the other crawl was forgotten
        await first.close()

    run_virtual(live())


def test_a_request_that_is_not_sent_leaves_no_start_behind() -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(SETTLED_S)
        loop = asyncio.get_running_loop()
        assert await cluster.workers[0].take_slot(A, loop.time()) == 0
        await cluster.end(0)
        await asyncio.sleep(0.01)
        assert await cluster.workers[1].take_slot(A, loop.time()) == 0
        await cluster.end(1)
        await cluster.close()

    run_virtual(live())


def test_a_cancelled_call_takes_nothing() -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(SETTLED_S)
        loop = asyncio.get_running_loop()
        taking = asyncio.create_task(cluster.workers[0].take_slot(A, loop.time()))
        await asyncio.sleep(0.001)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        await asyncio.sleep(0.01)
        assert await cluster.workers[1].take_slot(A, loop.time()) == 0
        await cluster.end(1)
        await cluster.close()

    run_virtual(live())


def test_a_slow_pool_slows_and_a_slower_one_is_away() -> None:
    async def live() -> None:
        cluster = Cluster(2)
        await asyncio.sleep(SETTLED_S)
        for link in cluster.links:
            link.latency_s = 0.1
        gaps = _gaps(await _starts(cluster, [0, 1, 0, 1]))
        assert min(gaps) >= 0.5
        assert max(gaps) < 1.5
        assert cluster.states() == {PoolState.SHARED}
        await cluster.close()

    run_virtual(live())
