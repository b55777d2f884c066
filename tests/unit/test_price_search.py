"""The price of a refetch is found from counts of pages by cell, and from a budget."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.policy_classes import policy_class
from lycosa.base.config.refetch_budget import RefetchBudget, read_budget
from lycosa.base.config.refetch_policies import read_policy
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.messages.worker_messages import (
    AddressCells,
    PriceFound,
    PriceTerms,
    RefetchGrid,
)
from lycosa.base.model.refetch_cell import RATES, WEIGHTS, cell_of, counted_cell, rate_in, weight_in
from lycosa.cluster.coordinator.price_search import MOST_STEP, PRICE_STEP_S, PriceSearch, next_price
from lycosa.stages.schedule.price_in_force import PriceInForce, price_of_host
from lycosa.stages.schedule.refetch_demand import demand_at
from lycosa.stages.schedule.refetch_value import (
    IntervalBound,
    at_mean_weight,
    days_until_due,
    first_price,
    floor_of,
    mean_weight,
    wanted_days,
    weighed_pages,
)

DAY = 86_400.0
VALUE = RefetchSection(rule=RefetchRule.VALUE, budget="", min_s=60.0)
grids = st.dictionaries(st.integers(1, RATES * WEIGHTS), st.integers(1, 10**6), min_size=1)
EVERY_DAY = counted_cell(cell_of(0.1, 1.0), policy_class(read_policy("* daily").policy))


def sought(pages: dict[int, int], budget: float, price: float = 1.0) -> float:
    for _ in range(500):
        found = next_price(VALUE, pages, price, budget)
        assert 1 / MOST_STEP - 1e-9 <= found / price <= MOST_STEP + 1e-9
        if found == price:
            break
        price = found
    return price


# -- the budget


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("", None),
        ("12000/d", RefetchBudget(a_day=12_000)),
        ("2 / s", RefetchBudget(a_day=172_800)),
        ("1.5/m", RefetchBudget(a_day=2160)),
        ("10/hour", RefetchBudget(a_day=240)),
        ("20%", RefetchBudget(share=0.2)),
    ],
)
def test_a_budget_is_a_rate_or_a_share(text: str, budget: RefetchBudget | None) -> None:
    assert read_budget(text) == budget


@pytest.mark.parametrize("text", ["fast", "12", "0/d", "0%", "101%", "-1/d", "1e9/s", "3/y"])
def test_what_is_no_budget_is_refused_with_the_form_of_one(text: str) -> None:
    with pytest.raises(ValueError, match=text.partition("/")[0]):
        read_budget(text)


# -- the search


@given(grids, st.floats(0.01, 0.99))
@settings(deadline=None, max_examples=30)
def test_planned_fetches_meet_the_budget_or_the_price_has_no_effect_any_more(
    pages: dict[int, int], share: float
) -> None:
    most = demand_at(VALUE, pages, 1e-9).total(VALUE.probes)
    budget = most * share
    price = sought(pages, budget)
    asked = demand_at(VALUE, pages, price).total(VALUE.probes)
    there = demand_at(VALUE, pages, price * MOST_STEP).total(VALUE.probes)
    # One cell may have most of the pages, and become worthless at a price.
    under = demand_at(VALUE, pages, price / 1.01).total(VALUE.probes)
    assert asked <= budget * 1.01 or there == asked
    assert under >= budget * 0.99 or asked == pytest.approx(under, rel=0.03)


def test_without_pages_and_where_nothing_binds_the_price_stays() -> None:
    assert next_price(VALUE, {}, 1.7, 1000.0) == 1.7
    few = {cell_of(1 / 10, 1.0): 3}
    floor = sought(few, 1e6)
    # Fetched as soon as `refetch.least_chance` allows, and no price would change that.
    assert demand_at(VALUE, few, floor).due == pytest.approx(3 / (10 * -math.log(0.9)), rel=0.3)
    assert floor > 1e-3, "it stopped where the price had no effect"


def test_the_price_bears_any_size() -> None:
    one = {cell_of(1 / 10, 1.0): 10_000_000}
    assert demand_at(VALUE, one, sought(one, 50_000.0)).due == pytest.approx(50_000, rel=0.02)
    for price in (1e-9, 1e9):
        assert 1e-10 < next_price(VALUE, one, price, 1.0) < 1e10
        assert 1e-10 < next_price(VALUE, one, price, 1e12) < 1e10
    off = RefetchSection(rule=RefetchRule.OFF)
    assert next_price(off, one, 2.0, 5.0) == 2.0


def test_promises_come_before_the_price_and_a_price_cannot_lower_them() -> None:
    pages = {cell_of(1 / 10, 1.0): 1000, EVERY_DAY: 300}
    assert demand_at(VALUE, pages, 1.0).promised == pytest.approx(300)
    price = sought(pages, 400.0)
    assert demand_at(VALUE, pages, price).due == pytest.approx(100, rel=0.02)
    assert next_price(VALUE, {EVERY_DAY: 300}, 1.0, 10.0) == 1.0


# -- the conversation with workers


def terms(a_day: float = 100.0, share: float = 0.0, settings: int = 1) -> PriceTerms:
    return PriceTerms(settings, a_day, share, True, 1.0, 60.0, 90 * DAY, 0.1, 0.05)


PAGES = {cell_of(1 / 10, 1.0): 1000}


def grid(
    number: int = 1, base: int = 0, cells: dict[int, int] | None = None, **more
) -> RefetchGrid:  # type: ignore[no-untyped-def]
    values = {"capacity_a_day": 1000.0, "bound": 0, "bound_a_day": 0.0, "terms": terms(), **more}
    return RefetchGrid(number, base, PAGES if cells is None else cells, **values)


def test_nothing_is_sought_before_every_shard_has_told_its_pages() -> None:
    search = PriceSearch(2)
    assert search.receive(0, (1, 1), grid(), 0.0).number == 0
    search.tick(0.0)
    assert search.receive(0, (1, 1), grid(2, 1, {}), 60.0).number == 0
    search.receive(1, (1, 1), grid(), 61.0)
    search.tick(61.0)
    found = search.receive(0, (1, 1), grid(3, 2, {}), 62.0)
    assert found.number == 1 and found.budget_a_day == 100.0
    assert found.price == pytest.approx(MOST_STEP), "2,000 pages ask for more than a hundred"


def test_the_price_moves_once_a_minute_until_the_budget_is_met() -> None:
    search = PriceSearch(1)
    search.receive(0, (1, 1), grid(), 0.0)
    for second in range(0, 3600, 1):
        search.tick(float(second))
    found = search.receive(0, (1, 1), grid(), 3600.0)
    assert found.asked_a_day == pytest.approx(100, rel=0.01)
    assert 1 < found.number <= 60


def test_only_changed_rows_are_needed_and_a_lost_message_leads_to_a_complete_grid() -> None:
    search, owner, other = PriceSearch(1), (1, 1), cell_of(1.0, 1.0)
    assert search.receive(0, owner, grid(1), 0.0).grid == 1
    assert search.receive(0, owner, grid(2, 1, {other: 5}), 60.0).grid == 2
    assert search._shards[0].cells == {**PAGES, other: 5}
    assert search.receive(0, owner, grid(2, 1, {other: 5}), 60.0).grid == 2, "a repetition"
    assert search.receive(0, owner, grid(4, 3, {other: 6}), 120.0).grid == 0, "3 was lost"
    assert search._shards[0].cells == {**PAGES, other: 5}
    assert search.receive(0, owner, grid(5, 0, {other: 7}), 180.0).grid == 5
    assert search.receive(0, owner, grid(6, 5, {other: 0}), 240.0).grid == 6
    assert search._shards[0].cells == {}
    assert search.receive(0, (2, 2), grid(7, 6, {other: 1}), 300.0).grid == 0, "another owner"


def test_a_new_coordinator_keeps_the_price_that_workers_have_until_it_knows_all() -> None:
    search = PriceSearch(3)
    assert search.receive(0, (1, 1), grid(price=3.0, price_number=41), 0.0).price == 3.0
    found = search.receive(1, (1, 1), grid(price=2.5, price_number=42), 1.0)
    assert (found.price, found.number) == (2.5, 42)
    search.tick(100.0)
    found = search.receive(0, (1, 1), grid(price=3.0, price_number=41), 100.0)
    assert (found.price, found.number) == (2.5, 42)
    search.receive(2, (1, 1), grid(price=2.5, price_number=42), 101.0)
    search.tick(101.0)
    found = search.receive(0, (1, 1), grid(price=2.5, price_number=42), 102.0)
    assert found.number == 43 and found.price == pytest.approx(2.5 * MOST_STEP)


def test_a_shard_between_owners_counts_with_its_last_grid() -> None:
    search = PriceSearch(2)
    for shard in range(2):
        search.receive(shard, (1, 1), grid(), 0.0)
    for minute in range(100):  # shard 1 says nothing any more
        search.tick(minute * PRICE_STEP_S)
        found = search.receive(0, (1, 1), grid(minute + 2, minute + 1, {}), minute * PRICE_STEP_S)
    asked = 2 * demand_at(VALUE, PAGES, found.price).total(0.05)
    assert asked == pytest.approx(100, rel=0.01)


def test_hosts_with_too_few_turns_count_with_their_turns() -> None:
    search = PriceSearch(1)
    for minute in range(60):
        search.receive(0, (1, 1), grid(bound=1, bound_a_day=60.0), minute * PRICE_STEP_S)
        search.tick(minute * PRICE_STEP_S)
    found = search.receive(0, (1, 1), grid(), 3600.0)
    assert demand_at(VALUE, PAGES, found.price).total(0.05) == pytest.approx(40, rel=0.01)


def test_a_share_is_one_of_the_capacity_averaged_over_a_day() -> None:
    search = PriceSearch(1)
    part = {"terms": terms(0.0, 0.5)}
    search.receive(0, (1, 1), grid(capacity_a_day=1000.0, **part), 0.0)
    search.tick(0.0)
    found = search.receive(0, (1, 1), grid(capacity_a_day=9000.0, **part), 600.0)
    assert found.budget_a_day == 500.0
    search.tick(600.0)
    found = search.receive(0, (1, 1), grid(capacity_a_day=9000.0, **part), 600.0 + DAY)
    assert 500.0 < found.budget_a_day < 600.0
    search.tick(600.0 + DAY)
    found = search.receive(0, (1, 1), grid(capacity_a_day=9000.0, **part), 700.0 + DAY)
    assert 2500.0 < found.budget_a_day < 4000.0


def test_terms_are_those_of_the_newest_settings() -> None:
    search = PriceSearch(1)
    search.receive(0, (1, 1), grid(terms=terms(200.0, settings=5)), 0.0)
    search.receive(0, (1, 1), grid(terms=terms(100.0, settings=4)), 1.0)
    search.tick(1.0)
    assert search.receive(0, (1, 1), grid(terms=terms(200.0, settings=5)), 2.0).budget_a_day == 200


# -- the price of a host


@given(grids, st.floats(0.01, 0.9), st.floats(1e-3, 1e2))
@settings(deadline=None, max_examples=30)
def test_a_host_with_too_few_turns_has_the_price_that_fits_them(
    pages: dict[int, int], share: float, price: float
) -> None:
    demand = demand_at(VALUE, pages, price)
    turns = demand.due * share
    if turns <= 0:
        assert price_of_host(VALUE, pages, 1.0, price) is None
        return
    found = price_of_host(VALUE, pages, turns, price)
    assert found is not None and found >= price
    left = turns
    # The last step that uses up the turns: what is due more waits in the queue.
    assert demand_at(VALUE, pages, found * 1.051).due <= left * 1.001
    assert demand_at(VALUE, pages, found / 1.051).due >= left * 0.999
    assert price_of_host(VALUE, pages, demand.due / 0.9, price) is None


def test_a_host_of_ten_million_pages_and_one_of_promises_have_a_price() -> None:
    pages = {cell_of(1 / 10, 1.0): 10_000_000}
    turns = 86_400 * 0.5
    found = price_of_host(VALUE, pages, turns, 1e-6)
    assert found is not None
    assert demand_at(VALUE, pages, found).due > turns
    slow = price_of_host(VALUE, pages, 86_400 / 30 * 0.5, 1e-6)
    # No price leads to an interval of 19 years. The queue of the host has pages at all times.
    assert slow is not None and demand_at(VALUE, pages, slow).due > 1440
    promised = {EVERY_DAY: 10_000, cell_of(1 / 10, 1.0): 10_000}
    found = price_of_host(VALUE, promised, 5000.0, 0.1)
    assert found is not None, "promises take all turns but a twentieth"
    assert demand_at(VALUE, promised, found).due == pytest.approx(250, rel=0.1)


# -- the price in force


def test_the_price_in_force_follows_the_newest_number_and_only_with_a_budget() -> None:
    plain = PriceInForce(VALUE)
    assert plain.price == 1.0 and plain.look_at(b"h") is None and plain.committed == (1.0, 0)
    section = RefetchSection(rule=RefetchRule.VALUE, price=1.5, budget="100/d")
    prices = PriceInForce(section)
    assert prices.price == 1.5 and prices.look_at(b"h") == 0.75
    prices.follow(4.0, 7)
    prices.follow(9.0, 6)
    assert prices.committed == (4.0, 7) and prices.look_at(b"h") == 2.0
    prices.hosts[b"h"] = 6.0
    assert prices.of_host(b"h") == 6.0 and prices.of_host(b"i") == 4.0
    prices.follow(8.0, 8)
    assert prices.of_host(b"h") == 8.0, "the common price has overtaken that of the host"
    prices.follow_section(VALUE)
    assert prices.price == 1.0 and prices.of_host(b"h") == 6.0 and prices.look_at(b"h") == 6.0
    prices.follow_section(RefetchSection(rule=RefetchRule.ADAPTIVE))
    assert prices.committed == (0.0, 0)


# -- addresses


def at_address(pages: int, delayed: int = 0) -> dict[str, AddressCells]:
    return {"x": AddressCells(pages, delayed, {cell_of(1 / 10, 1.0): pages})}


def shared(turns: float, due_share: float = 0.5) -> PriceTerms:
    return msgspec.structs.replace(terms(), address_turns=turns, due_share=due_share)


def settled(search: PriceSearch, *grids: RefetchGrid) -> PriceFound:
    for minute in range(60):
        for shard, each in enumerate(grids):
            found = search.receive(shard, (1, 1), each, minute * PRICE_STEP_S)
        search.tick(minute * PRICE_STEP_S)
    return found


def test_an_address_with_too_few_turns_has_a_price_and_counts_with_its_turns() -> None:
    cells, other = {cell_of(1 / 10, 1.0): 1000}, cell_of(1 / 3, 1.0)
    first = grid(cells={**cells, other: 500}, addresses=at_address(1000), terms=shared(60.0))
    second = grid(cells=cells, addresses=at_address(1000), terms=shared(60.0))
    found = settled(PriceSearch(2), first, second)
    assert found.addresses.keys() == {"x"}
    both = {cell_of(1 / 10, 1.0): 2000}
    assert demand_at(VALUE, both, found.addresses["x"]).due == pytest.approx(60, rel=0.07)
    left = demand_at(VALUE, {other: 500}, found.price).total(0.05)
    assert left == pytest.approx(40, rel=0.02), "what is left of a hundred a day"
    assert found.price < found.addresses["x"]


def test_an_address_with_enough_turns_has_no_price_and_neither_has_one_without_a_limit() -> None:
    for turns in (1e6, 0.0):
        one = grid(addresses=at_address(1000), terms=shared(turns))
        found = settled(PriceSearch(1), one)
        assert found.addresses == {}
        assert demand_at(VALUE, PAGES, found.price).total(0.05) == pytest.approx(100, rel=0.01)


def test_new_pages_take_their_share_of_the_turns_of_an_address() -> None:
    prices = [
        settled(
            PriceSearch(1), grid(addresses=at_address(1000, delayed), terms=shared(50.0))
        ).addresses["x"]
        for delayed in (0, 500, 1000)
    ]
    assert prices == sorted(prices) and prices[0] < prices[2]


def test_without_a_budget_addresses_have_prices_all_the_same_and_the_last_ones_told_stay() -> None:
    search = PriceSearch(1)
    plain = msgspec.structs.replace(shared(20.0), a_day=0.0)
    found = settled(search, grid(addresses=at_address(1000), terms=plain))
    assert found.number == 0 and found.addresses["x"] > 1
    search.receive(0, (1, 1), grid(2, 1, {}, terms=plain), 3600.0)
    search.tick(3700.0)
    again = search.receive(0, (1, 1), grid(3, 2, {}, terms=plain), 3700.0)
    assert again.addresses == found.addresses


def test_a_page_is_judged_by_the_highest_of_the_prices_that_are_for_it() -> None:
    prices = PriceInForce(VALUE)
    prices.addresses["x"] = 3.0
    assert prices.of_host(b"h", "x") == 3.0 and prices.of_host(b"h", "y") == 1.0
    assert prices.look_at(b"h", "x") == 3.0 and prices.look_at(b"h", "y") is None
    prices.hosts[b"h"] = 5.0
    assert prices.of_host(b"h", "x") == 5.0


# -- a share of the capacity, and the mean weight

SHARE = RefetchSection(rule=RefetchRule.VALUE, budget="50%")
by_rate = st.floats(1e-4, 50)


@given(by_rate, st.floats(0.02, 100), st.floats(1e-8, 10))
def test_what_is_idle_asks_no_page_sooner_than_the_lowest_price_does(
    rate: float, weight: float, price: float
) -> None:
    cell = cell_of(rate, weight)
    lowest = wanted_days(cell, SHARE.price, IntervalBound(SHARE.least_chance))
    days = wanted_days(cell, price, floor_of(SHARE, SHARE.max_s))
    assert days >= min(lowest, 1 / rate_in(cell), SHARE.max_s / DAY) * (1 - 1e-9)
    assert days >= min(-math.log(0.9) / rate_in(cell), SHARE.max_s / DAY) * (1 - 1e-9)
    assert days >= days_until_due(rate_in(cell), weight_in(cell), price) * (1 - 1e-9)


def test_with_idle_capacity_no_page_is_a_probe_and_fast_ones_are_fetched_between_their_changes() -> (
    None
):
    pages = {cell_of(rate, 1.0): 10 for rate in (24.0, 2.0, 1 / 14, 1e-4)}
    price = first_price(SHARE)
    for _ in range(100):
        price = next_price(SHARE, pages, price, 1e9)
    demand = demand_at(SHARE, pages, price)
    assert demand.probes == 0
    # Ten once a day (the minimum) for each of the fast ones, 6.2 and 90 days for the others.
    assert demand.due == pytest.approx(10 + 10 + 10 / 6.2 + 10 / 90, rel=0.1)
    least = demand_at(msgspec.structs.replace(SHARE, price=1e-9), pages, price)
    assert least.due > demand.due


def test_the_price_is_that_of_a_page_of_mean_weight() -> None:
    light, heavy = ({cell_of(1 / 10, weight): 1000} for weight in (0.1, 10.0))
    for pages in (light, heavy):
        mean = mean_weight(*weighed_pages(VALUE, pages))
        due = demand_at(
            at_mean_weight(VALUE, mean), pages, first_price(at_mean_weight(VALUE, mean))
        )
        assert due.due == pytest.approx(demand_at(VALUE, PAGES, 1.0).due, rel=0.15)
    assert mean_weight(0, 0.0) == 1.0 and mean_weight(*weighed_pages(VALUE, {})) == 1.0


def test_the_mean_weight_is_that_of_all_shards_and_told_to_each() -> None:
    search = PriceSearch(2)
    search.receive(0, (1, 1), grid(pages=100, weights=100.0), 0.0)
    found = search.receive(1, (1, 1), grid(pages=300, weights=1100.0), 1.0)
    assert found.mean_weight == pytest.approx(3.0, rel=0.03)
    prices = PriceInForce(VALUE)
    prices.follow_mean(found.mean_weight)
    assert prices.price == pytest.approx(3.0, rel=0.03) and prices.settings.price == 1.0
    prices.follow_section(msgspec.structs.replace(VALUE, price=2.0))
    assert prices.section.price == pytest.approx(6.0, rel=0.03)
