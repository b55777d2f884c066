"""The longest turn of a worker's event loop, in processor time.

Everything that a worker decides happens on one loop. One turn runs all steps that are ready, so a
long turn delays every host: responses wait to be read, delays grow, and after a minute of silence
the supervisor replaces the worker.

The meter is a timer that sets itself again. The processor time of the loop's thread between two
calls of the timer is at least that of the longest turn between them, and at most some twenty
milliseconds more. Waiting, other threads and a busy machine do not count.
"""

from __future__ import annotations

import asyncio
import time

_BUSY_S = 0.02
_QUIET_S = 0.1  # an idle worker should not wake fifty times a second
_QUIET_SHARE = 0.1


class LoopMeter:
    """Measures the loop of the thread it runs on, from ``start`` to ``stop``."""

    def __init__(self) -> None:
        self.longest_turn_s = 0.0
        """Seconds of processor time; the maximum since ``start``."""
        self._timer: asyncio.TimerHandle | None = None
        self._used_s = 0.0

    def start(self) -> None:
        """Begin to measure. Needs a running loop."""
        self._used_s = time.thread_time()
        self._set(_BUSY_S)

    def stop(self) -> None:
        """Stop measuring. Further calls do nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._beat)

    def _beat(self) -> None:
        used_s = time.thread_time()
        step_s, self._used_s = used_s - self._used_s, used_s
        if step_s > self.longest_turn_s:
            self.longest_turn_s = step_s
        self._set(_BUSY_S if step_s > _BUSY_S * _QUIET_SHARE else _QUIET_S)
