"""The place of a missing part is filled, so that what follows it keeps its place and is read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator
from test_object_segments import Owner, parts
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from lycosa.state.store.lost_parts import (
    LostPart,
    fill_lost_parts,
    filling,
    find_lost_parts,
    lost_parts,
)
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.stored_parts import StoredPart
from memory_objects import MemoryStore


@pytest.mark.parametrize("size", [330, 400, 70_000, 131_080, 131_099, 1_000_003])
def test_a_place_of_any_size_is_one_record(size: int) -> None:
    found = filling(LostPart("crawl-w000-t0001-000001-20260101000000", 500, 500 + size, 40, 48))
    warc, rows = found[:size], found[size:]
    assert len(rows) == 8
    for records in (ArchiveIterator(io.BytesIO(warc)), WarcioIterator(io.BytesIO(warc))):
        assert len(list(records)) == 1


def test_a_place_that_is_too_small_is_not_filled() -> None:
    for lost in (LostPart("s", 1, 200, 0, 100), LostPart("s", 1, 900, 1, 8)):
        with pytest.raises(ValueError, match="no room"):
            filling(lost)
    with pytest.raises(ValueError, match="lost its beginning"):
        filling(LostPart("s", 0, 900, 0, 900))


def test_gaps_between_parts_are_found() -> None:
    parts = {
        "a": [StoredPart("", 0, 10, 0, 5), StoredPart("", 10, 20, 5, 9)],
        "b": [StoredPart("", 4, 10, 3, 5), StoredPart("", 30, 40, 8, 9)],
    }
    assert lost_parts(parts) == [LostPart("b", 0, 4, 0, 3), LostPart("b", 10, 30, 5, 8)]


@pytest.mark.parametrize("missing", [(1,), (1, 2), (0,), (0, 1)])
def test_a_segment_without_a_part_is_closed_with_all_others(
    tmp_path: Path, missing: tuple[int, ...]
) -> None:
    store = MemoryStore()
    sealed = Owner(store, tmp_path, 1)
    sealed.commit(9)
    sealed.close()
    owner = Owner(store, tmp_path, 2)
    places = [owner.commit(number)[0] for number in range(5)]
    keys = [key for key in parts(store) if "-t0002-" in key]
    for number in missing:
        del store.objects[keys[number]]
    lost = find_lost_parts(store, 3)
    assert [each.has(places[n].segment, places[n].offset) for each in lost for n in range(5)] == [
        n in missing for n in range(5)
    ]
    for _ in range(2):
        fill_lost_parts(store, 3, lost)
    segments = ObjectSegments(store, 3, tmp_path / "rescue")
    lengths = segments.left_lengths()
    listed = segments.list_segments(lengths)[-1]
    urls = [row.url for row in segments.read_rows(listed)]
    (name,) = segments.close_left(lengths)
    closed = segments.list_segments({})[-1]
    assert closed.is_closed and [row.url for row in segments.read_rows(closed)] == urls
    left = [place for number, place in enumerate(places) if number not in missing]
    assert len(urls) == len(left)
    for place in left:
        record = segments.read_record(place.segment, place.offset)
        assert record.fields["WARC-Record-ID"] == f"<{place.record_id}>"
    warc = io.BytesIO(store.objects[f"warc/{name}.warc.gz"])
    kinds = [str(record.rec_type) for record in WarcioIterator(warc)]
    assert kinds[0] == "warcinfo" and kinds.count("response") == len(left)
    assert f"pages/{name}.parquet" in store.objects


def test_the_owner_after_a_rescue_leaves_a_segment_that_could_not_be_closed(
    tmp_path: Path,
) -> None:
    """No other segment has a header for the lost beginning; the parts behind it are no commits
    that the new log has lost.
    """
    store = MemoryStore()
    owner = Owner(store, tmp_path, 1)
    for number in range(4):
        owner.commit(number)
    del store.objects[parts(store)[0]]
    left = parts(store)
    fill_lost_parts(store, 3, find_lost_parts(store, 3))
    segments = ObjectSegments(store, 3, tmp_path / "rescue")
    assert segments.close_left(segments.left_lengths()) == []
    (note,) = (key for key in store.objects if key.startswith("damaged/00003/"))
    assert b"is missing at its beginning" in store.objects[note]
    after = Owner(store, tmp_path, 102)
    assert len(after.report.damaged) == 1
    after.commit(9)
    assert set(left) < set(parts(store))
