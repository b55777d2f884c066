"""Durations are rounded to their two largest units, not cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.system.durations import duration_parts, long_duration, short_duration

SIZES = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}


@pytest.mark.parametrize(
    ("seconds", "short", "long"),
    [
        (-1, "0 s", "0 seconds"),
        (0.25, "0.25 s", "0.25 seconds"),
        (1, "1 s", "1 second"),
        (2.531, "2.53 s", "2.53 seconds"),
        (2.9, "2.9 s", "2.9 seconds"),
        (59.6, "1 min", "1 minute"),
        (61, "1 min 1 s", "1 minute 1 second"),
        (7260, "2 h 1 min", "2 hours 1 minute"),
        (604_753, "7 d", "7 days"),
        (3 * 86_400 + 7200, "3 d 2 h", "3 days 2 hours"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, short: str, long: str) -> None:
    assert (short_duration(seconds), long_duration(seconds)) == (short, long)


@given(st.floats(min_value=0, max_value=1e9))
def test_a_duration_is_off_by_half_of_its_smallest_unit_at_most(seconds: float) -> None:
    parts = duration_parts(seconds)
    shown = sum(number * SIZES[name] for number, name in parts)
    smallest = SIZES[parts[-1][1]] if seconds >= 10 else 0.01
    assert abs(shown - seconds) <= smallest / 2 * 1.001
    assert all(number < 60 for number, name in parts if name in ("minute", "second"))
