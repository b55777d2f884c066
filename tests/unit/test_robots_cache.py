"""What an answer to robots.txt means for its host (RFC 9309 §2.3.1 and §2.4)."""

from __future__ import annotations

import hashlib
from base64 import b32encode

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import RobotsSection
from lycosa.base.model.capture import RobotsDecision
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.stages.politeness.robots_cache import (
    RobotsAnswer,
    RobotsRecord,
    RobotsState,
    after_fetch,
    answer_of,
    decision,
    max_age_of,
    robots_state,
)
from lycosa.stages.politeness.robots_rules import Matcher

SECTION = RobotsSection()
NOW = 1_800_000_000.0
DAY = 86400.0
FILE = b"User-agent: *\nDisallow: /private\n"
NETWORK = RobotsAnswer(0, reason=Reason.CONNECT_TIMEOUT)


def after(record: RobotsRecord | None, answer: RobotsAnswer, now: float = NOW) -> RobotsRecord:
    return after_fetch(record, answer, "lycosa", SECTION, now)


def allows(record: RobotsRecord, target: str = "/private/x") -> bool:
    return Matcher(record.rules).judge_target(target).allowed


def outage(record: RobotsRecord | None, until: float, now: float = NOW) -> RobotsRecord:
    """Failures as they come when every retry is made on time."""
    record = after(record, NETWORK, now)
    while record.next_try <= until:
        record = after(record, NETWORK, record.next_try)
    return record


def test_an_unknown_origin_needs_its_file_first() -> None:
    assert robots_state(None, NOW) is RobotsState.NEEDED


def test_a_file_is_judged_by_and_used_for_a_day() -> None:
    record = after(None, RobotsAnswer(200, FILE))
    assert not allows(record)
    assert record.version == b32encode(hashlib.sha1(FILE).digest()).decode()
    assert robots_state(record, NOW + DAY - 1) is RobotsState.FRESH
    assert robots_state(record, NOW + DAY) is RobotsState.NEEDED


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 499])
def test_unavailable_allows_everything_for_a_day(status: int) -> None:
    record = after(after(None, RobotsAnswer(200, FILE)), RobotsAnswer(status, FILE))
    assert allows(record)
    assert (record.status, record.version) == (status, "")
    assert robots_state(record, NOW + DAY - 1) is RobotsState.FRESH
    assert robots_state(record, NOW + DAY) is RobotsState.NEEDED


@pytest.mark.parametrize(
    "answer",
    [
        RobotsAnswer(302, reason=Reason.TOO_MANY_REDIRECTS),
        RobotsAnswer(301, reason=Reason.BAD_REDIRECT),
        RobotsAnswer(304),
        RobotsAnswer(0, reason=Reason.TOO_MANY_REDIRECTS),
    ],
)
def test_redirects_that_lead_nowhere_are_unavailable(answer: RobotsAnswer) -> None:
    assert robots_state(after(None, answer), NOW) is RobotsState.FRESH


@pytest.mark.parametrize(
    "answer",
    [
        NETWORK,
        RobotsAnswer(429),
        RobotsAnswer(500),
        RobotsAnswer(503),
        RobotsAnswer(599),
        RobotsAnswer(200, FILE, Reason.CONNECTION_LOST),
        RobotsAnswer(200, FILE, Reason.TOTAL_TIMEOUT),
        RobotsAnswer(200, FILE, Reason.DECODE_FAILED),
    ],
)
def test_unreachable_snoozes_the_host(answer: RobotsAnswer) -> None:
    record = after(None, answer)
    assert (record.status, record.failures, record.first_failure) == (0, 1, NOW)
    assert robots_state(record, NOW + SECTION.retry_s - 1) is RobotsState.WAIT
    assert robots_state(record, NOW + SECTION.retry_s) is RobotsState.NEEDED


@pytest.mark.parametrize("reason", [Reason.BODY_TRUNCATED, Reason.DECODE_LIMIT])
def test_a_file_cut_at_our_own_limit_is_a_file(reason: Reason) -> None:
    record = after(None, RobotsAnswer(200, FILE, reason))
    assert not allows(record)
    assert robots_state(record, NOW) is RobotsState.FRESH


def test_retries_come_at_doubling_intervals_up_to_a_day() -> None:
    record, waits, now = after(None, NETWORK), [], NOW
    for _ in range(14):
        waits.append(record.next_try - now)
        now = record.next_try
        record = after(record, NETWORK, now)
    assert waits[:4] == [60, 120, 240, 480]
    assert waits[-2:] == [DAY, DAY]
    assert record.first_failure == NOW


def test_during_an_outage_the_last_file_decides_however_old() -> None:
    record = outage(after(None, RobotsAnswer(200, FILE)), NOW + 90 * DAY, NOW + DAY)
    assert record.next_try > NOW + 90 * DAY
    assert robots_state(record, record.next_try - 1) is RobotsState.FRESH
    assert robots_state(record, record.next_try) is RobotsState.NEEDED
    assert not allows(record)
    assert decision(record, Matcher(record.rules).judge_target("/private")).fetched == NOW


def test_that_there_was_no_file_is_not_a_file() -> None:
    record = after(after(None, RobotsAnswer(404)), NETWORK, NOW + DAY)
    assert robots_state(record, NOW + DAY) is RobotsState.WAIT


def test_a_long_outage_without_a_file_counts_as_unavailable() -> None:
    waiting = outage(None, NOW + 28.5 * DAY)
    assert robots_state(waiting, NOW + 28.5 * DAY) is RobotsState.WAIT
    record = outage(None, NOW + 32 * DAY)
    assert allows(record)
    assert robots_state(record, record.next_try - 1) is RobotsState.FRESH
    assert robots_state(record, record.next_try) is RobotsState.NEEDED


def test_a_crawl_that_rested_for_a_month_has_seen_no_outage() -> None:
    record = after(after(None, NETWORK), NETWORK, NOW + 40 * DAY)
    assert robots_state(record, NOW + 40 * DAY) is RobotsState.WAIT


def test_an_answer_ends_the_outage() -> None:
    record = after(outage(None, NOW + 5 * DAY), RobotsAnswer(200, FILE), NOW + 6 * DAY)
    assert (record.failures, record.first_failure, record.next_try) == (0, 0, 0)
    again = after(record, NETWORK, NOW + 7 * DAY)
    assert (again.failures, again.next_try) == (1, NOW + 7 * DAY + 60)


@pytest.mark.parametrize(
    ("max_age_s", "used_s"), [(-1, DAY), (3600, 3600), (0, 300), (10, 300), (10 * DAY, DAY)]
)
def test_cache_control_shortens_use_and_never_lengthens_it(max_age_s: float, used_s: float) -> None:
    assert after(None, RobotsAnswer(200, FILE, max_age_s=max_age_s)).expires == NOW + used_s


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", -1),
        ("max-age=60", 60),
        ("public, Max-Age = 60, x", 60),
        ('max-age="60"', 60),
        ("s-maxage=60", -1),
        ("max-age=-1", -1),
        ("no-store", 0),
        ("max-age=60, no-cache", 0),
        ("max-age=soon", -1),
    ],
)
def test_reads_cache_control(header: str, seconds: float) -> None:
    assert max_age_of(header) == seconds


def test_the_answer_is_taken_from_a_fetch() -> None:
    fetched = Fetched(
        "http://h/robots.txt",
        Reason.NONE,
        status=200,
        header_block=b"HTTP/1.1 200 OK\r\nCache-Control: max-age=9\r\n\r\n",
    )
    assert answer_of(fetched, FILE) == RobotsAnswer(200, FILE, Reason.NONE, 9)


@pytest.mark.parametrize(
    ("origin", "address", "told"),
    [
        ("http://h", "192.0.2.1", "192.0.2.1:80"),
        ("https://h", "192.0.2.1", "192.0.2.1:443"),
        ("http://h:8080", "2001:db8::1", "[2001:db8::1]:8080"),
        ("http://h:0", "192.0.2.1", "192.0.2.1:0"),
    ],
)
def test_a_failure_names_the_address_and_the_port_that_was_asked(
    origin: str, address: str, told: str
) -> None:
    assert (
        answer_of(
            Fetched(f"{origin}/robots.txt", Reason.CONNECT_REFUSED, address=address), b""
        ).detail
        == told
    )


def test_a_clock_moved_back_asks_again_instead_of_waiting_for_ever() -> None:
    assert robots_state(after(None, RobotsAnswer(200, FILE)), NOW - 2 * DAY) is RobotsState.NEEDED
    assert robots_state(after(None, NETWORK), NOW - 2 * DAY) is RobotsState.NEEDED
    assert after(after(None, NETWORK), NETWORK, NOW - DAY).first_failure == NOW - DAY


def test_the_decision_names_file_group_and_line() -> None:
    record = after(None, RobotsAnswer(200, FILE))
    verdict = Matcher(record.rules).judge_target("/private/x")
    assert decision(record, verdict) == RobotsDecision(
        False, record.version, NOW, 200, "*", 2, "Disallow: /private"
    )


_ANSWERS = st.builds(
    RobotsAnswer,
    st.sampled_from([0, 200, 204, 301, 404, 403, 429, 500, 503]),
    st.sampled_from([b"", FILE]),
    st.sampled_from([Reason.NONE, Reason.CONNECTION_LOST, Reason.TOO_MANY_REDIRECTS]),
    st.sampled_from([-1.0, 0.0, 100.0, 1e9]),
)


@settings(deadline=None)
@given(st.lists(st.tuples(_ANSWERS, st.floats(0, 3 * DAY)), max_size=30))
def test_any_history_leaves_a_record_that_is_stored_and_asks_again_within_a_day(
    history: list[tuple[RobotsAnswer, float]],
) -> None:
    record, now = None, NOW
    for answer, pause_s in history:
        record = after(record, answer, now)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=RobotsRecord) == record
        assert robots_state(record, now) is not RobotsState.NEEDED
        assert robots_state(record, now + DAY) is RobotsState.NEEDED
        if robots_state(record, now) is RobotsState.WAIT:
            assert record.failures > 0
            assert record.next_try > now
        now += pause_s
