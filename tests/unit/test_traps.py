"""Endless URL spaces, and ordinary pages that only look a little like them."""

from __future__ import annotations

import pytest

from lycosa.base.config.sections import TrapSection
from lycosa.base.reasons import Reason
from lycosa.stages.admit.traps import Traps

HOST = "http://example.org"
TRAPS = Traps(TrapSection(), 2026)


def reason_of(target: str, traps: Traps = TRAPS) -> Reason:
    refusal = traps.judge_url(HOST + target)
    return refusal.reason if refusal else Reason.NONE


def test_length_depth_and_parameters_have_limits_that_still_pass() -> None:
    room = 2000 - len(HOST)
    assert reason_of("/" + "a" * (room - 1)) is Reason.NONE
    assert reason_of("/" + "a" * room) is Reason.URL_TOO_LONG
    path = "/" + "/".join(f"s{number}" for number in range(15))
    assert reason_of(path) is reason_of(path + "/") is Reason.NONE
    assert reason_of(path + "/x") is Reason.PATH_TOO_DEEP
    query = "&".join(f"p{number}" for number in range(40))
    assert reason_of(f"/a&b?{query}") is Reason.NONE
    assert reason_of(f"/?{query}&x") is Reason.TOO_MANY_PARAMETERS


def test_slashes_of_a_query_are_not_path_depth() -> None:
    assert reason_of("/?next=" + "/a/b" * 20) is Reason.NONE


@pytest.mark.parametrize(
    "path",
    [
        "/a/a/a/a",
        "/en/en/en/en/page",
        "/a/b/a/b/a/b/a/b/",
        "/x/a/b/c/a/b/c/a/b/c/a/b/c",
        "/en/a/en/b/en/c/en/d",
        "//////",
        "/0/0/0/0/0.png",
    ],
)
def test_repeating_segments_are_a_link_loop(path: str) -> None:
    assert reason_of(path) is Reason.REPEATING_SEGMENTS


@pytest.mark.parametrize(
    "path",
    [
        "/a/b/a/b",
        "/a/a/a",
        "/a/b/a/b/a/b",
        "/en/docs/en/api/en/x",
        "/000/000/000/012/photo.jpg",
        "/1/2/1/3/1/4/1/5",
        "/java.base/java/lang/java/util/java/x",
        "/a//b//c//d",
    ],
)
def test_paths_that_repeat_a_little_pass(path: str) -> None:
    assert reason_of(path) is Reason.NONE


def test_the_refusal_shows_what_repeats() -> None:
    refusal = TRAPS.judge_url(HOST + "/a/b/loop/loop/loop/loop/c")
    assert refusal is not None
    assert (refusal.rule, refusal.value) == ("traps.max_repeats", "/loop")


def test_the_number_of_repeats_is_a_setting() -> None:
    assert reason_of("/aa/aa", Traps(TrapSection(max_repeats=1), 2026)) is Reason.REPEATING_SEGMENTS
    assert reason_of("/aa/aa/aa/aa/aa", Traps(TrapSection(max_repeats=5), 2026)) is Reason.NONE


@pytest.mark.parametrize(
    "target",
    [
        "/2044/01/",
        "/2044/01",
        "/2044/01/05/",
        "/events/2044-01-05",
        "/2044-01/",
        "/?year=2050&month=3",
        "/cal.php?m=3&cal_month=3&cal_year=2050",
        "/x?date=2044-01-01",
        "/x?start=2044-01-01T00:00",
        "/x?tribe-bar-date=2044-01",
        "/x?date=20440105",
        "/x?month=204401",
        "/calendar/2044/01/",
        "/calendar/1950/01/",
        "/calendar.php?year=1950&month=1",
        "/kalender/?datum=2050-01-01&date=1900-01-01",
    ],
)
def test_dates_far_from_today_are_a_calendar(target: str) -> None:
    assert reason_of(target) is Reason.FAR_CALENDAR


@pytest.mark.parametrize(
    "target",
    [
        "/1984/",
        "/books/1984/george-orwell",
        "/rfc1918",
        "/rfc/2119/",
        "/2001/a-space-odyssey/",
        "/blade-runner-2049/",
        "/2049/",
        "/2050/climate/report",
        "/product/2077/05-cyberpunk",
        "/1999/05/12/old-post.html",
        "/1999/05/",
        "/2024/05/17/post/",
        "/items/3000/12345",
        "/id/9999/12/abc",
        "/?year=2050",
        "/?id=2050&page=3",
        "/x?date=2031-01-01",
        "/x?bond=2050-01-01",
        "/archive?year=1987&month=5",
        "/calendar/2020/06/",
        "/localcalendar/1950/01/",
        "/x?from=12345678",
        "/?postcode=2099&day=1",
        "/part/20501201/",
        "/x?q=2050-01-01",
    ],
)
def test_numbers_that_are_not_far_calendar_dates_pass(target: str) -> None:
    assert reason_of(target) is Reason.NONE


def test_the_distance_is_a_setting_and_counts_from_the_given_year() -> None:
    assert reason_of("/2030/01/", Traps(TrapSection(calendar_years=3), 2026)) is Reason.FAR_CALENDAR
    assert reason_of("/2044/01/", Traps(TrapSection(), 2040)) is Reason.NONE
    refusal = TRAPS.judge_url(HOST + "/2044/01/")
    assert refusal is not None
    assert refusal.value == "2044/01 is not in 2016 to 2036"


@pytest.mark.parametrize(
    "target",
    [
        "/(S(lit3py55t21z5v55vlm25s55))/page.aspx",
        "/a;jsessionid=1A2B/b",
        "/?PHPSESSID=abc",
        "/?x=1&sid=0123456789abcdef0123456789abcdef",
        "/?ASPSESSIONIDAABBCCDD=X",
    ],
)
def test_session_ids_that_remain_are_refused_unless_the_setting_says_no(target: str) -> None:
    assert reason_of(target) is Reason.SESSION_ID
    assert reason_of(target, Traps(TrapSection(refuse_session_ids=False), 2026)) is Reason.NONE


@pytest.mark.parametrize(
    "target",
    [
        "/?sid=12",
        "/?sessionid=4711",
        "/wiki/Lycosa_(spider)/x",
        "/a;v=1",
        "/?session=spring-2024",
        "/f(x)/(y)/",
    ],
)
def test_what_only_looks_like_a_session_id_passes(target: str) -> None:
    assert reason_of(target) is Reason.NONE
