"""The real clock and the real executors, behind the ports that virtual time replaces.

Delays between requests are measured with a clock that also counts the time a machine was suspended
(``CLOCK_BOOTTIME`` on Linux; ``CLOCK_MONOTONIC`` counts it on macOS): a laptop that slept for an
hour owes no host a delay any more, and a lease on a host must not outlive the sleep. The event
loop's own timers use ``CLOCK_MONOTONIC``, which on Linux stands still while suspended. So a
``sleep`` may last longer than asked, seen from ``monotonic``, and never shorter: whoever sleeps
reads the clock again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def _suspension_counting_clock() -> Callable[[], float]:
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        clock_id = getattr(time, name, None)
        if clock_id is not None:
            return partial(time.clock_gettime, clock_id)
    return time.monotonic


class SystemClock:
    """The machine's clocks, in seconds."""

    def __init__(self) -> None:
        self._monotonic = _suspension_counting_clock()

    def monotonic(self) -> float:
        """Seconds since some fixed moment, suspension included where the system can tell."""
        return self._monotonic()

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    async def sleep(self, delay_s: float) -> None:
        """Gives way for at least ``delay_s``; a delay of zero or less still gives way once."""
        await asyncio.sleep(max(delay_s, 0.0))


class ThreadOffload:
    """Runs blocking work in a few threads of its own.

    They are all started here, so that work never waits for a thread that the system cannot give.
    Raises ``RuntimeError`` then.
    """

    def __init__(self, threads: int = 2, name: str = "offload") -> None:
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)
        together = threading.Barrier(threads + 1)  # each start has to be met by a thread of its own
        try:
            for _ in range(threads):
                self._executor.submit(together.wait)
            together.wait()
        except BaseException:
            together.abort()
            raise

    async def run(self, work: Callable[[], T]) -> T:
        """The result of ``work``, or its exception. Cancelling the wait does not stop work that
        has started.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """Waits for the work that has started and ends the threads."""
        self._executor.shutdown(wait=True, cancel_futures=True)


class InlineOffload:
    """Runs the work at once, on the caller's thread: for virtual time and for tests."""

    async def run(self, work: Callable[[], T]) -> T:
        """The result of ``work``, or its exception."""
        return work()

    def close(self) -> None:
        """Has nothing to end."""
