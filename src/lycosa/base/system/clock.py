"""The real clock and the real executors, behind the ports that virtual time replaces.

Delays between requests are measured with a clock that includes the time a machine was suspended
(``CLOCK_BOOTTIME`` on Linux; ``CLOCK_MONOTONIC`` includes it on macOS). After an hour of suspension
every delay has passed, and a lease on a host must not outlive the suspension. The event loop's
timers use ``CLOCK_MONOTONIC``, which on Linux stops while the machine is suspended. So a ``sleep``
may last longer than asked as measured by ``monotonic``, and never shorter: read the clock again
after each sleep.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

_T = TypeVar("_T")


def _suspension_counting_clock() -> Callable[[], float]:
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        clock_id = getattr(time, name, None)
        if clock_id is not None:
            return partial(time.clock_gettime, clock_id)
    return time.monotonic


class SystemClock:
    """The machine's clocks, in seconds.

    ``monotonic`` returns the seconds since a fixed moment, including suspension where the system
    reports it; ``wall`` those since 1970. Both are C functions without a Python frame around them,
    because a page reads the clock forty times.
    """

    monotonic = staticmethod(_suspension_counting_clock())
    wall = staticmethod(time.time)

    async def sleep(self, delay_s: float) -> None:
        """Yield to the event loop for at least ``delay_s`` seconds.

        A delay of zero or less still yields once.
        """
        await asyncio.sleep(max(delay_s, 0.0))


class ThreadOffload:
    """Runs blocking work in a small pool of threads.

    All threads start in the constructor, so that no work waits later for a thread that the system
    cannot start. Raises ``RuntimeError`` when one cannot be started.
    """

    def __init__(self, threads: int = 2, name: str = "offload") -> None:
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)
        # each submitted wait blocks its thread, so the pool has to start a new one for the next
        together = threading.Barrier(threads + 1)
        try:
            for _ in range(threads):
                self._executor.submit(together.wait)
            together.wait()
        except BaseException:
            together.abort()
            raise

    async def run(self, work: Callable[[], _T]) -> _T:
        """The result of ``work``, or its exception.

        Cancelling the caller does not stop work that has started.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """Wait for the work that has started, drop what has not, and end the threads."""
        self._executor.shutdown(wait=True, cancel_futures=True)
