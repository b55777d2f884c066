"""What a worker tells of its pages for the price of a refetch, and what it does with the price."""

from __future__ import annotations

import msgspec
import pytest
from test_host_grids import Site

from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.messages.worker_messages import (
    PriceFound,
    RefetchGrid,
    decode_from_worker,
    decode_to_worker,
    encode_worker_message,
)
from lycosa.base.model.refetch_cell import cell_of
from lycosa.base.system.meter import Histogram, Meter
from lycosa.base.system.metric_catalogue import SECONDS
from lycosa.stages.schedule.price_in_force import PriceInForce
from lycosa.worker.measures import measure_refetches
from lycosa.worker.refetch_grids import RefetchReports

ONE, OTHER = cell_of(1 / 10, 1.0), cell_of(1.0, 1.0)
BUDGET = RefetchSection(rule=RefetchRule.VALUE, budget="50%")


class Scene:
    """The reports of a worker of two partitions."""

    def __init__(self, section: RefetchSection = BUDGET, delay_s: float = 1.0) -> None:
        self.prices = PriceInForce(section)
        self.sites = [Site(), Site()]
        self.durations, self.used_s = Histogram(SECONDS), 0.0
        self.now = 0.0
        for site in self.sites:
            site.prices = self.prices.hosts
            site.open()
        self.reports = RefetchReports(
            self.prices,
            {number: site.partition for number, site in enumerate(self.sites)},
            lambda host: delay_s,
            self.durations,
            lambda: 100,
            lambda: self.used_s,
        )

    def next(self, after_s: float = 60.0) -> RefetchGrid | None:
        self.now += after_s
        for _ in range(50):
            if (found := self.reports.step(self.now, 3)) is not None:
                return found
        return None


def test_the_pages_of_all_partitions_are_told_once_a_minute_and_then_what_changed() -> None:
    scene = Scene()
    for number, site in enumerate(scene.sites):
        site.fetch(f"http://a.example/{number}", ONE)
    first = scene.next()
    assert first is not None and (first.number, first.base, first.cells) == (1, 0, {ONE: 2})
    assert first.terms.settings == 3 and first.terms.share == 0.5 and first.bound == 0
    assert scene.next(30.0) is None
    scene.sites[0].fetch("http://a.example/0", OTHER)
    again = scene.next(30.0)
    assert again is not None and (again.base, again.cells) == (0, {ONE: 1, OTHER: 1}), "no answer"
    scene.reports.follow(PriceFound(2.0, 5, again.number))
    assert scene.prices.committed == (2.0, 5)
    scene.sites[1].fetch("http://a.example/1", OTHER)
    change = scene.next()
    assert change is not None and (change.base, change.cells) == (2, {ONE: 0, OTHER: 2})
    assert (change.price, change.price_number) == (2.0, 5)
    scene.reports.follow(PriceFound(3.0, 6, 0))
    complete = scene.next()
    assert complete is not None and (complete.base, complete.cells) == (0, {OTHER: 2})


def test_without_a_budget_no_price_is_sought_but_for_hosts_with_too_few_turns() -> None:
    plain = RefetchSection(rule=RefetchRule.VALUE, budget="", price=0.01, min_s=60.0)
    scene = Scene(plain, delay_s=1000.0)
    scene.sites[0].fill(first=ONE)
    told = scene.next()
    assert told is not None and (told.terms.a_day, told.terms.share) == (0.0, 0.0)
    assert len(scene.prices.hosts) == 1 and scene.reports.bound == 1
    assert scene.reports.bound_a_day == pytest.approx(86.4)
    off = Scene(RefetchSection(rule=RefetchRule.ADAPTIVE), delay_s=1000.0)
    off.sites[0].fill(first=ONE)
    assert off.next() is None and not off.prices.hosts


def test_a_host_with_too_few_turns_is_told_by_its_turns_and_its_pages_are_left_out() -> None:
    scene = Scene(msgspec.structs.replace(BUDGET, price=0.01), delay_s=1000.0)
    scene.sites[0].fill(first=ONE)
    scene.sites[1].fetch("http://a.example/0", ONE)
    found = scene.next()
    assert found is not None and found.bound == 1 and found.cells == {ONE: 1}
    assert found.bound_a_day == pytest.approx(86.4)
    meter = Meter()
    measure_refetches(meter, scene.reports)
    numbers = meter.snapshot().numbers
    assert numbers["lycosa_refetch_bound_hosts"][""] == 1
    assert numbers["lycosa_refetches_planned"]["bound"] == pytest.approx(86.4)


def test_the_capacity_is_what_slots_and_processor_would_allow_and_not_what_was_fetched() -> None:
    scene = Scene()
    assert scene.reports.capacity_a_day == 100 * 86_400, "a second a request until it is known"
    for _ in range(100):
        scene.durations.observe(4.0)
    assert scene.reports.capacity_a_day == 25 * 86_400
    scene.used_s = 20.0  # for a hundred requests
    assert scene.reports.capacity_a_day == 5 * 86_400


def test_grids_and_prices_are_read_back() -> None:
    scene = Scene()
    found = scene.next()
    assert found is not None
    assert decode_from_worker(encode_worker_message(found)) == found
    price = PriceFound(1.5, 3, 2, 100.0, 99.0)
    assert decode_to_worker(encode_worker_message(price)) == price
