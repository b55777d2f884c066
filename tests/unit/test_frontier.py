"""The frontier of a worker: who comes to the workbench, who leaves it, who has a turn for
others.
"""

from __future__ import annotations

import msgspec
from test_partition import START, commit, done, found, open_partition

from lycosa.base.config.policy_classes import LISTING_CLASSES
from lycosa.base.listing_kind import ListingKind
from lycosa.base.model.copy_record import CopyRecord, CopyTally
from lycosa.base.model.parcel_items import Asker, Errand
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.stages.frontier.errand_queue import MAX_WAITING, asker_count, with_asker
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.taking_hosts import withdraw_host
from lycosa.stages.frontier.visit_state import (
    HostPause,
    HostState,
    VisitRecord,
    VisitState,
    decode_visit,
)
from lycosa.stages.frontier.workbench import Workbench
from lycosa.state.kv.memory_table import MemoryKeyValue

A, B = "a.example", "b.example"


def frontier_with(hosts: dict[str, int], capacity: int = 100) -> Frontier:
    """A frontier of one partition with so many URLs of each host."""
    partition = open_partition(MemoryKeyValue(), limit=1000)
    for host, count in hosts.items():
        batch = [found(f"http://{host}/{number}") for number in range(count)]
        partition.discover_urls(batch, START)
    return Frontier([partition], Workbench(4), capacity)


def fetch(frontier: Frontier, now: float, delay: float = 1.0) -> str | None:
    """One whole visit at once; gives the URL."""
    host = frontier.acquire(now, START + now)
    if host is None:
        return None
    partition = frontier.partitions[0]
    lease = partition.lease_next(host)
    assert lease is not None
    partition.complete_lease(lease, done(lease, UrlState.FETCHED))
    frontier.release(host, now + delay, START + now + delay)
    return lease.url


def test_a_host_is_not_given_twice_nor_before_its_time() -> None:
    frontier = frontier_with({A: 3})
    host = frontier.acquire(0.0, START)
    assert host is not None and frontier.acquire(0.0, START) is None
    frontier.release(host, 5.0, START + 5)
    assert frontier.acquire(4.9, START + 4.9) is None
    assert frontier.next_time() == 5.0
    assert frontier.acquire(5.0, START + 5) is host


def test_many_hosts_share_a_small_workbench_and_all_come_to_an_end() -> None:
    hosts = {f"h{number}.example": 40 for number in range(30)}
    frontier = frontier_with(hosts, capacity=5)
    now, urls = 0.0, set()
    while len(urls) < 30 * 40 and now < 10_000:
        url = fetch(frontier, now)
        if url is None:
            assert len(frontier.workbench) <= 5
            now += 1.0
        else:
            assert url not in urls
            urls.add(url)
    assert len(urls) == 30 * 40
    assert now < 30 * 40 / 5 * 1.5, "five at a time, and no slot left empty for long"


def test_large_hosts_make_room_for_others_after_their_quantum() -> None:
    frontier = frontier_with(
        {"big1.example": 200, "big2.example": 200, "small.example": 3}, capacity=2
    )
    order = []
    for now in range(150):
        while (url := fetch(frontier, float(now))) is not None:
            order.append(url.split("/")[2])
    assert order.index("small.example") <= 2 * 32


def test_every_partition_has_its_turn_however_many_hosts_wait_in_the_others() -> None:
    """Refills are of 64, so partitions that were filled up one after the other would leave some
    out for as long as others have more.
    """
    partitions = []
    for number in range(4):
        partition = open_partition(MemoryKeyValue(), number=number)
        batch = [
            found(f"http://h{host}.p{number}.example/")
            for host in range(300 if number % 2 == 0 else 5)
        ]
        partition.discover_urls(batch, START)
        partitions.append(partition)
    frontier = Frontier(partitions, Workbench(4), 1000)
    given = [visit.name for _ in range(64) if (visit := frontier.acquire(0.0, START)) is not None]
    assert [sum(f".p{number}." in host for host in given) for number in range(4)] == [27, 5, 27, 5]


def test_a_full_workbench_of_one_partition_makes_room_for_the_hosts_of_another() -> None:
    partitions = [
        open_partition(MemoryKeyValue(), limit=1000, number=number) for number in range(2)
    ]
    for host in (A, B):
        partitions[0].discover_urls(
            [found(f"http://{host}/{number}") for number in range(200)], START
        )
    partitions[1].discover_urls([found("http://small.example/")], START)
    frontier = Frontier(partitions, Workbench(4), 2)
    first = [frontier.acquire(0.0, START), frontier.acquire(0.0, START)]
    assert None not in first
    order = []
    for visit in first:
        assert visit is not None
        frontier.release(visit, 1.0, START + 1)
    for now in range(1, 150):
        while (visit := frontier.acquire(float(now), START + now)) is not None:
            order.append(visit.name)
            partition = frontier.partitions[visit.partition]
            lease = partition.lease_next(visit)
            assert lease is not None
            partition.complete_lease(lease, done(lease, UrlState.FETCHED))
            frontier.release(visit, now + 1.0, START + now + 1)
    assert order.index("small.example") <= 2 * 32


def test_the_workbench_grows_with_what_fetching_asks_for_and_shrinks_when_it_asks_for_less() -> (
    None
):
    """Hosts rest for ten seconds: 40 requests a second need 400 hosts, and 4 a second need 40.
    Who left costs no memory.
    """
    frontier = frontier_with({f"h{number}.example": 60 for number in range(1500)}, capacity=5000)
    partition = frontier.partitions[0]

    def held(rate: int, start: int, seconds: int) -> int:
        for now in range(start, start + seconds):
            for _ in range(rate):
                assert fetch(frontier, float(now), delay=10.0) is not None, (
                    "a slot found nothing ready though hosts wait"
                )
        return len(frontier.workbench)

    assert 400 <= held(40, 0, 60) <= 400 + 64
    assert held(4, 60, 4000) <= 40 + 64
    partition.freeze()
    assert len(frontier.workbench) + partition.front.in_memory <= 2 * (40 + 64) + 64 * 3
    assert len(partition.visits) <= 104 + 100, "those that were touched last"


def test_a_host_that_has_fetched_its_important_urls_gives_its_place_to_those_that_still_have_some() -> (
    None
):
    partition = open_partition(MemoryKeyValue(), limit=1000)
    for host in (A, B):
        partition.discover_urls(
            [
                found(f"http://{host}/{number}", importance=0.9 if number < 2 else 0.1)
                for number in range(4)
            ],
            START,
        )
    partition.discover_urls([found("http://c.example/0")], START)
    frontier = Frontier([partition], Workbench(4), 1)
    order = [
        url.removeprefix("http://")
        for now in range(20)
        if (url := fetch(frontier, float(now))) is not None
    ]
    assert order[:2] == [f"{A}/0", f"{A}/1"]
    assert set(order[:5]) == {f"{A}/0", f"{A}/1", f"{B}/0", f"{B}/1", "c.example/0"}
    assert sorted(order[5:]) == [f"{A}/2", f"{A}/3", f"{B}/2", f"{B}/3"]


def test_hosts_contacted_shortly_before_a_restart_are_held_back_once() -> None:
    frontier = frontier_with({A: 2, B: 2})
    frontier.hold_back({A: 30.0})
    assert fetch(frontier, 0.0) == f"http://{B}/0"
    assert fetch(frontier, 29.9) == f"http://{B}/1"
    assert fetch(frontier, 29.9) is None
    assert fetch(frontier, 30.0) == f"http://{A}/0"
    assert fetch(frontier, 31.0) == f"http://{A}/1"


def test_a_host_that_waits_for_long_sleeps_and_comes_back() -> None:
    frontier = frontier_with({A: 2})
    assert fetch(frontier, 0.0, delay=1000.0) is not None
    partition = frontier.partitions[0]
    assert len(frontier.workbench) == 0 and frontier.next_time() is None
    assert partition.counters.hosts_asleep == 1
    assert frontier.snapshot(0.0).snoozed == 1
    assert partition.next_due() == START + 1000
    partition.wake_due(START + 999.0)
    assert fetch(frontier, 999.0) is None
    partition.wake_due(START + 1000.0)
    assert partition.counters.hosts_asleep == 0
    assert fetch(frontier, 1000.0) is not None


def test_a_sleeping_host_sleeps_on_when_urls_of_it_are_found_and_over_a_restart() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store, limit=1000)
    partition.discover_urls([found(f"http://{A}/0")], START)
    frontier = Frontier([partition], Workbench(4), 10)
    assert fetch(frontier, 0.0, delay=1000.0) is not None
    partition.discover_urls([found(f"http://{A}/1")], START)
    assert fetch(frontier, 10.0) is None, (
        "it has nothing to sleep for, and still its time has not come"
    )
    commit(store, partition)
    again = open_partition(store, limit=1000)
    frontier = Frontier([again], Workbench(4), 10)
    assert fetch(frontier, 20.0) is None
    again.wake_due(START + 1000)
    assert fetch(frontier, 1000.0) == f"http://{A}/1"


def test_a_host_is_counted_once_in_the_state_that_lists_show() -> None:
    frontier = frontier_with({A: 2, B: 2, "c.example": 1})
    partition = frontier.partitions[0]
    pause = HostPause("ada", 1_000_000)
    assert fetch(frontier, 0.0, delay=1000.0) == f"http://{A}/0"
    sleeping, parked, leaving = (
        partition.find_or_add_host(hash8(name), f"http://{name}/") for name in (A, B, "c.example")
    )
    partition.set_aside_hosts.park(parked, int(START) + 5000, Reason.HOST_PAGE_BUDGET, "")

    def counted() -> tuple[int, ...]:
        counters, found = partition.counters, frontier.snapshot(10.0)
        return (
            *(counters.hosts_parked, counters.hosts_retired, counters.hosts_paused),
            *(counters.hosts_asleep, found.snoozed, found.front, found.in_process),
        )

    assert counted() == (1, 0, 0, 1, 1, 0, 0)
    for host in (sleeping, parked, leaving):
        partition.set_aside_hosts.pause(host, pause)
        withdraw_host(frontier, host)
    assert counted() == (0, 0, 3, 0, 0, 0, 0)
    partition.set_aside_hosts.retire(leaving, Reason.RETIRED_BY_OPERATOR, "by ada")
    assert counted() == (0, 1, 2, 0, 0, 0, 0)
    for host in (sleeping, parked, leaving):
        partition.set_aside_hosts.resume(host)
    assert counted() == (1, 1, 0, 0, 0, 1, 0)
    assert fetch(frontier, 20.0) is None, "the pause does not shorten its delay"
    partition.wake_due(START + 1000)
    assert fetch(frontier, 1000.0) == f"http://{A}/1"


# -- errands

WHO = Asker(0, hash8("asker.test"), False, 1)


def send_errand(frontier: Frontier, host: str) -> VisitState:
    partition = frontier.partitions[0]
    visit = partition.find_or_add_host(hash8(host), f"http://{host}/robots.txt")
    visit.record.errands = (Errand(f"http://{host}/robots.txt", (WHO,)),)
    partition.visits.mark_changed(visit)
    frontier.recall_host(visit)
    return visit


def test_a_host_that_was_never_met_has_a_turn_for_an_errand() -> None:
    frontier = frontier_with({})
    met = send_errand(frontier, "new.test")
    host = frontier.acquire(0.0, START)
    assert host is met and host.record.waiting == 0 and frontier.partitions[0].counters.hosts == 1
    host.record.errands = ()
    host.rest(5.0, START + 5, 1.0)
    frontier.give_back(host)
    assert host.record.state is HostState.EXHAUSTED and host.record.front is None
    send_errand(frontier, "new.test")
    assert frontier.acquire(4.9, START + 4.9) is None, "its rest is not over"
    assert frontier.acquire(5.0, START + 5.0) is met


def test_an_errand_waits_for_the_rest_of_a_host_and_not_for_what_its_own_urls_wait_for() -> None:
    frontier = frontier_with({A: 2})
    host = frontier.acquire(0.0, START)
    assert host is not None
    host.rest(5.0, START + 5, 1.0)
    frontier.partitions[0].set_aside_hosts.snooze(host, START + 100, Reason.ROBOTS_UNREACHABLE)
    host.next_time = 100.0
    frontier.give_back(host)
    send_errand(frontier, A)
    assert frontier.acquire(4.9, START + 4.9) is None
    assert frontier.acquire(5.0, START + 5.0) is host
    assert host.record.state is HostState.SNOOZED and not host.has_own_turn(5.0)
    host.record.errands = ()
    host.rest(8.0, START + 8, 6.0)
    frontier.give_back(host)
    assert (
        frontier.acquire(99.0, START + 99) is None and frontier.acquire(100.0, START + 100) is host
    )


def test_an_errand_wakes_a_host_that_sleeps_for_its_own_reasons() -> None:
    frontier = frontier_with({A: 2})
    host = frontier.acquire(0.0, START)
    assert host is not None
    host.rest(5.0, START + 5, 1.0)
    frontier.partitions[0].set_aside_hosts.snooze(host, START + 5000, Reason.ROBOTS_UNREACHABLE)
    host.next_time = 5000.0
    frontier.give_back(host)
    assert host.record.asleep_until
    send_errand(frontier, A)
    assert not host.record.asleep_until and frontier.partitions[0].counters.hosts_asleep == 0
    assert frontier.acquire(6.0, START + 6) is host


def test_a_host_that_asked_to_wait_for_long_sleeps_with_its_errand() -> None:
    frontier = frontier_with({A: 2})
    host = frontier.acquire(0.0, START)
    assert host is not None
    frontier.release(host, 5000.0, START + 5000)
    send_errand(frontier, A)
    assert frontier.acquire(6.0, START + 6) is None and host.record.asleep_until
    frontier.partitions[0].wake_due(START + 5000)
    assert frontier.acquire(5000.0, START + 5000) is host


def test_a_host_that_was_given_up_or_is_parked_has_turns_for_errands_alone() -> None:
    frontier = frontier_with({A: 2, B: 2})
    for host, park in ((A, False), (B, True)):
        visit = frontier.partitions[0].visits.find_host(hash8(host))
        assert visit is not None
        if park:
            frontier.partitions[0].set_aside_hosts.park(
                visit, START + 9999, Reason.HOST_PAGE_BUDGET, ""
            )
        else:
            frontier.partitions[0].set_aside_hosts.retire(visit, Reason.CONNECT_REFUSED, "")
    assert frontier.acquire(0.0, START) is None
    for host in (A, B):
        send_errand(frontier, host)
        visit = frontier.acquire(1.0, START + 1)
        assert visit is not None and visit.name == host and not visit.has_own_turn(1.0)
        visit.record.errands = ()
        frontier.release(visit, 2.0, START + 2)
        assert visit.record.front is None and not visit.on_workbench
    assert frontier.acquire(50.0, START + 50) is None


def test_a_host_that_an_operator_retired_has_turns_for_its_errands_after_it_is_resumed() -> None:
    frontier = frontier_with({})
    partition = frontier.partitions[0]
    host = send_errand(frontier, "new.test")
    partition.set_aside_hosts.retire(host, Reason.RETIRED_BY_OPERATOR, "by ada")
    withdraw_host(frontier, host)
    assert frontier.acquire(1.0, START + 1) is None
    partition.set_aside_hosts.resume(host)
    partition.set_aside_hosts.reopen(host, START + 2)
    assert frontier.acquire(2.0, START + 2) is host


def test_the_rest_of_a_host_from_before_errands_is_its_next_time() -> None:
    old = msgspec.msgpack.encode(
        list(msgspec.structs.astuple(VisitRecord(A, HostState.SNOOZED, next_at=START + 50)))[:-3]
    )
    record = decode_visit(old)
    assert (record.rests_until, record.errands, record.questions) == (START + 50, (), ())


def test_errands_of_one_url_are_one_and_the_queue_is_bounded() -> None:
    waiting: tuple[Errand, ...] = ()
    for number in range(MAX_WAITING):
        fuller = with_asker(
            waiting, f"http://a.test/{number % 7}", Asker(0, hash8(str(number)), False, number)
        )
        assert fuller is not None
        waiting = fuller
    assert len(waiting) == 7 and asker_count(waiting) == MAX_WAITING
    assert with_asker(waiting, "http://a.test/0", Asker(0, b"others", False, 0)) is None
    again = with_asker(waiting, "http://a.test/0", Asker(0, hash8("3"), False, 1000))
    assert again is not None and asker_count(again) == MAX_WAITING, (
        "an origin that asks anew takes its own place"
    )
    assert [errand.url for errand in again] == [errand.url for errand in waiting]


def test_a_retired_host_is_not_given_while_its_last_page_is_parsed() -> None:
    frontier = frontier_with({A: 3})
    partition = frontier.partitions[0]
    host = frontier.acquire(0.0, START)
    assert host is not None
    lease = partition.lease_next(host)
    assert lease is not None
    partition.set_aside_hosts.retire(host, Reason.CONNECT_REFUSED, "")
    frontier.release(host, 1.0, START + 1)
    assert frontier.acquire(10.0, START + 10) is None
    partition.complete_lease(lease, done(lease, UrlState.FAILED))
    assert host.record.state is HostState.RETIRED
    assert (
        partition.counters.count_in(UrlState.RETIRED),
        partition.counters.count_in(UrlState.FAILED),
    ) == (
        2,
        1,
    )
    assert frontier.waiting_in_front() == 0 or frontier.acquire(20.0, START + 20) is None


def resting(frontier: Frontier) -> VisitState:
    """``A`` after a sitemap, when most of its pages were near copies: it rests for 14 s."""
    host = frontier.acquire(0.0, START)
    assert host is not None and host.name == A
    host.record.copies = CopyRecord(pages=CopyTally(32.0, 0.0))
    host.is_judged = True
    partition = frontier.partitions[0]
    lease = partition.lease_next(host)
    assert lease is not None
    policy = LISTING_CLASSES[ListingKind.SITEMAP]
    history = History(1, int(START), 200, interval_s=3600, policy=policy)
    partition.complete_lease(lease, done(lease, UrlState.FETCHED, int(START) + 5, history))
    frontier.release(host, 1.0, START + 1)
    assert host.rest_time == 1.0 and host.next_time > 14.0
    return host


def test_a_sitemap_does_not_wait_for_the_rest_of_a_host_of_copies() -> None:
    frontier = frontier_with({A: 3, B: 30})
    host = resting(frontier)
    rests_until, partition = host.next_time, frontier.partitions[0]
    partition.discover_urls([found(f"http://{A}/new")], START + 2)
    assert host.next_time == rests_until, "a new page does"
    assert partition.wake_due(START + 6) == 1
    assert host.next_time == 1.0 and host.record.next_at == START + 1
    frontier.acquire(6.0, START + 6)  # one of B
    assert host.in_process or frontier.acquire(6.0, START + 6) is host


def test_an_errand_does_not_wait_for_the_rest_of_a_host_of_copies() -> None:
    frontier = frontier_with({A: 3, B: 30})
    host = resting(frontier)
    rests_until = host.next_time
    host.record.errands = with_asker((), f"http://{A}/robots.txt", WHO) or ()
    frontier.recall_host(host)
    found_hosts = {each.name for _ in range(2) if (each := frontier.acquire(2.0, START + 2))}
    assert A in found_hosts and host.next_time == rests_until
