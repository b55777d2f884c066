"""The frontier of a worker: who comes to the workbench, who leaves it, who may be borrowed."""

from __future__ import annotations

from test_partition import START, commit, done, found, open_partition

from lycosa.frontier.frontier import Frontier
from lycosa.frontier.visit_state import HostState, VisitState
from lycosa.frontier.workbench import Workbench
from lycosa.kv.memory import MemoryKeyValue
from lycosa.model.completed import UrlState
from lycosa.reasons import Reason
from lycosa.url import hash8

A, B = "a.example", "b.example"


def frontier_with(hosts: dict[str, int], capacity: int = 100) -> Frontier:
    """A frontier of one partition with so many URLs of each host."""
    partition = open_partition(MemoryKeyValue(), limit=1000)
    for host, count in hosts.items():
        batch = [found(f"http://{host}/{number}") for number in range(count)]
        partition.discover(batch, START)
    return Frontier([partition], Workbench(4), capacity)


def fetch(frontier: Frontier, now: float, delay: float = 1.0) -> str | None:
    """One whole visit at once; gives the URL."""
    visit = frontier.acquire(now, START + now)
    if visit is None:
        return None
    partition = frontier.partitions[0]
    lease = partition.lease(visit)
    assert lease is not None
    partition.complete(lease, done(lease, UrlState.FETCHED))
    frontier.release(visit, now + delay, START + now + delay)
    return lease.url


def test_a_host_is_not_given_twice_nor_before_its_time() -> None:
    frontier = frontier_with({A: 3})
    visit = frontier.acquire(0.0, START)
    assert visit is not None and frontier.acquire(0.0, START) is None
    frontier.release(visit, 5.0, START + 5)
    assert frontier.acquire(4.9, START + 4.9) is None
    assert frontier.next_time() == 5.0
    assert frontier.acquire(5.0, START + 5) is visit


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
    frontier = frontier_with({"big1.example": 200, "big2.example": 200, "small.example": 3}, capacity=2)
    order = []
    for now in range(150):
        while (url := fetch(frontier, float(now))) is not None:
            order.append(url.split("/")[2])
    assert order.index("small.example") <= 2 * 32


def test_every_partition_has_its_turn_however_many_hosts_wait_in_the_others() -> None:
    """Refills are of 64, so partitions that were filled up one after the other would leave some out for as long as others have more."""
    partitions = []
    for number in range(4):
        partition = open_partition(MemoryKeyValue(), number=number)
        batch = [found(f"http://h{host}.p{number}.example/") for host in range(300 if number % 2 == 0 else 5)]
        partition.discover(batch, START)
        partitions.append(partition)
    frontier = Frontier(partitions, Workbench(4), 1000)
    given = [visit.host for _ in range(64) if (visit := frontier.acquire(0.0, START)) is not None]
    assert [sum(f".p{number}." in host for host in given) for number in range(4)] == [27, 5, 27, 5]


def test_a_full_workbench_of_one_partition_makes_room_for_the_hosts_of_another() -> None:
    partitions = [open_partition(MemoryKeyValue(), limit=1000, number=number) for number in range(2)]
    for host in (A, B):
        partitions[0].discover([found(f"http://{host}/{number}") for number in range(200)], START)
    partitions[1].discover([found("http://small.example/")], START)
    frontier = Frontier(partitions, Workbench(4), 2)
    first = [frontier.acquire(0.0, START), frontier.acquire(0.0, START)]
    assert None not in first
    order = []
    for visit in first:
        assert visit is not None
        frontier.release(visit, 1.0, START + 1)
    for now in range(1, 150):
        while (visit := frontier.acquire(float(now), START + now)) is not None:
            order.append(visit.host)
            partition = frontier.partitions[visit.partition]
            lease = partition.lease(visit)
            assert lease is not None
            partition.complete(lease, done(lease, UrlState.FETCHED))
            frontier.release(visit, now + 1.0, START + now + 1)
    assert order.index("small.example") <= 2 * 32


def test_the_workbench_grows_with_what_fetching_asks_for_and_shrinks_when_it_asks_for_less() -> None:
    """Hosts rest for ten seconds: 40 requests a second need 400 hosts, and 4 a second need 40. Who left costs no memory."""
    frontier = frontier_with({f"h{number}.example": 60 for number in range(1500)}, capacity=5000)
    partition = frontier.partitions[0]

    def held(rate: int, start: int, seconds: int) -> int:
        for now in range(start, start + seconds):
            for _ in range(rate):
                assert fetch(frontier, float(now), delay=10.0) is not None, "a slot found nothing ready though hosts wait"
        return len(frontier.workbench)

    assert 400 <= held(40, 0, 60) <= 400 + 64
    assert held(4, 60, 4000) <= 40 + 64
    partition.freeze()
    assert len(frontier.workbench) + partition.front.in_memory <= 2 * (40 + 64) + 64 * 3
    assert len(partition.visits) <= 104 + 100, "those that were touched last"


def test_a_host_that_has_fetched_its_important_urls_gives_its_place_to_those_that_still_have_some() -> None:
    partition = open_partition(MemoryKeyValue(), limit=1000)
    for host in (A, B):
        partition.discover([found(f"http://{host}/{number}", importance=0.9 if number < 2 else 0.1) for number in range(4)], START)
    partition.discover([found("http://c.example/0")], START)
    frontier = Frontier([partition], Workbench(4), 1)
    order = [url.removeprefix("http://") for now in range(20) if (url := fetch(frontier, float(now))) is not None]
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
    partition.discover([found(f"http://{A}/0")], START)
    frontier = Frontier([partition], Workbench(4), 10)
    assert fetch(frontier, 0.0, delay=1000.0) is not None
    partition.discover([found(f"http://{A}/1")], START)
    assert fetch(frontier, 10.0) is None, "it has nothing to sleep for, and still its time has not come"
    commit(store, partition)
    again = open_partition(store, limit=1000)
    frontier = Frontier([again], Workbench(4), 10)
    assert fetch(frontier, 20.0) is None
    again.wake_due(START + 1000)
    assert fetch(frontier, 1000.0) == f"http://{A}/1"


# -- borrowing ------------------------------------------------------------------------------------------------------


def borrow(frontier: Frontier, host: str, now: float) -> float:
    return frontier.borrow(0, host, hash8(host), now, START + now)


def test_a_borrowed_host_is_not_visited_until_its_rest_is_over() -> None:
    frontier = frontier_with({A: 2})
    assert borrow(frontier, A, 0.0) == 0.0
    assert borrow(frontier, A, 0.0) > 0.0
    assert fetch(frontier, 1.0) is None
    frontier.return_borrowed(0, hash8(A), 7.0, START + 7)
    assert fetch(frontier, 6.9) is None
    assert fetch(frontier, 7.0) is not None


def test_a_host_in_process_or_resting_is_not_borrowed() -> None:
    frontier = frontier_with({A: 2})
    visit = frontier.acquire(0.0, START)
    assert visit is not None and borrow(frontier, A, 0.0) > 0.0
    frontier.release(visit, 5.0, START + 5)
    assert borrow(frontier, A, 1.0) == 4.0
    assert borrow(frontier, A, 5.0) == 0.0


def test_a_host_that_is_only_known_from_disk_or_held_back_keeps_its_rest() -> None:
    frontier = frontier_with({A: 2, B: 1})
    visit = frontier.partitions[0].visits.find(hash8(A))
    assert isinstance(visit, VisitState)
    visit.record.next_at = START + 50
    assert borrow(frontier, A, 10.0) == 40.0
    frontier.hold_back({B: 25.0})
    assert borrow(frontier, B, 10.0) == 15.0


def test_an_unknown_host_is_remembered_between_two_borrowers() -> None:
    frontier = frontier_with({A: 1})
    assert borrow(frontier, "new.test", 0.0) == 0.0
    frontier.return_borrowed(0, hash8("new.test"), 3.0, START + 3)
    assert borrow(frontier, "new.test", 1.0) == 2.0


def test_two_that_lend_themselves_can_borrow_each_other() -> None:
    frontier = frontier_with({A: 1, B: 1})
    visits = [frontier.acquire(0.0, START), frontier.acquire(0.0, START)]
    assert None not in visits
    frontier.lend(hash8(A), 1.0)
    frontier.lend(hash8(B), 1.0)
    assert borrow(frontier, A, 0.5) == 0.5
    assert borrow(frontier, A, 1.0) == borrow(frontier, B, 1.0) == 0.0
    frontier.end_lending(hash8(A))
    assert borrow(frontier, A, 2.0) > 0.0


def test_a_retired_host_is_not_given_while_its_last_page_is_parsed() -> None:
    frontier = frontier_with({A: 3})
    partition = frontier.partitions[0]
    visit = frontier.acquire(0.0, START)
    assert visit is not None
    lease = partition.lease(visit)
    assert lease is not None
    partition.retire(visit, Reason.CONNECT_REFUSED, "")
    frontier.release(visit, 1.0, START + 1)
    assert frontier.acquire(10.0, START + 10) is None
    partition.complete(lease, done(lease, UrlState.FAILED))
    assert visit.record.state is HostState.RETIRED
    assert (partition.counters.of(UrlState.RETIRED), partition.counters.of(UrlState.FAILED)) == (2, 1)
    assert frontier.waiting_in_front() == 0 or frontier.acquire(20.0, START + 20) is None
