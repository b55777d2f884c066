"""Segments in an object store: what a part is, what sealing makes of parts, when they go, and what
a store that fails leads to.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pyarrow.parquet as pq
import pytest

from lycosa.base.model.capture import Location, Original
from lycosa.processes.log_comparison import StoredEnd, stored_end
from lycosa.state.objects.object_errors import ObjectExists, StoreUnreachable
from lycosa.state.store import layout
from lycosa.state.store.object_segments import UNNAMED_S, ObjectSegments
from lycosa.state.store.segment_recovery import rebuild
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.segments_port import NotStored
from memory_objects import MemoryStore
from store_samples import INFO, SECTION, START, capture, fetched, numbered, row_builder

KINDS = ("cdxj", "journal", "links", "pages", "text", "warc")


class Owner:
    """An owner of segments over a store in memory."""

    def __init__(
        self,
        store: MemoryStore,
        folder: Path,
        term: int,
        named: dict[str, int] | None = None,
        sums: dict[str, int] | None = None,
    ) -> None:
        self.now = 0.0
        self.named, self.sums = dict(named or {}), dict(sums or {})
        self.segments = ObjectSegments(store, 3, folder / f"work{term}", lambda: self.now)
        self.report = self.segments.recover_segments(self.named, self.sums)
        self.store = SegmentStore(
            self.segments.find_segments(term),
            SECTION,
            INFO,
            3,
            Random(term),
            row_builder(SECTION),
        )

    def commit(self, *numbers: int) -> list[Location]:
        places = [self.store.append_capture(numbered(number)) for number in numbers]
        pending = self.store.freeze()
        self.segments.put_records(pending)
        self.named, self.sums = pending.lengths, pending.sums
        return places

    def close(self) -> str:
        closed = self.store.roll_segment(START, force=True)
        assert closed is not None
        self.segments.close_segment(closed.name)
        self.store.note_closed(closed)
        return closed.name


def parts(store: MemoryStore) -> list[str]:
    return sorted(key for key in store.objects if key.startswith("parts/"))


def sealed(store: MemoryStore) -> dict[str, bytes]:
    return {key: data for key, data in store.objects.items() if not key.startswith("parts/")}


def failing_at(number: int) -> Callable[[str, str], None]:
    calls = 0

    def fail(call: str, key: str) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise StoreUnreachable("away")

    return fail


def test_a_commit_is_one_object_whose_key_says_what_it_holds(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = Owner(store, tmp_path, 1)
    owner.commit(1, 2)
    owner.commit(3)
    first, second = parts(store)
    assert first.startswith("parts/00003/test-crawl-w003-t0001-")
    start, size, rows = map(int, second.rpartition("/")[2].split("-"))
    segment = layout.stem_of(first.split("/")[2])
    assert start + size == owner.named[f"warc/{segment}.warc.gz.open"]
    assert (
        rows + len(store.objects[second]) - size == owner.named[f"journal/{segment}.jsonl.zst.open"]
    )
    # the first bytes are records, readable by themselves
    assert gzip.decompress(store.objects[second][:size]).startswith(b"WARC/1.1\r\n")


def test_a_sealed_warc_is_its_parts_one_after_the_other(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = Owner(store, tmp_path, 1)
    places = [*owner.commit(1, 2), *owner.commit(3)]
    before = [owner.segments.read_record(place.segment, place.offset) for place in places]
    warc = b"".join(
        store.objects[key][: int(key.rpartition("/")[2].split("-")[1])] for key in parts(store)
    )
    name = owner.close()
    assert store.objects[f"warc/{name}.warc.gz"] == warc
    assert sorted(key.partition("/")[0] for key in sealed(store)) == sorted(KINDS)
    assert [owner.segments.read_record(place.segment, place.offset) for place in places] == before
    assert list((tmp_path / "work1").iterdir()) == []


def test_derived_files_are_those_that_a_folder_would_have(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = Owner(store, tmp_path, 1)
    owner.commit(1, 2)
    owner.close()
    folder = tmp_path / "folder"
    for key, data in sealed(store).items():
        if key.partition("/")[0] in ("warc", "journal"):
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(data)
    built, _ = rebuild(folder)
    assert {name: (folder / name).read_bytes() for name in built} == {
        key: data
        for key, data in sealed(store).items()
        if key.partition("/")[0] not in ("warc", "journal")
    }


def test_parts_are_deleted_an_hour_after_a_commit_without_their_segment(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = Owner(store, tmp_path, 1)
    places = owner.commit(1)
    owner.close()
    before = parts(store)
    owner.now = 7200.0
    owner.commit(2)  # the last commit still names it as open: only this one does not
    assert set(parts(store)) > set(before)
    owner.commit(3)
    assert not set(parts(store)) & set(before)
    assert owner.segments.read_record(places[0].segment, places[0].offset).body
    owner.now += 3599.0
    owner.close()
    owner.commit(4)
    owner.now += 3599.0
    kept = parts(store)
    owner.commit(5)
    assert set(kept) <= set(parts(store))


def test_a_new_owner_deletes_the_parts_of_sealed_segments_an_hour_later(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = Owner(store, tmp_path, 1)
    owner.commit(1)
    owner.close()
    owner.commit()
    left = parts(store)
    after = Owner(store, tmp_path, 2, owner.named)
    assert after.report.is_clean
    after.now = 3000.0
    after.commit(2)
    assert set(left) <= set(parts(store))
    after.now = 3600.0
    after.commit(3)
    assert not set(left) & set(parts(store))


def test_a_reader_that_listed_parts_finds_the_sealed_segment_when_they_are_gone(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    owner = Owner(store, tmp_path, 1)
    (place,) = owner.commit(1)
    reader = ObjectSegments(store, 3, tmp_path / "reader")
    before = reader.read_record(place.segment, place.offset)
    owner.close()
    store.delete(parts(store))
    assert reader.read_record(place.segment, place.offset) == before


def test_a_reader_sees_commits_made_after_it_first_looked(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = Owner(store, tmp_path, 1)
    (first,) = owner.commit(1)
    reader = ObjectSegments(store, 3, tmp_path / "reader")
    reader.read_record(first.segment, first.offset)
    (second,) = owner.commit(2)
    assert reader.read_record(second.segment, second.offset).body
    (segment,) = reader.list_segments(owner.named)
    assert len(list(reader.read_rows(segment))) == 2
    owner.close()
    (segment,) = reader.list_segments({})
    assert segment.is_closed
    assert len(list(reader.read_rows(segment))) == 2


def test_sealing_that_was_broken_off_anywhere_is_finished_by_a_later_owner(tmp_path: Path) -> None:
    wanted: dict[str, bytes] = {}
    for number in range(1, 40):
        store = MemoryStore()
        owner = Owner(store, tmp_path / str(number), 1)
        owner.commit(1, 2)
        closed = owner.store.roll_segment(START, force=True)
        assert closed is not None
        store.fail = failing_at(number)
        try:
            owner.segments.close_segment(closed.name)
        except NotStored:
            store.fail = lambda call, key: None
        else:
            assert number > 8
            break
        after = Owner(store, tmp_path / str(number), 2, owner.named)
        again = after.store.roll_segment(START)
        assert again == closed or f"journal/{closed.name}.jsonl.zst" in store.objects
        after.segments.close_segment(closed.name)
        wanted = wanted or sealed(store)
        assert sealed(store) == wanted
    else:
        raise AssertionError("it never succeeded")


def test_a_put_that_failed_may_be_repeated(tmp_path: Path) -> None:
    store = MemoryStore(fail=lambda call, key: None)
    owner = Owner(store, tmp_path, 1)
    place = owner.store.append_capture(numbered(1))
    pending = owner.store.freeze()
    store.fail = failing_at(1)
    with pytest.raises(NotStored, match="away"):
        owner.segments.put_records(pending)
    assert not pending.is_written
    owner.segments.put_records(pending)
    assert owner.segments.read_record(place.segment, place.offset).body


class Conflicting(MemoryStore):
    """Answers the first ``create`` as if there were an object; ``left`` is what is there."""

    def __init__(self, left: bytes | None) -> None:
        super().__init__()
        self.left, self.conflicts = left, 1

    def create(self, key: str, data: bytes) -> None:
        if self.conflicts:
            self.conflicts = 0
            if self.left is not None:
                self.objects[key] = self.left
            raise ObjectExists(f"there is an object already: {key}")
        super().create(key, data)


@pytest.mark.parametrize("left", [None, b"", b"a part of the part"])
def test_a_part_is_stored_whatever_a_store_says_exists(tmp_path: Path, left: bytes | None) -> None:
    store = Conflicting(left)
    owner = Owner(store, tmp_path, 1)
    (place,) = owner.commit(1)
    assert store.conflicts == 0
    assert owner.segments.read_record(place.segment, place.offset).body
    owner.close()
    assert sorted(key.partition("/")[0] for key in sealed(store)) == sorted(KINDS)


def test_a_large_part_is_put_together_on_disk(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.write_bytes(Random(1).randbytes(20_000_000))
    store = MemoryStore()
    owner = Owner(store, tmp_path, 1)
    place = owner.store.append_capture(
        capture(fetched("https://www.example.org/9", b"", spool=str(spool)))
    )
    pending = owner.store.freeze()
    owner.segments.put_records(pending)
    assert not spool.exists()
    assert len(owner.segments.read_record(place.segment, place.offset).body) == 20_000_000
    assert list((tmp_path / "work1").iterdir()) == []


def test_two_owners_never_write_the_same_key(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = Owner(store, tmp_path, 1)
    owner.commit(1)
    after = Owner(store, tmp_path, 2, owner.named)
    after.commit(2)
    before = dict(store.objects)
    owner.commit(3)  # it does not know yet that it was overtaken
    assert {key: store.objects[key] for key in before} == before
    late = set(store.objects) - set(before)
    assert len(late) == 1
    last = Owner(store, tmp_path, 3, after.named)
    assert last.report.removed == [] and late <= store.objects.keys()


def test_a_part_that_no_commit_names_is_deleted_when_it_is_a_week_old(tmp_path: Path) -> None:
    store = MemoryStore(wall=lambda: 1e9)
    owner = Owner(store, tmp_path, 1)
    owner.commit(1)
    named, before = dict(owner.named), set(parts(store))
    owner.commit(2)  # which the log does not get
    late = set(parts(store)) - before
    for age_s, removed in ((0.0, set[str]()), (UNNAMED_S - 1, set()), (UNNAMED_S, late)):
        segments = ObjectSegments(store, 3, tmp_path, wall=lambda age_s=age_s: 1e9 + age_s)  # type: ignore[misc]
        assert set(segments.recover_segments(named).removed) == removed
        assert set(parts(store)) == before | late - removed


def test_a_rescue_finds_the_parts_that_no_commit_named(tmp_path: Path) -> None:
    store = MemoryStore()
    (place,) = Owner(store, tmp_path, 1).commit(1)
    Owner(store, tmp_path, 2).commit(2)  # its log does not have the commit of the first owner
    segments = ObjectSegments(store, 3, tmp_path / "rescue")
    lengths = segments.left_lengths()
    found = segments.list_segments(lengths)
    urls = [row.url for each in found for row in segments.read_rows(each)]
    assert urls == ["https://www.example.org/page/1", "https://www.example.org/page/2"]
    assert segments.read_record(place.segment, place.offset).body


def test_sealing_adds_the_near_duplicates_that_were_found_meanwhile(tmp_path: Path) -> None:
    """To the journal and to what is derived from it; the segment is still that of the commits."""
    store, original = MemoryStore(), Original("https://www.example.org/page/1", 7)
    owner = Owner(store, tmp_path, 1)
    owner.commit(1, 2)
    owner.commit(3)
    name = owner.store.snapshot().segment
    (listed,) = owner.segments.list_segments(owner.named)
    before = list(owner.segments.read_rows(listed))
    closed = owner.store.roll_segment(START, force=True)
    assert closed is not None

    def find_similar(url: str, simhash: int) -> Original | None:
        assert simhash == before[0].simhash != 0
        return original if url.endswith("/3") else None

    owner.segments.close_segment(closed.name, find_similar)
    after = Owner(store, tmp_path, 2, owner.named)  # no commit says yet that it is closed
    (listed,) = after.segments.list_segments({})
    assert listed.is_closed
    rows = list(after.segments.read_rows(listed))
    assert rows == [*before[:2], msgspec.structs.replace(before[2], near_duplicate_of=original)]
    pages = pq.read_table(io.BytesIO(store.objects[f"pages/{name}.parquet"]))
    assert pages["near_duplicate_of"].to_pylist() == [None, None, original.url]


def test_a_first_commit_that_was_tried_by_two_owners_is_no_sign_of_a_lost_log(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    for term in (1, 2):
        Owner(store, tmp_path, term).commit(term)  # its owner was killed before the append
    assert len(parts(store)) == 2
    assert stored_end(store, 3) == StoredEnd()
    Owner(store, tmp_path, 3).commit(3)
    owner = Owner(store, tmp_path, 4)
    owner.commit(4)
    owner.commit(5)
    assert stored_end(store, 3) == StoredEnd(has_parts=True)
