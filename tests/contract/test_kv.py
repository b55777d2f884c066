"""What every key-value store must do; each test runs on RocksDB and on the one in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.state.kv.kv_port import KeyValue, Opener, TableDamaged, TableError, TableLocked
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.state.kv.rocks import RocksKeyValue, SharedCache, rocks_opener

OPENERS: dict[str, Callable[[], Opener]] = {
    "rocks": lambda: rocks_opener(16 << 20, 4 << 20),
    "memory": MemoryTables,
}


@pytest.fixture(params=sorted(OPENERS))
def opener(request: pytest.FixtureRequest) -> Opener:
    return OPENERS[request.param]()


@pytest.fixture
def store(opener: Opener, tmp_path: Path) -> Iterator[KeyValue]:
    store = opener(tmp_path / "kv")
    yield store
    store.close()


def test_an_absent_key_has_no_value(store: KeyValue) -> None:
    assert store.get(b"k") is None
    assert store.get_many([b"k", b"l"]) == [None, None]
    assert store.get_many([]) == []


def test_a_batch_is_read_back_and_its_later_entry_wins(store: KeyValue) -> None:
    store.write(
        [
            (b"a", b"1"),
            (b"b", b"2"),
            (b"a", b"3"),
            (b"c", b"4"),
            (b"c", None),
            (b"d", b""),
            (b"", b"empty"),
        ]
    )
    assert store.get_many([b"a", b"b", b"c", b"d", b""]) == [b"3", b"2", None, b"", b"empty"]


def test_deleting_what_is_not_there_is_harmless(store: KeyValue) -> None:
    store.write([(b"gone", None)])
    store.write([])
    assert list(store.scan(b"", b"\xff")) == []


def test_a_scan_is_in_byte_order_within_its_bounds(store: KeyValue) -> None:
    keys = [b"b\x00", b"b", b"b\xff", b"a\xff\xff", b"c", b"bb"]
    store.write([(key, b"v" + key) for key in keys])
    assert [key for key, _ in store.scan(b"b", b"c")] == [b"b", b"b\x00", b"bb", b"b\xff"]
    assert list(store.scan(b"b", b"c", 2)) == [(b"b", b"vb"), (b"b\x00", b"vb\x00")]
    assert list(store.scan(b"b\x01", b"c", 100)) == [(b"bb", b"vbb"), (b"b\xff", b"vb\xff")]
    assert list(store.scan(b"c", b"b")) == []
    assert list(store.scan(b"b", b"b")) == []


def test_a_scan_sees_nothing_of_what_is_written_after_its_start(store: KeyValue) -> None:
    store.write([(b"%04d" % n, b"old") for n in range(2000)])
    scan = store.scan(b"", b"\xff")
    first = next(scan)
    store.write([(b"%04d" % n, b"new") for n in range(3000)] + [(b"1999", None)])
    rest = list(scan)
    assert [first, *rest] == [(b"%04d" % n, b"old") for n in range(2000)]


def test_a_scan_without_a_limit_gives_every_pair_within_its_bounds(store: KeyValue) -> None:
    def key(group: int, number: int) -> bytes:
        return b"O" + group.to_bytes(4) + number.to_bytes(8)

    store.write([(key(group, number), b"v") for group in range(3) for number in range(300)])
    found = [len(list(store.scan(key(1, 4), b"O" + (2).to_bytes(4)))) for _ in range(20)]
    assert found == [296] * 20


def test_a_long_scan_with_a_limit_stops_there(store: KeyValue) -> None:
    store.write([(b"%05d" % n, b"") for n in range(6000)])
    assert [key for key, _ in store.scan(b"", b"\xff", 5000)] == [b"%05d" % n for n in range(5000)]


def test_a_store_opened_again_has_everything(opener: Opener, tmp_path: Path) -> None:
    store = opener(tmp_path / "kv")
    store.write([(b"%d" % n, b"x" * n) for n in range(100)])
    store.close()
    store.close()
    again = opener(tmp_path / "kv")
    assert again.get_many([b"7", b"99"]) == [b"x" * 7, b"x" * 99]
    again.close()


def test_folders_are_separate_stores(opener: Opener, tmp_path: Path) -> None:
    one, two = opener(tmp_path / "1"), opener(tmp_path / "2")
    one.write([(b"k", b"1")])
    two.write([(b"k", b"2")])
    assert (one.get(b"k"), two.get(b"k")) == (b"1", b"2")
    one.close()
    two.close()


def test_an_open_store_cannot_be_opened_again_but_a_closed_one_can(
    opener: Opener, tmp_path: Path
) -> None:
    store = opener(tmp_path / "kv")
    with pytest.raises(TableLocked):
        opener(tmp_path / "kv")
    store.close()
    opener(tmp_path / "kv").close()


def test_closing_ends_open_scans_and_frees_the_lock(opener: Opener, tmp_path: Path) -> None:
    store = opener(tmp_path / "kv")
    store.write([(b"%05d" % n, b"") for n in range(1000)])
    begun, not_begun = store.scan(b"", b"\xff"), store.scan(b"", b"\xff")
    next(begun)
    store.close()
    opener(tmp_path / "kv").close()
    del begun, not_begun


def test_rocks_scan_says_when_its_store_was_closed(tmp_path: Path) -> None:
    store = RocksKeyValue(tmp_path / "kv")
    store.write([(b"%05d" % n, b"") for n in range(1000)])
    scan = store.scan(b"", b"\xff")
    next(scan)
    store.close()
    with pytest.raises(TableError, match="during a scan"):
        list(scan)


def test_a_closed_store_says_so(opener: Opener, tmp_path: Path) -> None:
    store = opener(tmp_path / "kv")
    store.close()
    for use in (
        lambda: store.get(b"k"),
        lambda: store.write([(b"k", b"v")]),
        lambda: list(store.scan(b"", b"z")),
        store.flush,
    ):
        with pytest.raises(TableError):
            use()


Step = tuple[str, list[tuple[bytes, bytes | None]]]
KEYS = st.binary(max_size=3)
WRITES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=4))), max_size=12)


@pytest.mark.parametrize("name", sorted(OPENERS))
def test_any_history_of_writes_reads_like_a_dictionary(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    opener = OPENERS[name]()

    @settings(deadline=None, max_examples=40)
    @given(batches=st.lists(WRITES, max_size=6), start=KEYS, end=KEYS, limit=st.integers(0, 5))
    def run(
        batches: list[list[tuple[bytes, bytes | None]]], start: bytes, end: bytes, limit: int
    ) -> None:
        folder = tmp_path_factory.mktemp("kv")
        store, expected = opener(folder), dict[bytes, bytes]()
        for number, batch in enumerate(batches):
            store.write(batch)
            for key, value in batch:
                expected.pop(key, None)
                if value is not None:
                    expected[key] = value
            if number % 3 == 1:
                store.flush()
        inside = [(key, expected[key]) for key in sorted(expected) if start <= key < end]
        assert list(store.scan(start, end, limit)) == (inside[:limit] if limit else inside)
        asked = [key for batch in batches for key, _ in batch]
        assert store.get_many(asked) == [expected.get(key) for key in asked]
        assert [store.get(key) for key in asked] == [expected.get(key) for key in asked]
        store.close()

    run()


def test_memory_loses_exactly_what_was_not_flushed_in_a_crash(tmp_path: Path) -> None:
    stores = MemoryTables()
    store = stores(tmp_path)
    store.write([(b"a", b"1"), (b"b", b"1")])
    store.flush()
    store.write([(b"a", b"2"), (b"b", None), (b"c", b"2"), (b"a", b"3")])
    stores.crash()
    again = stores(tmp_path)
    assert list(again.scan(b"", b"z")) == [(b"a", b"1"), (b"b", b"1")]


def test_rocks_is_locked_against_other_processes(tmp_path: Path) -> None:
    store = RocksKeyValue(tmp_path / "kv")
    code = (
        "import sys; from pathlib import Path; from lycosa.state.kv.kv_port import TableLocked; from"
        " lycosa.state.kv.rocks import RocksKeyValue\ntry: RocksKeyValue(Path(sys.argv[1]))\nexcept"
        " TableLocked as error: sys.exit(f'locked: {error}')"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "kv")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert other.returncode == 1
    assert other.stderr.startswith("locked: ")
    store.close()


def _filled(folder: Path) -> list[Path]:
    store = RocksKeyValue(folder)
    store.write([(b"%06d" % n, b"v" * 50) for n in range(20_000)])
    store.close()
    return sorted(folder.glob("*.sst"))


def test_rocks_reports_a_broken_block_instead_of_ending_the_scan(tmp_path: Path) -> None:
    table = _filled(tmp_path / "kv")[0]
    content = bytearray(table.read_bytes())
    content[len(content) // 3] ^= 0xFF
    table.write_bytes(content)
    store = RocksKeyValue(tmp_path / "kv")
    with pytest.raises(TableDamaged):
        list(store.scan(b"", b"\xff"))
    store.close()


@pytest.mark.parametrize("missing", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_rocks_refuses_a_folder_with_a_missing_file(tmp_path: Path, missing: str) -> None:
    _filled(tmp_path / "kv")
    for path in (tmp_path / "kv").glob(missing):
        path.unlink()
    with pytest.raises(TableDamaged):
        RocksKeyValue(tmp_path / "kv")


def test_rocks_stores_share_one_bounded_cache(tmp_path: Path) -> None:
    shared = SharedCache(8 << 20, 2 << 20)
    stores = [RocksKeyValue(tmp_path / str(n), shared) for n in range(4)]
    for store in stores:
        for first in range(0, 40_000, 1000):
            store.write([(b"%08d" % n, b"v" * 60) for n in range(first, first + 1000)])
        assert sum(1 for _ in store.scan(b"", b"\xff")) == 40_000
        # While a memtable is on its way to disk it still counts, so the bound is looked at after
        # the flush.
        store.flush()
        assert shared.snapshot()["cache"] <= 9 << 20
        assert shared.snapshot()["memtables"] <= 3 << 20
    assert "keys" in stores[0].snapshot()
    for store in stores:
        store.close()
