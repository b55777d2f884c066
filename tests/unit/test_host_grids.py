"""The pages of large hosts by cell, over walks in slices, restarts and changes meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_partition import SetSeen

from lycosa.base.config.sections import FrontierSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.refetch_cell import counted_cell
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.host_grids import (
    LARGE,
    HostGridRow,
    HostHistograms,
    host_grid_of,
    is_readable,
)
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.state.cold.cold_rows import ColdFileRow, ColdRecord
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import decode_url, encode_record, prefix_end

NOW = 1_750_000_000.0
HOST, OTHER = "large.example", "small.example"


def url_of(number: int, host: str = HOST) -> str:
    return f"http://{host}/{number}"


class Site:
    """A partition with pages of two hosts, over restarts."""

    def __init__(self, is_on: bool = True) -> None:
        self.store, self.is_on = MemoryKeyValue(), is_on
        self.prices: dict[bytes, float] = {}
        self.fetches = Counter[str]()
        self.files: dict[bytes, bytes] = {}
        self.open()

    def open(self) -> None:
        rules = FrontierRules(
            host_prices=self.prices, has_host_prices=lambda: self.is_on, judge=None
        )
        stored = self.store.scan(b"U", prefix_end(b"U"))
        known = [key[9:] for key, _ in stored] + [key[8:] for key in self.files]
        seen = SetSeen({int.from_bytes(url8, "big") for url8 in known})
        self.partition = Partition(0, Overlay(self.store), seen, FrontierSection(head=8), rules)
        self.grids: HostHistograms = self.partition.host_grids

    def commit(self) -> None:
        batch = self.partition.freeze()
        self.store.write(batch)
        self.partition.table.settle()

    def become_cold(self, url: str) -> None:
        """Let a page leave the table for a file."""
        key, cold = hash8(host_of(url)) + hash8(url), self.partition.cold
        value = self.partition.table.get(b"U" + key)
        if value is None or decode_url(value).state is UrlState.QUEUED:
            return
        each = ColdRecord(key, host_of(url), value, decode_url(value))
        row = ColdFileRow.of("file", b"", [each], int(NOW))
        assert [list(part) for part in cold.remove(len(cold.files) + 1, row, [each])] == [[each]]
        self.files[key] = each.cold_value

    def come_back(self, url: str) -> None:
        """Let a cold page be due."""
        key = hash8(host_of(url)) + hash8(url)
        if key in self.files:
            self.partition.cold.note_due(key, NOW)
            assert self.partition.come_back(key, self.files.pop(key), NOW)

    def fetch(self, url: str, cell: int, policy: int = 0) -> None:
        self.come_back(url)
        partition, host8 = self.partition, hash8(host_of(url))
        kind, importance = LinkKind.SEED, 1.0
        partition.discover_urls(
            [Discovered(url, host8, hash8(url), kind, 0, importance=importance)], NOW
        )
        host = partition.visits.find_host(host8)
        assert host is not None
        record = partition.find_record(host8, hash8(url))
        assert record is not None
        if record.state is not UrlState.QUEUED:
            partition.queue_again(host, hash8(url), record)
        lease = partition.lease_next(host)
        assert lease is not None and lease.url == url
        self.fetches[url] += 1
        history = History(self.fetches[url], int(NOW), 200, cell=cell, policy=policy)
        partition.complete_lease(
            lease,
            Completed(
                host8,
                lease.entry.url8,
                lease.number,
                UrlState.FETCHED,
                Reason.NONE,
                "",
                int(NOW) + 10**6,
                history,
            ),
        )

    def fill(self, pages: int = LARGE + 1, first: int = 100) -> None:
        for number in range(pages):
            self.fetch(url_of(number), first + number % 7)

    def recounted(self, host: str = HOST) -> Counter[int]:
        prefix = b"U" + hash8(host)
        histories = [
            decode_url(value).history
            for _, value in self.partition.table.scan(prefix, prefix + b"\xff" * 9)
        ]
        histories += [decode_url(value).history for value in self.files.values()]
        return Counter(counted_cell(each.cell, each.policy) for each in histories if each)

    def walk(self) -> None:
        while self.grids.walk():
            pass

    def row(self, host: str = HOST) -> Mapping[int, int] | None:
        self.grids.save()
        row = host_grid_of(self.partition.table.get, hash8(host))
        return row.cells if row is not None and row.is_whole else None


def test_a_host_has_a_grid_only_when_it_is_large_and_some_page_has_a_price() -> None:
    site = Site()
    site.fill(LARGE)
    site.fetch(url_of(0), 105)
    assert not site.grids.known
    site.fetch(url_of(LARGE), 105)
    assert site.grids.known == {hash8(HOST)} and site.row() is None
    site.walk()
    assert site.row() == site.recounted()
    off = Site(is_on=False)
    off.fill()
    assert not off.grids.known
    off.is_on = True
    off.fetch(url_of(3), 150)
    off.walk()
    assert off.row() == off.recounted(), "also when it was large before"


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, LARGE + 40), st.sampled_from([0, 1, 99, 960])),
        st.tuples(st.integers(0, LARGE), st.sampled_from(["cold", "back"])),
        st.sampled_from(["walk", "restart", "make again"]),
    ),
    max_size=25,
)


@given(_STEPS)
@settings(deadline=None, max_examples=15)
def test_the_grid_has_the_cells_of_the_records_whatever_happens_during_the_walk(
    steps: list[tuple[int, int | str] | str],
) -> None:
    site = Site()
    for number in range(0, 90, 3):  # before the host has a grid
        site.fetch(url_of(number), 77)
        site.become_cold(url_of(number))
    site.fill()
    for number in range(200, 260):
        site.become_cold(url_of(number))
    for step in steps:
        if step == "walk":
            site.grids.walk()
        elif step == "restart":
            site.commit()
            site.open()
        elif step == "make again":
            site.grids._make_again(hash8(HOST))
        elif step[1] == "cold":
            site.become_cold(url_of(int(step[0])))
        elif step[1] == "back":
            site.come_back(url_of(int(step[0])))
        else:
            site.fetch(url_of(int(step[0])), int(step[1]))
    site.walk()
    host = site.partition.visits.find_host(hash8(HOST))
    assert host is not None
    recounted = site.recounted()
    priced = sum(number for cell, number in recounted.items() if cell)
    assert host.record.cells == priced
    recounted.pop(0, None)
    assert site.row() == recounted == site.partition.counters.cells


def test_hosts_with_too_few_turns_are_bound_until_their_pages_ask_for_less() -> None:
    site, asked = Site(), 2.0
    site.fill()
    site.walk()

    def price_of(pages: Mapping[int, int], turns: float) -> float | None:
        return asked if asked * sum(pages.values()) > turns else None

    while not site.grids.look(1, lambda host: 100.0, price_of, 0.5):
        pass
    assert site.prices == {hash8(HOST): 2.0}
    bound = site.grids.bound
    assert (bound.hosts, bound.turns, bound.cells) == (1, 864.0, site.row())
    asked = 1.0
    while not site.grids.look(1, lambda host: 100.0, price_of, 0.5):
        pass
    assert not site.prices and site.grids.bound.hosts == 0
    while not site.grids.look(1, lambda host: 0.0, lambda pages, turns: 5.0, 0.5):
        pass
    assert not site.prices, "a host without a delay has any number of turns"


def test_due_pages_have_all_turns_of_a_host_without_new_pages() -> None:
    site, told = Site(), list[float]()
    site.fill()
    site.walk()

    def price_of(pages: Mapping[int, int], turns: float) -> None:
        told.append(turns)

    while not site.grids.look(1, lambda host: 100.0, price_of, 0.25):
        pass
    url = url_of(LARGE + 5)
    found = Discovered(url, hash8(HOST), hash8(url), LinkKind.A, 1)
    site.partition.discover_urls([found], NOW)
    while not site.grids.look(1, lambda host: 100.0, price_of, 0.25):
        pass
    assert told == [864.0, 216.0]


def test_a_change_of_policies_moves_the_pages_of_a_large_host_too() -> None:
    site = Site()
    site.fill()
    site.walk()
    section = site.partition.rules.forward.section
    changed = msgspec.structs.replace(section, policies=(f"{HOST} value min=1h",))
    site.partition.rules.forward.section = changed
    assert site.partition.follow_policies()
    while not site.partition.policy_walk.is_done:
        site.partition.policy_walk.step(NOW, 100, lambda host: 1.0)
    recounted = site.recounted()
    assert all(cell >> 16 for cell in recounted) and site.row() == recounted


def test_rows_are_read_again_after_a_restart_and_stay_bounded_in_memory() -> None:
    site = Site()
    site.fill()
    site.grids.walk()
    site.commit()
    before = site.row()
    site.open()
    assert site.grids.known == {hash8(HOST)} and site.row() == before
    keys = [key for key, _ in site.store.scan(b"g", prefix_end(b"g"))]
    assert keys == [b"g" + hash8(HOST)]
    (value,) = [value for _, value in site.store.scan(b"g", prefix_end(b"g"))]
    assert len(value) < 100, "seven cells"


@pytest.mark.parametrize(
    "row",
    [b"\xc1", b"", HostGridRow({101: 3}, b"", True), HostGridRow({}, b"\xff" * 8, True)],
    ids=["unreadable", "empty", "too few", "none"],
)
def test_a_damaged_row_is_made_again(row: bytes | HostGridRow) -> None:
    site = Site()
    site.fill()
    site.walk()
    site.commit()
    value = row if isinstance(row, bytes) else encode_record(row)
    site.store.write({b"g" + hash8(HOST): value})
    assert is_readable(value) is not isinstance(row, bytes)
    site.open()
    site.grids.look(10, lambda host: 100.0, lambda pages, turns: None, 0.5)
    assert site.row() is None
    site.fetch(url_of(3), 110)
    site.walk()
    assert site.row() == site.recounted()
    site.commit()
    site.open()
    assert site.row() == site.recounted()
