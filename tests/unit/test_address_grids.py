"""The pages at shared addresses by cell: counted in passes over hosts, whatever moves meanwhile."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_host_grids import Site

from lycosa.base.model.refetch_cell import cell_of
from lycosa.base.urls.identity import hash8
from lycosa.stages.frontier.address_grids import (
    MOST_ADDRESSES,
    AddressHistograms,
    AddressPages,
    address_prices_of,
    largest_addresses,
)
from lycosa.stages.frontier.host_grids import LARGE

CELLS = [cell_of(1 / every, 1.0) for every in (3.0, 30.0, 300.0)]


class Hosting(Site):
    """A partition whose hosts have addresses."""

    def add(self, host: str, address: str, pages: int) -> None:
        for number in range(pages):
            self.fetch(f"http://{host}/{number}", CELLS[number % 3])
        self.move(host, address)

    def move(self, host: str, address: str) -> None:
        state = self.partition.visits.find_host(hash8(host))
        assert state is not None
        state.record.address = address
        self.partition.visits.mark_changed(state)

    def survey(self, least_pages: float = 1.0, at_once: int = 3) -> dict[str, AddressPages]:
        """What is found by two passes: the first one says where to look."""
        self.commit()
        survey = self.partition.address_survey
        for _ in range(2):
            while not survey.look(at_once, least_pages):
                pass
        return survey.found


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 40)), max_size=8), st.integers(1, 9)
)
@settings(deadline=None, max_examples=25)
def test_the_pages_of_each_address_are_counted_exactly(
    hosts: list[tuple[str, int]], at_once: int
) -> None:
    site, expected = Hosting(), Counter[str]()
    for number, (address, pages) in enumerate(hosts):
        site.add(f"h{number}.example", address, pages)
        expected[address] += pages
    found = site.survey(at_once=at_once)
    assert {address: each.pages for address, each in found.items()} == expected
    for address, each in found.items():
        assert sum(each.cells.values()) == pytest.approx(expected[address])
        assert each.cells.keys() <= set(CELLS)
        assert each.hosts == sum(address == other for other, _ in hosts)


def test_a_host_that_moved_is_counted_at_its_new_address_from_the_next_pass_on() -> None:
    site = Hosting()
    site.add("a.example", "x", 9)
    site.add("b.example", "x", 6)
    assert site.survey()["x"].counted() == dict.fromkeys(CELLS, 5)
    site.move("a.example", "y")
    found = site.survey()
    assert (found["x"].pages, found["y"].pages) == (6, 9)


def test_addresses_with_few_pages_are_not_remembered() -> None:
    site = Hosting()
    site.add("a.example", "x", 30)
    site.add("b.example", "y", 3)
    assert site.survey(least_pages=10.0).keys() == {"x"}
    assert not site.survey(least_pages=100.0)


def test_a_large_host_counts_by_its_row() -> None:
    site = Hosting()
    site.fill(LARGE + 1)
    site.walk()
    site.grids.save()
    site.move("large.example", "x")
    assert site.survey()["x"].counted() == dict(site.recounted())


def test_pages_of_hosts_with_new_pages_share_their_turns() -> None:
    site = Hosting()
    site.add("a.example", "x", 5)
    site.add("b.example", "x", 4)
    host8 = hash8("b.example")
    host = site.partition.visits.find_host(host8)
    assert host is not None
    site.partition.queue_again(
        host,
        hash8("http://b.example/0"),
        site.partition.find_record(host8, hash8("http://b.example/0")),
    )
    assert site.survey()["x"].delayed == 4


def test_prices_of_addresses_are_kept_for_the_next_run() -> None:
    site = Hosting()
    site.partition.address_survey.save_prices({"x": 2.5})
    site.commit()
    site.open()
    assert site.partition.address_survey.saved_prices == {"x": 2.5}
    assert AddressHistograms(site.partition.table).saved_prices == {"x": 2.5}
    site.partition.address_survey.save_prices({})
    site.commit()
    assert address_prices_of(site.store.get) == {}


def test_the_largest_addresses_of_all_partitions_are_told() -> None:
    first = {f"a{n}": AddressPages(n, 0, 1, {1: float(n)}) for n in range(1, 60)}
    second = {"a1": AddressPages(100, 7, 2, {1: 60.0, 2: 40.0})}
    found = largest_addresses([first, second])
    assert len(found) == MOST_ADDRESSES and next(iter(found)) == "a1"
    assert found["a1"] == AddressPages(101, 7, 3, {1: 61.0, 2: 40.0})
    assert first["a1"].pages == 1, "the surveys stay as they are"
