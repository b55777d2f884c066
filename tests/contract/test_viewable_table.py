"""A table that is frozen stays as it was, whatever is written and on whatever thread; on RocksDB
and in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.state.kv.kv_port import KeyValue, TableError
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.rocks import RocksKeyValue
from lycosa.state.kv.viewable_table import FrozenTable, ViewableTable

TABLES: dict[str, Callable[[Path], KeyValue]] = {
    "rocks": RocksKeyValue,
    "memory": lambda folder: MemoryKeyValue(),
}
KEYS = [b"%c%d" % (letter, number) for letter in b"ab" for number in range(4)]
BATCHES = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=2)), max_size=5)


@pytest.fixture(params=sorted(TABLES))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ViewableTable]:
    table = ViewableTable(TABLES[request.param](tmp_path / "table"))
    yield table
    table.close()


def content(table: FrozenTable) -> dict[bytes, bytes]:
    found = dict(table.scan(b"", b"\xff"))
    assert {key: value for key in KEYS if (value := table.get(key)) is not None} == found
    assert list(table.scan(b"a1", b"b2")) == sorted(
        (key, value) for key, value in found.items() if b"a1" <= key < b"b2"
    )
    return found


def test_what_is_written_later_is_not_seen(table: ViewableTable) -> None:
    table.write({b"a1": b"1", b"a2": b"1"})
    frozen = table.freeze()
    table.write({b"a1": b"2", b"a2": None, b"a3": b"2"})
    table.write({b"a1": b"3", b"a2": b"3"})
    assert content(frozen) == {b"a1": b"1", b"a2": b"1"}
    assert table.get_many([b"a1", b"a2", b"a3"]) == [b"3", b"3", b"2"]
    assert list(table.scan(b"a", b"b", 2)) == [(b"a1", b"3"), (b"a2", b"3")]
    frozen.close()
    frozen.close()


def test_a_scan_begun_before_a_write_goes_on_as_it_began(table: ViewableTable) -> None:
    table.write(dict.fromkeys(KEYS, b"1"))
    frozen = table.freeze()
    table.write({b"a0": b"2"})
    scan = frozen.scan(b"", b"\xff")
    first = next(scan)
    table.write(dict.fromkeys(KEYS, b"3"))
    assert [first, *scan] == [(key, b"1") for key in KEYS]
    frozen.close()


def test_nothing_is_kept_for_a_view_that_was_closed(table: ViewableTable) -> None:
    frozen = table.freeze()
    frozen.close()
    table.write({b"a1": b"1"})
    assert "kept=0" in repr(frozen)
    assert "frozen=0" in repr(table)


def test_a_closed_table_is_not_read_through_what_was_frozen(table: ViewableTable) -> None:
    frozen = table.freeze()
    table.close()
    with pytest.raises(TableError):
        frozen.get(b"a1")


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(BATCHES | st.sampled_from(["freeze", "close"]), max_size=25),
    kind=st.sampled_from(sorted(TABLES)),
)
def test_every_frozen_table_is_as_it_was(
    steps: list[list[tuple[bytes, bytes | None]] | str],
    kind: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    table = ViewableTable(TABLES[kind](tmp_path_factory.mktemp("table") / "table"))
    now: dict[bytes, bytes] = {}
    views: list[tuple[FrozenTable, dict[bytes, bytes]]] = []
    for step in steps:
        if step == "freeze":
            views.append((table.freeze(), dict(now)))
        elif step == "close":
            if views:
                views.pop(0)[0].close()
        elif not isinstance(step, str):
            table.write(step)
            now.update({key: value for key, value in dict(step).items() if value is not None})
            for key in [key for key, value in dict(step).items() if value is None]:
                now.pop(key, None)
        for frozen, then in views:
            assert content(frozen) == then
    table.close()


def test_a_reader_on_another_thread_sees_one_commit_whole(tmp_path: Path) -> None:
    table = ViewableTable(RocksKeyValue(tmp_path / "table"))
    keys = [b"%04d" % number for number in range(500)]
    table.write(dict.fromkeys(keys, b"0"))
    is_over, failed = threading.Event(), list[BaseException]()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            table.write(
                dict.fromkeys(keys[number % 7 :: 1 + number % 3], b"%d" % number)
                | {
                    keys[0]: b"%d" % number,
                    keys[-1]: b"%d" % number,
                }
            )

    def read() -> None:
        try:
            for _ in range(40):
                frozen = table.freeze()
                first = dict(frozen.scan(b"", b"\xff"))
                assert first[keys[0]] == first[keys[-1]]
                assert [frozen.get(key) for key in keys] == [first[key] for key in keys]
                assert dict(frozen.scan(b"", b"\xff")) == first
                frozen.close()
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in [writer, *readers]:
        thread.start()
    for thread in readers:
        thread.join()
    is_over.set()
    writer.join()
    table.close()
    assert failed == []
