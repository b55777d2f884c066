"""Last-Modified: when it counts as right, and what a trusted one adds to what fetches saw."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.refetch_cell import rate_in
from lycosa.base.model.source_truth import UNIT, UNKNOWN_TRUTH, SourceTruth
from lycosa.base.model.url_state import History
from lycosa.stages.schedule.change_rate import ChangeFinding, elapsed_in, finding_in
from lycosa.stages.schedule.dated_evidence import (
    http_date,
    listed_since,
    unchanged_since,
    was_right,
)
from lycosa.stages.schedule.fetch_outcome import Meaning
from lycosa.stages.schedule.refetch_plan import FoundContent, RefetchPlan, plan_refetch

NOW = 1_750_000_000
DAY_S = 86_400
TRUSTED = SourceTruth(20 * UNIT, 0)
SECTION = RefetchSection(rule=RefetchRule.VALUE, budget="")


def at(days: float) -> str:
    return formatdate(NOW - days * DAY_S, usegmt=True)


def fetched(days: float, last_modified: str = "") -> History:
    return History(
        fetches=2,
        fetched_at=int(NOW - days * DAY_S),
        status=200,
        last_modified=last_modified,
        text_digest=b"the text",
    )


@pytest.mark.parametrize(
    ("before", "value", "changed", "right"),
    [
        (at(30), at(2), True, True),
        (at(30), at(30), False, True),
        (at(30), at(30), True, False),  # it changed, and the date did not
        (at(30), at(2), False, False),  # the date did, and it not
        (at(30), at(40), True, False),  # an earlier date than before
        (at(30), at(-1), True, False),  # in the future
        ("", at(2), True, None),
        (at(30), "", True, None),
        (at(30), "yesterday", True, None),
    ],
)
def test_a_date_is_right_when_it_changes_with_the_content(
    before: str, value: str, changed: bool, right: bool | None
) -> None:
    old = fetched(10, before)
    assert was_right(old, Meaning.FETCHED, value, changed, NOW) is right
    assert was_right(old, Meaning.NOT_MODIFIED, value, changed, NOW) is None
    assert was_right(History(), Meaning.FETCHED, value, changed, NOW) is None


@pytest.mark.parametrize(
    ("truth", "value", "since"),
    [
        (TRUSTED, at(2), NOW - 2 * DAY_S),
        (UNKNOWN_TRUTH, at(2), 0),
        (SourceTruth(20 * UNIT, 10 * UNIT), at(2), 0),
        (TRUSTED, at(12), 0),  # before the last fetch: nothing that was not seen
        (TRUSTED, at(-3), 0),
        (TRUSTED, at(0), 0),
        (TRUSTED, "", 0),
    ],
)
def test_only_a_trusted_date_between_two_fetches_says_something(
    truth: SourceTruth, value: str, since: int
) -> None:
    assert unchanged_since(truth, value, fetched(10), NOW) == since


@given(st.text(max_size=200))
def test_any_header_is_read(value: str) -> None:
    assert http_date(value) >= 0
    assert 0 <= unchanged_since(TRUSTED, value, History(), NOW) <= NOW


def plan(old: History, since: float, text: bytes) -> RefetchPlan:
    found = FoundContent(Meaning.FETCHED, NOW, b"digest", text, unchanged_since=since)
    return plan_refetch(SECTION, "https://a.example/", old, found, 1.0, LATE_FIELDS)


def test_an_old_date_at_the_first_fetch_makes_a_page_a_slow_one() -> None:
    slow, plain = plan(History(), NOW - 400 * DAY_S, b"text"), plan(History(), 0, b"text")
    assert plain.observations == b""
    assert elapsed_in(slow.observations[0]) == pytest.approx(400 * DAY_S, rel=0.1)
    assert rate_in(slow.cell) < rate_in(plain.cell) / 3


def test_a_date_between_two_fetches_tells_the_time_without_a_change() -> None:
    found = plan(fetched(10), NOW - 9 * DAY_S, b"new text").observations
    assert [finding_in(byte) for byte in found] == [ChangeFinding.CHANGED, ChangeFinding.SAME]
    assert elapsed_in(found[0]) == pytest.approx(DAY_S, rel=0.1)
    assert elapsed_in(found[1]) == pytest.approx(9 * DAY_S, rel=0.1)
    same = plan(fetched(10), NOW - 9 * DAY_S, b"the text").observations
    assert [finding_in(byte) for byte in same] == [ChangeFinding.SAME]


@pytest.mark.parametrize(
    ("truth", "days", "since"),
    [(TRUSTED, 2, 2), (UNKNOWN_TRUTH, 2, 0), (TRUSTED, 12, 0), (TRUSTED, 0, 0), (TRUSTED, -1, 0)],
)
def test_a_date_of_a_trusted_sitemap_says_the_same_as_a_header(
    truth: SourceTruth, days: int, since: int
) -> None:
    found = listed_since(truth, NOW - days * DAY_S, fetched(10), NOW)
    assert found == unchanged_since(truth, at(days), fetched(10), NOW)
    assert found == (NOW - since * DAY_S if since else 0)
