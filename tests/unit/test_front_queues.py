"""Front queues: first come first served within a band, biased to high bands, none starved beyond the bound."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.frontier.front_queues import FrontQueues
from lycosa.kv.memory import MemoryKeyValue
from lycosa.kv.overlay import Overlay

BANDS = 4


def host8(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_hosts_of_one_band_come_in_order() -> None:
    queues = FrontQueues(Overlay(MemoryKeyValue()), BANDS)
    for number in range(10):
        queues.push(host8(number), 2)
    assert queues.pull(4) + queues.pull(10) == [host8(number) for number in range(10)]
    assert len(queues) == 0 and queues.pull(1) == []


def test_a_better_band_has_more_turns_and_no_band_starves() -> None:
    queues = FrontQueues(Overlay(MemoryKeyValue()), BANDS)
    for band in range(BANDS):
        for number in range(100):
            queues.push(host8(band * 1000 + number), band)
    pulled = [int.from_bytes(each, "big") // 1000 for _ in range(16) for each in queues.pull(1)]
    assert [pulled.count(band) for band in range(BANDS)] == [9, 4, 2, 1]


@given(st.lists(st.integers(0, 12), min_size=BANDS, max_size=BANDS), st.integers(0, BANDS - 1), st.integers(1, 5), st.integers(0, 40))
@settings(deadline=None, max_examples=200)
def test_the_head_of_a_band_waits_at_most_two_to_the_band_plus_one_turns(counts: list[int], band: int, want: int, turns: int) -> None:
    """However full the better bands are kept, and at whatever turn it comes to the head."""
    queues = FrontQueues(Overlay(MemoryKeyValue()), BANDS)
    for _ in range(turns):
        queues.push(host8(1), 0)
    while queues.pull(1):
        pass
    marked = host8(999)
    queues.push(marked, band)
    for at, count in enumerate(counts):
        for _ in range(count if at != band else 0):
            queues.push(host8(at), at)
    waited = 0
    while True:
        for at in range(band):
            queues.push(host8(at), at)
        pulled = queues.pull(want)
        if marked in pulled:
            break
        waited += len(pulled)
        assert waited < 2 ** (band + 1)


@given(st.lists(st.tuples(st.sampled_from(["push", "pull", "remove", "restart"]), st.integers(0, BANDS - 1)), max_size=60))
@settings(deadline=None, max_examples=200)
def test_no_host_is_lost_or_pulled_twice_also_over_restarts(steps: list[tuple[str, int]]) -> None:
    """Entries of pulled hosts stay until they are removed, so that a restart finds the hosts again."""
    store = MemoryKeyValue()
    table = Overlay(store)
    queues = FrontQueues(table, BANDS)
    waiting: dict[bytes, tuple[int, int]] = {}
    pulled: dict[bytes, tuple[int, int]] = {}
    met = 0
    for step, argument in steps:
        if step == "push":
            waiting[host8(met)] = queues.push(host8(met), argument)
            met += 1
        elif step == "pull":
            for each in queues.pull(argument + 1):
                pulled[each] = waiting.pop(each)
        elif step == "remove":
            which = waiting if argument % 2 and waiting else pulled
            if which:
                queues.remove(which.pop(next(iter(which))))
        else:
            store.write(table.freeze())
            table.settle()
            queues = FrontQueues(table, BANDS)
            waiting |= pulled
            pulled.clear()
        assert len(queues) >= len(waiting)
    rest = queues.pull(1000)
    assert sorted(rest) == sorted(waiting)
    assert queues.pull(1000) == [] and len(queues) == 0
