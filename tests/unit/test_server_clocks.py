"""Whether our clock is right, by the dates of many servers."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.stages.fetch.server_clocks import MIN_CLOCKS, ServerClocks, date_seconds

T = 1_700_000_000.0


def hear(
    clocks: ServerClocks, number: int, wrong_s: float = 0.0, now: float = 100.0, first: int = 0
) -> None:
    """Answers of so many addresses, whose clocks are wrong by that; the true time is T + now."""
    for n in range(first, first + number):
        date = formatdate(T + now + wrong_s, usegmt=True)
        clocks.note_date(f"192.0.2.{n}", date, "", now)


def test_few_addresses_say_nothing() -> None:
    clocks = ServerClocks()
    hear(clocks, MIN_CLOCKS - 1, wrong_s=5000)
    for _ in range(100):
        hear(clocks, 1, wrong_s=5000)
    assert clocks.ahead_s(T + 100, 100) == 0.0
    hear(clocks, 1, wrong_s=5000, first=MIN_CLOCKS)
    assert clocks.ahead_s(T + 100, 100) == pytest.approx(-5000, abs=1)


def test_a_minority_of_wrong_servers_changes_nothing() -> None:
    clocks = ServerClocks()
    hear(clocks, 10)
    hear(clocks, 9, wrong_s=86_400, first=50)
    assert clocks.ahead_s(T + 100, 100) == pytest.approx(0, abs=1)


def test_a_clock_that_is_set_is_judged_at_once() -> None:
    clocks = ServerClocks()
    hear(clocks, 20)
    assert clocks.ahead_s(T + 100 + 40, 100) == pytest.approx(40, abs=1)
    assert clocks.ahead_s(T + 130, 130) == pytest.approx(0, abs=1)


def test_an_address_is_heard_once_a_minute_and_old_samples_end() -> None:
    clocks = ServerClocks()
    hear(clocks, 10, now=100)
    hear(clocks, 10, wrong_s=90, now=150)  # too early: not heard
    assert clocks.ahead_s(T + 150, 150) == pytest.approx(0, abs=1)
    hear(clocks, 10, wrong_s=90, now=161)
    assert clocks.ahead_s(T + 161, 161) == pytest.approx(-90, abs=1)
    hear(clocks, 8, now=4000, first=100)
    assert clocks.ahead_s(T + 4000, 4000) == pytest.approx(0, abs=1)


def test_answers_of_caches_do_not_count() -> None:
    clocks = ServerClocks()
    for n in range(20):
        clocks.note_date(f"192.0.2.{n}", formatdate(T, usegmt=True), "3600", 100.0)
    assert clocks.ahead_s(T + 9999, 100) == 0.0


def test_memory_is_bounded() -> None:
    clocks = ServerClocks()
    for n in range(2000):
        clocks.note_date(str(n), formatdate(T, usegmt=True), "", float(n) / 100)
    assert repr(clocks) == "<ServerClocks 101 addresses>"


@given(st.integers(0, 4_000_000_000))
def test_dates_are_read_as_servers_write_them(seconds: int) -> None:
    assert date_seconds(formatdate(seconds, usegmt=True)) == seconds


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"))
def test_other_dates_are_no_error(text: str) -> None:
    found = date_seconds(text)
    assert found is None or found > -100
