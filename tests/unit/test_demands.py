"""What pages want of a partition: no demand is lost or answered twice, whatever happens to the URL
and its host, over any crashes.
"""

from __future__ import annotations

import copy
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from test_cold_urls import COLD, LATER, ColdBed, url_of
from test_partition import (
    START,
    PartitionMachine,
    SetSeen,
    commit,
    done,
    found,
    open_partition,
)

from judging import is_balanced
from lycosa.base.config.sections import FrontierSection
from lycosa.base.model.capture import Want
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.host_memory import SpeculationRecord
from lycosa.base.model.parcel_items import PostedWant, SettledWant, WantingPage
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.demands import MAX_SITES, MAX_WAITING_PAGES, decode_demand
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import HostState
from lycosa.stages.frontier.wanted_urls import WantTime, take_want
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import demand_key

RECORD = "urn:uuid:00000000-0000-4000-8000-000000000001"
URL = "http://a.example/app.js"
NOW = WantTime(START, START)


def page_of(number: int) -> WantingPage:
    return WantingPage(number, b"host-%03d" % number, b"page-%03d" % number)


def want(url: str = URL, page: int = 0, destination: str = "script") -> PostedWant:
    return PostedWant(url, destination, page_of(page), "https://w.example/", 2)


def take(
    partition: Partition, posted: PostedWant, site: str = "", most: int = 500, at: WantTime = NOW
) -> SettledWant | None:
    return take_want(partition, posted, site, most, at)


def key_of(url: str) -> bytes:
    return hash8(host_of(url)) + hash8(url)


def listening(partition: Partition) -> list[SettledWant]:
    told: list[SettledWant] = []
    partition.demands.tell = told.append
    return told


class WantingMachine(PartitionMachine):
    """All that happens to a partition, while pages want its URLs."""

    def __init__(self) -> None:
        self.open: dict[str, set[int]] = {}
        self.committed_open: dict[str, set[int]] = {}
        super().__init__()

    def _open(self) -> None:
        super()._open()
        self.partition.demands.tell = self._tell

    def _tell(self, settled: SettledWant) -> None:
        asked = self.open.pop(settled.url)  # one answer, for a demand that is open
        assert {page.partition for page in settled.pages} == asked

    @rule(host=st.integers(0, 3), page=st.integers(0, 9), asker=st.integers(0, 2))
    def want(self, host: int, page: int, asker: int) -> None:
        url = f"http://h{host}.example/{page}"
        settled = take(self.partition, want(url, asker), at=WantTime(self.wall, self.wall))
        record = self.partition.find_record(hash8(host_of(url)), hash8(url))
        if record is None:
            assert settled is not None and self.model.set_aside_hosts
        elif url not in self.model.urls:
            self._note_new(url)
        elif record.state is UrlState.QUEUED and not record.due_at:
            self.model.urls[url] = (UrlState.QUEUED, 0)
        if settled is None:
            self.open.setdefault(url, set()).add(asker)
        else:
            assert url not in self.open and settled.pages == (page_of(asker),)

    @invariant()
    def open_demands_wait(self) -> None:
        assert {row.url for row in self.partition.demands.rows.values()} == set(self.open)
        for url in self.open:
            record = self.partition.find_record(hash8(host_of(url)), hash8(url))
            assert record is not None and record.state in (UrlState.QUEUED, UrlState.PARKED)
            assert host_of(url) not in self.model.set_aside_hosts

    @rule()
    def commit(self) -> None:
        super().commit()
        self.committed_open = copy.deepcopy(self.open)
        stored = {
            row.url: {page.partition for page in row.pages}
            for row in (decode_demand(value) for _, value in self.store.scan(b"d", b"e"))
        }
        assert stored == self.open

    @rule()
    def crash(self) -> None:
        self.open = copy.deepcopy(self.committed_open)
        super().crash()

    def teardown(self) -> None:
        super().teardown()
        assert not self.open, "everything that waited was fetched"


TestWantingMachine = WantingMachine.TestCase
TestWantingMachine.settings = settings(deadline=None, max_examples=60, stateful_step_count=50)


# -- what is answered at once


def test_a_capture_answers_at_once_and_is_not_fetched_again() -> None:
    partition = open_partition(MemoryKeyValue())
    partition.discover_urls([found(URL)], START)
    host = partition.visits.find_host(hash8("a.example"))
    assert host is not None
    lease = partition.lease_next(host)
    assert lease is not None
    history = History(1, int(START), 301, record_id=RECORD, redirect_to="http://a.example/2.js")
    partition.complete_lease(lease, done(lease, UrlState.REDIRECTED, 0, history))
    answer = take(partition, want())
    assert answer == SettledWant(
        URL, (page_of(0),), status=301, record_id=RECORD, location="http://a.example/2.js"
    )
    assert not partition.demands.rows and partition.lease_next(host) is None


@pytest.mark.parametrize("reason", [Reason.ROBOTS_DISALLOWED, Reason.CONNECT_REFUSED])
def test_a_url_that_ended_without_a_capture_is_answered_with_its_reason(reason: Reason) -> None:
    partition = open_partition(MemoryKeyValue())
    told = listening(partition)
    take(partition, want())
    host = partition.visits.find_host(hash8("a.example"))
    assert host is not None
    lease = partition.lease_next(host)
    assert lease is not None and lease.record.kind is LinkKind.WANTED
    state = UrlState.REFUSED if reason.is_refusal else UrlState.FAILED
    over = Completed(host.host8, lease.entry.url8, lease.number, state, reason, "why")
    partition.complete_lease(lease, over)
    expected = SettledWant(URL, (page_of(0),), reason, "why")
    assert told == [expected]
    again = take(partition, want(page=1))
    assert again == msgspec.structs.replace(expected, pages=(page_of(1),))


def test_what_a_rule_refused_as_a_link_is_fetched_for_a_page() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store)
    partition.discover_urls([found(URL, kind=LinkKind.SCRIPT)], START)
    host = partition.visits.find_host(hash8("a.example"))
    assert host is not None
    lease = partition.lease_next(host)
    assert lease is not None
    over = Completed(host.host8, lease.entry.url8, lease.number, UrlState.REFUSED, Reason.REQUISITE)
    partition.complete_lease(lease, over)
    assert take(partition, want()) is None
    again = partition.lease_next(host)
    assert again is not None and again.record.kind is LinkKind.WANTED
    partition.restore_lease(again)
    commit(store, partition)
    is_balanced(store)


@pytest.mark.parametrize("state", [HostState.PARKED, HostState.RETIRED])
def test_a_host_that_is_set_aside_answers_what_waits_and_what_comes(state: HostState) -> None:
    partition = open_partition(MemoryKeyValue())
    told = listening(partition)
    assert take(partition, want()) is None
    host = partition.visits.find_host(hash8("a.example"))
    assert host is not None
    if state is HostState.PARKED:
        partition.set_aside_hosts.park(host, int(START) + 9, Reason.HOST_PAGE_BUDGET, "9 of 9")
    else:
        partition.set_aside_hosts.retire(host, Reason.DNS_NO_SUCH_NAME, "9 of 9")
    reason = Reason.HOST_PAGE_BUDGET if state is HostState.PARKED else Reason.DNS_NO_SUCH_NAME
    assert told == [SettledWant(URL, (page_of(0),), reason, "9 of 9")]
    assert take(partition, want(page=3)) == SettledWant(URL, (page_of(3),), reason, "9 of 9")
    assert not partition.demands.rows


# -- what waits


def test_a_wanted_url_is_first_of_its_host() -> None:
    section = FrontierSection(bands=3, head=2, workbench=3)
    store = MemoryKeyValue()
    partition = Partition(0, Overlay(store), SetSeen(set()), section)  # type: ignore[arg-type]
    urls = [f"http://a.example/{n}" for n in range(9)]
    partition.discover_urls([found(url, importance=0.5) for url in urls], START)
    late = "http://a.example/late.js"
    partition.discover_urls([found(late, importance=0.1)], START)
    assert take(partition, want(late)) is None and take(partition, want()) is None
    host = partition.visits.find_host(hash8("a.example"))
    assert host is not None
    leased = [partition.lease_next(host) for _ in range(11)]
    order = [lease.url for lease in leased if lease is not None]
    assert order == [late, URL, *urls]
    for lease in leased:
        assert lease is not None
        partition.restore_lease(lease)
    commit(store, partition)
    is_balanced(store)


def test_a_parked_url_is_let_in() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store, limit=2)
    urls = [f"http://a.example/{n}" for n in range(6)]
    partition.discover_urls([found(url) for url in urls], START)
    assert take(partition, want(urls[5])) is None
    new = take(partition, want())
    record = partition.find_record(*(hash8("a.example"), hash8(urls[5])))
    other = partition.find_record(*(hash8("a.example"), hash8(URL)))
    assert new is None and record is not None and other is not None
    assert record.state is other.state is UrlState.QUEUED
    commit(store, partition)
    is_balanced(store)


def test_a_guess_becomes_an_ordinary_url() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store)
    partition.discover_urls([found(URL, kind=LinkKind.SPECULATIVE)], START)
    assert take(partition, want()) is None
    record = partition.find_record(hash8("a.example"), hash8(URL))
    assert record is not None
    assert (record.state, record.kind) == (UrlState.QUEUED, LinkKind.WANTED)
    host = partition.visits.find_host(hash8("a.example"))
    assert host is not None and isinstance(host.record.speculation, SpeculationRecord)
    commit(store, partition)
    is_balanced(store)


def test_a_retry_keeps_the_demand_and_is_first_again() -> None:
    partition = open_partition(MemoryKeyValue())
    told = listening(partition)
    take(partition, want())
    host = partition.visits.find_host(hash8("a.example"))
    assert host is not None
    lease = partition.lease_next(host)
    assert lease is not None
    partition.complete_lease(lease, done(lease, UrlState.QUEUED, int(START) + 5))
    assert not told and take(partition, want(page=1)) is None
    partition.discover_urls([found(f"http://a.example/{n}") for n in range(3)], START)
    partition.wake_due(START + 6)
    again = partition.lease_next(host)
    assert again is not None and again.url == URL
    history = History(1, int(START), 200, record_id=RECORD)
    partition.complete_lease(again, done(again, UrlState.FETCHED, 0, history))
    assert told == [SettledWant(URL, (page_of(0), page_of(1)), status=200, record_id=RECORD)]


def test_what_a_script_imports_is_told_with_it() -> None:
    partition = open_partition(MemoryKeyValue())
    told = listening(partition)
    take(partition, want())
    host = partition.visits.find_host(hash8("a.example"))
    assert host is not None
    lease = partition.lease_next(host)
    assert lease is not None
    loads = (Want("http://a.example/2.js", "script"),)
    partition.demands.note_loads(key_of(URL), loads)
    partition.complete_lease(lease, done(lease, UrlState.FETCHED, 0, History(1, record_id=RECORD)))
    assert told[0].loads == loads
    assert take(partition, want("http://a.example/3.js")) is None
    lease = partition.lease_next(host)
    assert lease is not None
    partition.complete_lease(lease, done(lease, UrlState.FETCHED, 0, History(1, record_id=RECORD)))
    assert not told[1].loads


# -- bounds


def test_a_site_gets_so_many_urls_of_another_ones_host_in_a_day() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store)
    urls = [f"http://a.example/{n}.js" for n in range(5)]
    answers = [take(partition, want(url), "w.example", 3) for url in urls]
    assert [each and each.reason for each in answers] == [None] * 3 + [Reason.WANT_LIMIT] * 2
    # an open one is shared, other sites and the own one have their own number, and so has each day
    assert take(partition, want(urls[0], 1), "w.example", 3) is None
    assert take(partition, want(urls[3]), "other.example", 3) is None
    assert take(partition, want(urls[4]), "", 3) is None
    later = WantTime(START + 86_400, START + 86_400)
    assert take(partition, want("http://a.example/new.js"), "w.example", 3, later) is None
    commit(store, partition)
    again = open_partition(store)
    assert len(again.demands.rows) == 6
    for number in (1, 2, 3):
        answer = take(again, want(f"http://a.example/x{number}"), "w.example", 3, later)
        assert (answer is None) == (number < 3), "the number survives a restart"


def test_so_many_pages_wait_for_one_url() -> None:
    partition = open_partition(MemoryKeyValue())
    assert not any(take(partition, want(page=page)) for page in range(MAX_WAITING_PAGES))
    assert take(partition, want(page=5)) is None, "it waits already"
    refused = take(partition, want(page=MAX_WAITING_PAGES))
    assert refused is not None and refused.reason is Reason.WANT_LIMIT


def test_the_least_counts_are_forgotten_when_too_many_sites_want() -> None:
    demands = open_partition(MemoryKeyValue()).demands
    sites = [f"{number:08}".encode() for number in range(MAX_SITES)]
    for site in (sites[0], *sites, b"one more"):
        assert demands.allow(b"hosthost", site, 5, 2)
    assert not demands.allow(b"hosthost", sites[0], 5, 2), "the largest number is kept"
    assert demands.allow(b"hosthost", sites[1], 5, 1), "the smallest is not"


# -- cold URLs


def test_a_cold_url_comes_back_for_a_page(tmp_path: Path) -> None:
    bed = ColdBed(tmp_path, COLD)
    bed.archive(bed.gather())
    told = listening(bed.partition)
    url = url_of(1)
    assert bed.partition.find_record(hash8(host_of(url)), hash8(url)) is None
    assert take(bed.partition, want(url), at=WantTime(LATER, LATER)) is None
    commit(bed.store, bed.partition)
    bed.restart()
    told = listening(bed.partition)
    assert bed.bring_back(LATER) == 1 and not told
    assert bed.fetch(LATER) == 1
    assert [each.url for each in told] == [url]
    commit(bed.store, bed.partition)
    bed.check()


def test_a_cold_url_that_cannot_be_read_is_answered(tmp_path: Path) -> None:
    bed = ColdBed(tmp_path, COLD)
    bed.archive(bed.gather())
    told = listening(bed.partition)
    url = url_of(1)
    take(bed.partition, want(url), at=WantTime(LATER, LATER))
    assert not bed.partition.come_back(key_of(url), None, LATER)
    assert [(each.url, each.reason) for each in told] == [(url, Reason.INTERNAL)]


def test_a_record_with_a_demand_or_a_render_does_not_become_cold(tmp_path: Path) -> None:
    bed = ColdBed(tmp_path, COLD)
    for number, key in enumerate((demand_key(b""), b"v")):
        bed.partition.table.put(key + key_of(url_of(number)), b"\x90")
    gathered = {each.url for each in bed.gather()}
    assert gathered and not gathered & {key_of(url_of(0)), key_of(url_of(1))}
