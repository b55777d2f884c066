"""Faults by seed: points are counted, a crash comes at the chosen one, and the wrappers bend
nothing else.
"""

from __future__ import annotations

import asyncio
import errno
import random

import pytest

from lycosa.base.model.fetched import FetchRequest
from lycosa.base.reasons import Reason
from lycosa.synthetic import (
    Crash,
    FaultRates,
    Faults,
    FaultyFetcher,
    FaultyOffload,
    SyntheticFetcher,
    SyntheticWeb,
    VirtualClock,
    VirtualOffload,
    WebPlan,
    run_virtual,
)


def test_the_crash_comes_at_the_nth_point_of_the_name_and_then_at_every_point() -> None:
    faults = Faults(random.Random(0), crash_at=2, crash_point="before:commit")
    for point in ("before:warc", "before:commit-log", "after:commit-log"):
        faults.reach(point)
    with pytest.raises(Crash, match="before:commit-log"):
        faults.reach("before:commit-log")
    assert faults.is_dead and faults.counts["before:commit-log"] == 2
    with pytest.raises(Crash):
        faults.reach("before:warc")


def test_a_run_without_crash_counts_the_points() -> None:
    faults = Faults(random.Random(0))
    for _ in range(5):
        faults.reach("after:warc")
    assert faults.reached == 5 and not faults.is_dead


async def work_through(faults: Faults, done: list[str]) -> None:
    clock = VirtualClock()
    web = SyntheticWeb(WebPlan())
    fetcher = FaultyFetcher(SyntheticFetcher(web, clock), clock, faults)
    offload = FaultyOffload(VirtualOffload(random.Random(0)), clock, faults)
    try:
        for number in range(3):
            await fetcher.fetch(FetchRequest(web.seed_url(), "198.18.0.1"))
            await offload.run(lambda number=number: done.append(f"work {number}"))  # type: ignore[misc]
    finally:
        await offload.run(lambda: done.append("a dead process cannot do this"))


def test_every_point_of_the_ports_can_be_the_last() -> None:
    full: list[str] = []
    counting = Faults(random.Random(0))
    run_virtual(work_through(counting, full))
    assert counting.counts == {
        "before:fetch": 3,
        "after:fetch": 3,
        "before:offload": 4,
        "after:offload": 4,
    }
    for crash_at in range(1, counting.reached - 1):
        done: list[str] = []
        with pytest.raises(Crash):
            run_virtual(work_through(Faults(random.Random(0), crash_at=crash_at), done))
        assert done == full[: len(done)] and len(done) == crash_at // 4 + (crash_at % 4 == 0 and 0)


def test_a_crash_can_come_at_any_turn_of_the_loop() -> None:
    counting = Faults(random.Random(0))
    run_virtual(work_through(counting, []), on_turn=counting.turn)
    assert counting.counts["turn"] > 10
    for crash_at in range(1, counting.counts["turn"]):
        faults = Faults(random.Random(0), crash_at=crash_at, crash_point="turn")
        with pytest.raises(Crash):
            run_virtual(work_through(faults, []), on_turn=faults.turn)


def test_connections_are_lost_at_their_rate() -> None:
    async def main() -> int:
        clock, web = VirtualClock(), SyntheticWeb(WebPlan())
        faults = Faults(random.Random(7), FaultRates(connection_lost=0.3))
        fetcher = FaultyFetcher(SyntheticFetcher(web, clock), clock, faults)
        fetched = [
            await fetcher.fetch(FetchRequest(web.seed_url(), "198.18.0.1")) for _ in range(300)
        ]
        await fetcher.close()
        return sum(each.reason is Reason.CONNECTION_LOST for each in fetched)

    assert 60 < run_virtual(main()) < 120


def test_a_full_disk_is_an_error_of_the_work_and_a_slow_one_takes_time() -> None:
    async def main() -> float:
        clock = VirtualClock()
        full = FaultyOffload(
            VirtualOffload(random.Random(0)),
            clock,
            Faults(random.Random(0), FaultRates(disk_full=1.0)),
        )
        with pytest.raises(OSError) as caught:
            await full.run(lambda: pytest.fail("the work must not be done"))
        assert caught.value.errno == errno.ENOSPC
        slow = FaultyOffload(
            VirtualOffload(random.Random(0)),
            clock,
            Faults(random.Random(0), FaultRates(disk_slow=1.0, disk_slow_s=9.0)),
        )
        assert await slow.run(lambda: 42) == 42
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(9.0, abs=1e-3)
