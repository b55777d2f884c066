"""Chosen URLs of a host are leased whatever their state, and counters and queues stay balanced."""

from __future__ import annotations

import pytest
from test_partition import START, commit, done, found, open_partition

from judging import is_balanced
from lycosa.base.model.capture import RobotsDecision
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.stages.frontier.chosen_leases import lease_chosen
from lycosa.stages.frontier.outside_leases import LeaseRow
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import HostState, VisitState
from lycosa.state.kv.memory_table import MemoryKeyValue

HOST = "http://a.test/"
URLS = [f"{HOST}{number}" for number in range(60)]
NOW = START + 10


def opened(store: MemoryKeyValue, limit: int = 100) -> tuple[Partition, VisitState]:
    partition = open_partition(store, limit)
    host = partition.visits.find_host(hash8("a.test"))
    if host is None:
        partition.discover_urls([found(url) for url in URLS], NOW)
        commit(store, partition)
        host = partition.visits.find_host(hash8("a.test"))
    assert host is not None
    return partition, host


def end_all(partition: Partition, host: VisitState, urls: list[str], state: UrlState) -> None:
    leases = lease_chosen(partition, host, [hash8(url) for url in urls])
    assert sorted(leases) == sorted(hash8(url) for url in urls)
    for lease in leases.values():
        is_retry = state is UrlState.QUEUED
        history = None if is_retry else History(fetches=lease.number, fetched_at=int(NOW))
        due = int(NOW) + 100 if is_retry or state is UrlState.FETCHED else 0
        assert partition.complete_lease(lease, done(lease, state, due, history))


def states(partition: Partition) -> dict[UrlState, int]:
    return {UrlState(s): n for s, n in partition.counters.states.items() if n}


@pytest.mark.parametrize("limit", [100, 5], ids=["queued", "mostly parked"])
def test_urls_anywhere_in_the_queue_are_leased_alone(limit: int) -> None:
    store = MemoryKeyValue()
    opened(store, limit)
    partition, host = opened(store, limit)  # nothing of the queue is in memory
    chosen = [URLS[at] for at in (0, 7, 31, 32, 59)]
    end_all(partition, host, chosen, UrlState.FETCHED)
    commit(store, partition)
    is_balanced(store)
    assert states(partition)[UrlState.FETCHED] == 5
    partition, host = opened(store, limit)
    rest = set()
    while (lease := partition.lease_next(host)) is not None:
        rest.add(lease.url)
        partition.complete_lease(lease, done(lease, UrlState.FETCHED, 0, History(1)))
        partition.settle_host(host)
    assert rest == set(URLS) - set(chosen)


def test_urls_that_wait_for_a_time_or_have_ended_are_leased() -> None:
    store = MemoryKeyValue()
    partition, host = opened(store)
    end_all(partition, host, URLS[:10], UrlState.QUEUED)
    end_all(partition, host, URLS[10:20], UrlState.FETCHED)
    end_all(partition, host, URLS[20:30], UrlState.FAILED)
    commit(store, partition)
    is_balanced(store)
    partition, host = opened(store)
    end_all(partition, host, URLS[5:25], UrlState.REDIRECTED)
    commit(store, partition)
    is_balanced(store)
    assert states(partition) == {
        UrlState.QUEUED: 35,
        UrlState.FAILED: 5,
        UrlState.REDIRECTED: 20,
    }
    assert host.record.retrying == 5


@pytest.mark.parametrize("state", [HostState.PARKED, HostState.RETIRED])
def test_hosts_that_are_set_aside_keep_their_other_urls(state: HostState) -> None:
    store = MemoryKeyValue()
    partition, host = opened(store)
    if state is HostState.PARKED:
        partition.set_aside_hosts.park(host, int(NOW) + 1000, Reason.HOST_PAGE_BUDGET, "")
    else:
        partition.set_aside_hosts.retire(host, Reason.DNS_NO_SUCH_NAME, "gone")
    commit(store, partition)
    partition, host = opened(store)
    end_all(partition, host, URLS[3:9], UrlState.FETCHED)
    commit(store, partition)
    is_balanced(store)
    assert host.record.state is state and states(partition)[UrlState.FETCHED] == 6


def test_the_lease_of_an_outside_fetcher_ends_when_its_url_is_leased_here() -> None:
    store = MemoryKeyValue()
    partition, host = opened(store)
    lease = partition.lease_next(host)
    assert lease is not None
    due, decision = int(NOW) + 50, RobotsDecision()
    row = LeaseRow("id", "fetcher", "call", lease.url, NOW, NOW + 48, due, NOW + 51, "", decision)
    partition.outside.lend(lease, row)
    partition.visits.mark_changed(host)
    commit(store, partition)
    partition, host = opened(store)
    assert len(partition.outside) == partition.counters.leased == 1
    end_all(partition, host, [lease.url], UrlState.FETCHED)
    commit(store, partition)
    is_balanced(store)
    partition, _ = opened(store)
    assert len(partition.outside) == partition.counters.leased == 0
