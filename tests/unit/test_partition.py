"""A partition under its frontier against a small model: every URL in exactly one state, at every
commit, over any crashes.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from judging import is_balanced, state_of, urls_of
from lycosa.base.config.sections import FrontierSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.host_memory import Usage
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of, join_url
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.visit_state import HostState, VisitState
from lycosa.stages.frontier.workbench import Workbench
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.seen.seen_port import Hashes, Mask

START = 1_750_000_000.0
SECTION = FrontierSection(bands=3, head=2, workbench=3)
DISCOVERIES = 6  # of a host, beyond which its URLs are parked


class SetSeen:
    """URL-seen as a set; what a partition asks of it."""

    def __init__(self, known: set[int]) -> None:
        self._known = known

    def unseen(self, hashes: Hashes) -> Mask:
        new = []
        for each in hashes.tolist():
            new.append(each not in self._known)
            self._known.add(each)
        return np.array(new, dtype=np.bool_)


def found(
    url: str, depth: int = 1, kind: LinkKind = LinkKind.A, importance: float = 0.5
) -> Discovered:
    return Discovered(url, hash8(host_of(url)), hash8(url), kind, depth, importance=importance)


def open_partition(store: MemoryKeyValue, limit: int = DISCOVERIES, number: int = 0) -> Partition:
    known = {int.from_bytes(key[9:], "big") for key, _ in store.scan(b"U", prefix_end(b"U"))}

    def over_discovery(usage: Usage) -> bool:
        return usage.discovered > limit + usage.captures

    return Partition(number, Overlay(store), SetSeen(known), SECTION, FrontierRules(over_discovery))  # type: ignore[arg-type]


def commit(store: MemoryKeyValue, partition: Partition) -> None:
    writes = partition.freeze()
    if writes:
        store.write(writes)
        partition.table.settle()


def done(
    lease: Lease, state: UrlState, due_at: int = 0, history: History | None = None
) -> Completed:
    return Completed(
        lease.host.host8, lease.entry.url8, lease.number, state, Reason.NONE, "", due_at, history
    )


@dataclass
class Model:
    """URLs with state and due time (0 = none), and hosts that are set aside."""

    urls: dict[str, tuple[UrlState, int]] = field(default_factory=dict)
    # parked or retired, as their queued URLs count
    set_aside_hosts: dict[str, UrlState] = field(default_factory=dict)
    parked_until: dict[str, int] = field(default_factory=dict)

    def state(self, url: str) -> UrlState:
        state, _ = self.urls[url]
        return self.set_aside_hosts.get(host_of(url), state) if state is UrlState.QUEUED else state


class PartitionMachine(RuleBasedStateMachine):
    """Discoveries, visits that overlap with parsing, retries, parking, commits and crashes in
    any order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryKeyValue()
        self.model = Model()
        self.committed = Model()
        self.now = 0.0
        self._open()

    def _open(self) -> None:
        self.partition = open_partition(self.store)
        self.frontier = Frontier([self.partition], Workbench(2), SECTION.workbench)
        self.frontier.workbench.max_hosts_of_address = (
            1  # so that hosts wait in the line of their address
        )
        self.visits: list[VisitState] = []
        self.leases: list[Lease] = []  # visits that are over and whose page is being parsed

    @property
    def wall(self) -> float:
        return START + self.now

    # -- what is found

    @rule(
        pages=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=6),
        importance=st.floats(0, 1),
    )
    def discover(self, pages: list[tuple[int, int]], importance: float) -> None:
        batch = [
            found(f"http://h{host}.example/{page}", importance=importance) for host, page in pages
        ]
        new = self.partition.discover_urls(batch, self.wall)
        for each, is_new in zip(batch, new, strict=True):
            assert is_new == (each.url not in self.model.urls)
            if is_new:
                self._note_new(each.url)

    def _note_new(self, url: str) -> None:
        record = self.partition.find_record(hash8(host_of(url)), hash8(url))
        assert record is not None and record.state in (UrlState.QUEUED, UrlState.PARKED)
        self.model.urls[url] = (record.state, 0)

    @rule(host=st.integers(0, 3), page=st.integers(0, 9))
    def seed(self, host: int, page: int) -> None:
        url = f"http://h{host}.example/{page}"
        if any(lease.url == url for lease in self.leases):
            return
        is_new = self.partition.discover_urls([found(url, 0, LinkKind.SEED)], self.wall)[0]
        self.model.set_aside_hosts = {
            name: state
            for name, state in self.model.set_aside_hosts.items()
            if name != host_of(url) or state is not UrlState.RETIRED
        }
        if is_new:
            self._note_new(url)
        elif self.model.urls[url][0] in (UrlState.FAILED, UrlState.REFUSED):
            self.model.urls[url] = (UrlState.QUEUED, 0)

    # -- visits

    @rule()
    def acquire(self) -> None:
        host = self.frontier.acquire(self.now, self.wall)
        if host is not None:
            assert host not in self.visits
            assert host.next_time <= self.now
            assert host.name not in self.model.set_aside_hosts
            # The first request tells the address, which three of the four hosts share.
            host.record.address = "198.18.0.9" if host.name == "h3.example" else "198.18.0.1"
            self.frontier.workbench.rejoin_address(host, host.record.address)
            self.visits.append(host)

    def _waiting(self, host: str) -> list[str]:
        leased = {lease.url for lease in self.leases}
        return [
            url
            for url, (state, due) in self.model.urls.items()
            if state is UrlState.QUEUED and not due and host_of(url) == host and url not in leased
        ]

    def _lease(self, which: int) -> tuple[VisitState, Lease | None]:
        host = self.visits.pop(which % len(self.visits))
        lease = self.partition.lease_next(host)
        assert (lease is None) == (not self._waiting(host.name))
        assert lease is None or lease.url in self._waiting(host.name)
        return host, lease

    @precondition(lambda self: self.visits)
    @rule(which=st.integers(0, 9), delay=st.floats(0, 4))
    def fetch(self, which: int, delay: float) -> None:
        """The visit is over with the request; what came is parsed meanwhile."""
        host, lease = self._lease(which)
        if lease is None:
            self.frontier.give_back(host)
        else:
            self.frontier.release(host, self.now + delay, self.wall + delay)
            self.leases.append(lease)

    @precondition(lambda self: self.visits)
    @rule(
        which=st.integers(0, 9),
        end=st.sampled_from(["unused", "snooze", "park", "retire"]),
        delay=st.sampled_from((1, 2, 5, 150)),
    )
    def end_without_fetch(self, which: int, end: str, delay: int) -> None:
        host, lease = self._lease(which)
        if lease is not None:
            self.partition.restore_lease(lease)
        if end == "snooze":
            self.partition.set_aside_hosts.snooze(
                host, self.wall + delay, Reason.ROBOTS_UNREACHABLE
            )
            host.next_time = self.now + delay
        elif end == "park":
            self.partition.set_aside_hosts.park(
                host, int(self.wall) + delay, Reason.HOST_PAGE_BUDGET, ""
            )
            self.model.set_aside_hosts[host.name] = UrlState.PARKED
            self.model.parked_until[host.name] = int(self.wall) + delay
        elif end == "retire":
            self.partition.set_aside_hosts.retire(host, Reason.CONNECT_REFUSED, "")
            self.model.set_aside_hosts[host.name] = UrlState.RETIRED
        self.frontier.give_back(host)

    @precondition(lambda self: self.visits)
    @rule(which=st.integers(0, 9), end=st.sampled_from(["park", "retire"]))
    def set_aside_while_a_page_is_parsed(self, which: int, end: str) -> None:
        """The answer itself tells that the host is to be given up."""
        host, lease = self._lease(which)
        if lease is None:
            return self.frontier.give_back(host)
        if end == "park":
            self.partition.set_aside_hosts.park(
                host, int(self.wall) + 3, Reason.HOST_PAGE_BUDGET, ""
            )
            self.model.parked_until[host.name] = int(self.wall) + 3
        else:
            self.partition.set_aside_hosts.retire(host, Reason.CONNECT_REFUSED, "")
        self.model.set_aside_hosts[host.name] = (
            UrlState.PARKED if end == "park" else UrlState.RETIRED
        )
        self.frontier.release(host, self.now + 1, self.wall + 1)
        self.leases.append(lease)
        return None

    @precondition(lambda self: self.leases)
    @rule(
        which=st.integers(0, 9),
        state=st.sampled_from(
            [
                UrlState.QUEUED,
                UrlState.FETCHED,
                UrlState.REDIRECTED,
                UrlState.FAILED,
                UrlState.REFUSED,
            ]
        ),
        delay=st.integers(0, 6),
    )
    def complete(self, which: int, state: UrlState, delay: int) -> None:
        lease = self.leases.pop(which % len(self.leases))
        due = (
            int(self.wall) + 1 + delay
            if state is UrlState.QUEUED or (delay and state is not UrlState.REFUSED)
            else 0
        )
        history = (
            History(fetches=lease.number)
            if state in (UrlState.FETCHED, UrlState.REDIRECTED)
            else None
        )
        assert self.partition.complete_lease(lease, done(lease, state, due, history))
        if history is not None:
            self.partition.note_capture(
                lease.host, body_bytes=10, duration_s=0.1, is_page=True, is_capture=True
            )
        self.model.urls[lease.url] = (state, due)
        self._note_promoted()

    def _note_promoted(self) -> None:
        """Which of the parked URLs are let in is the budget's to say; the model follows what the
        records say of them.
        """
        for url, (state, _) in list(self.model.urls.items()):
            if state is UrlState.PARKED:
                record = self.partition.find_record(hash8(host_of(url)), hash8(url))
                assert record is not None and record.state in (UrlState.PARKED, UrlState.QUEUED)
                self.model.urls[url] = (record.state, 0)

    # -- time and the disk

    @rule(seconds=st.one_of(st.floats(0, 5), st.just(200.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.partition.wake_due(self.wall)
        for host, until in self.model.parked_until.items():
            if until <= self.wall and self.model.set_aside_hosts.get(host) is UrlState.PARKED:
                del self.model.set_aside_hosts[host]
        for url, (_, due) in self.model.urls.items():
            if due and due <= self.wall:
                self.model.urls[url] = (UrlState.QUEUED, 0)
        self._note_promoted()

    @rule()
    def commit(self) -> None:
        self._note_promoted()
        commit(self.store, self.partition)
        self.committed = copy.deepcopy(self.model)
        self._judge()

    def _judge(self) -> None:
        is_balanced(self.store)
        told = {
            join_url("http", host.host, record.target): state_of(host, record)
            for host, _, record in urls_of(self.store)
        }
        assert told == {url: self.model.state(url) for url in self.model.urls}

    @rule()
    def crash(self) -> None:
        self._open()
        self.model = copy.deepcopy(self.committed)
        self._judge()
        self.time_passes(0.0)

    def teardown(self) -> None:
        """Whatever happened, every URL that waits on a host that takes part is handed out once
        more, and then nothing waits.
        """
        for host in self.visits:
            self.frontier.give_back(host)
        for lease in self.leases:
            self.partition.complete_lease(
                lease, done(lease, UrlState.FETCHED, 0, History(fetches=lease.number))
            )
            self.model.urls[lease.url] = (UrlState.FETCHED, 0)
        self.leases.clear()
        self.time_passes(1000.0)
        given: set[str] = set()
        while (host := self.frontier.acquire(self.now, self.wall)) is not None:
            while (lease := self.partition.lease_next(host)) is not None:
                assert lease.url not in given
                given.add(lease.url)
                self.partition.complete_lease(
                    lease, done(lease, UrlState.FETCHED, 0, History(fetches=lease.number))
                )
            self.frontier.give_back(host)
            self._note_promoted()
        assert {self.model.state(url) for url in self.model.urls if url not in given} <= set(
            UrlState
        ) - {UrlState.QUEUED}
        assert all(self.model.state(url) is UrlState.QUEUED for url in given)
        commit(self.store, self.partition)
        is_balanced(self.store)


TestPartitionMachine = PartitionMachine.TestCase
TestPartitionMachine.settings = settings(deadline=None, max_examples=120, stateful_step_count=50)


# -- single behaviours


def test_a_nearer_find_lowers_the_depth_of_a_queued_url_only() -> None:
    partition = open_partition(MemoryKeyValue())
    url = "http://a.example/x"
    partition.discover_urls([found(url, 5)], START)
    partition.discover_urls([found(url, 2)], START)
    record = partition.find_record(hash8("a.example"), hash8(url))
    assert record is not None and record.depth == 2
    partition.discover_urls([found(url, 4)], START)
    record = partition.find_record(hash8("a.example"), hash8(url))
    assert record is not None and record.depth == 2


def test_an_out_of_date_completion_changes_nothing() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store)
    partition.discover_urls([found("http://a.example/x")], START)
    frontier = Frontier([partition], Workbench(2), 10)
    host = frontier.acquire(0.0, START)
    assert host is not None
    lease = partition.lease_next(host)
    assert lease is not None
    assert not partition.complete_lease(
        lease, Completed(host.host8, lease.entry.url8, 0, UrlState.FETCHED)
    )
    record = partition.find_record(host.host8, lease.entry.url8)
    assert record is not None and record.state is UrlState.QUEUED
    assert host.queue.open_leases == 1
    commit(store, partition)
    is_balanced(store)


def test_nothing_is_frozen_when_nothing_happened() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store)
    assert partition.freeze() == {}
    partition.discover_urls([found("http://a.example/x")], START)
    commit(store, partition)
    assert partition.freeze() == {}


@pytest.mark.parametrize("state", [HostState.PARKED, HostState.RETIRED])
def test_new_urls_of_a_host_set_aside_count_with_it(state: HostState) -> None:
    store = MemoryKeyValue()
    partition = open_partition(store)
    partition.discover_urls([found("http://a.example/1")], START)
    frontier = Frontier([partition], Workbench(2), 10)
    host = frontier.acquire(0.0, START)
    assert host is not None
    if state is HostState.PARKED:
        partition.set_aside_hosts.park(host, int(START) + 10, Reason.HOST_PAGE_BUDGET, "")
    else:
        partition.set_aside_hosts.retire(host, Reason.DNS_NO_SUCH_NAME, "")
    frontier.give_back(host)
    partition.discover_urls([found("http://a.example/2")], START)
    commit(store, partition)
    is_balanced(store)
    assert (
        partition.counters.states[
            UrlState.PARKED if state is HostState.PARKED else UrlState.RETIRED
        ]
        == 2
    )
    assert frontier.acquire(100.0, START + 5) is None
