"""Cold files that are merged: no record is lost, changed or preferred to a newer one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cold_urls import DAY, LATER, PAGES, ColdBed, key_of
from test_partition import START, commit, found

from cold_samples import cold_record, named
from lycosa.base.config.sections import ColdSection
from lycosa.state.cold.cold_keys import ColdKeys
from lycosa.state.cold.cold_merging import FAN, MERGED_RECORDS, MergedRows, choose_files
from lycosa.state.cold.cold_rows import ColdFileRow, cold_name, last_number, object_key
from lycosa.state.cold.cold_table import ColdTable
from lycosa.state.objects.folder import FolderStore
from lycosa.worker.commit.cold_merger import MergedFileWriter

Result = TypeVar("Result")
FILES = st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=12), min_size=FAN, max_size=6)


def sized(*records: int) -> dict[int, ColdFileRow]:
    """Rows of files with these numbers of records, from number 1 on."""
    row = ColdFileRow("", 0, b"", 0, b"", b"", 0, 0)
    return {at: msgspec.structs.replace(row, records=n) for at, n in enumerate(records, 1)}


@pytest.mark.parametrize(
    ("records", "chosen"),
    [
        ([5, 5, 5, 5], []),  # the newest one stays
        ([5, 5, 5, 5, 5], [1, 2, 3, 4]),
        ([8192] * 9, [1, 2, 3, 4]),
        ([MERGED_RECORDS, 5, 5, MERGED_RECORDS, 5, 5, 5, 5, 5], [5, 6, 7, 8]),
        ([5, 5, 5, MERGED_RECORDS, 5, 5, 5], []),
        ([16_000, 16_000, 16_000, 16_000, 16_000, 5], []),
        ([], []),
    ],
)
def test_adjacent_small_files_are_merged(records: list[int], chosen: list[int]) -> None:
    assert choose_files(sized(*records), sum(records)) == chosen


def test_files_with_many_hidden_records_are_written_again_one_after_the_other() -> None:
    rows = sized(*[MERGED_RECORDS] * 4)
    assert choose_files(rows, 2 * MERGED_RECORDS) == []
    assert choose_files(rows, MERGED_RECORDS) == [1]
    assert choose_files(rows, MERGED_RECORDS, after=1) == [2]
    assert choose_files(rows, MERGED_RECORDS, after=3) == [1]


@given(FILES, st.data())
@settings(deadline=None, max_examples=20)
def test_the_records_are_those_of_the_newest_of_the_files(
    tmp_path_factory: pytest.TempPathFactory, files: list[set[int]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cold")
    store = FolderStore(str(folder), folder)
    rows = {
        # ``tries`` tells which file a record is of
        at: named(
            store, sorted((cold_record(n, tries=at) for n in numbers), key=lambda e: e.url), at
        )
        for at, numbers in enumerate(files, 1)
    }
    before = list(ColdTable(store, rows).scan(b"U", b"V"))
    first = data.draw(st.integers(1, len(files)))
    chosen = list(range(first, data.draw(st.integers(first, len(files))) + 1))
    merged = MergedRows(store, [rows[each] for each in chosen])
    content = merged.encode([True] * len(merged.urls))
    name = cold_name(0, 99, 1, 1_200_000_000.0)
    store.put(object_key(name), content)
    row = ColdFileRow.merged(name, content, merged.urls, [rows[each] for each in chosen])
    after = {number: each for number, each in rows.items() if number not in chosen}
    after[chosen[-1]] = row
    assert list(ColdTable(store, after).scan(b"U", b"V")) == before
    assert ColdTable(store, after).find_damage() == {}


class Merging:
    """A bed with a merger, whose commits come at once."""

    def __init__(self, bed: ColdBed, is_shared: bool = False) -> None:
        self.bed, self.reached = bed, list[str]()
        self.merger = MergedFileWriter(bed.files, self, self.commit, is_shared, self.reached.append)

    async def run(self, call: Callable[[], Result]) -> Result:
        return call()

    async def commit(self) -> None:
        commit(self.bed.store, self.bed.partition)

    def merge(self, now: float) -> list[int]:
        partition, keys = self.bed.partition, self.bed.partition.cold.hashes
        assert isinstance(keys, ColdKeys)
        if chosen := self.merger.choose(partition):
            if keys.has_fresh:
                keys.save()
            name = cold_name(0, last_number(partition.cold.files) + 1, 2, now)
            asyncio.run(self.merger.merge(partition, keys, chosen, name, now))
        return chosen

    def sweep(self, now: float) -> None:
        asyncio.run(self.merger.delete_replaced(self.bed.partition, now))
        commit(self.bed.store, self.bed.partition)

    def stored(self) -> int:
        return len(list(self.bed.files.list("cold/")))


@pytest.fixture
def merging(tmp_path: Path) -> Merging:
    """Six files: in each all URLs that came back and were fetched again since the one before."""
    bed = ColdBed(tmp_path, ColdSection(after_s=DAY, return_after_s=0.0, least_records=1))
    for turn in range(6):
        now = LATER + 10 * turn * DAY
        bed.partition.cold.row.next_at = 0
        bed.archive(bed.gather(now), now)
        for number in range(turn, PAGES, 2):
            bed.partition.discover_urls(
                [found(f"http://h{number % 3}.example/{number}")], now + DAY
            )
        bed.bring_back(now + DAY)
        bed.fetch(now + DAY)
        commit(bed.store, bed.partition)
    return Merging(bed)


def test_a_merge_keeps_what_counts_and_drops_what_came_back(merging: Merging) -> None:
    bed, now = merging.bed, LATER + 60 * DAY
    assert len(bed.partition.cold.files) == 6
    held = sum(row.records for row in bed.partition.cold.files.values())
    assert merging.merge(now) == [1, 2, 3, 4, 5] and merging.reached == ["cold:merged"]
    bed.check()
    assert sorted(bed.partition.cold.files) == [5, 6]
    assert sum(row.records for row in bed.partition.cold.files.values()) < held
    assert bed.partition.cold.bytes == sum(row.size for row in bed.partition.cold.files.values())
    assert merging.merge(now) == []
    # The file of hashes, saved before, is still of these files.
    bed.restart()
    keys = bed.partition.cold.hashes
    assert isinstance(keys, ColdKeys) and not keys.damage and not keys.has_fresh
    for number in range(PAGES):
        note = bed.partition.cold.find(key_of(number))
        live = bed.partition.find_record(key_of(number)[:8], key_of(number)[8:])
        assert (note is None) is (live is not None)
    bed.check()


def test_files_that_were_merged_away_are_deleted_when_nobody_has_them_open(
    merging: Merging,
) -> None:
    now = LATER + 60 * DAY
    merging.merge(now)
    merging.sweep(now + DAY - 1)
    assert merging.stored() == 7
    merging.bed.restart()  # who is to delete them is in the commit
    merging.sweep(now + DAY)
    assert merging.stored() == 2
    assert not any(row.replaced for row in merging.bed.partition.cold.files.values())
    merging.bed.check()


def test_files_of_which_nothing_counts_any_more_leave_none(merging: Merging) -> None:
    bed, now = merging.bed, LATER + 60 * DAY
    for url in (f"http://h{number % 3}.example/{number}" for number in range(PAGES)):
        bed.partition.discover_urls([found(url)], now)
    bed.bring_back(now)
    commit(bed.store, bed.partition)
    assert sum(bed.partition.counters.cold.values()) == 0
    assert merging.merge(now) == [1, 2, 3, 4, 5]
    assert sorted(bed.partition.cold.files) == [6]
    merging.sweep(now + DAY)
    assert merging.stored() == 1
    bed.check()


def test_a_merge_before_its_commit_has_changed_nothing(merging: Merging) -> None:
    bed = merging.bed
    before = dict(bed.partition.cold.files)

    async def die() -> None:
        raise KeyboardInterrupt

    merging.merger._next_commit = die
    with pytest.raises(KeyboardInterrupt):
        merging.merge(LATER + 60 * DAY)
    bed.restart()
    assert bed.partition.cold.files == before
    bed.check()


def test_a_damaged_file_is_left_where_it_is(merging: Merging) -> None:
    files = merging.bed.partition.cold.files
    path = merging.bed.folder / "cold" / files[2].name
    path.write_bytes(path.read_bytes()[:-40])
    before = dict(files)
    assert merging.merge(START) and merging.bed.partition.cold.files == before
    assert merging.merge(START) == []
