"""Whether this machine's clock is right, as far as the servers that answer can tell.

A signature has the time of its creation, and verifiers refuse one from the future or the past. In a
cluster the coordinator compares the clocks of its nodes, which says nothing when all of them, or
the only machine, are wrong. An answer of a server has a ``Date`` (RFC 9110 section 6.6.1). Single
servers are often wrong, so the median over many addresses counts: one sample an address, and none
of a cache's old answers (``Age``). The difference is taken against the monotonic clock, so a wall
clock that is set is judged by all samples at once.
"""

from __future__ import annotations

import calendar
import re
import statistics
from collections import OrderedDict

MIN_CLOCKS = 7
"""With fewer there is no judgement: the clock counts as right."""
_MAX_ADDRESSES = 101
_AGAIN_S = 60.0  # until an address gives its next sample
_OLD_S = 3600.0  # the age of a sample that does not count any more
_DATE = re.compile(
    r"[A-Z][a-z]{2}, (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT", re.ASCII
)
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}  # in any locale


class ServerClocks:
    """The latest differences between servers' clocks and our monotonic clock, by address."""

    __slots__ = ("_median", "_samples")

    def __init__(self) -> None:
        # by address: date minus monotonic time, and when; the oldest first
        self._samples: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._median: float | None = None

    def note_date(self, address: str, date: str, age: str, now: float) -> None:
        """Take the ``Date`` and ``Age`` of an answer that began at ``now`` (monotonic)."""
        _, last = self._samples.get(address, (0.0, -_AGAIN_S))
        if now - last < _AGAIN_S or age not in ("", "0"):
            return
        seconds = date_seconds(date)
        if seconds is None:
            return
        # In the middle of the second that the header names.
        self._samples[address] = seconds + 0.5 - now, now
        self._samples.move_to_end(address)
        while len(self._samples) > _MAX_ADDRESSES or self._oldest() < now - _OLD_S:
            self._samples.popitem(last=False)
        is_enough = len(self._samples) >= MIN_CLOCKS
        self._median = (
            statistics.median(each for each, _ in self._samples.values()) if is_enough else None
        )

    def ahead_s(self, wall: float, now: float) -> float:
        """Seconds by which our wall clock is ahead of the servers'; 0 if too few are known.

        ``wall`` and ``now`` (monotonic) are of the same moment.
        """
        return 0.0 if self._median is None else wall - now - self._median

    def _oldest(self) -> float:
        return next(iter(self._samples.values()))[1]

    def __repr__(self) -> str:
        return f"<ServerClocks {len(self._samples)} addresses>"


def date_seconds(date: str) -> float | None:
    """Unix time of a date in the form that RFC 9110 section 5.6.7 asks for; ``None`` for others."""
    found = _DATE.fullmatch(date)
    month = _MONTHS.get(found[2]) if found else None
    if found is None or not month:
        return None
    day, year, hour, minute, second = map(int, found.group(1, 3, 4, 5, 6))
    if not (1 <= day <= 31 and year >= 1970 and hour < 24 and minute < 60 and second <= 60):
        return None
    return float(calendar.timegm((year, month, day, hour, minute, second)))
