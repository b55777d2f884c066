"""A page is due when a fetch of it is worth its price."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lycosa.base.config.refetch_policies import class_of
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.refetch_cell import (
    RATES,
    WEIGHTS,
    cell_of,
    class_and_cell,
    counted_cell,
    rate_in,
    weight_in,
)
from lycosa.stages.schedule.refetch import kept_interval, next_interval
from lycosa.stages.schedule.refetch_demand import demand_at
from lycosa.stages.schedule.refetch_value import (
    chance_of_change,
    days_until_due,
    fetch_value,
    floor_of,
    interval_by_value,
    wanted_days,
    weighed_pages,
)

DAY = 86_400.0
rates, weights = st.floats(1e-4, 60), st.floats(0.01, 1000)
prices = st.floats(1e-6, 1e4)
cells = st.integers(1, RATES * WEIGHTS)


def planned_s(section: RefetchSection, cell: int) -> float:
    """The maximum is a wish: by its value a page may be due up to four times as late."""
    wanted_s = wanted_days(cell, section.price, floor_of(section, section.max_s)) * DAY
    return max(wanted_s, section.min_s) if wanted_s <= 4 * section.max_s else section.max_s


def fetches_a_day(section: RefetchSection, pages: dict[int, int]) -> float:
    demand = demand_at(section, pages, section.price)
    return demand.due + demand.wished


@given(rates, weights, st.floats(1e-3, 1e4), st.floats(1.001, 10))
def test_the_value_grows_with_time_up_to_the_time_between_changes(
    rate: float, weight: float, days: float, more: float
) -> None:
    value, later = fetch_value(rate, weight, days), fetch_value(rate, weight, days * more)
    assert 0 <= value <= later * (1 + 1e-9) <= weight / rate * (1 + 1e-6)
    assert fetch_value(rate, weight, 0.0) == 0.0


@given(rates, weights, prices)
@settings(deadline=None)
def test_a_page_is_due_exactly_when_its_value_is_the_price(
    rate: float, weight: float, price: float
) -> None:
    share = price * rate / weight
    assume(1e-9 < share < 1 - 1e-9)
    days = days_until_due(rate, weight, price)
    # found another way: by halving
    low, high = 0.0, 1.0
    while fetch_value(rate, weight, high) < price:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if fetch_value(rate, weight, middle) >= price else (middle, high)
    assert days == pytest.approx(high, rel=1e-5)
    assert fetch_value(rate, weight, days) == pytest.approx(price, rel=1e-6)


@given(rates, weights)
def test_a_page_that_changes_faster_than_it_is_worth_is_never_due(
    rate: float, weight: float
) -> None:
    assert days_until_due(rate, weight, weight / rate * 1.000001) == math.inf
    assert days_until_due(rate, weight, weight / rate * 100) == math.inf
    assert days_until_due(rate, weight, weight / rate * 0.99) < math.inf


@given(rates, weights, prices, st.floats(1, 100))
@settings(deadline=None)
def test_a_higher_price_makes_a_page_due_later_and_a_higher_weight_sooner(
    rate: float, weight: float, price: float, factor: float
) -> None:
    days = days_until_due(rate, weight, price)
    assert days_until_due(rate, weight, price * factor) >= days * (1 - 1e-9)
    assert days_until_due(rate, weight * factor, price) <= days * (1 + 1e-9)


@pytest.mark.parametrize("price", [5e-324, 1e-300, 1e-30, 1e300, math.inf])
def test_the_least_and_the_greatest_prices_have_an_interval(price: float) -> None:
    days = days_until_due(1.0, 1.0, price)
    assert days == math.inf if price >= 1 else 0 <= days < 1e-6


@given(cells, prices, st.floats(0, 0.9), st.floats(1, 1e5), st.floats(0, 1e8))
@settings(deadline=None)
def test_an_interval_is_within_the_bounds_and_waits_for_the_chance_of_a_change(
    cell: int, price: float, chance: float, min_s: float, more_s: float
) -> None:
    section = RefetchSection(
        rule=RefetchRule.VALUE,
        budget="",
        price=price,
        least_chance=chance,
        min_s=min_s,
        first_s=min_s,
        max_s=min_s + more_s,
    )
    interval = interval_by_value(section, cell)
    assert section.min_s <= interval <= section.max_s
    if interval < section.max_s:
        assert chance_of_change(rate_in(cell), interval / DAY) >= chance - 1e-9


def test_with_the_defaults_the_interval_is_what_the_guide_says() -> None:
    section = RefetchSection(rule=RefetchRule.VALUE, budget="", min_s=3600.0)
    for every, price, expected in (
        (2, 1.0, 3.4),
        (7, 1.0, 4.6),
        (30, 1.0, 8.5),
        (180, 1.0, 19.7),
        (7, 0.25, 2.1),
        (7, 4.0, 13.4),
    ):
        days = days_until_due(1 / every, 1.0, price)
        assert days == pytest.approx(expected, rel=0.05), (every, price, days)
    never = interval_by_value(section, cell_of(2.0, 1.0))
    assert never == section.max_s, "twice a day: not worth a day"


def test_the_rule_uses_the_cell_after_the_first_fetch_only() -> None:
    section, cell = RefetchSection(rule=RefetchRule.VALUE, budget=""), cell_of(1 / 7, 1.0)

    def interval(is_first: bool, cell: int, url: str = "https://a.example/") -> float:
        return next_interval(section, url, 1e6, changed=False, is_first=is_first, cell=cell)

    assert interval(True, cell) == section.first_s
    assert interval(False, cell) == interval_by_value(section, cell) != 1.5e6
    assert interval(False, 0) == 1.5e6, "a record without observations"


def test_pages_of_other_rules_cost_nothing_of_the_price_and_bounds_of_a_policy_count() -> None:
    section = RefetchSection(rule=RefetchRule.VALUE, budget="", min_s=60.0)
    cell = cell_of(1 / 7, 1.0)
    rule = "a.example value min=30d"
    named = msgspec.structs.replace(section, policies=(rule, "b.example never", "c.example daily"))
    keys = {host: counted_cell(cell, class_of(named, f"http://{host}.example/")) for host in "abcd"}
    assert counted_cell(0, 7) == 0
    assert class_and_cell(keys["d"]) == (0, cell) and len(set(keys.values())) == 4
    assert fetches_a_day(named, {keys["b"]: 9, keys["c"]: 9}) == 0
    assert fetches_a_day(named, {keys["a"]: 9}) == pytest.approx(9 / 30)
    assert fetches_a_day(named, {keys["d"]: 9}) == pytest.approx(
        9 * DAY / interval_by_value(section, cell)
    )
    pages = dict.fromkeys(keys.values(), 2)
    assert weighed_pages(named, pages)[0] == 4
    adaptive = msgspec.structs.replace(named, rule=RefetchRule.ADAPTIVE)
    assert weighed_pages(adaptive, pages)[0] == 2, "a policy can say value alone"
    assert weighed_pages(msgspec.structs.replace(named, rule=RefetchRule.OFF), pages) == (0, 0.0)


def test_the_interval_of_a_policy_has_its_bounds_and_stays_after_a_change_of_rules() -> None:
    cell, url = cell_of(1 / 7, 1.0), "http://a.example/"
    section = RefetchSection(policies=("a.example value min=30d max=60d",))
    assert next_interval(section, url, 1.0, changed=True, is_first=False, cell=cell) == 30 * DAY
    assert kept_interval(section, url, 1.0, cell) == 30 * DAY
    plain = RefetchSection(rule=RefetchRule.VALUE, budget="")
    assert kept_interval(plain, url, 1.0, cell) == interval_by_value(plain, cell)
    assert kept_interval(plain, url, 2 * DAY, 0) == 2 * DAY


@given(st.dictionaries(cells, st.integers(1, 1000), min_size=1))
@settings(deadline=None)
def test_what_a_price_costs_is_the_sum_over_the_pages_and_falls_with_the_price(
    pages: dict[int, int],
) -> None:
    cheap, dear = (
        RefetchSection(rule=RefetchRule.VALUE, budget="", price=price, min_s=60.0)
        for price in (0.5, 1.0)
    )
    cost = fetches_a_day(dear, pages)
    assert cost == pytest.approx(sum(n * DAY / planned_s(dear, cell) for cell, n in pages.items()))
    due, more = (demand_at(each, pages, each.price).due for each in (dear, cheap))
    assert more >= due
    assert all(weight_in(cell) > 0 for cell in pages)
