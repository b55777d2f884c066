"""What every store of segments must do; each test runs on the files of a folder and on objects in
memory.

What only the one in memory has, names that no two owners share, is tested at the end.
"""

from __future__ import annotations

import gzip
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Protocol, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import StoreSection
from lycosa.base.model.capture import Location
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.store import layout
from lycosa.state.store.damage import CommitsLost, StoreDamaged
from lycosa.state.store.object_segments import KEPT_S, ObjectSegments
from lycosa.state.store.pending import PendingWrite
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.segments_port import FoundSegments, SegmentReader, Segments
from lycosa.state.store.stored_data import RecordError
from memory_segments import MemorySegments
from render_samples import finished_render
from s3_server import needs_s3, s3_program, s3_store
from store_samples import INFO, SECTION, START, digest, numbered, page, row_builder

URL = "https://www.example.org/page/"


class Place(Protocol):
    """Where segments are kept while their owners come and go."""

    def owner(self, shard: int = 0) -> Segments: ...

    def content(self) -> dict[str, bytes]:
        """All that is kept, by name."""
        ...

    def lose(self, name: str, length: int) -> None:
        """What a segment holds from there on, as far as it was committed, is gone; ``name`` is
        that of an open file.
        """
        ...


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def owner(self, shard: int = 0) -> Segments:
        return SegmentFiles(self._folder, shard)

    def content(self) -> dict[str, bytes]:
        """Without what the folder notes of closed files."""
        paths = [
            path for path in self._folder.rglob("*") if path.is_file() and path.parent.name != "log"
        ]
        return {str(path.relative_to(self._folder)): path.read_bytes() for path in paths}

    def lose(self, name: str, length: int) -> None:
        path = self._folder / name
        if length:
            path.write_bytes(path.read_bytes()[:length])
        else:
            path.unlink()


class Objects:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def owner(self, shard: int = 0) -> Segments:
        return MemorySegments(self.objects, shard)

    def content(self) -> dict[str, bytes]:
        return dict(self.objects)

    def lose(self, name: str, length: int) -> None:
        kind, segment = name.partition("/")[0], layout.stem_of(name)
        for key in [
            key for key in self.objects if key.startswith(f"parts/00000/{segment}/{kind}/")
        ]:
            offset = int(key.rpartition("/")[2])
            if offset < length:
                self.objects[key] = self.objects[key][: length - offset]
            else:
                del self.objects[key]
                return


class Stored:
    """In an object store."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self.store, self._folder, self.now = store, folder, 0.0

    def owner(self, shard: int = 0) -> ObjectSegments:
        work = Path(tempfile.mkdtemp(dir=self._folder))
        return ObjectSegments(self.store, shard, work, now=lambda: self.now)

    def content(self) -> dict[str, bytes]:
        return {each.key: self.store.get(each.key) for each in self.store.list()}

    def lose(self, name: str, length: int) -> None:
        """A part is there or not."""
        kind, segment = name.partition("/")[0], layout.stem_of(name)
        for each in list(self.store.list(f"parts/00000/{segment}/")):
            start, size, rows = map(int, each.key.rpartition("/")[2].split("-"))
            end = start + size if kind == layout.WARC else rows + each.size - size
            if end > length:
                self.store.delete([each.key])


def in_folder(folder: Path) -> Stored:
    (folder / "store").mkdir()
    return Stored(FolderStore((folder / "store").as_uri(), folder / "store"), folder)


def on_s3(folder: Path) -> Stored:
    return Stored(s3_store(f"{folder.name}-{uuid.uuid4()}"), folder)


PLACES: dict[str, Callable[[Path], Place]] = {
    "files": Files,
    "memory": lambda folder: Objects(),
    "folder store": in_folder,
}
if s3_program() is not None:
    PLACES["s3"] = on_s3
MARKED = [
    *(kind for kind in sorted(PLACES) if kind != "s3"),
    pytest.param("s3", marks=[needs_s3, pytest.mark.service]),
]


@pytest.fixture(params=MARKED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


class Owner:
    """An owner of segments, from its recovery on. ``named`` is what its last commit names."""

    def __init__(
        self, place: Place, named: dict[str, int], term: int, section: StoreSection = SECTION
    ) -> None:
        self.segments = place.owner()
        self.report = self.segments.recover_segments(named)
        self.found = self.segments.find_segments(term)
        self.store = SegmentStore(self.found, section, INFO, 0, Random(term), row_builder(section))
        self.named = named

    def put(self, *numbers: int) -> tuple[PendingWrite, list[Location]]:
        """Captures that no commit names yet."""
        places = [self.store.append_capture(numbered(number)) for number in numbers]
        pending = self.store.freeze()
        self.segments.put_records(pending)
        return pending, places

    def commit(self, *numbers: int) -> list[Location]:
        pending, places = self.put(*numbers)
        self.named = pending.lengths
        return places

    def close(self) -> list[str]:
        """Closes every segment and says so in a commit."""
        names = []
        while (closed := self.store.roll_segment(START, force=True)) is not None:
            self.segments.close_segment(closed.name)
            self.store.note_closed(closed)
            names.append(closed.name)
        self.commit()
        return names


def test_the_owner_of_another_shard_reads_what_was_put(place: Place) -> None:
    """A revisit refers to captures of any shard, in segments that are open, closed, or just
    being closed.
    """
    owner, other = Owner(place, {}, 1), place.owner(1)
    places = [*owner.commit(1, 2), *owner.commit(3)]
    assert urls(other, places) == pages(1, 2, 3)
    places += owner.commit(4)
    assert urls(other, places) == pages(1, 2, 3, 4)
    owner.close()
    assert urls(other, places) == pages(1, 2, 3, 4)
    if isinstance(place, Stored):
        place.now += 2 * KEPT_S
        owner.commit(5)
        assert not [key for key in place.content() if places[0].segment.startswith(stem_in(key))]
    assert urls(other, places) == pages(1, 2, 3, 4)
    with pytest.raises(RecordError):
        other.read_record(places[0].segment, places[0].offset + 1)


def stem_in(key: str) -> str:
    """The segment of a part."""
    kind, _, rest = key.partition("/")
    return rest.split("/")[1] if kind == "parts" else "no part"


def urls(segments: Segments, places: list[Location]) -> list[str]:
    """What is read at these places, each checked against what was put there."""
    found = []
    for place in places:
        record = segments.read_record(place.segment, place.offset)
        assert record.fields["WARC-Record-ID"] == f"<{place.record_id}>"
        number = int(record.fields["WARC-Target-URI"].removeprefix(URL))
        assert digest(record.body) == digest(page(number))
        found.append(record.fields["WARC-Target-URI"])
    return found


def pages(*numbers: int) -> list[str]:
    return [f"{URL}{number}" for number in numbers]


def test_a_place_where_nothing_was_put_has_no_segments(place: Place) -> None:
    owner = Owner(place, {}, 1)
    assert (owner.found.number, list(owner.found.open)) == (0, [])
    assert owner.report.is_clean
    assert place.content() == {}


def test_a_put_says_the_names_and_lengths_of_what_it_wrote(place: Place) -> None:
    owner = Owner(place, {}, 1)
    pending, places = owner.put(1, 2)
    segment = layout.stem_of(places[0].segment)
    assert pending.is_written
    assert set(pending.lengths) == {
        layout.file_name(kind, segment) + layout.OPEN for kind in (layout.WARC, layout.JOURNAL)
    }
    warc = pending.lengths[layout.file_name(layout.WARC, segment) + layout.OPEN]
    assert warc > places[1].offset + places[1].length
    assert pending.journal_lengths == {
        segment: pending.lengths[layout.file_name(layout.JOURNAL, segment) + layout.OPEN]
    }
    more, _ = owner.put(3)
    assert more.lengths[layout.file_name(layout.WARC, segment) + layout.OPEN] > warc


def test_an_open_segment_without_news_is_still_named(place: Place) -> None:
    owner = Owner(place, {}, 1)
    owner.commit(1)
    before = dict(owner.named)
    owner.commit()
    assert owner.named == before


def test_a_put_may_be_repeated_and_changes_nothing(place: Place) -> None:
    owner = Owner(place, {}, 1)
    owner.store.append_capture(numbered(1))
    pending = owner.store.freeze()
    again = PendingWrite(list(pending.parts), {})
    owner.segments.put_records(pending)
    before = place.content()
    owner.segments.put_records(pending)
    owner.segments.put_records(again)  # as one does that does not know of the first
    assert place.content() == before
    assert again.lengths == pending.lengths


def test_what_was_put_is_read_before_and_after_its_segment_is_closed(place: Place) -> None:
    owner = Owner(place, {}, 1)
    places = [*owner.commit(1, 2), *owner.commit(3)]
    assert urls(owner.segments, places) == pages(1, 2, 3)
    owner.close()
    assert urls(owner.segments, places) == pages(1, 2, 3)
    assert urls(place.owner(), places) == pages(1, 2, 3)


def test_renders_are_read_by_those_who_ask_for_them(place: Place) -> None:
    owner = Owner(place, {}, 1)
    (captured,) = owner.commit(1)
    owner.store.append_render(finished_render(numbered(1), captured))
    owner.commit(2)
    owner.store.append_render(finished_render(numbered(1), captured))
    owner.put()  # no commit names it
    again = Owner(place, owner.named, 2)
    again.commit(3)

    def rows(having: bytes = b"") -> list[str]:
        reader = cast(SegmentReader, again.segments)
        found = reader.list_segments(again.named)
        return [row.url for each in found for row in reader.read_rows(each, having)]

    for _ in range(2):
        assert (sorted(rows()), rows(RENDER_LINE)) == (pages(1, 2, 3), pages(1))
        again.close()
    if isinstance(place, Files | Stored):
        assert len([name for name in place.content() if "renders/" in name]) == 1


def test_no_record_begins_elsewhere(place: Place) -> None:
    owner = Owner(place, {}, 1)
    (first,) = owner.commit(1)
    for offset in (first.offset + 1, first.offset + 10_000_000):
        with pytest.raises((RecordError, OSError)):
            owner.segments.read_record(first.segment, offset)
    with pytest.raises((RecordError, OSError)):
        owner.segments.read_record("test_crawl-w000-000009-20260101000000.warc.gz", 0)


def test_what_no_commit_names_belongs_to_no_segment_after_a_recovery(place: Place) -> None:
    """A folder loses it at once; in an object store it is kept for a while."""
    owner = Owner(place, {}, 1)
    named = owner.commit(1, 2)
    unnamed = owner.put(3, 4)[1]
    before = place.content()
    after = Owner(place, owner.named, 2)
    assert urls(after.segments, named) == pages(1, 2)
    if isinstance(place, Files):
        assert not after.report.is_clean
    else:
        assert place.content() == before
    after.close()
    assert urls(after.segments, named) == pages(1, 2)
    sealed = place.content()[f"warc/{named[0].segment}"]
    assert unnamed[0].record_id.encode() not in gzip.decompress(sealed)


def test_a_segment_that_no_commit_names_is_not_found_after_a_recovery(place: Place) -> None:
    (location,) = Owner(place, {}, 1).put(1)[1]
    after = Owner(place, {}, 2)
    assert list(after.found.open) == []
    if isinstance(place, Files):
        assert place.content() == {}
        with pytest.raises((RecordError, OSError)):
            after.segments.read_record(location.segment, location.offset)


@pytest.mark.parametrize("committed", [0, 1])
def test_a_log_that_has_lost_commits_stops_the_recovery_before_anything_is_changed(
    place: Place, committed: int
) -> None:
    """The records of a commit are stored before it, one commit after the other: in an object store
    a second part without a commit shows that the log is older than the store.
    """
    if isinstance(place, Files):
        return  # its log is in the same folder, with a file that says where it ends
    owner, named = Owner(place, {}, 1), dict[str, int]()
    for number in range(3):
        named = owner.named if number == committed else named
        owner.commit(number)
    before = place.content()
    with pytest.raises(CommitsLost, match="cluster rescue"):
        place.owner().recover_segments(named)
    assert place.content() == before


def test_a_recovery_may_be_repeated(place: Place) -> None:
    owner = Owner(place, {}, 1)
    owner.commit(1)
    owner.put(2)
    named = owner.named
    Owner(place, named, 2)
    before = place.content()
    again = Owner(place, named, 3)
    assert again.report.is_clean
    assert place.content() == before


def test_the_segment_that_an_owner_left_open_is_found_with_its_committed_lengths(
    place: Place,
) -> None:
    owner = Owner(place, {}, 1)
    (location,) = owner.commit(1)
    owner.put(2)
    (found,) = Owner(place, owner.named, 2).found.open
    segment = layout.stem_of(location.segment)
    assert found.header.segment == segment
    assert found.length == owner.named[layout.file_name(layout.WARC, segment) + layout.OPEN]
    assert (
        found.journal_length == owner.named[layout.file_name(layout.JOURNAL, segment) + layout.OPEN]
    )


def test_a_closed_segment_is_not_found_open(place: Place) -> None:
    owner = Owner(place, {}, 1)
    places = owner.commit(1)
    owner.close()
    after = Owner(place, owner.named, 2)
    assert list(after.found.open) == []
    assert urls(after.segments, places) == pages(1)


def test_closing_may_be_repeated_also_by_a_later_owner(place: Place) -> None:
    owner = Owner(place, {}, 1)
    places = owner.commit(1, 2)
    closed = owner.store.roll_segment(START, force=True)
    assert closed is not None
    # and the owner ends before a commit says so: its last one still names the open form
    owner.segments.close_segment(closed.name)
    before = place.content()
    owner.segments.close_segment(closed.name)
    after = Owner(place, owner.named, 2)
    after.segments.close_segment(closed.name)
    assert place.content() == before
    assert urls(after.segments, places) == pages(1, 2)


@pytest.mark.parametrize("kind", [layout.WARC, layout.JOURNAL])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_what_is_missing_although_a_commit_names_it_stops_the_recovery_before_anything_is_changed(
    place: Place, kind: str, share: float
) -> None:
    owner = Owner(place, {}, 1)
    (location,) = owner.commit(1)
    owner.commit(2)
    owner.put(3)  # which the recovery would remove
    name = layout.file_name(kind, layout.stem_of(location.segment)) + layout.OPEN
    place.lose(name, int(share * (owner.named[name] - 1)))
    before = place.content()
    with pytest.raises(StoreDamaged):
        place.owner().recover_segments(owner.named)
    assert place.content() == before


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(st.sampled_from(["commit", "put", "close", "crash"]), min_size=1, max_size=14),
    kind=st.sampled_from(sorted(PLACES)),
)
def test_after_any_history_exactly_what_commits_named_is_read(
    steps: list[str], kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = PLACES[kind](tmp_path_factory.mktemp("history"))
    owner, term = Owner(place, {}, 1), 1
    named: list[tuple[int, Location]] = []
    lost: list[Location] = []
    for number, step in enumerate([*steps, "crash"], 1):
        if step == "commit":
            named += [(number, location) for location in owner.commit(number)]
        elif step == "close":
            owner.close()
        else:
            lost += owner.put(number)[1] if step == "put" else []
            term += 1
            owner = Owner(place, owner.named, term)
        assert urls(owner.segments, [location for _, location in named]) == pages(
            *(each for each, _ in named)
        )
    places = {(location.segment, location.offset) for _, location in named}
    for location in lost:
        if kind == "files" and (location.segment, location.offset) not in places:
            with pytest.raises((RecordError, OSError)):
                owner.segments.read_record(location.segment, location.offset)


# What segments of several owners have.


def test_a_new_owner_never_continues_a_segment_and_its_names_contain_its_term() -> None:
    place = Objects()
    owner = Owner(place, {}, 1)
    (first,) = owner.commit(1)
    after = Owner(place, owner.named, 2)
    (second,) = after.commit(2)
    assert "-t0001-" in first.segment
    assert "-t0002-" in second.segment
    assert first.segment != second.segment
    closed = after.store.roll_segment(START)  # its first commit closes the one that it found
    assert closed is not None
    assert closed.name == layout.stem_of(first.segment)
    after.segments.close_segment(closed.name)
    after.store.note_closed(closed)
    assert after.store.roll_segment(START) is None
    assert urls(after.segments, [first, second]) == pages(1, 2)


def test_two_owners_never_write_the_same_key() -> None:
    place = Objects()
    owner = Owner(place, {}, 1)
    owner.commit(1)
    late = owner.store
    after = Owner(place, owner.named, 2)
    after.commit(2)
    before = place.content()
    late.append_capture(numbered(3))  # the earlier owner does not know yet that it was overtaken
    owner.segments.put_records(late.freeze())
    assert {key: place.objects[key] for key in before} == before


def test_what_an_overtaken_owner_put_late_is_never_read_and_goes_at_the_next_recovery() -> None:
    place = Objects()
    owner = Owner(place, {}, 1)
    (first,) = owner.commit(1)
    named = dict(owner.named)
    after = Owner(place, named, 2)
    (late,) = owner.put(3)[1]
    (second,) = after.commit(2)
    closed = after.store.roll_segment(START)
    assert closed is not None
    after.segments.close_segment(closed.name)
    after.store.note_closed(closed)
    after.commit()
    assert urls(after.segments, [first, second]) == pages(1, 2)
    with pytest.raises(RecordError):
        after.segments.read_record(late.segment, late.offset)
    last = Owner(place, after.named, 3)
    assert urls(last.segments, [first, second]) == pages(1, 2)
    assert not any(
        layout.stem_of(late.segment) in key and int(key.rpartition("/")[2]) >= late.offset
        for key in place.objects
        if "/warc/" in key
    )


def test_the_parts_of_a_closed_segment_are_not_needed_any_more() -> None:
    place = Objects()
    owner = Owner(place, {}, 1)
    (first,) = owner.commit(1)
    closed = owner.store.roll_segment(START, force=True)
    assert closed is not None
    owner.segments.close_segment(closed.name)
    for key in [key for key in place.objects if key.startswith("parts/")]:
        del place.objects[key]
    after = Owner(place, owner.named, 2)  # whose last commit still names the open form
    assert list(after.found.open) == []
    assert urls(after.segments, [first]) == pages(1)


def test_found_segments_say_the_term_only_where_owners_do_not_continue_them(tmp_path: Path) -> None:
    assert Files(tmp_path).owner().find_segments(7) == FoundSegments(0, [], 0)
    assert Objects().owner().find_segments(7) == FoundSegments(0, [], 7)
    assert msgspec.structs.asdict(FoundSegments())["term"] == 0
