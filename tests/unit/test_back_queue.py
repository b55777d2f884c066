"""A host's back queue against an obvious model: nothing lost, nothing twice, first in first out,
also over crashes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.stages.frontier.back_queue import ROW_URLS, BackQueue, Lane, QueueEntry
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import PARKED_BAND, queue_key, row_urls

HOST8 = b"hosthost"
BANDS = 3


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
