"""What signals change: the belief that a page has changed, and the time when it is due for it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.refetch_cell import cell_of, rate_in
from lycosa.base.model.source_truth import UNIT, UNKNOWN_TRUTH, SourceTruth
from lycosa.base.model.url_state import History
from lycosa.stages.schedule.change_rate import ChangeFinding, observation
from lycosa.stages.schedule.refetch_value import fetch_value, interval_by_value
from lycosa.stages.schedule.signal_belief import (
    MOST_CERTAIN,
    doubt_of,
    is_trusted,
    judge_signals,
    precision_of,
    recall_of,
    right_share,
)

DAY_S = 86_400.0
URL = "https://a.example/page"
ADAPTIVE = RefetchSection(min_s=3600, max_s=90 * DAY_S)
BY_VALUE = RefetchSection(
    rule=RefetchRule.VALUE, budget="", min_s=3600, max_s=90 * DAY_S, price=1.0
)
SEEN = bytes([observation(DAY_S, ChangeFinding.SAME)])


def truth(right: float, wrong: float, told: float = 0, missed: float = 0) -> SourceTruth:
    return SourceTruth(*(round(each * UNIT) for each in (right, wrong, told, missed)))


def page(interval_s: float = 10 * DAY_S, cell: int = 0) -> History:
    return History(
        fetches=3, status=200, interval_s=int(interval_s), cell=cell, observations=SEEN * bool(cell)
    )


counts = st.builds(truth, *[st.floats(0, 150)] * 4)
cells = st.builds(cell_of, st.floats(1e-3, 50), st.floats(0.02, 500))


# -- counts


def test_a_source_is_trusted_when_its_lower_bound_is_above_four_fifths() -> None:
    assert not is_trusted(UNKNOWN_TRUTH)
    assert not is_trusted(truth(9, 0))
    assert is_trusted(truth(10, 0))
    assert not is_trusted(truth(17, 2))
    assert is_trusted(truth(90, 10))


@given(counts, counts)
def test_precision_and_recall_are_shares_and_never_certain(one: SourceTruth, _: object) -> None:
    assert 0 < precision_of(one) <= MOST_CERTAIN
    assert 0 <= recall_of(one) <= MOST_CERTAIN
    assert precision_of(one.with_signal(1.0)) >= precision_of(one.with_signal(0.0))
    assert 0 < doubt_of([one, one]) < 1 == doubt_of([])


@given(st.lists(st.booleans(), max_size=1000))
def test_counts_are_bounded_whatever_a_source_says(findings: list[bool]) -> None:
    known = UNKNOWN_TRUTH
    for each in findings:
        known = known.with_signal(float(each)).with_change(each)
    assert known.right + known.wrong <= 201 * UNIT
    assert known.told + known.missed <= 201 * UNIT


def test_a_source_that_begins_to_lie_is_noticed_however_long_it_was_right() -> None:
    known = UNKNOWN_TRUTH
    for _ in range(5000):
        known = known.with_signal(1.0)
    assert precision_of(known) == MOST_CERTAIN
    wrong = 0
    while precision_of(known) > 0.3:
        known, wrong = known.with_signal(0.0), wrong + 1
    assert wrong < 400


@given(counts, st.floats(0, 1))
def test_a_change_that_came_anyway_says_nothing_about_a_source(
    known: SourceTruth, chance: float
) -> None:
    assert right_share(known, False, chance) == 0
    share = right_share(known, True, chance)
    assert precision_of(known) <= share + 1e-12 <= 1 + 2e-12
    assert right_share(known, True, 0.0) == 1
    assert right_share(known, True, 1.0) == pytest.approx(precision_of(known))


# -- the time


def wait(
    section: RefetchSection,
    history: History,
    signals: list[SourceTruth],
    silence: list[SourceTruth] | None = None,
) -> float:
    return judge_signals(section, URL, history, 0.0, signals, silence or []).wait_s


def test_a_page_that_changes_by_its_interval_is_due_at_once_after_a_believed_signal() -> None:
    assert wait(ADAPTIVE, page(), []) == pytest.approx(10 * DAY_S)
    assert wait(ADAPTIVE, page(), [UNKNOWN_TRUTH]) == 3600  # an unknown source: two thirds
    assert wait(ADAPTIVE, page(), [truth(20, 0)]) == 3600


def test_a_doubtful_signal_brings_a_page_forward_in_part_and_a_false_one_not() -> None:
    doubtful, false = truth(2, 15), truth(0, 150)
    assert 3 * DAY_S < wait(ADAPTIVE, page(), [doubtful]) < 7 * DAY_S
    assert 9.5 * DAY_S < wait(ADAPTIVE, page(), [false]) < 10 * DAY_S
    assert wait(ADAPTIVE, page(), [doubtful, doubtful]) < wait(ADAPTIVE, page(), [doubtful])


@given(cells)
def test_without_signals_a_page_by_value_keeps_its_interval(cell: int) -> None:
    assert wait(BY_VALUE, page(cell=cell), []) == pytest.approx(interval_by_value(BY_VALUE, cell))


@given(cells, counts)
def test_the_value_at_the_believed_changes_reaches_the_price(cell: int, known: SourceTruth) -> None:
    """x = r t - ln(1 - q), and a fetch at that x is worth the price, where nothing is clamped."""
    waits = wait(BY_VALUE, page(cell=cell), [known])
    if not 3600 < waits < interval_by_value(BY_VALUE, cell) < BY_VALUE.max_s:
        return
    x = rate_in(cell) * waits / DAY_S - math.log(1 - precision_of(known))
    worth = fetch_value(rate_in(cell), 1.0, x / rate_in(cell)) * (
        BY_VALUE.price / fetch_value(rate_in(cell), 1.0, _natural_x(cell) / rate_in(cell))
    )
    assert worth == pytest.approx(BY_VALUE.price, rel=1e-3)


def _natural_x(cell: int) -> float:
    return rate_in(cell) * interval_by_value(BY_VALUE, cell) / DAY_S


def test_a_page_that_is_never_worth_a_fetch_is_not_worth_one_by_a_signal() -> None:
    """The signal changes the belief, not the value."""
    often = cell_of(50.0, 0.02)
    assert wait(BY_VALUE, page(cell=often), [truth(100, 0)]) == BY_VALUE.max_s


def test_silence_of_a_source_that_tells_of_changes_saves_fetches() -> None:
    cell = cell_of(0.2, 2.0)
    alone, told = wait(BY_VALUE, page(cell=cell), []), truth(50, 0, 100, 0)
    assert wait(BY_VALUE, page(cell=cell), [], [told]) == pytest.approx(4 * alone)
    assert wait(BY_VALUE, page(cell=cell), [], [truth(50, 0, 1, 20)]) < 1.15 * alone
    assert wait(BY_VALUE, page(cell=cell), [], [UNKNOWN_TRUTH]) == alone
    # An interval that was halved and lengthened by what fetches found stays.
    assert wait(ADAPTIVE, page(), [], [told]) == pytest.approx(10 * DAY_S)


sections = st.builds(
    lambda rule, low, policies: RefetchSection(
        rule=rule, min_s=low, max_s=90 * DAY_S, price=0.5, policies=policies
    ),
    st.sampled_from(list(RefetchRule)),
    st.floats(1, 10 * DAY_S),
    st.sampled_from([(), ("* never",), ("* every 2h",), ("* value min=1d max=5d",)]),
)


@given(
    sections,
    st.one_of(st.none(), cells),
    st.integers(0, int(80 * DAY_S)),
    st.floats(-1e10, 1e10),
    st.lists(counts, max_size=5),
    st.lists(counts, max_size=5),
)
def test_no_signal_brings_a_page_below_its_minimum_or_beyond_its_maximum(
    section: RefetchSection,
    cell: int | None,
    interval_s: int,
    age_s: float,
    signals: list[SourceTruth],
    silence: list[SourceTruth],
) -> None:
    """Whatever sources say and clocks show."""
    history = page(interval_s, cell or 0)
    belief = judge_signals(section, URL, history, age_s, signals, silence)
    assert 0 <= belief.chance <= 1
    if belief.wait_s == math.inf:
        assert not interval_s or section.rule is RefetchRule.OFF or section.policies == ("* never",)
        return
    low = DAY_S if section.policies == ("* value min=1d max=5d",) else min(section.min_s, 7200)
    assert low <= belief.wait_s
    assert belief.wait_s <= max(section.max_s, interval_s)
    fewer = judge_signals(section, URL, history, age_s, signals[1:], silence)
    assert belief.wait_s <= fewer.wait_s
