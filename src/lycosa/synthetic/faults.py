"""Faults by seed: crashes at named points, lost connections, a slow or full disk.

One number reproduces one sequence of faults. The code under test is not changed for it. The
wrappers reach the points at its ports, ``VirtualLoop`` at every turn of the loop
(``on_turn=faults.turn``), and a harness may call ``reach`` anywhere else. A first run without a
crash counts the points; later runs crash at the n-th. After a crash every point crashes too, so
that a ``finally`` block cannot do what a dead process could not.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import msgspec

from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.ports import Clock, Fetcher, Offload
from lycosa.base.reasons import Reason
from lycosa.synthetic.virtual_clock import Crash

_T = TypeVar("_T")


class FaultRates(msgspec.Struct, frozen=True, kw_only=True):
    """How often faults happen; rates in [0, 1].

    ``disk_slow_s`` is the length of a slow disk operation.
    """

    connection_lost: float = 0.0
    disk_slow: float = 0.0
    disk_slow_s: float = 5.0
    disk_full: float = 0.0


class Faults:
    """Counts the points reached and crashes at one of them.

    That is the ``crash_at``-th (1 = the first, 0 = never) of those whose name starts with
    ``crash_point``.
    """

    def __init__(
        self,
        chance: random.Random,
        rates: FaultRates | None = None,
        *,
        crash_at: int = 0,
        crash_point: str = "",
    ) -> None:
        self.rates = rates or FaultRates()
        self.counts: Counter[str] = Counter()
        self.reached = 0
        self.is_dead = False
        self._chance = chance
        self._crash_at = crash_at
        self._crash_point = crash_point

    def reach(self, point: str) -> None:
        """Reach a point such as ``before:commit-log`` or ``after:warc``.

        Raises ``Crash`` when it is the chosen one.
        """
        if self.is_dead:
            raise Crash(point)
        self.counts[point] += 1
        if not point.startswith(self._crash_point):
            return
        self.reached += 1
        if self.reached == self._crash_at:
            self.is_dead = True
            raise Crash(point)

    def turn(self) -> None:
        """The hook for ``run_virtual(on_turn=...)``.

        A crash at a turn of the loop is a crash at a random await.
        """
        self.reach("turn")

    def happens(self, rate: float) -> bool:
        """Whether a fault with this rate happens now, at random."""
        return rate > 0.0 and self._chance.random() < rate


class FaultyFetcher:
    """The ``Fetcher`` port around another one, with points ``before:fetch`` and ``after:fetch``."""

    def __init__(self, inner: Fetcher, clock: Clock, faults: Faults) -> None:
        self._inner, self._clock, self._faults = inner, clock, faults

    async def fetch(self, request: FetchRequest) -> Fetched:
        self._faults.reach("before:fetch")
        if self._faults.happens(self._faults.rates.connection_lost):
            started = self._clock.wall()
            await self._clock.sleep(0.05)
            return Fetched(
                request.url,
                Reason.CONNECTION_LOST,
                "injected",
                address=request.address,
                started=started,
                duration_s=0.05,
            )
        fetched = await self._inner.fetch(request)
        self._faults.reach("after:fetch")
        return fetched

    async def close(self) -> None:
        await self._inner.close()


class FaultyOffload:
    """The ``Offload`` port around another one.

    The points ``before:offload`` and ``after:offload`` enclose the work itself.
    """

    def __init__(self, inner: Offload, clock: Clock, faults: Faults) -> None:
        self._inner, self._clock, self._faults = inner, clock, faults

    async def run(self, work: Callable[[], _T]) -> _T:
        rates = self._faults.rates
        if self._faults.happens(rates.disk_slow):
            await self._clock.sleep(rates.disk_slow_s)
        is_full = self._faults.happens(rates.disk_full)

        def enclosed() -> _T:
            self._faults.reach("before:offload")
            if is_full:
                raise OSError(errno.ENOSPC, "no space left on device (injected)")
            result = work()
            self._faults.reach("after:offload")
            return result

        return await self._inner.run(enclosed)
