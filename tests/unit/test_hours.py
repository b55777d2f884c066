"""Windows of hours, and the date at which a run ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.end_date import read_end_date
from lycosa.base.config.hours import closed_s, read_hours

BERLIN = ZoneInfo("Europe/Berlin")


def wall(year: int, month: int, day: int, hour: int, minute: int = 0) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("window", "at", "waits_s"),
    [
        ("22:00-06:00 Europe/Berlin", wall(2026, 11, 24, 23), 0),
        ("22:00-06:00 Europe/Berlin", wall(2026, 11, 25, 5, 59), 0),
        ("22:00-06:00 Europe/Berlin", wall(2026, 11, 25, 6), 16 * 3600),
        ("Mon-Fri 20:00-07:00 Europe/Berlin", wall(2026, 11, 28, 6), 0),  # began on Friday
        ("Mon-Fri 20:00-07:00 Europe/Berlin", wall(2026, 11, 28, 7), 61 * 3600),
        ("Sat,Sun 00:00-24:00 Europe/Berlin", wall(2026, 11, 29, 23, 59), 0),
        ("Sat,Sun 00:00-24:00 Europe/Berlin", wall(2026, 11, 30, 0), 5 * 86400),
        ("Fri-Mon 12:00-13:00 Europe/Berlin", wall(2026, 11, 30, 12, 30), 0),
        # the clocks go back at 03:00 on 25 October 2026, so this night has an hour more
        ("08:00-09:00 Europe/Berlin", wall(2026, 10, 24, 20), 13 * 3600),
    ],
)
def test_a_window_is_open_or_says_how_long_not(window: str, at: float, waits_s: float) -> None:
    assert closed_s(read_hours([window]), at) == waits_s


def test_several_windows_are_alternatives_and_none_is_no_limit() -> None:
    windows = read_hours(["01:00-02:00 UTC", "05:00-06:00 UTC"])
    at = datetime(2026, 11, 24, 3, tzinfo=UTC).timestamp()
    assert closed_s(windows, at) == 2 * 3600
    assert closed_s((), at) == 0


@given(
    begin=st.integers(0, 1439),
    end=st.integers(0, 1439),
    at=st.floats(1.6e9, 2.0e9),
    days=st.sampled_from(["", "Mon ", "Tue-Thu ", "Sat,Sun ", "Fri-Mon "]),
)
def test_after_the_wait_a_window_is_open(begin: int, end: int, at: float, days: str) -> None:
    clock = "{:02}:{:02}-{:02}:{:02}".format(*divmod(begin, 60), *divmod(end, 60))
    windows = read_hours([f"{days}{clock} Europe/Berlin"])
    waits_s = closed_s(windows, at)
    assert 0 <= waits_s <= 8 * 86400
    assert closed_s(windows, at + waits_s) <= 1e-6


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("at night", "is not a window of hours; write 22:00-06:00"),
        ("25:00-26:00", "is not a time of day"),
        ("Mon-Fry 10:00-11:00", "'mon-fry' in 'Mon-Fry 10:00-11:00' is not a day of the week"),
        ("10:00-11:00 Mars/North", "'Mars/North' in '10:00-11:00 Mars/North' is not a time zone"),
    ],
)
def test_what_is_no_window_is_refused_with_an_example(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        read_hours([text])


NOW = datetime(2026, 11, 24, 17, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        ("2026-11-24T18:30+00:00", timedelta(hours=1)),
        ("2026-11-24T18:30+01:00", timedelta()),
        ("2026-11-25T17:30Z", timedelta(days=1)),
    ],
)
def test_an_end_date_has_its_offset(text: str, ahead: timedelta) -> None:
    assert read_end_date(text, NOW) - NOW == ahead


def test_a_time_of_day_is_its_next_one() -> None:
    local = NOW.astimezone()
    for hours in range(24):
        found = read_end_date(f"{hours:02}:15", NOW)
        assert (found.hour, found.minute) == (hours, 15)
        assert timedelta() < found - local <= timedelta(hours=25)


@pytest.mark.parametrize("text", ["Friday", "24:00", "18:60", "2026-13-01"])
def test_what_is_no_date_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write 2027-01-31T18:00, 2027-01-31 or 18:00"):
        read_end_date(text, NOW)
