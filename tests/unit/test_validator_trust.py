"""Which validators are kept and sent, what an answer says about them, and when a host is believed:
RFC 9110 sections 8.8 and 13, clause by clause.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.model.fetched import Fetched
from lycosa.base.model.host_memory import ValidatorCounts, ValidatorFinding
from lycosa.base.model.url_state import History
from lycosa.base.reasons import Reason
from lycosa.stages.schedule.change_rate import ChangeFinding, observation
from lycosa.stages.schedule.validator_trust import (
    NO_CONDITIONS,
    Conditions,
    RefetchAnswer,
    check_every,
    conditions_of,
    has_useless_tags,
    is_answer_to,
    is_distrusted,
    is_sampled,
    judge_validators,
    kept_validators,
)

DATE = "Sat, 01 Mar 2025 10:00:00 GMT"
LATER = "Sun, 02 Mar 2025 10:00:00 GMT"
FETCHED = 1_740_900_000  # 2 March 2025, 07:20
URL8 = b"abcdefgh"
OLD = History(fetches=3, fetched_at=FETCHED, status=200, etag='"1"', last_modified=DATE)


def answer(*fields: tuple[str, str]) -> Fetched:
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return Fetched(
        "http://a.example/", Reason.NONE, header_block=f"HTTP/1.1 200\r\n{head}\r\n".encode()
    )


@pytest.mark.parametrize(
    ("etag", "kept"),
    [
        ('"xyzzy"', '"xyzzy"'),  # section 8.8.3, the examples
        ('W/"xyzzy"', 'W/"xyzzy"'),
        ('""', ""),  # valid, and made by programs that have nothing to say
        ("xyzzy", "xyzzy"),  # no quotes: invalid, common, and sent back as it is by browsers
        ("*", ""),  # section 13.1.2: it would match anything
        ('"a", "b"', ""),  # a list would match each of its tags
        ('"a" ', '"a"'),
        ('w/"a"', ""),  # section 8.8.3: weak is case-sensitive
        ('"' + "a" * 400 + '"', ""),
        ('"a\x7fb"', ""),
    ],
)
def test_only_what_is_one_entity_tag_is_kept(etag: str, kept: str) -> None:
    assert kept_validators(answer(("ETag", etag))) == Conditions(kept)


def test_a_last_modified_that_is_the_time_of_the_answer_is_not_kept() -> None:
    """Section 8.8.2.1: a server without a time of change must not send one."""
    assert kept_validators(answer(("Last-Modified", DATE), ("Date", DATE))) == NO_CONDITIONS
    kept = kept_validators(answer(("Last-Modified", DATE), ("Date", LATER)))
    assert kept == Conditions("", DATE)
    assert kept_validators(answer(("Last-Modified", "x" * 100))) == NO_CONDITIONS


@pytest.mark.parametrize("date", ["Fri, 01 Jan 2038 00:00:00 GMT", "yesterday", "0", "-1"])
def test_a_last_modified_that_is_no_date_or_in_the_future_is_not_sent(date: str) -> None:
    """Sections 8.8.2.1 and 13.1.3: a recipient ignores an invalid date."""
    old = msgspec.structs.replace(OLD, last_modified=date)
    assert conditions_of(old, Reason.NONE, None, URL8) == Conditions('"1"')


def test_both_validators_are_sent_after_a_capture_with_content() -> None:
    """Section 13.1.3: If-Modified-Since is for recipients that do not know If-None-Match."""
    assert conditions_of(OLD, Reason.NONE, None, URL8) == Conditions('"1"', DATE)
    for status in (301, 404, 410, 206):
        old = msgspec.structs.replace(OLD, status=status)
        assert conditions_of(old, Reason.NONE, None, URL8) == NO_CONDITIONS
    assert conditions_of(None, Reason.NONE, None, URL8) == NO_CONDITIONS


@pytest.mark.parametrize(
    "reason", [Reason.TO_BE_CHECKED, Reason.PERHAPS_GONE, Reason.UNASKED_NOT_MODIFIED]
)
def test_a_check_is_unconditional(reason: Reason) -> None:
    assert conditions_of(OLD, reason, None, URL8) == NO_CONDITIONS


@pytest.mark.parametrize(
    ("sent", "etag", "is_answer"),
    [
        (Conditions('"1"'), '"1"', True),
        (Conditions('"1"'), 'W/"1"', True),  # section 13.1.2: If-None-Match compares weakly
        (Conditions('W/"1"', DATE), '"1"', True),
        (Conditions('"1-gzip"'), '"1"', True),  # of servers that mark compressed bodies
        (Conditions('"1"'), "", True),
        (Conditions("", DATE), '"2"', True),
        (Conditions('"1"'), '"2"', False),  # RFC 9111 section 4.3.4
        (Conditions('"1"', DATE), '"2"', False),  # section 13.2.2: the tag decides
        (NO_CONDITIONS, '"1"', False),
        (NO_CONDITIONS, "", False),
    ],
)
def test_a_304_must_be_the_answer_to_what_was_asked(
    sent: Conditions, etag: str, is_answer: bool
) -> None:
    assert is_answer_to(sent, etag) is is_answer


def found(
    same: bool,
    etag: str = '"2"',
    modified: str = "",
    sent: Conditions = NO_CONDITIONS,
    status: int = 200,
    gap_s: float = 600.0,
) -> RefetchAnswer:
    return RefetchAnswer(sent, status, etag, modified, same, gap_s)


NOTHING, HIDDEN = ValidatorFinding.NOTHING, ValidatorFinding.HIDDEN
ASKED = Conditions('"1"', DATE)


@pytest.mark.parametrize(
    ("reason", "given_", "finding"),
    [
        (Reason.NONE, found(True, sent=ASKED, status=304), ValidatorFinding.NOT_MODIFIED),
        (Reason.NONE, found(False, sent=ASKED), ValidatorFinding.REVEALED),
        (Reason.NONE, found(False), NOTHING),
        (Reason.NONE, found(True), NOTHING),
        # the tag of before with another text
        (Reason.NONE, found(False, '"1"', sent=ASKED), HIDDEN),
        (Reason.NONE, found(False, 'W/"1"'), HIDDEN),
        (Reason.NONE, found(False, "", DATE), HIDDEN),
        # another tag with the same text: it says nothing, where Last-Modified says the same
        (Reason.NONE, found(True, sent=ASKED, modified=DATE), ValidatorFinding.OTHER_TAG),
        (Reason.NONE, found(True, sent=ASKED, modified=LATER), NOTHING),
        # the check of a 304
        (Reason.TO_BE_CHECKED, found(True), ValidatorFinding.AGREED),
        (Reason.TO_BE_CHECKED, found(False), HIDDEN),
        (Reason.TO_BE_CHECKED, found(False, gap_s=7200.0), NOTHING),
        (Reason.TO_BE_CHECKED, found(False, modified=LATER), NOTHING),  # changed since the 304
        (Reason.TO_BE_CHECKED, found(False, status=500), NOTHING),
    ],
)
def test_what_an_answer_shows(
    reason: Reason, given_: RefetchAnswer, finding: ValidatorFinding
) -> None:
    assert judge_validators(OLD, reason, given_) is finding


def test_a_difference_proves_nothing_of_a_page_that_changes_all_the_time() -> None:
    hourly = bytes([observation(3600.0, ChangeFinding.CHANGED)] * 4) + bytes(
        [observation(1800.0, ChangeFinding.SAME)]
    )
    old = msgspec.structs.replace(OLD, observations=hourly)
    assert judge_validators(old, Reason.TO_BE_CHECKED, found(False, gap_s=1800.0)) is NOTHING
    restless = bytes([observation(3600.0, ChangeFinding.IMMATERIAL)] * 8)
    old = msgspec.structs.replace(OLD, observations=restless)
    assert judge_validators(old, Reason.NONE, found(False, '"1"')) is NOTHING


def counted(counts: ValidatorCounts, *findings: tuple[ValidatorFinding, int]) -> ValidatorCounts:
    for finding, times in findings:
        for _ in range(times):
            counts = counts.with_finding(finding, has_tag=True)
    return counts


AGREED, REVEALED = ValidatorFinding.AGREED, ValidatorFinding.REVEALED


def test_one_hidden_change_among_few_answers_is_enough_and_the_host_recovers() -> None:
    counts = counted(ValidatorCounts(), (HIDDEN, 1))
    assert is_distrusted(counts)
    assert not is_distrusted(counted(ValidatorCounts(), (AGREED, 40), (HIDDEN, 1)))
    assert not is_distrusted(counted(ValidatorCounts(), (REVEALED, 40), (HIDDEN, 1)))
    assert is_distrusted(counted(ValidatorCounts(), (AGREED, 40), (HIDDEN, 3)))
    probes = 0
    while is_distrusted(counts):
        counts, probes = counted(counts, (AGREED, 1)), probes + 1
    assert 10 < probes < 60
    counts = counted(ValidatorCounts(), (HIDDEN, 1000))
    assert counts.hidden <= 128  # so that even this host recovers
    assert not is_distrusted(counted(counts, (AGREED, 1500)))


def test_a_host_that_is_not_believed_is_tried_with_one_request_in_fifty() -> None:
    counts = counted(ValidatorCounts(), (HIDDEN, 3))
    sent = [
        conditions_of(OLD, Reason.NONE, counts, number.to_bytes(8, "big")) for number in range(5000)
    ]
    tried = [each for each in sent if each == Conditions('"1"', DATE)]
    assert 60 < len(tried) < 140 and len(tried) + sent.count(NO_CONDITIONS) == 5000


def test_tags_that_differ_at_each_request_are_left_out() -> None:
    counts = counted(ValidatorCounts(), (ValidatorFinding.OTHER_TAG, 5))
    assert has_useless_tags(counts)
    assert conditions_of(OLD, Reason.NONE, counts, URL8) == Conditions("", DATE)
    mixed = counted(counts, (ValidatorFinding.NOT_MODIFIED, 20))
    assert not has_useless_tags(mixed)


def test_how_many_304s_are_checked() -> None:
    none = ValidatorCounts()
    assert check_every(None, 50) == 50 and check_every(none, 0) == 0
    confirmed = (ValidatorFinding.NOT_MODIFIED, 120)
    assert check_every(counted(none, confirmed), 50) == 10
    assert check_every(counted(none, confirmed, (REVEALED, 1)), 50) == 50
    assert check_every(counted(none, confirmed, (AGREED, 40)), 50) == 50
    assert check_every(counted(none, (REVEALED, 3)), 50) == 500
    assert check_every(counted(none, (AGREED, 110)), 50) == 500
    assert check_every(counted(none, (HIDDEN, 1)), 50) == 1
    assert check_every(None, 1) == 1


@given(st.binary(min_size=8, max_size=8), st.integers(0, 1000), st.integers(1, 1000))
def test_a_sample_is_the_same_each_time(url8: bytes, fetches: int, every: int) -> None:
    assert is_sampled(url8, fetches, every) == is_sampled(url8, fetches, every)
    assert is_sampled(url8, fetches, 1) and not is_sampled(url8, fetches, 0)


def test_a_sample_has_its_share() -> None:
    number = sum(is_sampled(n.to_bytes(8, "big"), f, 50) for n in range(2000) for f in range(10))
    assert 330 < number < 470
