"""What a worker tells of its pages for the price of a refetch, and what it does with the price."""

from __future__ import annotations

import msgspec
import pytest
from test_host_grids import Site

from lycosa.base.config.sections import Config, RefetchRule, RefetchSection
from lycosa.base.messages.worker_messages import (
    AddressCells,
    PriceFound,
    RefetchGrid,
    decode_from_worker,
    decode_to_worker,
    encode_worker_message,
)
from lycosa.base.model.refetch_cell import cell_of
from lycosa.base.system.meter import Histogram, Meter
from lycosa.base.system.metric_catalogue import SECONDS
from lycosa.base.urls.identity import hash8
from lycosa.stages.schedule.price_in_force import PriceInForce
from lycosa.worker.measures import measure_refetches
from lycosa.worker.refetch_grids import NO_LIMITS, AddressLimits, RefetchReports, address_limits

ONE, OTHER = cell_of(1 / 10, 1.0), cell_of(1.0, 1.0)
BUDGET = RefetchSection(rule=RefetchRule.VALUE, budget="50%")


class Scene:
    """The reports of a worker of two partitions."""

    def __init__(
        self,
        section: RefetchSection = BUDGET,
        delay_s: float = 1.0,
        limits: AddressLimits = NO_LIMITS,
    ) -> None:
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
            limits,
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


def test_addresses_with_many_pages_are_reported_when_they_changed_and_their_prices_are_kept() -> (
    None
):
    scene = Scene(limits=AddressLimits(turns=40.0, partitions=2))
    for site in scene.sites:
        for number in range(30):
            site.fetch(f"http://h{number % 3}.example/{number}", ONE)
        for number in range(3):
            host = site.partition.visits.find_host(hash8(f"h{number}.example"))
            assert host is not None
            host.record.address = "192.0.2.1"
            site.partition.visits.mark_changed(host)
        site.commit()
    found = scene.next()
    for _ in range(6):  # the second pass over the hosts knows where to look
        scene.reports.follow(PriceFound(2.0, 5, found.number if found else 0))
        found = scene.next()
    assert found is not None and found.base and found.addresses is None, "as in the grid before"
    scene.reports.follow(PriceFound(2.0, 6, 0, addresses={"192.0.2.1": 7.0}))
    found = scene.next()
    assert found is not None and found.addresses == {"192.0.2.1": AddressCells(60, 0, {ONE: 60})}
    assert (found.terms.address_turns, found.terms.due_share) == (40.0, 0.5)
    assert decode_from_worker(encode_worker_message(found)) == found
    assert scene.prices.of_host(b"h", "192.0.2.1") == 7.0
    for site in scene.sites:
        site.commit()
        site.open()
        assert site.partition.address_survey.saved_prices == {"192.0.2.1": 7.0}


def test_the_mean_weight_is_that_of_the_worker_until_the_coordinator_says_that_of_the_crawl() -> (
    None
):
    scene = Scene()
    scene.sites[0].fetch("http://a.example/0", cell_of(1 / 10, 4.0))
    found = scene.next()
    assert found is not None and found.pages == 1
    assert scene.prices.mean_weight == pytest.approx(found.weights, rel=0.03) != 1.0
    scene.reports.follow(PriceFound(2.0, 5, found.number, mean_weight=0.5))
    scene.next()
    assert scene.prices.mean_weight == 0.5 and scene.prices.section.price == 0.5


def test_the_turns_of_an_address_follow_from_its_delay() -> None:
    config = Config()
    assert address_limits(config) == AddressLimits(432_000, config.frontier.partitions)
    politeness = msgspec.structs.replace(config.politeness, address_delay_s=0.0)
    assert not address_limits(msgspec.structs.replace(config, politeness=politeness)).turns
