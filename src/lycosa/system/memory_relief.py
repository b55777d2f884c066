"""What a worker does when the crawl's memory comes near its bound, one step after the other until
it is far from it again.

The plan (``memory_plan``) bounds what is kept on purpose. It cannot bound what the C library
hoards, or a page of another kind than was reckoned with, so the supervisor adds up what all
processes hold and tells the workers; each judges for itself. First those act that hold most of
their share. Each step needs a moment to show, so they follow each other, except close to the bound,
where all are taken at once. A step that costs more comes later.
"""

from __future__ import annotations

from enum import IntEnum

FAR, NEAR, CLOSE = 0.80, 0.88, 0.93  # of the bound
_STEP_S = 2.0
_STALLED_S = 10.0
_HIGH = 0.8  # of a worker's share: beyond it, it is among those that act first


class Relief(IntEnum):
    """The steps; each includes those before it."""

    NONE = 0  # far from the bound
    TRIM = 1  # memory that is free is given back to the system
    CACHES = 2  # what only saves look-ups is dropped, the tables' cache halved
    WORKBENCH = 3  # fewer hosts in attention
    PARSER = 4  # a fresh parse child
    STOP = 5  # nothing new is fetched
    NARROW = 6  # it did not help, and nothing is left to give: one page at a time

    @property
    def meaning(self) -> str:
        """For people; nothing when there is nothing to say."""
        return _MEANING[self]


_MEANING = {
    Relief.NONE: "",
    Relief.TRIM: "gives free memory back",
    Relief.CACHES: "drops caches",
    Relief.WORKBENCH: "takes fewer hosts",
    Relief.PARSER: "starts a fresh parse child",
    Relief.STOP: "fetches nothing until there is more room",
    Relief.NARROW: (
        "has nothing left to give, and fetches one page at a time; --memory is too little for this"
        " crawl"
    ),
}


class MemoryGuard:
    """Judges for one worker. ``bound`` is the crawl's, ``share`` this worker's; bytes. Times are
    monotonic seconds.
    """

    def __init__(self, bound: int, share: int) -> None:
        self._bound, self._share = bound, share
        self._since = 0.0
        self.relief = Relief.NONE

    def __repr__(self) -> str:
        return f"<MemoryGuard {self.relief.name} bound={self._bound}>"

    def judge(self, now: float, total: int, mine: int, running: int) -> Relief:
        """The step to be at: all processes hold ``total``, this worker and its parser ``mine``,
        and it has ``running`` visits.
        """
        if total < FAR * self._bound:
            self.relief, self._since = Relief.NONE, 0.0
        elif self.relief >= Relief.STOP:
            if not running and now - self._since >= _STALLED_S:
                self._go(Relief.NARROW, now)  # whatever keeps the rest cannot be dropped
        elif total >= CLOSE * self._bound:
            self._go(Relief.STOP, now)
        elif (
            total >= NEAR * self._bound
            and mine >= _HIGH * self._share
            and (not self.relief or now - self._since >= _STEP_S)
        ):
            self._go(Relief(self.relief + 1), now)
        return self.relief

    def _go(self, relief: Relief, now: float) -> None:
        self.relief, self._since = relief, now
