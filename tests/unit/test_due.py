"""What is due at a time: taken in order, once, and never looked for before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.stages.frontier.due import DueQueue
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import due_urls


def suffix(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_nothing_is_due_before_its_second() -> None:
    queue = DueQueue(Overlay(MemoryKeyValue()), b"D")
    queue.add_due(100, suffix(1))
    assert queue.take_due(99.9, 10) == []
    assert queue.take_due(100.0, 10) == [suffix(1)]
    assert queue.take_due(1000.0, 10) == []


def test_a_limit_leaves_the_rest_for_the_next_time() -> None:
    queue = DueQueue(Overlay(MemoryKeyValue()), b"D")
    for number in range(5):
        queue.add_due(100 - number, suffix(number))
    assert queue.take_due(200.0, 3) == [suffix(4), suffix(3), suffix(2)]
    assert queue.earliest == 99
    assert queue.take_due(200.0, 3) == [suffix(1), suffix(0)]


def test_two_prefixes_do_not_see_each_other() -> None:
    table = Overlay(MemoryKeyValue())
    retries, parked = DueQueue(table, b"D"), DueQueue(table, b"P")
    retries.add_due(1, suffix(1))
    parked.add_due(2, suffix(2)[:8])
    assert retries.take_due(10.0, 10) == [suffix(1)]
    assert parked.take_due(10.0, 10) == [suffix(2)[:8]]


def test_times_beyond_the_range_are_cut() -> None:
    queue = DueQueue(Overlay(MemoryKeyValue()), b"D")
    queue.add_due(-5, suffix(1))
    queue.add_due(2**40, suffix(2))
    assert queue.take_due(0.0, 10) == [suffix(1)]
    assert queue.take_due(float(2**32 - 2), 10) == [suffix(2)]


def test_what_is_due_in_the_same_second_shares_rows_and_a_row_is_taken_whole() -> None:
    table = Overlay(MemoryKeyValue())
    queue = DueQueue(table, b"D", 4)
    for number in range(6):
        queue.add_due(100, suffix(number))
    queue.save()
    rows = list(table.scan(b"D", b"E"))
    assert [due_urls(key, row) for key, row in rows] == [
        [suffix(n) for n in range(4)],
        [suffix(4), suffix(5)],
    ]
    assert queue.take_due(100.0, 3) == [suffix(n) for n in range(4)]
    assert queue.take_due(100.0, 3) == [suffix(4), suffix(5)]


def test_a_row_of_an_earlier_commit_that_begins_with_the_same_url_loses_none() -> None:
    queue = DueQueue(Overlay(MemoryKeyValue()), b"D", 4)
    for batch in ([1, 2], [1, 3]):
        for number in batch:
            queue.add_due(100, suffix(number))
        queue.save()
    assert set(queue.take_due(100.0, 10)) == {suffix(1), suffix(2), suffix(3)}


steps = st.lists(
    st.tuples(st.sampled_from(["add", "take", "reopen"]), st.integers(0, 30)), max_size=50
)


@given(steps)
@settings(deadline=None, max_examples=200)
def test_everything_is_taken_once_when_it_is_due_also_over_restarts(
    operations: list[tuple[str, int]],
) -> None:
    store = MemoryKeyValue()
    table = Overlay(store)
    queue = DueQueue(table, b"D", 3)
    waiting: dict[bytes, int] = {}
    now = made = 0
    for step, argument in operations:
        if step == "add":
            queue.add_due(now + argument, suffix(made))
            waiting[suffix(made)] = now + argument
            made += 1
        elif step == "take":
            now += argument
            taken = queue.take_due(float(now), 1000)
            assert sorted(taken) == sorted(each for each, due in waiting.items() if due <= now)
            assert [waiting[each] for each in taken] == sorted(waiting[each] for each in taken)
            waiting = {each: due for each, due in waiting.items() if due > now}
        elif step == "reopen":
            queue.save()
            store.write(table.freeze())
            table.settle()
            queue = DueQueue(table, b"D", 3)
        assert not waiting or queue.earliest <= min(waiting.values())
