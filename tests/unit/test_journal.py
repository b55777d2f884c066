"""Rows and their journal."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import StoreSection
from lycosa.base.model.capture import Location, Original, StoredOriginal
from lycosa.base.model.discovered import LinkKind
from lycosa.base.urls.surt import surt
from lycosa.state.store import journal, layout
from lycosa.state.store.journal import JournalError, read_header, read_rows
from lycosa.state.store.journal_rows import (
    JOURNAL_FORMAT,
    RENDERS_FORMAT,
    JournalRow,
    Links,
    RowBuilder,
    SegmentHeader,
    link_columns,
    redirect_target,
)
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.stored_data import RecordError, location_of, read_record
from store_samples import (
    INFO,
    SECTION,
    SITE,
    START,
    capture,
    close_all,
    crawl_rows,
    fetched,
    head,
    numbered,
    open_store,
)

HEADER = SegmentHeader(
    format=JOURNAL_FORMAT,
    segment="s",
    crawl="c",
    created_us=0,
    warcinfo_id="urn:uuid:1",
    warcinfo_length=1,
    info="i",
    options={"links": True, "text": True},
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ROWS = st.builds(
    JournalRow,
    url=TEXT,
    surt=TEXT,
    host=TEXT,
    site=TEXT,
    date_us=st.integers(0, 2**53),
    status=st.integers(0, 999),
    segment=TEXT,
    offset=st.integers(0, 2**31 - 1),
    length=st.integers(0, 2**31 - 1),
    record_id=TEXT,
    title=TEXT,
    text=TEXT,
    simhash=st.integers(0, 2**64 - 1),
    links=st.builds(Links, st.lists(TEXT, max_size=3)),
    refused_links=st.dictionaries(st.integers(0, 200), st.integers(0, 9), max_size=2),
)


def write(path: Path, *frames: list[JournalRow], header: SegmentHeader = HEADER) -> list[int]:
    """A journal of some frames; gives the length after each."""
    path.write_bytes(journal.encode_journal_frame([journal.encode_header(header)]))
    ends = []
    for rows in frames:
        with path.open("ab") as file:
            file.write(journal.encode_journal_frame([journal.encode_line(row) for row in rows]))
        ends.append(path.stat().st_size)
    return ends


@settings(deadline=None, max_examples=50)
@given(frames=st.lists(st.lists(ROWS, max_size=4), max_size=3))
def test_rows_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, frames: list[list[JournalRow]]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "s.jsonl.zst"
    write(path, *frames)
    assert list(read_rows(path)) == [row for rows in frames for row in rows]
    assert read_header(path) == HEADER


def rows(folder: Path, count: int = 6) -> list[JournalRow]:
    store = open_store(folder)
    for number in range(count):
        store.append_capture(numbered(number))
    close_all(store)
    return list(crawl_rows(folder))


def test_an_open_journal_is_read_to_its_last_whole_frame(tmp_path: Path) -> None:
    made = rows(tmp_path / "crawl")
    path = tmp_path / "s.jsonl.zst.open"
    ends = write(path, made[:2], made[2:4], made[4:])
    whole = path.read_bytes()
    for length in range(ends[0], len(whole), 37):
        path.write_bytes(whole[:length])
        found = list(read_rows(path))
        assert found == made[: len(found)] and len(found) >= 2 + 2 * (length >= ends[1])


def test_an_open_journal_can_be_read_to_a_committed_length(tmp_path: Path) -> None:
    made = rows(tmp_path / "crawl")
    path = tmp_path / "s.jsonl.zst.open"
    ends = write(path, made[:2], made[2:4], made[4:])
    assert list(read_rows(path, ends[1])) == made[:4]


def test_lines_are_read_between_two_ends_of_frames(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.zst"
    made = rows(tmp_path / "crawl", 3)
    first, second = write(path, made[:1], made[1:])
    read = [
        [msgspec.json.decode(line)["url"] for line in journal.read_lines(path, start, end)]
        for start, end in ((0, first), (first, second), (0, second), (second, second))
    ]
    urls = [row.url for row in made]
    assert read == [urls[:1], urls[1:], urls, []]


def test_a_closed_journal_that_ends_inside_a_frame_is_an_error(tmp_path: Path) -> None:
    made = rows(tmp_path / "crawl")
    path = tmp_path / "s.jsonl.zst"
    write(path, made)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(JournalError, match=r"s\.jsonl\.zst"):
        list(read_rows(path))


def test_a_journal_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.zst"
    newer = SegmentHeader(
        format=RENDERS_FORMAT + 1,
        segment="s",
        crawl="c",
        created_us=0,
        warcinfo_id="",
        warcinfo_length=0,
        info="",
        options={},
    )
    write(path, header=newer)
    with pytest.raises(JournalError, match="reads up to"):
        list(read_rows(path))


def test_the_row_remembers_how_the_page_was_reached_and_what_it_said(tmp_path: Path) -> None:
    fields = (
        "Content-Type: Text/HTML; charset=x",
        'ETag: "e1"',
        "Last-Modified: Mon, 21 Sep 2026 00:00:00 GMT",
    )
    store = open_store(tmp_path)
    store.append_capture(capture(fetched(f"{SITE}/x", header_block=head(*fields))))
    close_all(store)
    (row,) = crawl_rows(tmp_path)
    assert (row.surt, row.media_type, row.etag, row.last_modified[:3]) == (
        "org,example)/x",
        "text/html",
        '"e1"',
        "Mon",
    )
    assert (row.depth, row.via, row.link_kind, row.fetch_number) == (2, f"{SITE}/", LinkKind.A, 1)
    assert row.robots is not None and row.robots.line == 4
    assert row.links.urls == [f"{SITE}/l{n}" for n in range(3)] and row.links.nofollow == [1]


def test_text_and_links_are_counted_even_if_they_are_not_kept(tmp_path: Path) -> None:
    store = open_store(tmp_path, section=StoreSection(text=False, links=False))
    store.append_capture(capture())
    close_all(store)
    (row,) = crawl_rows(tmp_path)
    assert (row.text, row.links.urls) == ("", []) and row.outlinks == 3 and row.text_characters > 0
    assert {path.name for path in tmp_path.iterdir()} >= {"cdxj", "journal", "pages", "warc"}
    assert not (tmp_path / "links").exists() and not (tmp_path / "text").exists()


@pytest.mark.parametrize(
    ("status", "location", "target"),
    [
        (301, "/b?c", "https://a.example/b?c"),
        (302, "//other.example/", "https://other.example/"),
        (301, "", ""),
        (200, "/b", ""),
        (301, "http://[broken", ""),
    ],
)
def test_a_redirect_has_an_absolute_target(status: int, location: str, target: str) -> None:
    assert redirect_target("https://a.example/x/y", status, location) == target


def test_no_links_are_no_columns() -> None:
    assert link_columns([]) == Links()


def test_segments_are_named_after_crawl_worker_number_and_time() -> None:
    name = layout.stem("my crawl/1", 3, 12, START)
    assert name == "my_crawl_1-w003-000012-20260921141320"
    assert (layout.segment_worker(name), layout.segment_number(name)) == (3, 12)
    assert (
        layout.stem_of(f"warc/{name}.warc.gz.open")
        == layout.stem_of(f".{name}.parquet.tmp")
        == name
    )
    assert layout.segment_worker("something-else") == -1


def test_a_place_without_a_record_is_told(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    location = store.append_capture(capture())
    close_all(store)
    for offset, length in (
        (location.offset + 1, location.length),
        (location.offset, location.length - 1),
    ):
        with pytest.raises(RecordError):
            read_record(tmp_path, Location(location.segment, offset, length, location.record_id))


def test_a_capture_without_a_response_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no response"):
        open_store(tmp_path).append_capture(capture(fetched(header_block=b"")))


def segments(store: SegmentStore, folder: Path) -> list[str]:
    close_all(store)
    return sorted({row.segment for row in crawl_rows(folder)})


def test_a_segment_is_sealed_when_it_is_large_enough(tmp_path: Path) -> None:
    store = open_store(tmp_path, section=StoreSection(segment_bytes=100_000))
    for number in range(12):
        store.append_capture(numbered(number, size=80_000))
    names = segments(store, tmp_path)
    assert len(names) > 1
    for path in (tmp_path / "warc").iterdir():
        assert path.stat().st_size < 150_000
    assert all(
        read_record(tmp_path, location_of(row)).fields["WARC-Target-URI"] == row.url
        for row in crawl_rows(tmp_path)
    )


def test_a_segment_is_closed_when_it_is_old_enough(tmp_path: Path) -> None:
    store = open_store(tmp_path, section=StoreSection(segment_age_s=60))
    store.append_capture(numbered(0))
    store.files.put_records(store.freeze())
    assert store.roll_segment(START + 59) is None
    closed = store.roll_segment(START + 60)
    assert closed is not None and closed.name.endswith("w000-000001-20260921141320")
    assert store.roll_segment(START + 60) is None


def test_nothing_appended_makes_no_files(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    pending = store.freeze()
    store.files.put_records(pending)
    assert pending.is_empty and pending.lengths == {}
    assert store.roll_segment(START, force=True) is None
    assert list(tmp_path.iterdir()) == []


def test_the_same_chance_gives_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        store = open_store(tmp_path / name, seed=7)
        for number in range(3):
            store.append_capture(numbered(number))
        close_all(store)
    files = [
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*.*")
        }
        for name in ("one", "two")
    ]
    assert files[0] == files[1] and len(files[0]) == 6


def test_a_drafted_capture_is_placed_later_as_if_it_had_been_appended(tmp_path: Path) -> None:
    drafted, plain = open_store(tmp_path / "drafted"), open_store(tmp_path / "plain")
    draft = drafted.draft_capture(numbered(1))
    assert drafted.place_records(draft, draft.build()) == plain.append_capture(numbered(1))


@pytest.mark.parametrize("is_spooled", [False, True], ids=["in memory", "on disk"])
def test_a_response_that_was_packed_ahead_is_stored_as_if_it_had_not_been(
    tmp_path: Path, is_spooled: bool
) -> None:
    body = b"large " * 50_000
    contents = []
    for name in ("ahead", "plain"):
        store = open_store(tmp_path / name, seed=7)
        capture = numbered(1)
        answer = msgspec.structs.replace(capture.fetched, body=body)
        if is_spooled:
            spool = tmp_path / f"{name}.body"
            spool.write_bytes(body)
            answer = msgspec.structs.replace(answer, body=b"", spool=str(spool))
        capture = msgspec.structs.replace(capture, fetched=answer)
        # Of the capture that is packed only the response is known yet.
        packed = (
            store.draft_capture(msgspec.structs.replace(capture, via="", depth=9)).pack()
            if name == "ahead"
            else None
        )
        store.append_capture(capture, packed)
        close_all(store)
        contents.append(next((tmp_path / name / "warc").iterdir()).read_bytes())
    assert contents[0] == contents[1]
    assert not list(tmp_path.glob("*.body*"))


def test_a_packed_response_is_dropped_when_the_body_turns_out_to_be_known(tmp_path: Path) -> None:
    store, plain = open_store(tmp_path / "a", seed=7), open_store(tmp_path / "b", seed=7)
    packed = store.draft_capture(numbered(1)).pack()
    known = msgspec.structs.replace(
        numbered(1), original=StoredOriginal("http://a.example/", 7, "urn:uuid:0")
    )
    assert store.append_capture(known, packed).length == plain.append_capture(known).length


def test_a_response_packed_for_a_segment_that_was_sealed_is_made_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(0))
    packed = store.draft_capture(numbered(1)).pack()
    store.files.put_records(store.freeze())
    assert store.roll_segment(START, force=True) is not None
    store.append_capture(numbered(1), packed)
    close_all(store)
    second = sorted((tmp_path / "warc").iterdir())[1]
    assert packed.draft.warcinfo_id.encode() not in gzip.decompress(second.read_bytes())


def test_the_snapshot_says_what_is_waiting(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    before = store.snapshot()
    pending = store.freeze()
    during = store.snapshot()
    store.files.put_records(pending)
    assert before.buffered_bytes > 500 and not before.is_writing
    assert during.buffered_bytes == 0 and during.is_writing and during.length == before.length
    assert not store.snapshot().is_writing
    assert before.segment in repr(store)


def test_dns_answers_stand_in_the_warc_without_a_row(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    location = store.append_dns("a.example", ["192.0.2.1"], START)
    close_all(store)
    record = read_record(tmp_path, location)
    assert (
        record.fields["WARC-Target-URI"] == "dns:a.example"
        and record.body == b"a.example.\tIN\tA\t192.0.2.1\r\n"
    )
    assert list(crawl_rows(tmp_path)) == []


@pytest.mark.parametrize(
    ("formats", "segment"), [(1, "other.warc.gz"), (2, "other.warc.gz"), (2, "")]
)
def test_the_row_of_a_revisit_has_the_place_of_its_body_from_formats_2_on(
    tmp_path: Path, formats: int, segment: str
) -> None:
    """Its segment is named when it is another one than that of the row."""
    files = SegmentFiles(tmp_path, 0)
    rows = RowBuilder(surt, None, text=True, links=True, formats=formats)
    store = SegmentStore(files.find_segments(), SECTION, INFO, 0, Random(1), rows)
    first = store.append_capture(numbered(1))
    original = StoredOriginal("http://a/", 7, first.record_id, segment or first.segment, 99)
    store.append_capture(msgspec.structs.replace(numbered(2), original=original))
    files.put_records(store.freeze())
    (path,) = (tmp_path / "journal").iterdir()
    plain, revisit = read_rows(path)
    assert (plain.body_segment, plain.body_offset, plain.original) == ("", 0, None)
    assert revisit.original == Original("http://a/", 7, first.record_id)
    stem = layout.stem_of(segment) if segment else ""
    expected = (stem, 99) if formats > 1 else ("", 0)
    assert (revisit.body_segment, revisit.body_offset) == expected
