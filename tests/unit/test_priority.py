"""Priority is a number in [0, 1], monotone in each factor."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import PrioritySection
from lycosa.base.model.discovered import NO_SCORE, Discovered, LinkKind
from lycosa.base.model.factors import Factors
from lycosa.base.model.refetch_cell import cell_of
from lycosa.base.model.url_state import History
from lycosa.base.urls.identity import hash8
from lycosa.stages.frontier.discovery import record_of
from lycosa.stages.frontier.ranking import factors_of_found, factors_of_known
from lycosa.stages.schedule.priority import link_importance, linked_importance, prioritizer
from lycosa.state.kv.table_records import UrlRecord, decode_url, encode_record, encode_url

shares = st.floats(0, 1)
weights = st.builds(
    PrioritySection, **dict.fromkeys(PrioritySection.__struct_fields__, st.floats(0, 10))
)
factors = st.builds(
    Factors,
    importance=shares,
    authority=shares,
    depth=st.integers(0, 100),
    change_interval_s=st.floats(0, 1e8),
    age_s=st.one_of(st.just(-1.0), st.floats(0, 1e8)),
    hint=st.one_of(st.just(-1.0), shares),
    chance=st.one_of(st.just(-1.0), shares),
)


def priority(of: Factors, by: PrioritySection) -> float:
    return prioritizer(by)(of)


@given(factors, weights)
@settings(deadline=None)
def test_it_is_a_number_between_zero_and_one(of: Factors, by: PrioritySection) -> None:
    assert -1e-9 <= priority(of, by) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["importance", "authority", "hint"])
@given(of=factors, by=weights, less=shares, more=shares)
@settings(deadline=None)
def test_it_rises_with_each_share(
    name: str, of: Factors, by: PrioritySection, less: float, more: float
) -> None:
    low, high = sorted((less, more))
    assert (
        priority(msgspec.structs.replace(of, **{name: low}), by)
        <= priority(msgspec.structs.replace(of, **{name: high}), by) + 1e-12
    )


@given(factors, weights, st.integers(0, 100), st.integers(0, 100))
@settings(deadline=None)
def test_it_falls_with_depth(of: Factors, by: PrioritySection, one: int, other: int) -> None:
    near, far = sorted((one, other))
    assert (
        priority(msgspec.structs.replace(of, depth=near), by)
        >= priority(msgspec.structs.replace(of, depth=far), by) - 1e-12
    )


@given(factors, weights, st.floats(1, 1e8), st.floats(1, 1e8))
@settings(deadline=None)
def test_it_falls_with_the_interval_between_changes_and_rises_with_age(
    of: Factors, by: PrioritySection, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    often, seldom = (
        priority(msgspec.structs.replace(of, change_interval_s=each), by) for each in (low, high)
    )
    fresh, stale = (priority(msgspec.structs.replace(of, age_s=each), by) for each in (low, high))
    never = priority(msgspec.structs.replace(of, age_s=-1.0), by)
    assert often >= seldom - 1e-12
    assert fresh <= stale + 1e-12 <= never + 2e-12


WEIGHTS = [each for each in PrioritySection.__struct_fields__ if each != "ranks"]


def test_without_weights_all_urls_are_alike() -> None:
    none = PrioritySection(**dict.fromkeys(WEIGHTS, 0.0))
    assert priority(Factors(importance=1.0), none) == priority(Factors(depth=9), none) == 0.5


@given(shares, st.integers(0, 10_000), st.integers(0, 10_000))
@settings(deadline=None)
def test_a_link_passes_on_less_than_its_page_has_and_less_the_more_links_there_are(
    share: float, one: int, other: int
) -> None:
    few, many = sorted((one, other))
    assert link_importance(share, many) <= link_importance(share, few) <= max(share, 0.05)


# -- docs/priority.md

DAY = 86_400.0
NOW = 1_750_000_000.0
BY = PrioritySection()
LINK = link_importance(1.0, 100)


def find(**fields: Any) -> Discovered:
    return Discovered(
        "http://a.example/x",
        hash8("a.example"),
        hash8("x"),
        LinkKind.A,
        **{"depth": 1, "importance": LINK, **fields},
    )


def known(**fields: Any) -> UrlRecord:
    """The record of the page, as its find made it, after fetches."""
    record = record_of(find(), 0.5, NOW, is_parked=False)
    record.history = History(**fields) if fields else None
    return record


def test_the_weights_of_what_the_crawl_knows_add_up_to_one() -> None:
    assert sum(getattr(BY, each) for each in WEIGHTS) - BY.score == pytest.approx(1.0)


@given(st.integers(0, 255), st.integers(0, 255))
def test_a_higher_score_is_a_higher_priority_and_none_is_neutral(one: int, other: int) -> None:
    def ranked(score: int) -> float:
        return prioritizer(BY)(factors_of_found(find(score=score), 0.5, NOW))

    neutral = ranked(NO_SCORE)
    assert (one < other) == (ranked(one) < ranked(other))
    assert (one / 255 > neutral) == (ranked(one) > neutral)
    record = record_of(find(score=one), 0.5, NOW, is_parked=False)
    assert record.score == one and decode_url(encode_url(record)).score == one


def test_the_example_of_the_page_about_priority() -> None:
    same = factors_of_found(find(), 1.0, NOW)
    new = factors_of_found(find(), linked_importance(1, LINK), NOW)
    ranked = factors_of_found(find(), 230 / 255, NOW, rank=204)
    often = factors_of_known(
        known(fetches=9, fetched_at=int(NOW - DAY), cell=cell_of(1.0, 1.0)), 1.0, NOW
    )
    never = factors_of_known(
        known(fetches=9, fetched_at=int(NOW - 90 * DAY), cell=cell_of(1 / 424, 1.0)), 1.0, NOW
    )
    found = [priority(each, BY) for each in (same, new, often, never)]
    assert found[:2] == pytest.approx([0.5955, 0.43342], abs=1e-5)
    assert priority(ranked, BY) == pytest.approx(0.7855, abs=1e-4)
    exact = [
        priority(msgspec.structs.replace(each, importance=LINK), BY) for each in (often, never)
    ]
    assert exact == pytest.approx([0.62996, 0.41786], abs=1e-5)
    assert found[2:] == pytest.approx(exact, abs=0.3 / 255), (
        "the record keeps the importance in 255ths"
    )
    text = (Path(__file__).parents[2] / "docs" / "priority.md").read_text()
    assert all(f"**{value}**" in text for value in ("0.5955", "0.4334", "0.7855", "0.63", "0.4179"))
    assert [min(int((1 - each) * 8), 7) for each in found[:2]] == [3, 4]


def test_the_facts_of_a_find() -> None:
    assert factors_of_found(find(), 0.7, NOW) == Factors(LINK, 0.7, 1)
    assert factors_of_found(find(hint=0.9, change_s=60, lastmod=5), 0.7, NOW) == Factors(
        LINK, 0.7, 1, 60, hint=0.9
    )
    assert factors_of_found(find(lastmod=int(NOW - DAY)), 0.7, NOW).change_interval_s == DAY
    assert factors_of_found(find(lastmod=int(NOW + DAY)), 0.7, NOW).change_interval_s == 3600


def test_the_facts_of_a_url_that_is_queued_again() -> None:
    never_fetched = factors_of_known(known(), 0.7, NOW)
    assert (never_fetched.age_s, never_fetched.change_interval_s, never_fetched.authority) == (
        -1,
        0,
        0.7,
    )
    fetched = factors_of_known(
        known(fetches=2, fetched_at=int(NOW - 100), interval_s=5000), 0.7, NOW
    )
    assert (fetched.age_s, fetched.change_interval_s) == (100, 5000)
    assert fetched.importance == pytest.approx(LINK, abs=1 / 255)
    assert fetched.chance == -1, "a record of an older program"
    cell = cell_of(1 / 7, 3.0)
    seen = factors_of_known(
        known(fetches=2, fetched_at=int(NOW - 7 * DAY), interval_s=5000, cell=cell), 0.7, NOW
    )
    assert seen.change_interval_s == pytest.approx(7 * DAY, rel=0.2)
    assert seen.chance == pytest.approx(1 - math.exp(-1), rel=0.2)
    ahead = factors_of_known(known(fetches=2, fetched_at=int(NOW + 100), interval_s=0), 0.7, NOW)
    assert (ahead.age_s, ahead.change_interval_s) == (0, 0), "the clock was set back"


def test_a_record_from_before_its_importance_was_kept_has_its_hosts() -> None:
    record = known()
    old = encode_record(msgspec.structs.astuple(record)[:14])
    assert factors_of_known(decode_url(old), 0.7, NOW).importance == 0.7


@given(st.integers(0, 20), st.integers(0, 20), st.floats(0, 90), shares)
@settings(deadline=None)
def test_of_two_pages_of_the_same_age_the_one_with_the_shorter_interval_comes_first(
    a: int, b: int, age_d: float, host: float
) -> None:
    often, seldom = (
        priority(
            factors_of_known(
                known(
                    fetches=5, fetched_at=int(NOW - age_d * DAY), interval_s=int((1 + each) * DAY)
                ),
                host,
                NOW,
            ),
            BY,
        )
        for each in sorted((a, b))
    )
    assert often >= seldom
