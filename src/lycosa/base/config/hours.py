"""Hours of the week in which a crawl may send requests, as ``Mon-Fri 20:00-06:30 Europe/Berlin``.

Days and time zone may be left out: the window is then of every day, in local time of the machine.
A window that ends before it begins ends on the next day. Several windows are alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FORM = re.compile(
    r"(?:(?P<days>[A-Za-z,-]+)\s+)?(?P<begin>\d{1,2}:\d\d)\s*-\s*(?P<end>\d{1,2}:\d\d)"
    r"(?:\s+(?P<zone>[A-Za-z][\w+/-]*))?"
)
_DAY_MINUTES = 24 * 60
_EXAMPLES = "write 22:00-06:00, Mon-Fri 20:00-06:30, or Sat,Sun 00:00-24:00 Europe/Berlin"


class OpenHours(msgspec.Struct, frozen=True):
    """One window: the weekdays on which it begins (Monday is 0), minutes of the day, its zone.

    ``end`` is greater than ``begin``, and beyond a day's minutes when it is on the next day.
    ``zone`` is empty for local time.
    """

    days: frozenset[int]
    begin: int
    end: int
    zone: str = ""

    def times_near(self, wall: float) -> list[tuple[float, float]]:
        """Beginnings and ends in epoch seconds, from the day before ``wall`` to a week after it."""
        zone = ZoneInfo(self.zone) if self.zone else None
        today = datetime.fromtimestamp(wall, zone).date()
        days = [today + timedelta(days=ahead) for ahead in range(-1, 8)]
        return [
            (_moment(day, self.begin, zone), _moment(day, self.end, zone))
            for day in days
            if day.weekday() in self.days
        ]


def read_hours(texts: Sequence[str]) -> tuple[OpenHours, ...]:
    """The windows. Raises ``ValueError``, which says how to write them."""
    return tuple(_read(text) for text in texts if text.strip())


def check_hours(texts: Sequence[str]) -> None:
    """Raises ``ValueError`` as ``read_hours``."""
    read_hours(texts)


def closed_s(windows: Sequence[OpenHours], wall: float) -> float:
    """Seconds until a window is open; 0 when one is, and when there are none."""
    if not windows:
        return 0.0
    times = [each for window in windows for each in window.times_near(wall)]
    if any(begin <= wall < end for begin, end in times):
        return 0.0
    return min(begin for begin, _ in times if begin > wall) - wall


def _read(text: str) -> OpenHours:
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a window of hours; {_EXAMPLES}")
    begin, end = _minutes(found["begin"], text), _minutes(found["end"], text)
    zone = found["zone"] or ""
    try:
        ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"{zone!r} in {text!r} is not a time zone of this machine; write a name such as"
            " Europe/Berlin, and install tzdata if the machine has no time zones"
        ) from None
    if end <= begin:
        end += _DAY_MINUTES
    return OpenHours(_days(found["days"], text), begin, end, zone)


def _minutes(clock: str, text: str) -> int:
    hours, minutes = map(int, clock.split(":"))
    total = hours * 60 + minutes
    if minutes > 59 or total > _DAY_MINUTES:
        raise ValueError(f"{clock!r} in {text!r} is not a time of day; {_EXAMPLES}")
    return total


def _days(names: str | None, text: str) -> frozenset[int]:
    if names is None:
        return frozenset(range(7))
    days: set[int] = set()
    for part in names.lower().split(","):
        first, _, last = part.partition("-")
        try:
            begin, end = _DAYS.index(first), _DAYS.index(last or first)
        except ValueError:
            raise ValueError(
                f"{part!r} in {text!r} is not a day of the week; write Mon, Tue, ..., or Mon-Fri"
            ) from None
        # from Friday to Monday the week's end is passed
        days |= {each % 7 for each in range(begin, end + 1 if begin <= end else end + 8)}
    return frozenset(days)


def _moment(day: date, minutes: int, zone: ZoneInfo | None) -> float:
    later, rest = divmod(minutes, _DAY_MINUTES)
    clock = datetime.min.time().replace(hour=rest // 60, minute=rest % 60)
    return datetime.combine(day + timedelta(days=later), clock, zone).timestamp()
