"""A page whose time has come is judged by what a fetch is worth now."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.due_band import DueBand
from lycosa.base.model.refetch_cell import RATES, WEIGHTS, cell_of, rate_in, weight_in
from lycosa.base.model.url_state import History, UrlState
from lycosa.stages.schedule.due_judgement import judge_due
from lycosa.stages.schedule.refetch_value import (
    fetch_value,
    floor_of,
    interval_by_value,
    wanted_days,
)
from lycosa.state.kv.table_records import UrlRecord

DAY = 86_400.0
FETCHED = 1_800_000_000
VALUE = RefetchSection(rule=RefetchRule.VALUE, budget="")
URL = "https://a.example/"
cells, prices = st.integers(1, RATES * WEIGHTS), st.floats(1e-3, 1e3)


def record_of(cell: int, interval_s: float, state: UrlState = UrlState.FETCHED) -> UrlRecord:
    history = History(
        fetches=3,
        fetched_at=FETCHED,
        interval_s=int(interval_s),
        observations=b"\x60\x62",
        cell=cell,
    )
    due_at = FETCHED + int(interval_s)
    return UrlRecord(
        state, True, "/", 1, 100, LinkKind.SITEMAP, FETCHED - 100, due_at=due_at, history=history
    )


@given(cells, prices, st.floats(0.0, 400.0))
def test_a_page_waits_in_the_band_of_its_value_or_gets_a_later_time(
    cell: int, price: float, days: float
) -> None:
    section = msgspec.structs.replace(VALUE, price=price)
    record = record_of(cell, DAY)
    record.due_at = FETCHED + int(DAY)
    judgement = judge_due(section, URL, record, price, FETCHED + days * DAY)
    worth = fetch_value(rate_in(cell), weight_in(cell), days) / price
    assert judgement.worth == pytest.approx(worth)
    if judgement.band is None:
        assert judgement.later_at > FETCHED + days * DAY
        wanted_s = wanted_days(cell, price, floor_of(section, section.max_s)) * DAY
        # The maximum is a wish: by its value a page may be due later, up to four times as late.
        is_probe = wanted_s > 4 * section.max_s
        interval_s = section.max_s if is_probe else max(wanted_s, section.min_s)
        assert judgement.later_at == pytest.approx(FETCHED + interval_s, abs=1)
    elif judgement.band is DueBand.PROBE:
        assert days * DAY >= 0.9 * section.max_s
    else:
        low, high = {
            DueBand.FOURFOLD: (4, math.inf),
            DueBand.TWOFOLD: (2, 4),
            DueBand.DUE: (0.9, 2),
        }[judgement.band]
        assert low <= worth < high


@given(cells, prices)
def test_at_the_time_that_was_planned_at_the_same_price_a_page_is_due(
    cell: int, price: float
) -> None:
    section = msgspec.structs.replace(VALUE, price=price)
    record = record_of(cell, interval_by_value(section, cell))
    judged = judge_due(section, URL, record, price, record.due_at)
    if judged.band is None:  # it is looked at after the maximum, and due later by its value
        assert record.due_at == FETCHED + section.max_s < judged.later_at
        judged = judge_due(section, URL, record, price, judged.later_at)
    assert judged.band is not None


def test_a_clock_that_was_ahead_at_the_fetch_delays_a_page_by_its_interval_at_most() -> None:
    cell = cell_of(1 / 7, 1.0)
    record = record_of(cell, 5 * DAY)
    now = FETCHED - 3650 * DAY
    judged = judge_due(VALUE, URL, record, 1.0, now)
    assert judged.band is None
    wanted_s = wanted_days(cell, 1.0, floor_of(VALUE, VALUE.max_s)) * DAY
    assert judged.later_at == pytest.approx(now + wanted_s, abs=1)
    assert judge_due(VALUE, URL, record, 1.0, FETCHED + 3650 * DAY).band is DueBand.FOURFOLD


def test_with_a_budget_a_page_before_its_second_fetch_counts_as_a_usual_one() -> None:
    record = record_of(cell_of(1 / 14, 1.0), VALUE.first_s)
    assert record.history is not None
    record.history = msgspec.structs.replace(record.history, observations=b"")
    budget = msgspec.structs.replace(VALUE, budget="100/d")
    assert judge_due(VALUE, URL, record, 8.0, record.due_at).band is DueBand.DUE
    assert judge_due(budget, URL, record, 8.0, record.due_at).band is None


def test_a_page_that_is_never_worth_a_fetch_is_a_probe_after_the_maximum() -> None:
    restless = record_of(cell_of(50.0, 1.0), VALUE.max_s)
    early = judge_due(VALUE, URL, restless, 1.0, FETCHED + 10 * DAY)
    assert (early.band, early.later_at) == (None, FETCHED + VALUE.max_s)
    assert judge_due(VALUE, URL, restless, 1.0, FETCHED + 90 * DAY).band is DueBand.PROBE


def test_a_price_that_has_risen_gives_a_later_time_and_one_that_has_fallen_a_better_band() -> None:
    section, cell = VALUE, cell_of(1 / 7, 1.0)
    record = record_of(cell, interval_by_value(section, cell))
    assert judge_due(section, URL, record, 1.0, record.due_at).band is DueBand.DUE
    assert judge_due(section, URL, record, 2.0, record.due_at).band is None
    assert judge_due(section, URL, record, 0.4, record.due_at).band is DueBand.TWOFOLD
    assert judge_due(section, URL, record, 0.0, record.due_at).band is DueBand.FOURFOLD
    assert judge_due(section, URL, record, math.inf, record.due_at).band is None


@pytest.mark.parametrize(
    ("shares", "band"),
    [(1.0, DueBand.DUE), (1.9, DueBand.DUE), (2.0, DueBand.TWOFOLD), (5.0, DueBand.FOURFOLD)],
)
def test_pages_without_a_value_are_judged_by_the_time_since_their_fetch(
    shares: float, band: DueBand
) -> None:
    adaptive, cell = RefetchSection(rule=RefetchRule.ADAPTIVE), cell_of(1.0, 1.0)
    every = RefetchSection(rule=RefetchRule.VALUE, budget="", policies=("* every 2d",))
    gone = record_of(cell, 2 * DAY, UrlState.GONE)
    now = FETCHED + shares * 2 * DAY
    for section, record in ((adaptive, record_of(cell, 2 * DAY)), (every, gone), (VALUE, gone)):
        assert judge_due(section, URL, record, 1.0, now).band is band


def test_the_first_refetch_comes_after_its_interval_whatever_the_price() -> None:
    record = record_of(cell_of(1 / 14, 0.1), VALUE.first_s)
    assert record.history is not None
    record.history = msgspec.structs.replace(record.history, fetches=1, observations=b"")
    assert judge_due(VALUE, URL, record, 5.0, record.due_at).band is DueBand.DUE


def test_a_page_that_a_sitemap_announces_is_due_before_its_value_is_the_price() -> None:
    record = record_of(cell_of(1 / 30, 1.0), 8 * DAY)
    record.due_at = FETCHED + int(2 * DAY)
    judgement = judge_due(VALUE, URL, record, 1.0, record.due_at)
    assert judgement.band is DueBand.DUE and judgement.worth < 0.9
