"""Cold files: what is written is read back, the newest counts, and damage is never read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cold_samples import HOST, cold_record, named, write_cold
from lycosa.state.cold.cold_file import encode_file
from lycosa.state.cold.cold_rows import ColdDamaged, cold_files, cold_name, object_key
from lycosa.state.cold.cold_table import ColdTable, open_cold
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.objects.folder import FolderStore


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(str(tmp_path), tmp_path)


def test_records_come_back_byte_for_byte(store: FolderStore) -> None:
    records = sorted((cold_record(number) for number in range(3000)), key=lambda each: each.url)
    table = write_cold(store, records)
    assert [table.get(b"U" + each.url) for each in records[::97]] == [
        each.value for each in records[::97]
    ]
    assert list(table.scan(b"U", b"V")) == [(b"U" + each.url, each.value) for each in records]
    assert table.get(b"U" + bytes(16)) is None
    assert table.get(b"H" + records[0].url[:8]) is None
    assert not table.find_damage()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sets(st.integers(0, 40), min_size=1), min_size=1, max_size=4), st.data())
def test_the_newest_file_counts(
    tmp_path_factory: pytest.TempPathFactory, files: list[set[int]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cold")
    store, rows, expected = FolderStore(str(folder), folder), {}, {}
    for number, numbers in enumerate(files, 1):
        records = sorted(
            (cold_record(each, tries=number) for each in numbers), key=lambda each: each.url
        )
        rows[number] = named(store, records, number)
        expected.update((b"U" + each.url, each.value) for each in records)
    table, keys = ColdTable(store, rows), sorted(expected)
    assert dict(table.scan(b"U", b"V")) == expected
    assert table.get_many(keys) == [expected[key] for key in keys]
    start, end = sorted(data.draw(st.tuples(st.sampled_from(keys), st.sampled_from(keys))))
    assert list(table.scan(start, end)) == [
        (key, expected[key]) for key in keys if start <= key < end
    ]
    hashes = {int.from_bytes(key[9:], "big") for key in keys}
    assert set(np.concatenate(list(table.hashes())).tolist()) == hashes


def test_any_sql_engine_reads_the_columns(store: FolderStore, tmp_path: Path) -> None:
    table = write_cold(store, [cold_record(7)])
    row = pq.read_table(tmp_path / object_key(table.rows[1].name)).to_pylist()[0]
    assert row["url"] == f"https://{HOST}/page/7"
    assert row["state"] == "fetched"
    assert (row["status"], row["fetches"]) == (200, 1)


def test_the_rows_of_a_table_name_the_files(store: FolderStore) -> None:
    table = MemoryKeyValue()
    assert not open_cold(table, store).rows
    write_cold(store, [cold_record(1)], table)
    assert list(cold_files(table)) == [1]
    assert open_cold(table, store).get(b"U" + cold_record(1).url) == cold_record(1).value


@pytest.mark.parametrize("at", [10, -30, -4])
def test_a_changed_byte_is_damage(store: FolderStore, tmp_path: Path, at: int) -> None:
    table = write_cold(store, [cold_record(number) for number in range(1)])
    path = tmp_path / object_key(table.rows[1].name)
    data = bytearray(path.read_bytes())
    data[at] ^= 0x41
    path.write_bytes(data)
    assert list(table.find_damage()) == [1]


def test_a_missing_file_is_damage_that_names_it(store: FolderStore, tmp_path: Path) -> None:
    table = write_cold(store, [cold_record(1)])
    (tmp_path / object_key(table.rows[1].name)).unlink()
    assert "missing" in table.find_damage()[1]
    with pytest.raises(ColdDamaged, match=table.rows[1].name):
        table.get(b"U" + cold_record(1).url)


def test_names_of_two_owners_differ() -> None:
    assert cold_name(3, 12, 4, 0.0) == "00003/1970-01-01-000012-0000000004.parquet"
    assert cold_name(3, 12, 4, 0.0) != cold_name(3, 12, 5, 0.0)


def test_a_file_of_another_format_is_refused(store: FolderStore) -> None:
    data = encode_file([cold_record(1)]).replace(b"lycosa.cold", b"lycosa.colt")
    row = named(store, [cold_record(1)])
    store.put(object_key(row.name), data)
    with pytest.raises(ColdDamaged):
        ColdTable(store, {1: row}).get(b"U" + cold_record(1).url)
