"""After an unclean takeover no host is asked before the owner before must have ended, and then
each after its own delay.
"""

from __future__ import annotations

import msgspec
from test_frontier import A, B, fetch, frontier_with
from test_partition import START, commit, found, open_partition

from lycosa.base.model.host_memory import Pace
from lycosa.base.model.parcel_items import Asker, Errand
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.frontier.workbench import Workbench
from lycosa.state.kv.memory_table import MemoryKeyValue

UNTIL, LATER = 90.0, "later.example"


def delay_of(host: VisitState) -> float:
    """Its Crawl-delay, or a second."""
    return max(host.record.pace.crawl_delay_s, 1.0)


def slow(frontier: Frontier, host8: bytes, delay_s: float) -> None:
    host = frontier.partitions[0].visits.find_host(host8)
    assert host is not None
    host.record.pace = msgspec.structs.replace(Pace(), crawl_delay_s=delay_s)


def first_visits(frontier: Frontier, begin: float, end: float) -> dict[str, float]:
    """When each host was first visited between two times, which are looked at every half second."""
    visits: dict[str, float] = {}
    now = begin
    while now < end:
        while (url := fetch(frontier, now)) is not None:
            visits.setdefault(url.split("/")[2], now)
        now += 0.5
    return visits


def test_every_host_waits_until_the_end_of_the_hold_and_then_its_own_delay() -> None:
    frontier = frontier_with({A: 3, B: 3})
    slow(frontier, found(f"http://{B}/").host8, 20.0)
    frontier.hold_all(UNTIL, delay_of)
    assert first_visits(frontier, 0.0, 200.0) == {A: UNTIL + 1, B: UNTIL + 20}


def test_nothing_comes_to_the_workbench_and_nothing_goes_to_sleep_meanwhile() -> None:
    frontier = frontier_with({f"h{number}.example": 2 for number in range(50)}, capacity=5)
    frontier.hold_all(1000.0, delay_of)  # longer than a host stays on the workbench
    assert [frontier.acquire(now, START + now) for now in (0.0, 500.0, 999.0)] == [None] * 3
    assert frontier.next_time() == 1000.0
    assert (
        len(frontier.workbench),
        frontier.partitions[0].counters.hosts_asleep,
        frontier.waiting_in_front(),
    ) == (0, 0, 50)
    assert min(first_visits(frontier, 1000.0, 1100.0).values()) == 1001.0


def test_a_host_that_is_met_during_the_hold_or_after_it_waits_as_well() -> None:
    frontier = frontier_with({A: 1})
    frontier.hold_all(UNTIL, delay_of)
    assert frontier.acquire(10.0, START + 10) is None
    frontier.partitions[0].discover_urls([found(f"http://{B}/")], START + 10)
    assert first_visits(frontier, 10.0, UNTIL + 0.5) == {}
    frontier.partitions[0].discover_urls([found(f"http://{LATER}/")], START + UNTIL)
    slow(frontier, found(f"http://{LATER}/").host8, 30.0)
    assert first_visits(frontier, UNTIL, 200.0) == {A: UNTIL + 1, B: UNTIL + 1, LATER: UNTIL + 30}


def test_a_host_that_slept_at_the_takeover_and_wakes_during_the_hold_waits_as_well() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store)
    partition.discover_urls([found(f"http://{A}/{number}") for number in range(2)], START)
    assert fetch(Frontier([partition], Workbench(4), 100), 0.0, delay=500.0) is not None
    assert partition.counters.hosts_asleep == 1
    commit(store, partition)
    after = Frontier([open_partition(store)], Workbench(4), 100)
    after.hold_all(1000.0, delay_of)
    after.wake_due(START + 600.0)
    assert after.partitions[0].counters.hosts_asleep == 0
    assert first_visits(after, 600.0, 1100.0) == {A: 1001.0}


def test_a_committed_time_that_is_later_than_the_hold_stays() -> None:
    store = MemoryKeyValue()
    partition = open_partition(store)
    partition.discover_urls([found(f"http://{A}/{number}") for number in range(2)], START)
    assert fetch(Frontier([partition], Workbench(4), 100), 0.0, delay=110.0) is not None
    commit(store, partition)
    after = Frontier([open_partition(store)], Workbench(4), 100)
    after.hold_all(UNTIL, delay_of)
    assert first_visits(after, 0.0, 200.0) == {A: 110.0}


def test_an_errand_waits_for_the_hold_too() -> None:
    frontier = frontier_with({A: 1})
    frontier.hold_all(UNTIL, delay_of)
    partition = frontier.partitions[0]
    visit = partition.find_or_add_host(found(f"http://{B}/").host8, f"http://{B}/")
    visit.record.errands = (Errand(f"http://{B}/robots.txt", (Asker(0, b"8bytes..", False, 1),)),)
    frontier.recall_host(visit)
    times = []
    for half in range(400):
        now = half / 2
        while (ready := frontier.acquire(now, START + now)) is not None:
            times.append((ready.name, now))
            ready.record.errands = ()
            frontier.release(ready, now + 1000, START + now + 1000)
    assert dict(times) == {A: UNTIL + 1, B: UNTIL + 1}


def test_the_delay_between_visits_is_the_usual_one_after_the_hold() -> None:
    frontier = frontier_with({A: 5})
    frontier.hold_all(UNTIL, lambda _: 10.0)
    times = [now / 2 for now in range(400) if fetch(frontier, now / 2, delay=3.0) is not None]
    assert times == [UNTIL + 10 + 3 * number for number in range(5)]


def test_a_planned_move_holds_nothing() -> None:
    assert fetch(frontier_with({A: 1}), 0.0) is not None
