"""What an answer means for its URL, status by status and reason by reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lycosa.base.config.sections import RetrySection
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.stages.schedule.fetch_outcome import (
    Meaning,
    is_connection_failure,
    judge_answer,
    wait_s,
)

SECTION = RetrySection(tries=4, first_s=10.0, max_s=60.0)
URL = "http://a.example/"


def answer(
    status: int, reason: Reason = Reason.NONE, location: str = "", truncated: str = ""
) -> Fetched:
    head = f"HTTP/1.1 {status} X\r\n" + (f"Location: {location}\r\n" if location else "") + "\r\n"
    return Fetched(URL, reason, status=status, header_block=head.encode(), truncated=truncated)


@pytest.mark.parametrize("status", [200, 201, 203, 204])
def test_success_is_fetched(status: int) -> None:
    assert (
        judge_answer(answer(status), tries=0, conditional=False, section=SECTION).meaning
        is Meaning.FETCHED
    )


def test_a_cut_body_is_fetched_with_its_remark() -> None:
    outcome = judge_answer(
        answer(200, Reason.BODY_TRUNCATED), tries=0, conditional=False, section=SECTION
    )
    assert (outcome.meaning, outcome.reason) == (Meaning.FETCHED, Reason.BODY_TRUNCATED)


def test_not_modified_counts_only_when_validators_were_sent() -> None:
    assert (
        judge_answer(answer(304), tries=0, conditional=True, section=SECTION).meaning
        is Meaning.NOT_MODIFIED
    )
    outcome = judge_answer(answer(304), tries=0, conditional=False, section=SECTION)
    assert (outcome.meaning, outcome.reason) == (Meaning.FAILED, Reason.MALFORMED_RESPONSE)
    outcome = judge_answer(
        answer(304), tries=0, conditional=True, section=SECTION, is_mismatch=True
    )
    assert (outcome.meaning, outcome.reason) == (Meaning.RETRY, Reason.UNASKED_NOT_MODIFIED)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_needs_a_location(status: int) -> None:
    assert (
        judge_answer(
            answer(status, location="/x"), tries=0, conditional=False, section=SECTION
        ).meaning
        is Meaning.REDIRECTED
    )
    outcome = judge_answer(answer(status), tries=0, conditional=False, section=SECTION)
    assert (outcome.meaning, outcome.reason) == (Meaning.FAILED, Reason.BAD_REDIRECT)


@pytest.mark.parametrize("status", [300, 305, 306, 399])
def test_other_redirect_codes_lead_nowhere(status: int) -> None:
    assert (
        judge_answer(
            answer(status, location="/x"), tries=0, conditional=False, section=SECTION
        ).meaning
        is Meaning.FAILED
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_the_clients_errors_are_final(status: int) -> None:
    outcome = judge_answer(answer(status), tries=0, conditional=False, section=SECTION)
    assert (outcome.meaning, outcome.reason) == (Meaning.FAILED, Reason.HTTP_CLIENT_ERROR)


def test_a_demand_for_payment_is_final_and_has_a_reason_of_its_own() -> None:
    outcome = judge_answer(answer(402), tries=0, conditional=False, section=SECTION)
    assert (outcome.meaning, outcome.reason) == (Meaning.FAILED, Reason.PAYMENT_REQUIRED)


@pytest.mark.parametrize("status", [501, 505])
def test_what_a_server_cannot_do_is_final(status: int) -> None:
    assert (
        judge_answer(answer(status), tries=0, conditional=False, section=SECTION).meaning
        is Meaning.FAILED
    )


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (408, Reason.HTTP_CLIENT_ERROR),
        (425, Reason.HTTP_CLIENT_ERROR),
        (429, Reason.HTTP_TOO_MANY_REQUESTS),
        (500, Reason.HTTP_SERVER_ERROR),
        (502, Reason.HTTP_SERVER_ERROR),
        (503, Reason.HTTP_SERVER_ERROR),
        (504, Reason.HTTP_SERVER_ERROR),
    ],
)
def test_passing_errors_are_tried_again_until_the_tries_are_used_up(
    status: int, reason: Reason
) -> None:
    for tries in range(SECTION.tries - 1):
        outcome = judge_answer(answer(status), tries=tries, conditional=False, section=SECTION)
        assert (outcome.meaning, outcome.reason, outcome.wait_s) == (
            Meaning.RETRY,
            reason,
            min(10.0 * 2**tries, 60.0),
        )
    last = judge_answer(answer(status), tries=SECTION.tries - 1, conditional=False, section=SECTION)
    assert (last.meaning, last.reason) == (Meaning.FAILED, reason)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.CONNECT_REFUSED,
        Reason.FIRST_BYTE_TIMEOUT,
        Reason.CONNECTION_LOST,
        Reason.EMPTY_RESPONSE,
    ],
)
def test_no_answer_is_tried_again(reason: Reason) -> None:
    assert (
        judge_answer(answer(0, reason), tries=0, conditional=False, section=SECTION).meaning
        is Meaning.RETRY
    )


@pytest.mark.parametrize(
    "reason", [Reason.ADDRESS_FORBIDDEN, Reason.HEADERS_TOO_LARGE, Reason.MALFORMED_RESPONSE]
)
def test_what_will_not_change_is_final(reason: Reason) -> None:
    assert (
        judge_answer(answer(0, reason), tries=0, conditional=False, section=SECTION).meaning
        is Meaning.FAILED
    )


def test_half_a_page_that_took_too_long_is_kept_but_half_an_error_is_not() -> None:
    late = Reason.TOTAL_TIMEOUT
    assert (
        judge_answer(
            answer(200, late, truncated="time"), tries=0, conditional=False, section=SECTION
        ).meaning
        is Meaning.FETCHED
    )
    assert (
        judge_answer(
            answer(404, late, truncated="time"), tries=0, conditional=False, section=SECTION
        ).meaning
        is Meaning.RETRY
    )
    assert (
        judge_answer(answer(200, late), tries=0, conditional=False, section=SECTION).meaning
        is Meaning.RETRY
    )


def test_waits_double_up_to_the_longest_and_never_overflow() -> None:
    assert [wait_s(tries, SECTION) for tries in (0, 1, 2, 3, 1000)] == [
        10.0,
        20.0,
        40.0,
        60.0,
        60.0,
    ]


def test_only_failures_to_connect_speak_of_the_host() -> None:
    assert is_connection_failure(Reason.CONNECT_TIMEOUT)
    assert not is_connection_failure(Reason.FIRST_BYTE_TIMEOUT)
    assert not is_connection_failure(Reason.HTTP_SERVER_ERROR)


DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
SAID = {
    "fetched": Meaning.FETCHED,
    "redirected": Meaning.REDIRECTED,
    "not": Meaning.NOT_MODIFIED,
    "tried": Meaning.RETRY,
    "failed": Meaning.FAILED,
}


def documented() -> dict[int, Meaning]:
    """The table of statuses for operators."""
    section = (
        DOCUMENT.read_text("utf-8")
        .split("## What an answer means for its URL\n")[1]
        .split("\n## ")[0]
    )
    found: dict[int, Meaning] = {}
    for statuses, meaning in re.findall(r"^\| `([0-9, -]+)` \| (\w+)", section, re.MULTILINE):
        for each in statuses.split(", "):
            first, _, last = each.partition("-")
            for status in range(int(first), int(last or first) + 1):
                assert status not in found
                found[status] = SAID[meaning]
    return found


def test_the_documentation_says_what_each_status_means() -> None:
    found = documented()
    assert sorted(found) == list(range(100, 1000))
    for status, meaning in found.items():
        assert (
            judge_answer(
                answer(status, location="/x"), tries=0, conditional=True, section=SECTION
            ).meaning
            is meaning
        ), status
