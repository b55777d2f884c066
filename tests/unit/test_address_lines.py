"""Hosts of one address take only a share of the workbench; the others wait in the line of the
address.
"""

from __future__ import annotations

from collections.abc import Iterable

from test_partition import START, commit, done, found, open_partition

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import hash8
from lycosa.stages.frontier.frontier import QUANTUM, Frontier
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import HostState, VisitState
from lycosa.stages.frontier.workbench import Workbench
from lycosa.stages.politeness.delay import hosts_of_address
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.table_records import line_key, place_of, prefix_end, waiting_key

SHARED = "198.18.0.1"
SLOTS, MOST = 1, 4


def shop(number: int) -> str:
    return f"shop{number}.example"


def discover(
    partition: Partition, hosts: Iterable[str], pages: int = 1, importance: float = 0.5
) -> None:
    batch = [
        found(f"http://{host}/{page}", importance=importance)
        for host in hosts
        for page in range(pages)
    ]
    partition.discover_urls(batch, START)


def frontier_of(partitions: list[Partition], capacity: int = 1000) -> Frontier:
    return Frontier(partitions, Workbench(SLOTS), capacity, MOST)


def know_address(partition: Partition, hosts: Iterable[str], address: str = SHARED) -> None:
    """As if the hosts had been visited."""
    for host in hosts:
        visit = partition.visits.find_host(hash8(host))
        assert visit is not None
        visit.record.address = address
        partition.visits.mark_changed(visit)


def acquired(frontier: Frontier, now: float) -> VisitState | None:
    host = frontier.acquire(now, START + now)
    if host is not None and host.name.startswith("shop"):
        host.record.address = SHARED
        frontier.workbench.rejoin_address(host, SHARED)
    return host


def fetch(frontier: Frontier, now: float, delay: float = 1.0) -> str | None:
    """One whole visit at once; gives the host."""
    host = acquired(frontier, now)
    if host is None:
        return None
    partition = frontier.partitions[host.partition]
    lease = partition.lease_next(host)
    assert lease is not None
    partition.complete_lease(lease, done(lease, UrlState.FETCHED))
    frontier.release(host, now + delay, START + now + delay)
    return host.name


def rows(store: MemoryKeyValue) -> list[tuple[str, int, int]]:
    """Places in lines, as committed."""
    return [place_of(key) for key, _ in store.scan(b"W", prefix_end(b"W"))]


def test_hosts_of_one_address_leave_room_for_others() -> None:
    partition = open_partition(MemoryKeyValue(), limit=1000)
    discover(partition, map(shop, range(100)), pages=3)
    discover(partition, ["own.example"], pages=3)
    know_address(partition, map(shop, range(100)))
    frontier = frontier_of([partition], capacity=8)
    asked = {fetch(frontier, 0.0) for _ in range(3)}
    assert "own.example" in asked
    assert sum(host.record.address == SHARED for host in frontier.workbench.hosts()) == MOST
    assert len(partition.lines) == 100 - MOST
    assert frontier.waiting_in_front() == 100 - MOST


def test_hosts_whose_address_becomes_known_by_their_visit_go_to_its_line_beyond_the_bound() -> None:
    partition = open_partition(MemoryKeyValue(), limit=1000)
    discover(partition, map(shop, range(20)), pages=2)
    frontier = frontier_of([partition])
    for _ in range(20):  # the address is known, and has no slot for the moment
        host = acquired(frontier, 0.0)
        assert host is not None
        host.next_time = 5.0
        frontier.give_back(host)
    assert len(frontier.workbench) == MOST
    assert partition.lines.waiting_hosts(SHARED) == 20 - MOST


def test_all_hosts_of_the_line_have_their_turn_in_order() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store, limit=1000)
    hosts = list(map(shop, range(30)))
    discover(partition, hosts, pages=2)
    know_address(partition, hosts)
    frontier, now, asked = frontier_of([partition]), 0.0, []
    while len(asked) < 60:
        host = fetch(frontier, now)
        now += 0.2 if host is None else 0.0
        asked += [host] if host else []
        assert now < 100
    assert list(dict.fromkeys(asked)) == hosts
    assert sorted(asked) == sorted([*hosts, *hosts])
    commit(store, partition)
    assert rows(store) == [] and store.get(b"w" + SHARED.encode()) is None
    assert all(
        visit.record.state is HostState.EXHAUSTED
        for host in hosts
        if (visit := partition.visits.find_host(hash8(host)))
    )


def test_a_full_workbench_is_not_kept_by_the_lines() -> None:
    """Shared addresses fill the workbench with their shares, and hosts wait in their lines: one
    of its own has its turn all the same.
    """
    partition = open_partition(MemoryKeyValue(), limit=100_000)
    for at in range(4):
        hosts = [f"blog{number}-{at}.example" for number in range(20)]
        discover(partition, hosts, pages=100)
        know_address(partition, hosts, f"198.18.1.{at}")
    frontier, now = frontier_of([partition]), 0.0
    while fetch(frontier, now):
        assert len(frontier.workbench) == 4 * MOST
    frontier.resize(4 * MOST)
    discover(partition, ["own.example"])
    own = partition.visits.find_host(hash8("own.example"))
    assert own is not None and own.record.front is not None
    turns = 2 * partition.front.turns_to(*own.record.front)
    asked: list[str] = []
    while "own.example" not in asked:
        host = fetch(frontier, now)
        now += 0.2 if host is None else 0.0
        asked += [host] if host else []
        assert len(asked) <= QUANTUM * (turns + 4 * MOST) + 4 * MOST


def test_lines_last_over_a_restart() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store, limit=1000)
    hosts = list(map(shop, range(12)))
    discover(partition, hosts, pages=2)
    know_address(partition, hosts)
    frontier = frontier_of([partition])
    assert [fetch(frontier, 0.0) for _ in range(MOST)] == hosts[:MOST]
    commit(store, partition)
    # Those on the workbench came from the front queue or from the line; either row is there still.
    assert {SHARED} == {address for address, _, _ in rows(store)}
    again = open_partition(store, limit=1000)
    frontier = frontier_of([again])
    assert frontier.waiting_in_front() == 12
    now, asked = 10.0, []
    while len(asked) < 20 and now < 100:
        host = fetch(frontier, now)
        now += 0.2 if host is None else 0.0
        asked += [host] if host else []
    assert sorted(asked) == sorted([*hosts[:MOST], *hosts[MOST:], *hosts[MOST:]])
    assert frontier.waiting_in_front() == 0 and frontier.next_time() is None


def test_a_host_in_a_line_moves_up_for_a_better_url_and_stays_in_the_line() -> None:
    partition = open_partition(MemoryKeyValue(), limit=1000)
    hosts = list(map(shop, range(40)))
    discover(partition, hosts, pages=1, importance=0.3)
    know_address(partition, hosts)
    frontier = frontier_of([partition])
    host = acquired(frontier, 0.0)
    assert host is not None
    partition.discover_urls([found(f"http://{shop(39)}/important", importance=1.0)], START)
    record = partition.visits.find_or_add_host(hash8(shop(39)), shop(39)).record
    assert record.line == SHARED and record.front is not None and record.front[0] == 0
    frontier.release(host, 1000.0, START + 1000)
    asked = [fetch(frontier, now, 1000.0) for now in range(10)]
    assert shop(39) in asked[: MOST + 1]


def test_partitions_of_an_address_take_turns() -> None:
    stores = [MemoryKeyValue(), MemoryKeyValue()]
    partitions = [
        open_partition(store, limit=1000, number=number) for number, store in enumerate(stores)
    ]
    for partition in partitions:
        hosts = [f"shop{number}.p{partition.number}.example" for number in range(20)]
        discover(partition, hosts)
        know_address(partition, hosts)
    frontier = frontier_of(partitions)
    asked = [host for now in range(20) if (host := fetch(frontier, float(now)))]
    assert abs(sum(".p0." in host for host in asked) - len(asked) / 2) <= 1


def test_a_place_is_found_again_from_its_row() -> None:
    for address in ("", "198.18.0.1", "2001:db8::57", "::1"):
        assert place_of(waiting_key(address, 3, 70_000)) == (address, 3, 70_000)
    assert line_key("::1", 1, 5) < line_key("::1", 1, 6) < line_key("::1", 2, 0)


def test_an_address_gets_as_many_hosts_as_it_may_be_asked_in_the_longest_delay() -> None:
    assert hosts_of_address(PolitenessSection(jitter=0.0)) == 30 / 0.2 + 4
    assert hosts_of_address(PolitenessSection(address_delay_s=0.0)) == float("inf")
    for capacity, most in ((20_000, MOST), (16, MOST), (1, MOST)):
        assert (
            frontier_of([open_partition(MemoryKeyValue())], capacity).workbench.max_hosts_of_address
            == most
        )
