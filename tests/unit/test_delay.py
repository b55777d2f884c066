"""The effective delay of a host: every source, the greatest wins, nothing shortens it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.model.host_memory import Pace, with_times
from lycosa.stages.politeness.delay import (
    SOURCES,
    Delay,
    DelaySource,
    asked_delays,
    clamp,
    delay_s,
    in_seconds,
    longest_delay,
    longest_wait,
    ordinary_delay_s,
    pace_after_request,
    parse_retry_after,
)

NOW = 1_800_000_000.0
DAY = 86400.0
SECTION = PolitenessSection(jitter=0.0)
UNKNOWN = Pace()


def delay(pace: Pace, section: PolitenessSection = SECTION, now: float = NOW) -> Delay:
    return delay_s(pace, section, now, random.Random(1))


def refused(
    pace: Pace = UNKNOWN, status: int = 429, retry_after: str = "", now: float = NOW
) -> Pace:
    return pace_after_request(pace, SECTION, status, retry_after, 0.01, now)


def answered(pace: Pace, now: float, duration_s: float = 0.01) -> Pace:
    return pace_after_request(pace, SECTION, 200, "", duration_s, now)


def test_the_floor_holds_for_a_new_host() -> None:
    assert delay(Pace()) == Delay(1.0, "floor")


def test_a_crawl_delay_is_honoured_up_to_its_cap_and_never_below_the_floor() -> None:
    assert delay(Pace(crawl_delay_s=5)) == Delay(5, "crawl-delay")
    assert delay(Pace(crawl_delay_s=3600)) == Delay(30, "crawl-delay")
    assert delay(Pace(crawl_delay_s=0.1)) == Delay(1, "floor")


def test_a_slow_server_is_asked_less() -> None:
    assert delay(answered(Pace(), NOW, 0.5)) == Delay(5, "adaptive")
    assert delay(answered(Pace(), NOW, 60)) == Delay(30, "adaptive")
    assert delay(answered(answered(Pace(), NOW, 60), NOW, 0.01)) == Delay(1, "floor")


def test_retry_after_is_kept_as_a_time() -> None:
    pace = refused(retry_after="120")
    assert delay(pace) == Delay(120, "retry-after")
    assert delay(pace, now=NOW + 100) == Delay(20, "retry-after")
    assert delay(pace, now=NOW + 120) == Delay(1, "floor")


def test_retry_after_is_cut_to_its_cap() -> None:
    assert delay(refused(retry_after="99999999")) == Delay(DAY, "retry-after")


@pytest.mark.parametrize("digits", [15, 16, 30, 64, 65, 400, 60_000])
def test_retry_after_of_any_length_is_cut_to_its_cap(digits: int) -> None:
    assert delay(refused(retry_after="9" * digits)) == Delay(DAY, "retry-after")


def test_a_date_becomes_seconds_by_the_wall_clock() -> None:
    assert (
        in_seconds(format_datetime(datetime.fromtimestamp(NOW + 90, UTC), usegmt=True), NOW)
        == "90.000"
    )
    assert [in_seconds(value, NOW) for value in ("", "soon", "7")] == ["", "soon", "7.000"]


def test_a_later_answer_does_not_shorten_retry_after() -> None:
    pace = answered(refused(retry_after="120"), NOW + 1)
    assert delay(pace, now=NOW + 1) == Delay(119, "retry-after")
    assert delay(refused(pace, retry_after="5", now=NOW + 1), now=NOW + 1) == Delay(
        119, "retry-after"
    )


@pytest.mark.parametrize("status", [301, 404, 413, 500, 503])
def test_retry_after_is_honoured_on_every_answer_but_success(status: int) -> None:
    assert delay(refused(status=status, retry_after="60")).source == "retry-after"
    assert delay(pace_after_request(Pace(), SECTION, 200, "60", 0.01, NOW)).source == "floor"


@pytest.mark.parametrize("retry_after", ["", "soon", "0", "-3", "Thu, 01 Jan 1970 00:00:00 GMT"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_without_a_usable_time_backs_off(status: int, retry_after: str) -> None:
    assert delay(refused(status=status, retry_after=retry_after)) == Delay(30, "backoff")


def test_back_off_doubles_up_to_a_day() -> None:
    pace, now, waits = Pace(), NOW, []
    for _ in range(15):
        pace = refused(pace, now=now)
        waits.append(delay(pace, now=now).seconds)
        now += waits[-1]
    assert waits[:4] == [30, 60, 120, 240]
    assert waits[-2:] == [DAY, DAY]


def test_other_errors_do_not_back_off() -> None:
    assert delay(refused(status=500)) == Delay(1, "floor")
    assert delay(refused(status=0)) == Delay(1, "floor")


def after_refusals(count: int) -> tuple[Pace, float]:
    """The pace after so many refusals in a row, and when the last pause is over."""
    pace, now = Pace(), NOW
    for _ in range(count):
        pace = refused(pace, now=now)
        now += delay(pace, now=now).seconds
    return pace, now


def test_a_good_answer_after_the_pause_returns_to_the_floor_and_halves_the_level() -> None:
    pace, now = after_refusals(5)
    pace = answered(pace, now)
    assert pace.backoffs == 2
    assert delay(pace, now=now) == Delay(1.0, "floor")
    assert delay(refused(pace, now=now + 1), now=now + 1) == Delay(120, "backoff")
    pace = answered(answered(pace, now + 1), now + 2)
    assert pace == Pace(last_duration_s=0.01)


def test_a_host_that_refuses_every_second_request_keeps_the_first_pause() -> None:
    pace, now, waits = Pace(), NOW, []
    for _ in range(50):
        pace = refused(pace, now=now)
        waits.append(delay(pace, now=now).seconds)
        now += waits[-1]
        pace = answered(pace, now)
    assert set(waits) == {30}


@pytest.mark.parametrize(("status", "is_good"), [(200, True), (204, True), (304, True), (301, True), (404, True), (410, True), (0, False),
                                                  (401, False), (403, False), (418, False), (500, False), (502, False)])  # fmt: skip
def test_only_an_answer_that_a_host_in_trouble_does_not_give_shortens_a_back_off(
    status: int, is_good: bool
) -> None:
    pace, now = after_refusals(4)
    for later_s in (0, SECTION.forgive_s):
        after = pace_after_request(pace, SECTION, status, "", 0.01, now + later_s)
        assert (after.backoffs < 4) is is_good


@pytest.mark.parametrize("status", [301, 404, 429, 503])
def test_an_answer_with_retry_after_leaves_the_level(status: int) -> None:
    pace, now = after_refusals(4)
    assert pace_after_request(pace, SECTION, status, "60", 0.01, now).backoffs == 4


def test_a_robots_txt_that_is_given_does_not_shorten_the_back_off_of_pages_that_are_refused() -> (
    None
):
    pace, now = after_refusals(4)
    after = pace_after_request(pace, SECTION, 200, "", 0.01, now + DAY, is_robots=True)
    assert (after.backoffs, after.backoff_at) == (pace.backoffs, pace.backoff_at)
    assert pace_after_request(pace, SECTION, 503, "", 0.01, now, is_robots=True).backoffs == 5


def test_a_good_answer_within_the_pause_changes_nothing() -> None:
    """It can only seem so: the clock was set back."""
    pace, now = after_refusals(4)
    early = answered(pace, now - 1)
    assert early.backoffs == 4
    assert delay(early, now=now - 1) == Delay(1.0, "floor")
    assert delay(answered(pace, now - 100), now=now - 100) == Delay(100, "backoff")


def test_a_good_answer_after_quiet_time_forgives() -> None:
    pace = answered(refused(refused()), NOW + 60 + SECTION.forgive_s)
    assert (pace.backoffs, pace.backoff_at) == (0, 0)
    assert delay(refused(pace, now=NOW + DAY), now=NOW + DAY) == Delay(30, "backoff")


def test_quiet_time_without_an_answer_forgives_nothing() -> None:
    pace, now = after_refusals(3)
    later = now + 10 * SECTION.forgive_s
    assert delay(refused(pace, now=later), now=later) == Delay(240, "backoff")


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=60))
def test_more_good_answers_never_mean_a_longer_pause_and_refusals_alone_double_it(
    history: list[bool],
) -> None:
    """``True`` is a good answer; beside each history runs the same one with an answer more."""

    def levels(answers: list[bool]) -> int:
        pace, now = Pace(), NOW
        for is_good in answers:
            pace = answered(pace, now) if is_good else refused(pace, now=now)
            now += delay(pace, now=now).seconds
        return pace.backoffs

    assert levels([*history, True]) <= levels(history)
    assert levels([*history, False]) == levels(history) + 1
    refusals = history.count(False)
    assert levels(history) <= refusals
    assert levels([False] * refusals) == refusals


def test_jitter_only_adds_and_at_most_its_share() -> None:
    section, chance = PolitenessSection(jitter=0.1), random.Random(7)
    seconds = [delay_s(Pace(), section, NOW, chance).seconds for _ in range(1000)]
    assert 1.0 <= min(seconds) < 1.01
    assert 1.09 < max(seconds) <= 1.1


def test_the_longest_ordinary_delay_has_the_jitter_in_it() -> None:
    assert longest_delay(PolitenessSection()) == pytest.approx(33)
    assert longest_delay(PolitenessSection(delay_s=100, jitter=0.5)) == 150


def _date(offset_s: float) -> str:
    return format_datetime(
        datetime.fromtimestamp(NOW, UTC) + timedelta(seconds=offset_s), usegmt=True
    )


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 120 ", 120),
        ("1.5", 1.5),
        ("+5", 5),
        ("0", 0),
        ("-10", 0),
        ("9" * 15, 366 * DAY),
        ("9" * 16, 366 * DAY),
        ("9" * 65, 366 * DAY),
        ("9" * 400, 366 * DAY),
        ("0" * 70 + "7", 7),
        ("9" * 400 + "x", None),
        ("-" + "9" * 400, 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 366 * DAY),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
        (_date(90), 90),
        (_date(-90), 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 366 * DAY),
        ("Friday, 15-Jan-27 08:01:00 GMT", 60),
        ("Fri Jan 15 08:01:00 2027", 60),
        ("Fri, 99 Jan 2027 08:00:00 GMT", None),
        ("", None),
        ("soon", None),
        ("12 minutes", None),
        ("1e3", None),
        ("٣", None),
    ],
)
def test_reads_retry_after(value: str, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


@settings(deadline=None, max_examples=300)
@given(
    st.text(max_size=80)
    | st.from_regex(
        r"[A-Z][a-z]{2}, [0-9]{1,3} [A-Z][a-z]{2} [0-9]{1,6} [0-9:]{0,9} [A-Z+0-9-]{0,6}",
        fullmatch=True,
    )
)
def test_any_retry_after_is_a_bounded_time_or_nothing(value: str) -> None:
    seconds = parse_retry_after(value, NOW)
    assert seconds is None or 0 <= seconds <= 366 * DAY


def test_a_clock_that_was_ahead_cannot_hold_a_host_for_years() -> None:
    pace = Pace(
        retry_at=NOW + 900 * DAY, backoffs=3, backoff_at=NOW + 900 * DAY, last_duration_s=-4
    )
    assert delay(clamp(pace, SECTION, NOW)).seconds == DAY
    assert clamp(pace, SECTION, NOW) == Pace(retry_at=NOW + DAY, backoffs=3, backoff_at=NOW)


def test_clamping_changes_nothing_that_is_possible() -> None:
    pace = refused(refused(Pace(crawl_delay_s=4)), retry_after="100")
    assert clamp(pace, SECTION, NOW) == pace


_EXCHANGES = st.tuples(
    st.sampled_from([0, 200, 301, 404, 429, 500, 503]),
    st.sampled_from(["", "0", "7", "100000", "soon", "-1"]),
    st.floats(0, 100),
    st.floats(0, 5000),
)


@settings(deadline=None)
@given(st.lists(_EXCHANGES, max_size=20), st.floats(-1, 1000))
def test_no_history_makes_a_host_wait_less_than_any_source_asks_or_more_than_the_caps(
    history: list[tuple[int, str, float, float]], crawl_delay_s: float
) -> None:
    pace, now = Pace(crawl_delay_s=crawl_delay_s), NOW
    for status, retry_after, duration_s, pause_s in history:
        pace = pace_after_request(pace, SECTION, status, retry_after, duration_s, now)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(pace), type=Pace) == pace
        seconds = delay(pace, now=now).seconds
        assert seconds >= max(SECTION.delay_s, min(crawl_delay_s, 30), min(10 * duration_s, 30))
        assert seconds <= DAY
        if status == 429 and retry_after != "":
            assert seconds >= min(parse_retry_after(retry_after, now) or 30, DAY)
        now += pause_s


def test_clamping_keeps_every_field_and_limits_every_time() -> None:
    """A field that is added to ``Pace`` survives a restart, and no time may be far ahead."""
    fields = Pace.__struct_fields__
    possible = Pace(*(NOW if name.endswith("_at") else 3 for name in fields))
    assert clamp(possible, SECTION, NOW) == possible
    ahead = Pace(*(NOW * 2 if name.endswith("_at") else 3 for name in fields))
    limited = clamp(ahead, SECTION, NOW)
    assert [name for name in fields if getattr(limited, name) >= NOW * 2] == []


def test_every_source_of_delay_is_documented() -> None:
    document = Path(__file__).parents[2] / "docs" / "politeness.md"
    text = document.read_text("utf-8")
    assert [each.name for each in SOURCES if f"`{each.name}`" not in text] == []


def test_every_field_of_a_pace_that_is_a_time_moves_with_the_clock() -> None:
    fields = Pace.__struct_fields__
    moved = with_times(Pace(*(100.0 for _ in fields)), lambda _: 1.0, lambda _: 2.0)
    assert {name for name in fields if getattr(moved, name) != 100.0} == {
        name for name in fields if name.endswith("_at")
    }


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_source_that_is_no_refusal_is_an_ordinary_delay_and_bounds_the_rest(
    source: DelaySource,
) -> None:
    assert source.longest_s(SECTION) <= longest_wait(SECTION)
    assert (source.longest_s(SECTION) <= longest_delay(SECTION)) is not source.is_refusal
    assert source.meaning


def test_what_a_host_in_trouble_asks_for_is_no_part_of_its_ordinary_delay() -> None:
    assert ordinary_delay_s(refused(Pace(crawl_delay_s=7), retry_after="500"), SECTION) == 7
    assert ordinary_delay_s(refused(Pace(last_duration_s=0.5)), SECTION) == 1


def test_the_delay_of_a_host_replaces_that_of_all() -> None:
    names = [name for _, name in asked_delays(Pace(operator_delay_s=0.0), SECTION, NOW)]
    assert names == ["operator", "crawl-delay", "adaptive", "retry-after", "backoff"]
    assert delay(Pace(operator_delay_s=0.0)) == Delay(0.0, "operator")
    assert asked_delays(UNKNOWN, SECTION, NOW)[0] == (1.0, "floor")
