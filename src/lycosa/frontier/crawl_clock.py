"""Crawl time: the clock by which a crawl waits, which never goes back.

Whatever waits longer than a run (a retry, a refetch, a parked host, Retry-After, robots.txt) is
stored with the time at which the wait is over. The wall clock cannot measure that: it may be wrong
while the machine starts, and be set right later. A time that was stored while the clock was a year
ahead would then lie a year ahead.

Within a run crawl time follows the monotonic clock. From one run to the next it follows the wall
clock, but never goes back behind the last commit: when the wall clock was set back, crawl time
continues from that commit and stays ahead of the wall clock by the difference. It is the wall clock
again as soon as that has caught up. So a stored wait never becomes longer, and no stored row has to
be read or changed when the clock was set back.

Only waits are counted in crawl time. What is written down for people and for other programs (WARC
dates, the attempt log, the time of a fetch) is wall time.
"""

from __future__ import annotations

from lycosa.ports import Clock

LATEST = 4_102_444_800.0
"""A run begins at 2100-01-01 at the latest: the schedule stores times in 32 bits, which end in
2106.
"""


CLOCK_TOLERANCE_S = 4.0
"""By how much the wall clocks of two nodes may differ: each by two seconds from the
coordinator's.
"""


class CrawlClock:
    """The clock of a crawl: ``time`` is crawl time, the rest is that of ``clock``.

    ``base`` is crawl time minus monotonic time, the same for all workers of a run; by default crawl
    time is the wall clock now.
    """

    __slots__ = ("_base", "_clock", "monotonic", "sleep", "wall")

    def __init__(self, clock: Clock, base: float | None = None) -> None:
        self._clock = clock
        self._base = clock.wall() - clock.monotonic() if base is None else base
        self.monotonic = clock.monotonic
        self.wall = clock.wall
        self.sleep = clock.sleep

    def time(self) -> float:
        """Seconds since 1970 as the crawl counts them."""
        return self._base + self._clock.monotonic()

    def __repr__(self) -> str:
        return f"<CrawlClock {ahead_s(self.time(), self.wall()):.0f} s ahead>"


def time_at_start(wall: float, last_wall: float, last_time: float) -> float:
    """Crawl time at the start of a run at ``wall``; the others are of the last commit, 0 when there
    was none.

    A commit of a program that did not write crawl time has 0 there: it was the wall clock.
    """
    last_time = last_time or last_wall
    if wall >= last_time:
        time = wall
    elif wall >= last_wall:
        time = wall + (last_time - last_wall)  # the clock is still the one that was set back
    else:
        time = last_time
    return min(time, LATEST)


def time_after_takeover(wall: float, last_wall: float, last_time: float) -> float:
    """Crawl time of a shard at its start on a node whose wall clock says ``wall``; the others are
    of the last commit, by another clock, 0 when there was none.

    It goes on from the last commit by what has passed since at the very least, as far as clocks
    that differ can tell: so no stored time is reached early. It may fall behind the wall clock by
    some seconds with each takeover, and waits get longer by that.
    """
    if not last_wall:
        return min(wall, LATEST)
    return min((last_time or last_wall) + max(wall - last_wall - CLOCK_TOLERANCE_S, 0.0), LATEST)


def ahead_s(time: float, wall: float) -> float:
    """How far crawl time is ahead of the wall clock, 0 when it is not: the clock was set back by
    that much.
    """
    return max(time - wall, 0.0)
