"""The steps that a worker takes when the crawl's memory comes near its bound.

The plan (``memory_plan``) bounds what is kept on purpose. It cannot bound memory that the C library
retains, or a page of a kind that the plan did not expect. So the supervisor adds up the memory of
all processes and sends the sum to the workers, and each worker decides for itself. Workers that use
most of their share act first. A step needs some time to show its effect, so the steps follow one
another; only close to the bound are all taken at once. Steps that cost more come later.
"""

from __future__ import annotations

from enum import IntEnum

FAR, NEAR, CLOSE = 0.80, 0.88, 0.93  # of the bound
_STEP_S = 2.0
_STALLED_S = 10.0
_HIGH = 0.8  # of a worker's share; a worker above it is among those that act first


class ReliefStep(IntEnum):
    """The steps; each includes those before it."""

    NONE = 0  # far from the bound
    TRIM = 1  # free memory is returned to the system
    CACHES = 2  # caches that only save lookups are dropped, the tables' cache is halved
    WORKBENCH = 3  # fewer hosts on the workbench
    PARSER = 4  # a fresh parse child
    STOP = 5  # no new fetches
    NARROW = 6  # nothing helped and nothing is left to free: one page at a time

    @property
    def meaning(self) -> str:
        """A phrase for messages; empty for ``NONE``."""
        return _MEANING[self]


_MEANING = {
    ReliefStep.NONE: "",
    ReliefStep.TRIM: "returns free memory to the system",
    ReliefStep.CACHES: "drops caches",
    ReliefStep.WORKBENCH: "takes fewer hosts",
    ReliefStep.PARSER: "starts a fresh parse child",
    ReliefStep.STOP: "fetches nothing until there is more room",
    ReliefStep.NARROW: (
        "has no memory left to free, and fetches one page at a time; --memory is too little for"
        " this crawl"
    ),
}


class MemoryGuard:
    """Decides the relief step of one worker.

    ``bound`` is the crawl's and ``share`` this worker's, in bytes. Times are monotonic seconds.
    """

    def __init__(self, bound: int, share: int) -> None:
        self._bound, self._share = bound, share
        self._since = 0.0
        self.relief = ReliefStep.NONE

    def choose_step(self, now: float, total: int, mine: int, running: int) -> ReliefStep:
        """The step to take now.

        ``total`` bytes are held by all processes, ``mine`` by this worker and its parser;
        ``running`` is the number of its visits.
        """
        if total < FAR * self._bound:
            self.relief, self._since = ReliefStep.NONE, 0.0
        elif self.relief >= ReliefStep.STOP:
            if not running and now - self._since >= _STALLED_S:
                self._go(ReliefStep.NARROW, now)  # the remaining memory cannot be freed
        elif total >= CLOSE * self._bound:
            self._go(ReliefStep.STOP, now)
        elif (
            total >= NEAR * self._bound
            and mine >= _HIGH * self._share
            and (not self.relief or now - self._since >= _STEP_S)
        ):
            self._go(ReliefStep(self.relief + 1), now)
        return self.relief

    def _go(self, relief: ReliefStep, now: float) -> None:
        self.relief, self._since = relief, now
