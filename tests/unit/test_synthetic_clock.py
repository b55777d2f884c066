"""Virtual time: it jumps, it is the same every time, it finds deadlocks, and a crash leaves
nothing running.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from lycosa.synthetic import (
    VIRTUAL_EPOCH,
    Crash,
    Deadlock,
    VirtualClock,
    VirtualLoop,
    VirtualOffload,
    run_virtual,
)


def test_a_month_of_sleep_takes_no_time() -> None:
    async def main() -> tuple[float, float]:
        clock = VirtualClock()
        await clock.sleep(30 * 86400)
        return clock.monotonic(), clock.wall()

    monotonic, wall = run_virtual(main())  # with a real clock it would not end
    assert monotonic == pytest.approx(30 * 86400, abs=1e-3) and wall == pytest.approx(
        VIRTUAL_EPOCH + monotonic
    )


def test_sleepers_wake_in_order_of_their_time() -> None:
    async def main() -> list[int]:
        woken: list[int] = []

        async def sleeper(seconds: int) -> None:
            await asyncio.sleep(seconds)
            woken.append(seconds)

        await asyncio.gather(*(sleeper(seconds) for seconds in (50, 7, 3600, 1)))
        return woken

    assert run_virtual(main()) == [1, 7, 50, 3600]


async def race() -> list[int]:
    winners: list[int] = []

    async def runner(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(1.0)
            winners.append(number)

    await asyncio.gather(*(runner(number) for number in range(5)))
    return winners


def test_one_seed_is_one_history_and_seeds_differ() -> None:
    histories = [tuple(run_virtual(race(), seed=seed)) for seed in (1, 1, 2, 3)]
    assert histories[0] == histories[1]
    assert len(set(histories)) > 1


def test_without_a_seed_nothing_is_drawn() -> None:
    async def main() -> float:
        await asyncio.sleep(2.5)
        return asyncio.get_running_loop().time()

    assert run_virtual(main(), seed=None, start=100.0) == 102.5


def test_a_deadlock_is_reported_with_the_place_of_every_waiter() -> None:
    async def wait_for_godot() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.sleep(5)
        task = asyncio.create_task(wait_for_godot(), name="estragon")
        await task

    with pytest.raises(Deadlock, match=r"at 5\.0.*estragon waits in Event\.wait"):
        run_virtual(main())


def test_a_timeout_fires_in_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(86400):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(86400, abs=1e-3)


def test_threads_are_refused() -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="Offload"):
        run_virtual(main())


def test_the_wall_clock_can_jump_and_the_monotonic_does_not() -> None:
    async def main() -> tuple[float, float]:
        clock = VirtualClock(epoch=1000.0)
        clock.jump(-500.0)
        await clock.sleep(10.0)
        return clock.monotonic(), clock.wall()

    monotonic, wall = run_virtual(main(), seed=None)
    assert (monotonic, wall) == (10.0, 510.0)


def test_a_suspended_machine_loses_time_on_both_clocks() -> None:
    async def main() -> tuple[float, float]:
        clock, loop = VirtualClock(epoch=0.0), asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.skip(3600.0)
        return clock.monotonic(), clock.wall()

    assert run_virtual(main()) == (3600.0, 3600.0)


def test_offloaded_work_lets_others_run_before_and_after_it() -> None:
    async def main() -> list[str]:
        events: list[str] = []
        offload = VirtualOffload(random.Random(1), mean_s=0.1)

        async def ticker() -> None:
            for _ in range(100):
                events.append("tick")
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(ticker())
        await offload.run(lambda: events.append("work"))
        events.append("known")
        await ticking
        return events

    events = run_virtual(main())
    work, known = events.index("work"), events.index("known")
    assert "tick" in events[:work] and "tick" in events[work:known]


def test_offloaded_work_goes_on_when_its_caller_is_cancelled_and_its_errors_reach_the_caller() -> (
    None
):
    async def main() -> list[str]:
        done: list[str] = []
        offload = VirtualOffload(random.Random(1), mean_s=1.0)
        task = asyncio.create_task(offload.run(lambda: done.append("work")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(100)
        with pytest.raises(ZeroDivisionError):
            await offload.run(lambda: 1 // 0)
        return done

    assert run_virtual(main()) == ["work"]


def test_after_a_crash_no_task_runs_any_more() -> None:
    events: list[str] = []

    async def bystander() -> None:
        try:
            await asyncio.sleep(1.0)
            events.append("went on")
        except asyncio.CancelledError:
            events.append("was told")
            raise

    async def victim() -> None:
        await asyncio.sleep(0.5)
        raise Crash("here")

    async def main() -> None:
        await asyncio.gather(bystander(), bystander(), victim())

    with pytest.raises(Crash) as caught:
        run_virtual(main())
    assert caught.value.point == "here" and events == []


def test_a_crash_at_a_turn_of_the_loop_stops_everything() -> None:
    turns = 0

    def on_turn() -> None:
        nonlocal turns
        turns += 1
        if turns == 40:
            raise Crash("turn")

    async def stubborn() -> None:
        try:
            for _ in range(10**9):
                await asyncio.sleep(1)
        finally:
            await asyncio.sleep(1)

    with pytest.raises(Crash):
        run_virtual(stubborn(), on_turn=on_turn)
    assert turns == 40


def test_an_ordinary_error_comes_through_and_tasks_are_cancelled() -> None:
    events: list[str] = []

    async def other() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            events.append("cleaned up")

    async def main() -> None:
        keep = asyncio.create_task(other())
        await asyncio.sleep(1)
        assert not keep.done()
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        run_virtual(main())
    assert events == ["cleaned up"]
