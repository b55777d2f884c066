"""A segment is sealed whatever became of its parts: what is damaged is told and kept, everything
else gets into the indexes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from test_object_segments import Owner, failing_at, parts

from lycosa.base.config.sections import Config
from lycosa.base.urls.identity import Sites
from lycosa.moves.gathered import GatheredState
from lycosa.moves.new_generation import unneeded
from lycosa.moves.stopped_cluster import seal_segments
from lycosa.state.commit import Mark
from lycosa.state.folder.manifest import identity_of, new_manifest
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.store.object_segments import KEPT_S, MISSING_S, ObjectSegments
from lycosa.state.store.segments_port import NotStored
from lycosa.state.store.stored_parts import StoredPart, committed_parts
from memory_objects import MemoryStore
from store_samples import START, numbered

URL = "https://www.example.org/page/"


def numbers(key: str) -> tuple[int, int, int]:
    start, size, rows = map(int, key.rpartition("/")[2].split("-"))
    return start, size, rows


def flip(store: MemoryStore, key: str, at: int) -> None:
    data = bytearray(store.objects[key])
    data[at] ^= 1
    store.objects[key] = bytes(data)


def flip_record(store: MemoryStore, key: str) -> None:
    flip(store, key, numbers(key)[1] // 2)


def flip_rows(store: MemoryStore, key: str) -> None:
    size = numbers(key)[1]
    flip(store, key, (size + len(store.objects[key])) // 2)


def cut_rows(store: MemoryStore, key: str) -> None:
    store.objects[key] = store.objects[key][:-10]


def cut_record(store: MemoryStore, key: str) -> None:
    store.objects[key] = store.objects[key][: numbers(key)[1] - 10]


def lose(store: MemoryStore, key: str) -> None:
    del store.objects[key]


DAMAGES: dict[str, tuple[Callable[[MemoryStore, str], None], str, bool]] = {
    "a byte of a record": (flip_record, "has a damaged record", True),
    "a byte of the rows": (flip_rows, "has damaged rows", False),
    "the end of the rows": (cut_rows, "were committed", False),
    "the end of a record": (cut_record, "were committed", False),
    "all": (lose, "is missing", False),
}


def crawled(store: MemoryStore, folder: Path) -> Owner:
    """A sealed segment, from which others may take a header, and four commits of another."""
    before = Owner(store, folder, 1)
    before.commit(9)
    before.close()
    owner = Owner(store, folder, 2)
    for number in range(4):
        owner.commit(number)
    return owner


def own_parts(store: MemoryStore) -> list[str]:
    return [key for key in parts(store) if "-t0002-" in key]


def close(owner: Owner) -> str:
    """Seals the segment; returns what is damaged."""
    closed = owner.store.roll_segment(START, force=True)
    assert closed is not None
    try:
        return owner.segments.close_segment(closed.name)
    except NotStored:
        owner.now += MISSING_S
        return owner.segments.close_segment(closed.name)
    finally:
        owner.store.note_closed(closed)


def indexed(store: MemoryStore) -> list[str]:
    """The URLs in the Parquet file of the second owner's segment."""
    (key,) = (key for key in store.objects if key.startswith("pages/") and "-t0002-" in key)
    found: list[str] = pq.read_table(io.BytesIO(store.objects[key]))["url"].to_pylist()
    return found


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_damaged_part_is_told_and_everything_else_is_indexed(
    tmp_path: Path, kind: str, number: int
) -> None:
    damage, told, is_indexed = DAMAGES[kind]
    store = MemoryStore()
    owner = crawled(store, tmp_path)
    key = own_parts(store)[number]
    damage(store, key)
    found = close(owner)
    assert key in found and told in found
    assert indexed(store) == [f"{URL}{n}" for n in range(4) if n != number or is_indexed]
    (note,) = (each for each in store.objects if each.startswith("damaged/00003/"))
    (noted,) = json.loads(store.objects[note])["parts"]
    assert noted["key"] == key and told in noted["what"]
    (segment,) = (each for each in owner.segments.list_segments({}) if "-t0002-" in each.name)
    for row in owner.segments.read_rows(segment):
        if row.url != f"{URL}{number}":
            assert owner.segments.read_record(row.segment, row.offset).body


def test_the_parts_of_a_damaged_segment_are_kept_by_all_owners(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = crawled(store, tmp_path)
    flip_record(store, own_parts(store)[1])
    kept = own_parts(store)
    assert close(owner)
    owner.commit(5)
    owner.now += 2 * KEPT_S
    owner.commit(6)
    assert set(kept) <= set(parts(store))
    after = Owner(store, tmp_path, 3, owner.named)
    assert after.report.damaged == [kept[0].split("/")[2]]
    after.commit(7)
    after.now += 2 * KEPT_S
    after.commit(8)
    assert set(kept) <= set(parts(store))


def test_a_damaged_segment_whose_files_an_operator_deleted_stops_no_owner(tmp_path: Path) -> None:
    """Its parts are kept without end, and show no commits that the log has lost."""
    store = MemoryStore()
    owner = crawled(store, tmp_path)
    flip_record(store, own_parts(store)[1])
    kept = own_parts(store)
    assert close(owner)
    owner.commit(5)
    for key in list(store.objects):
        if "-t0002-000001-" in key and not key.startswith(("parts/", "damaged/")):
            del store.objects[key]
    after = Owner(store, tmp_path, 3, owner.named)
    assert after.report.damaged == [kept[0].split("/")[2]]
    assert set(kept) <= set(parts(store))


def test_the_sums_of_an_earlier_owner_are_compared(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = crawled(store, tmp_path)
    flip_record(store, own_parts(store)[2])
    after = Owner(store, tmp_path, 3, owner.named, owner.sums)
    assert "has a damaged record" in close(after)


def test_commits_without_sums_are_accepted(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = crawled(store, tmp_path)
    after = Owner(store, tmp_path, 3, owner.named)
    assert close(after) == ""
    assert indexed(store) == [f"{URL}{n}" for n in range(4)]


def test_a_part_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = crawled(store, tmp_path)
    key = own_parts(store)[1]
    data = store.objects.pop(key)
    closed = owner.store.roll_segment(START, force=True)
    assert closed is not None
    for _ in range(3):
        with pytest.raises(NotStored, match="no such object"):
            owner.segments.close_segment(closed.name)
        owner.now += MISSING_S / 4
    store.objects[key] = data
    assert owner.segments.close_segment(closed.name) == ""
    assert not [each for each in store.objects if each.startswith("damaged/")]


def test_a_put_that_is_repeated_counts_once_in_the_sum(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = crawled(store, tmp_path)
    place = owner.store.append_capture(numbered(7))
    pending = owner.store.freeze()
    store.fail = failing_at(1)
    with pytest.raises(NotStored):
        owner.segments.put_records(pending)
    owner.segments.put_records(pending)
    assert owner.segments.read_record(place.segment, place.offset).body
    assert close(owner) == ""


def test_parts_without_a_gap_cover_what_was_committed() -> None:
    def part(start: int, end: int, rows: int, rows_end: int) -> StoredPart:
        return StoredPart(
            f"p/{start:012d}-{end - start:012d}-{rows:012d}", start, end, rows, rows_end
        )

    whole = [part(0, 10, 0, 5), part(10, 20, 5, 9), part(20, 30, 9, 14)]
    assert committed_parts("p/", whole, 30, 14) == whole
    assert committed_parts("p/", [*whole, part(30, 40, 14, 15)], 30, 14) == whole
    for lost in range(3):
        left = [each for number, each in enumerate(whole) if number != lost]
        assert committed_parts("p/", left, 30, 14) == whole
    assert committed_parts("p/", [], 30, 14) == [part(0, 30, 0, 14)]
    assert committed_parts("p/", whole[2:], 30, 14) == [part(0, 20, 0, 9), whole[2]]
    cut = [part(0, 10, 0, 1), part(10, 20, 5, 2), part(20, 30, 9, 10)]
    assert committed_parts("p/", cut, 30, 14) == whole


def test_a_reader_sees_the_filled_segment_as_any_other(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = crawled(store, tmp_path)
    lose(store, own_parts(store)[0])
    close(owner)
    reader = ObjectSegments(store, 3, tmp_path / "reader")
    (segment,) = (each for each in reader.list_segments({}) if "-t0002-" in each.name)
    assert [row.url for row in reader.read_rows(segment)] == [f"{URL}{n}" for n in (1, 2, 3)]


def test_an_import_seals_by_the_sums_and_keeps_the_parts_of_damaged_segments(
    tmp_path: Path,
) -> None:
    """It seals what the last owners left open, and then deletes the state of their division."""
    store, told = MemoryStore(), list[str]()
    owner = crawled(store, tmp_path)
    flip_record(store, own_parts(store)[1])
    places = SimpleNamespace(
        objects=store,
        work=tmp_path / "import",
        tell=told.append,
        open_table=lambda folder: MemoryKeyValue(),
    )
    state = GatheredState(
        tmp_path,
        new_manifest(identity_of(Config(), Sites()), "", 0.0),
        Config(),
        ends={3: Mark(2, 9)},
        lengths=owner.named,
        sums=owner.sums,
    )
    assert seal_segments(cast(Any, places), state) == 1
    assert len(told) == 1 and "has a damaged record" in told[0]
    left = unneeded([*sorted(store.objects)])
    assert any(key in left for key in parts(store) if "-t0001-" in key)
    assert not {*own_parts(store)} & {*left}
    assert not any(key.startswith("damaged/") for key in left)


def test_what_an_import_deletes_of_earlier_generations() -> None:
    keys = [
        "attempts/00003/1-1.log.zst",
        "generations/2-ab/damaged/00003/b.json",
        "generations/2-ab/files/00003/77",
        "generations/2-ab/parts/00003/a/0-1-0",
        "generations/2-ab/parts/00003/b/0-1-0",
        "parts/00003/b/0-1-0",
        "snapshots/00003/1-1",
    ]
    assert unneeded(keys) == [keys[2], keys[3], keys[5], keys[6]]
