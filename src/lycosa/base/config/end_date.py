"""The date at which a run stops: ``2027-01-31T18:00``, ``2027-01-31``, ``18:00``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_CLOCK = re.compile(r"(\d{1,2}):(\d\d)")


def read_end_date(text: str, now: datetime) -> datetime:
    """The date, with a time zone. Raises ``ValueError``, which says how to write it.

    Without an offset it is local time. A time of day is its next occurrence after ``now``, and a
    date without a time is the beginning of that day.
    """
    text = text.strip()
    try:
        if (clock := _CLOCK.fullmatch(text)) is not None:
            return _next(now.astimezone(), int(clock[1]), int(clock[2]))
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a date or a time of day; write 2027-01-31T18:00, 2027-01-31 or 18:00"
        ) from None
    return found if found.tzinfo else found.astimezone()


def check_end_date(text: str) -> None:
    """Raises ``ValueError`` as ``read_end_date``."""
    if text:
        read_end_date(text, datetime.now().astimezone())


def _next(now: datetime, hour: int, minute: int) -> datetime:
    today = now.replace(tzinfo=None, hour=hour, minute=minute, second=0, microsecond=0)
    # by the calendar, and only then in local time: a day may have 23 hours
    if today.astimezone() <= now:
        today += timedelta(days=1)
    return today.astimezone()
