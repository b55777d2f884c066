"""Reading a crawl's state beside its owner: whole commits, in order, and nothing written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import Sites, hash8, partition_of
from lycosa.inspect.committed_state import read_folder
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.state.commit import Commit, CommitLog, Mark, PartitionBatch, marked
from lycosa.state.folder import manifest as manifests
from lycosa.state.kv.kv_port import TableDamaged
from lycosa.state.kv.merged_table import MergedTable
from lycosa.state.kv.read_only import ReadOnlyTable, shared_cache
from lycosa.state.kv.rocks import RocksKeyValue
from lycosa.state.kv.table_records import UrlRecord, encode_record, host_key, url_key

HOST = "example.org"


class Crawl:
    """A crawl folder with one partition in use, as an owner leaves it: log first, table second."""

    def __init__(self, folder: Path, partitions: int = 1) -> None:
        identity = manifests.Identity(
            partitions=partitions, bands=8, canonical={}, canonical_version=1, suffixes=""
        )
        manifests.create_crawl(folder, identity, "test", 1.0)
        self.folder = folder
        self.log = CommitLog(folder / "log", 0, file_bytes=100)
        self.number = partition_of(Sites().site_of(HOST), partitions)
        self.table = RocksKeyValue(folder / "state" / f"p{self.number:05d}")

    def commit(self, writes: list[tuple[bytes, bytes | None]], apply: bool = True) -> None:
        batch = PartitionBatch(self.number, writes)
        record = Commit(
            term=1,
            sequence=self.log.next_sequence,
            wall=1000.0 + self.log.next_sequence,
            batches=[batch],
        )
        self.log.append(record)
        if apply:
            self.table.write(marked(batch, record.mark, 0))

    def flush(self, drop: bool = False) -> None:
        self.table.flush()
        if drop and self.log.last:
            self.log.drop_until(self.log.last.sequence)

    def close(self) -> None:
        self.log.close()
        self.table.close()


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Crawl]:
    made = Crawl(tmp_path / "crawl")
    yield made
    made.close()


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def pairs(folder: Path) -> dict[bytes, bytes]:
    """All but the meta data; the same whether the tables' marks are asked for first or not."""
    found = []
    for keep_bytes in (0, 1 << 20):
        with read_folder(folder, keep_bytes).partition_view(0) as view:
            found.append(
                {key: value for key, value in view.scan(b"\0", b"\xff") if key[:1] != b"M"}
            )
    assert found[0] == found[1]
    return found[0]


def test_what_the_owner_has_not_flushed_is_read_from_the_log(crawl: Crawl) -> None:
    crawl.commit([(b"a", b"1"), (b"b", b"1")])
    crawl.flush()
    crawl.commit([(b"a", b"2"), (b"d", b"2")])
    crawl.commit([(b"b", None)], apply=False)
    assert pairs(crawl.folder) == {b"a": b"2", b"d": b"2"}


def test_what_the_log_has_dropped_is_in_the_table(crawl: Crawl) -> None:
    for number in range(20):
        crawl.commit([(b"%02d" % number, b"x" * 50)])
    crawl.flush(drop=True)
    crawl.commit([(b"last", b"y")])
    assert len(pairs(crawl.folder)) == 21


def test_a_reader_made_before_a_flush_never_takes_a_view_back(crawl: Crawl) -> None:
    crawl.commit([(b"a", b"1")])
    reader = read_folder(crawl.folder)
    crawl.commit([(b"a", b"2")])
    crawl.flush(drop=True)
    with reader.partition_view(0) as view:
        assert view.get(b"a") == b"2"
        assert view.mark == Mark(1, 2)


def test_reading_writes_nothing_into_the_folder(crawl: Crawl) -> None:
    crawl.commit([(b"a", b"1")])
    crawl.flush()
    before = content(crawl.folder)
    assert pairs(crawl.folder) == {b"a": b"1"}
    assert content(crawl.folder) == before


def test_a_view_stays_readable_while_its_owner_replaces_files(crawl: Crawl) -> None:
    for number in range(6):
        crawl.commit([(b"k%d" % key, b"%d" % number) for key in range(50)])
        crawl.flush()
    with read_folder(crawl.folder).partition_view(0) as view:
        crawl.table._db.compact_range(None, None)
        assert {value for key, value in view.scan(b"k", b"l")} == {b"5"}


def test_a_partition_without_a_table_is_read_from_the_log_alone(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path)
    crawl.close()
    for path in crawl.table._folder.iterdir():
        path.unlink()
    crawl.table._folder.rmdir()
    log = CommitLog(tmp_path / "log", 0)
    log.append(Commit(term=1, sequence=1, wall=5.0, batches=[PartitionBatch(0, [(b"a", b"1")])]))
    log.close()
    assert pairs(tmp_path) == {b"a": b"1"}


def test_a_damaged_table_is_reported(tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_bytes(b"MANIFEST-000009\n")
    with pytest.raises(TableDamaged, match="cannot be read"):
        ReadOnlyTable(tmp_path, shared_cache())


def test_a_url_is_found_with_its_host(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, partitions=16)
    url = f"https://{HOST}/a?b"
    record = UrlRecord(UrlState.QUEUED, True, "/a?b", 1, 100, LinkKind.A, 7)
    host = VisitRecord(HOST, HostState.PARKED)
    crawl.commit(
        [
            (url_key(hash8(HOST), hash8(url)), encode_record(record)),
            (host_key(hash8(HOST)), encode_record(host)),
        ]
    )
    reader = read_folder(tmp_path)
    found = reader.find_url(url)
    assert found is not None
    assert (found.url, found.record, found.state) == (url, record, UrlState.PARKED)
    assert list(reader.urls()) == [found]
    assert [entry.record.host for entry in reader.hosts()] == [HOST]
    assert reader.find_url(f"https://{HOST}/other") is None
    assert reader.last_commit == 1001.0
    crawl.close()


class _Table:
    """A ``SavedTable`` of a dictionary."""

    def __init__(self, pairs: dict[bytes, bytes]) -> None:
        self._pairs = pairs

    def get(self, key: bytes) -> bytes | None:
        return self._pairs.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(
            sorted((key, value) for key, value in self._pairs.items() if start <= key < end)
        )

    def close(self) -> None:
        """Nothing is held."""


KEYS = st.binary(min_size=1, max_size=2)


@settings(deadline=None)
@given(st.dictionaries(KEYS, KEYS), st.lists(st.tuples(KEYS, st.none() | KEYS)), KEYS, KEYS)
def test_a_merged_scan_is_what_one_dictionary_would_give(
    below: dict[bytes, bytes], writes: list[tuple[bytes, bytes | None]], start: bytes, end: bytes
) -> None:
    view = MergedTable(_Table(below), dict(writes))
    expected = {**below, **dict(writes)}
    assert list(view.scan(start, end)) == sorted(
        (k, v) for k, v in expected.items() if v is not None and start <= k < end
    )


def test_table_files_that_nothing_names_are_damage_and_no_empty_table(crawl: Crawl) -> None:
    crawl.commit([(b"a", b"1")])
    crawl.flush()
    crawl.table.close()
    folder = crawl.folder / "state" / f"p{crawl.number:05d}"
    (folder / "CURRENT").unlink()
    with pytest.raises(TableDamaged, match="no CURRENT file"):
        ReadOnlyTable(folder, shared_cache())
    (folder / "CURRENT").write_bytes(b"MANIFEST-999999\n")
    with pytest.raises(TableDamaged):
        ReadOnlyTable(folder, shared_cache())
