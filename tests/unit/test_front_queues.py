"""Front queues: first come first served within a band, biased to high bands, none starved beyond
the bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.due_band import DueBand
from lycosa.stages.frontier.front_queues import FRONT_KEY, FrontQueues
from lycosa.stages.frontier.turn_shares import SharedTurns
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay

BANDS = 4


def host8(number: int) -> bytes:
    return number.to_bytes(8, "big")


class CountedStore(MemoryKeyValue):
    """A store that counts the rows it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def get(self, key: bytes) -> bytes | None:
        self.read += 1
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.read += len(keys)
        return super().get_many(keys)

    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[tuple[bytes, bytes]]:
        rows = list(super().scan(start, end, limit))
        self.read += len(rows)
        return iter(rows)


def restarted(store: MemoryKeyValue, table: Overlay) -> FrontQueues:
    """After a commit."""
    store.write(table.freeze())
    table.settle()
    return FrontQueues(Overlay(store) if isinstance(store, CountedStore) else table, BANDS)


def test_hosts_of_one_band_come_in_order() -> None:
    queues = FrontQueues(Overlay(MemoryKeyValue()), BANDS)
    for number in range(10):
        queues.push_host(host8(number), 2)
    assert queues.pull_hosts(4) + queues.pull_hosts(10) == [host8(number) for number in range(10)]
    assert len(queues) == 0 and queues.pull_hosts(1) == []


def test_a_better_band_has_more_turns_and_no_band_starves() -> None:
    queues = FrontQueues(Overlay(MemoryKeyValue()), BANDS)
    for band in range(BANDS):
        for number in range(100):
            queues.push_host(host8(band * 1000 + number), band)
    pulled = [
        int.from_bytes(each, "big") // 1000 for _ in range(16) for each in queues.pull_hosts(1)
    ]
    assert [pulled.count(band) for band in range(BANDS)] == [9, 4, 2, 1]


@given(
    st.lists(st.integers(0, 12), min_size=BANDS, max_size=BANDS),
    st.integers(0, BANDS - 1),
    st.integers(1, 5),
    st.integers(0, 40),
)
@settings(deadline=None, max_examples=200)
def test_the_head_of_a_band_waits_at_most_two_to_the_band_plus_one_turns(
    counts: list[int], band: int, want: int, turns: int
) -> None:
    """However full the better bands are kept, and at whatever turn it comes to the head."""
    queues = FrontQueues(Overlay(MemoryKeyValue()), BANDS)
    for _ in range(turns):
        queues.push_host(host8(1), 0)
    while queues.pull_hosts(1):
        pass
    marked = host8(999)
    queues.push_host(marked, band)
    for at, count in enumerate(counts):
        for _ in range(count if at != band else 0):
            queues.push_host(host8(at), at)
    waited = 0
    while True:
        for at in range(band):
            queues.push_host(host8(at), at)
        pulled = queues.pull_hosts(want)
        if marked in pulled:
            break
        waited += len(pulled)
        assert waited < 2 ** (band + 1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["push", "pull", "remove", "restart"]), st.integers(0, BANDS - 1)
        ),
        max_size=60,
    )
)
@settings(deadline=None, max_examples=200)
def test_no_host_is_lost_or_pulled_twice_also_over_restarts(steps: list[tuple[str, int]]) -> None:
    """Entries of pulled hosts stay until they are removed, so that a restart finds the hosts
    again.
    """
    store = MemoryKeyValue()
    table = Overlay(store)
    queues = FrontQueues(table, BANDS)
    waiting: dict[bytes, tuple[int, int]] = {}
    pulled: dict[bytes, tuple[int, int]] = {}
    met = 0
    for step, argument in steps:
        if step == "push":
            waiting[host8(met)] = queues.push_host(host8(met), argument)
            met += 1
        elif step == "pull":
            for each in queues.pull_hosts(argument + 1):
                pulled[each] = waiting.pop(each)
        elif step == "remove":
            which = waiting if argument % 2 and waiting else pulled
            if which:
                queues.remove_host(which.pop(next(iter(which))))
        else:
            if argument % 2:
                # without it the rows are counted, as in a table from before anything was saved
                queues.save()
            elif table.get(FRONT_KEY) is not None:
                table.delete(FRONT_KEY)
            queues = restarted(store, table)
            waiting |= pulled
            pulled.clear()
        assert len(queues) == len(waiting)
    rest = queues.pull_hosts(1000)
    assert sorted(rest) == sorted(waiting)
    assert queues.pull_hosts(1000) == [] and len(queues) == 0


# -- many hosts

MANY = 5000


def test_only_heads_are_in_memory_and_a_start_reads_one_row() -> None:
    store = CountedStore()
    queues = FrontQueues(table := Overlay(store), BANDS)
    for number in range(MANY):
        queues.push_host(host8(number), number % BANDS)
    assert queues.in_memory <= 64 * BANDS
    queues.save()
    store.read = 0
    again = restarted(store, table)
    assert (store.read, again.in_memory, len(again)) == (1, 0, MANY)
    assert len(again.pull_hosts(10)) == 10
    assert again.in_memory <= 64 * BANDS + 10
    assert len(again.pull_hosts(MANY)) == MANY - 10


def test_who_stayed_long_on_the_workbench_is_found_first_after_a_restart_and_the_hole_behind_is_passed_over() -> (
    None
):
    store = CountedStore()
    queues = FrontQueues(table := Overlay(store), BANDS)
    places = [queues.push_host(host8(number), 1) for number in range(MANY)]
    queues.pull_hosts(MANY - 100)
    for place in places[1 : MANY - 100]:
        queues.remove_host(place)
    assert queues.in_memory <= 64 + 1
    queues.save()
    again = restarted(store, table)
    assert len(again) == 101
    store.read = 0
    assert again.pull_hosts(2) == [host8(0), host8(MANY - 100)]
    assert store.read < 1000, "not a read for each of those who left"
    assert len(again.pull_hosts(MANY)) == 99


def test_rows_that_are_missing_are_not_waited_for() -> None:
    store = MemoryKeyValue()
    queues = FrontQueues(table := Overlay(store), BANDS)
    places = [queues.push_host(host8(number), 2) for number in range(3)]
    queues.save()
    queues = restarted(store, table)
    table.delete(b"F" + bytes([places[2][0]]) + places[2][1].to_bytes(6, "big"))
    assert queues.pull_hosts(5) == [host8(0), host8(1)]
    assert len(queues) == 0


# -- the bound

_STEP = st.tuples(
    st.sampled_from(["push", "push", "push", "pull", "move", "leave"]),
    st.integers(0, BANDS - 1),
    st.integers(0, 50),
)


@given(st.lists(_STEP, max_size=120))
@settings(deadline=None, max_examples=300)
def test_every_host_is_attended_within_the_turns_of_its_place_also_when_it_moves(
    steps: list[tuple[str, int, int]],
) -> None:
    """Places are counted from the head of the band; whoever comes later, into whichever band,
    changes nothing for those who wait.
    """
    queues = FrontQueues(Overlay(MemoryKeyValue()), BANDS)
    places: dict[bytes, tuple[int, int]] = {}
    latest: dict[bytes, int] = {}
    turns = met = 0

    def push(host: bytes, band: int) -> int:
        first = min((seq for at, seq in places.values() if at == band), default=None)
        places[host] = queues.push_host(host, band)
        place = places[host][1] - (first if first is not None else places[host][1]) + 1
        return turns + place * 2 ** (band + 1)

    for step, band, number in steps:
        which = list(places)[number % len(places)] if places else b""
        if step == "push":
            latest[host8(met)] = push(host8(met), band)
            met += 1
        elif step == "move" and which and queues.is_better(band, places[which]):
            queues.remove_host(places.pop(which))
            push(which, band)  # and what it was promised where it stood holds
        elif step == "leave" and which:
            queues.remove_host(places.pop(which))
        elif step == "pull":
            for host in queues.pull_hosts(number):
                turns += 1
                assert turns <= latest[host]
                queues.remove_host(places.pop(host))
    while places:
        (host,) = queues.pull_hosts(1)
        turns += 1
        assert turns <= latest[host]
        queues.remove_host(places.pop(host))


_KINDS = [*range(BANDS), *(int(band) for band in DueBand)]
_STEP_OF_KINDS = st.tuples(
    st.sampled_from(["push", "push", "push", "pull", "move", "leave"]),
    st.sampled_from(_KINDS),
    st.integers(0, 50),
)


@given(st.lists(_STEP_OF_KINDS, max_size=120), st.integers(1, 99))
@settings(deadline=None, max_examples=300)
def test_hosts_of_both_kinds_are_attended_within_the_turns_of_their_places(
    steps: list[tuple[str, int, int]], hundredths: int
) -> None:
    share = SharedTurns(hundredths / 100)
    queues = FrontQueues(Overlay(MemoryKeyValue()), BANDS, share=share)
    places: dict[bytes, tuple[int, int]] = {}
    latest: dict[bytes, int] = {}
    turns = met = 0

    def push(host: bytes, band: int) -> int:
        first = min((seq for at, seq in places.values() if at == band), default=None)
        places[host] = queues.push_host(host, band)
        place = places[host][1] - (first if first is not None else places[host][1]) + 1
        is_due = band >= DueBand.FOURFOLD
        own = place * 2 ** (band - DueBand.FOURFOLD + 1 if is_due else band + 1)
        of_kind = hundredths if is_due else 100 - hundredths
        return turns + -(-own * 100 // of_kind)

    for step, band, number in steps:
        which = list(places)[number % len(places)] if places else b""
        if step == "push":
            latest[host8(met)] = push(host8(met), band)
            met += 1
        elif step == "move" and which and queues.is_better(band, places[which]):
            queues.remove_host(places.pop(which))
            push(which, band)
        elif step == "leave" and which:
            queues.remove_host(places.pop(which))
        elif step == "pull":
            for host in queues.pull_hosts(number):
                turns += 1
                assert turns <= latest[host]
                queues.remove_host(places.pop(host))
    while places:
        (host,) = queues.pull_hosts(1)
        turns += 1
        assert turns <= latest[host]
        queues.remove_host(places.pop(host))


@given(st.integers(1, 99), st.integers(1, 150))
@settings(deadline=None, max_examples=60)
def test_hosts_with_due_pages_have_their_share_of_the_turns(hundredths: int, turns: int) -> None:
    queues = FrontQueues(Overlay(MemoryKeyValue()), BANDS, share=SharedTurns(hundredths / 100))
    for number in range(200):
        queues.push_host(host8(number), number % BANDS)
        queues.push_host(host8(1000 + number), DueBand.DUE)
    due = sum(int.from_bytes(each, "big") >= 1000 for each in queues.pull_hosts(turns))
    assert turns * hundredths // 100 <= due <= -(-turns * hundredths // 100)


def test_a_table_of_a_program_without_due_pages_is_read_and_one_without_any_is_as_before() -> None:
    store = MemoryKeyValue()
    queues = FrontQueues(table := Overlay(store), BANDS)
    queues.push_host(host8(1), 2)
    queues.save()
    ranges = table.get(FRONT_KEY)
    assert ranges is not None and len(msgspec.msgpack.decode(ranges)) == BANDS
    again = restarted(store, table)
    again.push_host(host8(2), DueBand.TWOFOLD)
    again.save()
    last = restarted(store, table)
    assert last.waiting_by_band() == {0: 0, 1: 0, 2: 1, 3: 0, DueBand.TWOFOLD: 1}
    assert sorted(last.pull_hosts(3)) == [host8(1), host8(2)]


def test_a_host_moves_up_only_where_it_is_promised_no_more_turns() -> None:
    queues = FrontQueues(Overlay(MemoryKeyValue()), BANDS)
    for number in range(3):
        queues.push_host(host8(number), 0)
    near, far = queues.push_host(host8(100), 3), queues.push_host(host8(101), 3)
    assert queues.is_better(0, near), "the seventh turn from now, or the eighth"
    queues.push_host(host8(3), 0)
    assert not queues.is_better(0, near) and queues.is_better(0, far)
    assert not queues.is_better(3, far) and not queues.is_better(3, (0, 0))
