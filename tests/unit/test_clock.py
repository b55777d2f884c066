"""The real clock and executors."""

from __future__ import annotations

import threading
import time

import pytest

from lycosa.base.system.clock import SystemClock, ThreadOffload


async def test_sleeping_is_never_shorter_than_asked() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0.02)
    assert clock.monotonic() - before >= 0.02


@pytest.mark.parametrize("delay_s", [0.0, -5.0])
async def test_a_delay_that_has_passed_gives_way_once(delay_s: float) -> None:
    await SystemClock().sleep(delay_s)


def test_wall_time_is_unix_time() -> None:
    assert abs(SystemClock().wall() - time.time()) < 5


async def test_work_runs_on_a_thread_of_its_own() -> None:
    offload = ThreadOffload(threads=1, name="work")
    assert (await offload.run(lambda: threading.current_thread().name)).startswith("work")
    offload.close()


def _fail() -> None:
    raise OSError("disk full")


async def test_an_error_of_the_work_reaches_who_waits() -> None:
    offload = ThreadOffload()
    with pytest.raises(OSError, match="disk full"):
        await offload.run(_fail)
    offload.close()
