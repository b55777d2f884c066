"""A host's back queue against an obvious model: nothing lost, nothing twice, first in first out,
also over crashes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.due_band import DueBand
from lycosa.stages.frontier.back_queue import ROW_URLS, BackQueue, Lane, QueueEntry
from lycosa.stages.frontier.turn_shares import SharedTurns
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import PARKED_BAND, queue_key, row_urls

HOST8 = b"hosthost"
BANDS = 3
_HALF = SharedTurns(0.5)


def url8(number: int) -> bytes:
    return number.to_bytes(8, "big")


def reopened(queue: BackQueue, table: Overlay, head: int) -> BackQueue:
    """The queue as the next process finds it: rows and lanes as they would be written now."""
    queue.save(table)
    lanes = msgspec.msgpack.decode(msgspec.msgpack.encode(queue.lanes), type=dict[int, Lane])
    return BackQueue(HOST8, lanes, head)


def drained(queue: BackQueue, table: Overlay) -> list[QueueEntry]:
    entries = []
    while (entry := queue.pop(table, BANDS)) is not None:
        entries.append(entry)
    return entries


def test_the_best_band_is_emptied_first_and_each_band_in_order() -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 2)
    for number, band in enumerate((2, 0, 1, 0, 2, 0)):
        queue.push(band, url8(number))
    assert [int.from_bytes(entry.url8, "big") for entry in drained(queue, table)] == [
        1,
        3,
        5,
        2,
        0,
        4,
    ]


def test_only_the_head_is_in_memory() -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 4)
    for number in range(100):
        queue.push(0, url8(number))
        assert queue.in_memory <= 4
    assert len(drained(queue, table)) == 100


class _Counting(MemoryKeyValue):
    """Counts the keys that are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.asked += len(keys)
        return super().get_many(keys)


def test_rows_that_were_read_ahead_are_not_read_again() -> None:
    store = _Counting()
    table, queue = Overlay(store), BackQueue(HOST8, {}, 4)
    for number in range(300):
        queue.push(0, url8(number))
    again = reopened(queue, table, 40)
    store.write(table.freeze())
    table.settle()
    wanted = again.rows_wanted()
    assert len(wanted) == 8
    again.supply_rows({**table.pending(wanted), **table.committed(wanted)})
    store.asked = 0
    first = [entry for _ in range(100) if (entry := again.pop(table, BANDS)) is not None]
    assert len(first) == 100 and store.asked == 0
    assert [entry.url8 for entry in (*first, *drained(again, table))] == [
        url8(number) for number in range(300)
    ]


def test_few_rows_are_not_worth_a_thread() -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 4)
    for number in range(30):
        queue.push(0, url8(number))
    again = reopened(queue, table, 40)
    assert again.rows_wanted() == []
    assert len(drained(again, table)) == 30


def test_an_entry_stays_in_the_table_until_its_lease_ends() -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 4)
    queue.push(0, url8(1))
    entry = queue.pop(table, BANDS)
    assert entry is not None and queue.open_leases == 1
    assert [again.url8 for again in drained(reopened(queue, table, 4), table)] == [url8(1)]
    queue.finish_entry(entry)
    assert queue.open_leases == 0
    assert not drained(reopened(queue, table, 4), table)


def test_what_was_given_back_comes_first_again_though_later_ones_are_open() -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 4)
    for number in range(3):
        queue.push(0, url8(number))
    first, second = queue.pop(table, BANDS), queue.pop(table, BANDS)
    assert first is not None and second is not None
    queue.restore_entry(first)
    assert [entry.url8 for entry in drained(reopened(queue, table, 4), table)] == [
        url8(0),
        url8(1),
        url8(2),
    ]
    assert [entry.url8 for entry in drained(queue, table)] == [url8(0), url8(2)]


def test_urls_of_one_commit_share_rows_and_a_row_is_written_with_what_is_left_of_it() -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 100)
    for number in range(ROW_URLS + 2):
        queue.push(0, url8(number))
    queue.save(table)
    queue.push(0, url8(99))
    queue.save(table)
    rows = [row_urls(value) for _, value in table.scan(b"Q", b"R")]
    assert [len(row) for row in rows] == [ROW_URLS, 2, 1]
    for _ in range(ROW_URLS + 1):
        entry = queue.pop(table, BANDS)
        assert entry is not None
        queue.finish_entry(entry)
    queue.save(table)
    assert [row_urls(value) for _, value in table.scan(b"Q", b"R")] == [
        [url8(ROW_URLS + 1)],
        [url8(99)],
    ]
    assert queue.lanes[0].cursor == 1


def test_a_row_of_one_url_as_earlier_versions_wrote_them_is_read() -> None:
    table = Overlay(MemoryKeyValue())
    for number in range(20):
        table.put(queue_key(HOST8, 0, number), url8(number))
    queue = BackQueue(HOST8, {0: Lane(0, 20)}, 6)
    assert [entry.url8 for entry in drained(queue, table)] == [url8(number) for number in range(20)]


def test_the_parked_band_is_popped_only_by_name() -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 4)
    queue.push(PARKED_BAND, url8(1))
    assert queue.pop(table, BANDS) is None
    entry = queue.pop_band(table, PARKED_BAND)
    assert entry is not None and entry.url8 == url8(1)


# -- due pages

DUE = [int(band) for band in DueBand]


def kinds_popped(queue: BackQueue, table: Overlay, turns: int, share: SharedTurns) -> list[int]:
    """The bands of the next entries, each of which is finished."""
    bands = []
    for _ in range(turns):
        entry = queue.pop(table, BANDS, share)
        assert entry is not None
        queue.finish_entry(entry)
        bands.append(entry.band)
    return bands


@given(st.integers(1, 99), st.integers(0, 30), st.integers(1, 120))
@settings(deadline=None, max_examples=60)
def test_new_and_due_pages_have_their_shares_of_any_turns_in_a_row(
    hundredths: int, skipped: int, turns: int
) -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 50)
    for number in range(200):
        queue.push(1, url8(number))
        queue.push(DueBand.DUE, url8(1000 + number))
    share = SharedTurns(hundredths / 100)
    kinds_popped(queue, table, skipped, share)
    due = kinds_popped(queue, table, turns, share).count(DueBand.DUE)
    assert turns * hundredths // 100 <= due <= -(-turns * hundredths // 100)


def test_a_kind_that_waits_alone_has_all_turns_and_owes_none() -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 50)
    for number in range(60):
        queue.push(DueBand.TWOFOLD, url8(number))
    assert set(kinds_popped(queue, table, 40, _HALF)) == {DueBand.TWOFOLD}
    for number in range(20):
        queue.push(0, url8(1000 + number))
    assert kinds_popped(queue, table, 20, _HALF).count(0) == 10


def test_the_turns_continue_where_they_were_after_a_restart() -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 50)
    for number in range(200):
        queue.push(0, url8(number))
        for band in DUE:
            queue.push(band, url8(1000 * band + number))
    bands = []
    for _ in range(160):
        bands += kinds_popped(queue, table, 1, SharedTurns(0.25))
        queue.save(table)
        lanes = msgspec.msgpack.decode(msgspec.msgpack.encode(queue.lanes), type=dict[int, Lane])
        queue = BackQueue(HOST8, lanes, 50, queue.turn, queue.due_turn)
    assert bands.count(0) == 120
    # of 40 turns: 2 of probes, and of 38 a half, a quarter, an eighth, and the rest to the best
    assert [bands.count(band) for band in DUE] == [23, 10, 5, 2]


@given(
    st.lists(st.integers(0, 6), min_size=4, max_size=4), st.sampled_from(DUE), st.integers(0, 40)
)
@settings(deadline=None, max_examples=100)
def test_no_due_page_waits_longer_than_its_band_says(
    counts: list[int], band: int, skipped: int
) -> None:
    """However full the other bands are kept, and at whatever turn it comes."""
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 20)
    number = 0

    def fill(bands: Sequence[int]) -> None:
        nonlocal number
        for each in bands:
            number += 1
            queue.push(each, url8(number))

    fill([DueBand.FOURFOLD] * skipped)
    fill([DueBand.PROBE] * skipped)
    kinds_popped(queue, table, skipped, _HALF)
    fill([each for each, many in zip(DUE, counts, strict=True) for _ in range(many)])
    marked = url8(10**9)
    # all that waits in its band comes before it
    place = 1 + sum(len(row_urls(row)) for key, row in _rows(queue, table) if key[9] == band)
    queue.push(band, marked)
    if band == DueBand.PROBE:
        bound = 20 * place
    else:
        # turns of probes are not among those of the others: one in twenty
        turns = place * 2 ** (DUE.index(band) + 1)
        bound = turns + turns // 19 + 1
    waited = 0
    while True:
        fill(DUE)  # all others are never empty
        entry = queue.pop(table, BANDS, _HALF)
        assert entry is not None
        queue.finish_entry(entry)
        waited += 1
        if entry.url8 == marked:
            break
        assert waited < bound


@given(st.lists(st.sampled_from([1, *DUE]), min_size=2, max_size=30), st.integers(1, 10))
@settings(deadline=None, max_examples=60)
def test_entries_that_are_given_back_are_the_next_in_their_order(
    bands: list[int], number: int
) -> None:
    """So a look at what a visit would request changes nothing of it."""
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, 50)
    for at, band in enumerate(bands):
        queue.push(band, url8(at))
    looked = [entry for _ in range(number) if (entry := queue.pop(table, BANDS, _HALF))]
    for entry in looked:
        queue.restore_entry(entry)
    assert queue.open_leases == 0
    assert drained(queue, table)[: len(looked)] == looked


def _rows(queue: BackQueue, table: Overlay) -> list[tuple[bytes, bytes]]:
    queue.save(table)
    return list(table.scan(b"Q", b"R"))


operations = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, BANDS - 1)),
        st.tuples(st.just("pop"), st.just(0)),
        st.tuples(st.just("finish"), st.integers(0, 9)),
        st.tuples(st.just("restore"), st.integers(0, 9)),
        st.tuples(st.just("save"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    max_size=60,
)


@given(operations, st.integers(1, 5))
@settings(deadline=None, max_examples=300)
def test_no_url_is_lost_or_given_twice_whatever_happens(
    steps: list[tuple[str, int]], head: int
) -> None:
    table, queue = Overlay(MemoryKeyValue()), BackQueue(HOST8, {}, head)
    # numbers in the order of their places
    waiting: dict[int, list[int]] = {band: [] for band in range(BANDS)}
    leased: list[tuple[QueueEntry, int]] = []
    pushed = 0
    for step, argument in steps:
        if step == "push":
            queue.push(argument, url8(pushed))
            waiting[argument].append(pushed)
            pushed += 1
        elif step == "pop":
            entry = queue.pop(table, BANDS)
            best = next((band for band in range(BANDS) if waiting[band]), None)
            assert (entry is None) == (best is None)
            if entry is not None and best is not None:
                number = waiting[best].pop(0)
                assert (entry.band, entry.url8) == (best, url8(number))
                leased.append((entry, number))
        elif step == "finish" and leased:
            entry, number = leased.pop(argument % len(leased))
            queue.finish_entry(entry)
        elif step == "restore" and leased:
            entry, number = leased.pop(argument % len(leased))
            queue.restore_entry(entry)
            waiting[entry.band] = sorted([*waiting[entry.band], number])
        elif step == "save":
            queue.save(table)
        elif step == "crash":
            queue = reopened(queue, table, head)
            for entry, number in leased:
                waiting[entry.band] = sorted([*waiting[entry.band], number])
            leased.clear()
        assert queue.open_leases == len(leased)
        assert queue.in_memory <= BANDS * head + len(steps)
    rest = [(entry.band, int.from_bytes(entry.url8, "big")) for entry in drained(queue, table)]
    assert rest == [(band, number) for band in range(BANDS) for number in waiting[band]]
