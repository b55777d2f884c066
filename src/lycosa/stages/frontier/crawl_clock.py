"""Crawl time: the clock by which a crawl waits, which never goes back.

Waits longer than a run (a retry, a refetch, a parked host, Retry-After, robots.txt) are stored with
the time of their end. The wall clock cannot measure them. It may be wrong while the machine starts
and be corrected later. A time stored while the clock was a year ahead would then be a year ahead.

Within a run crawl time follows the monotonic clock. From one run to the next it follows the wall
clock, but it never goes back behind the last commit. When the wall clock was set back, crawl time
continues from that commit and stays ahead of the wall clock by the difference. It equals the wall
clock again as soon as that has caught up. So a stored wait never becomes longer, and no stored row
has to be read or changed when the clock was set back.

Only waits use crawl time. Times written for people and for other programs (WARC dates, the attempt
log, the time of a fetch) are wall time.
"""

from __future__ import annotations

from lycosa.base.ports import Clock

LATEST = 4_102_444_800.0
"""The latest start of a run (2100-01-01).

The schedule stores times in 32 bits, which end in 2106.
"""


CLOCK_TOLERANCE_S = 4.0
"""Maximum difference between the wall clocks of two nodes.

Each may differ from the coordinator's by two seconds.
"""


class CrawlClock:
    """The clock of a crawl: ``time`` is crawl time, everything else comes from ``clock``.

    ``base`` is crawl time minus monotonic time, the same for all workers of a run. By default crawl
    time equals the wall clock now.
    """

    __slots__ = ("_base", "_clock", "monotonic", "sleep", "wall")

    def __init__(self, clock: Clock, base: float | None = None) -> None:
        self._clock = clock
        self._base = clock.wall() - clock.monotonic() if base is None else base
        self.monotonic = clock.monotonic
        self.wall = clock.wall
        self.sleep = clock.sleep

    def time(self) -> float:
        """Crawl time in seconds since 1970."""
        return self._base + self.monotonic()


def time_at_start(wall: float, last_wall: float, last_time: float) -> float:
    """Crawl time at the start of a run at ``wall``.

    ``last_wall`` and ``last_time`` are those of the last commit, 0 if there was none. ``last_time``
    is also 0 in a commit of an older program, whose crawl time was the wall clock.
    """
    last_time = last_time or last_wall
    if wall >= last_time:
        time = wall
    elif wall >= last_wall:
        time = wall + (last_time - last_wall)  # the wall clock is still set back
    else:
        time = last_time
    return min(time, LATEST)


def time_after_takeover(wall: float, last_wall: float, last_time: float) -> float:
    """Crawl time of a shard at its start on a node whose wall clock is ``wall``.

    ``last_wall`` and ``last_time`` are those of the last commit, by another clock, 0 if there was
    none. Crawl time continues from the last commit by at least the time that has passed since, as
    far as two different clocks can show. So no stored time is reached early. Crawl time may fall
    behind the wall clock by some seconds with each takeover, and waits get longer by that.
    """
    if not last_wall:
        return min(wall, LATEST)
    return min((last_time or last_wall) + max(wall - last_wall - CLOCK_TOLERANCE_S, 0.0), LATEST)


def ahead_s(time: float, wall: float) -> float:
    """Seconds by which crawl time is ahead of the wall clock, because that was set back; else 0."""
    return max(time - wall, 0.0)
