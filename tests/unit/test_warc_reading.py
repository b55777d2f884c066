"""WARC files of other programs: records, their places, and what remains behind damage."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random

import pytest
from fastwarc.warc import ArchiveIterator
from hypothesis import given
from hypothesis import strategies as st

from foreign_warcs import FORMS, HTML, PAGE, packed, warc_record, zstd
from lycosa.feeds.extraction.foreign_captures import (
    ForeignCaptures,
    capture_of,
    stem_of_file,
    unchunked,
)
from lycosa.state.store import warc_reading
from lycosa.state.store.warc_reading import DamagedPlace, WarcRecord, warc_records

RESPONSES = frozenset({"response"})


def read(
    data: bytes, kinds: frozenset[str] = RESPONSES
) -> tuple[list[WarcRecord], list[DamagedPlace]]:
    found = list(warc_records(io.BytesIO(data), kinds))
    return (
        [each for each in found if isinstance(each, WarcRecord)],
        [each for each in found if isinstance(each, DamagedPlace)],
    )


def numbers(records: list[WarcRecord]) -> list[int]:
    return [int(each.fields["warc-record-id"][-13:-1]) for each in records]


def bodies(seed: int, count: int = 40) -> list[bytes]:
    chance = Random(seed)
    return [HTML + chance.randbytes(chance.choice((0, 10, 3000, 50_000))) for _ in range(count)]


@pytest.mark.parametrize("form", FORMS)
def test_all_records_of_the_asked_types_come_with_their_blocks(form: str) -> None:
    blocks = bodies(1)
    kinds = ["response" if number % 3 else "request" for number in range(len(blocks))]
    listed = [
        warc_record(number, block, kind)
        for number, (block, kind) in enumerate(zip(blocks, kinds, strict=True))
    ]
    records, damaged = read(packed(listed, form))
    wanted = [number for number, kind in enumerate(kinds) if kind == "response"]
    assert (numbers(records), damaged) == (wanted, [])
    assert [each.block for each in records] == [blocks[number] for number in wanted]


def test_a_place_is_that_of_the_record() -> None:
    listed = [warc_record(number, block) for number, block in enumerate(bodies(2, 10))]
    for form in ("plain", "gzip", "zstd"):
        parts = [packed([each], form) for each in listed]
        records, _ = read(b"".join(parts))
        places = [sum(map(len, parts[:number])) for number in range(len(parts))]
        assert [each.offset for each in records] == places


@pytest.mark.parametrize("form", ["plain", "gzip"])
def test_another_reader_finds_the_same(form: str) -> None:
    data = packed((warc_record(number, each) for number, each in enumerate(bodies(5))), form)
    others = [
        (each.headers["WARC-Record-ID"], each.reader.read())
        for each in ArchiveIterator(io.BytesIO(data), parse_http=False)
    ]
    records, damaged = read(data)
    assert [(each.fields["warc-record-id"], each.block) for each in records] == others
    assert not damaged


def test_zstandard_with_a_dictionary_in_its_first_frame() -> None:
    listed = [warc_record(number) for number in range(20)]
    dictionary = zstd.train_dict([each + bytes([n]) for n, each in enumerate(listed * 10)], 2000)
    frames = b"".join(zstd.compress(each, 3, zstd_dict=dictionary) for each in listed)
    for content in (dictionary.dict_content, zstd.compress(dictionary.dict_content)):
        first = b"\x5d\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content
        records, damaged = read(first + frames)
        assert (numbers(records), damaged) == (list(range(20)), [])


@pytest.mark.parametrize(("form", "where"), [("gzip", -6), ("zstd", 4)])
def test_a_damaged_record_is_reported_and_the_others_are_read(form: str, where: int) -> None:
    listed = [warc_record(number, block + bytes(9)) for number, block in enumerate(bodies(3, 30))]
    parts = [bytearray(packed([each], form)) for each in listed]
    for number in (7, 16, 20):
        parts[number][where] ^= 0xFF  # the checksum, or the header of the frame
    parts[12][0] ^= 0xFF
    places = [sum(map(len, parts[:number])) for number in range(len(parts))]
    records, damaged = read(b"".join(parts))
    assert numbers(records) == [each for each in range(30) if each not in (7, 12, 16, 20)]
    assert [each.offset for each in damaged] == [places[each] for each in (7, 12, 16, 20)]


def test_without_compression_reading_continues_at_the_next_record() -> None:
    listed = [warc_record(number) for number in range(5)]
    listed[2] = listed[2].replace(b"Content-Length", b"Content-Lengtx")
    records, (damaged,) = read(b"".join(listed))
    assert numbers(records) == [0, 1, 3, 4]
    assert damaged.offset == len(listed[0]) + len(listed[1])


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_ends_early_gives_what_is_before(form: str) -> None:
    listed = [warc_record(number, block) for number, block in enumerate(bodies(4, 20))]
    listed.append(warc_record(20, HTML + Random(9).randbytes(2000)))
    records, damaged = read(packed(listed, form)[:-1000])
    found = numbers([each for each in records if not each.is_cut])
    assert found == list(range(20)) or form == "whole"
    assert len(damaged) == 1


@given(st.binary(max_size=300), st.sampled_from(("plain", "gzip")))
def test_a_record_behind_anything_is_found(garbage: bytes, form: str) -> None:
    if b"length" in garbage.lower():
        return  # it may state that what follows is its own
    first = packed([warc_record(1)], form)
    records, _ = read(first + garbage + b"\n" + packed([warc_record(2)], form))
    assert numbers(records) == [1, 2]


def test_a_stated_length_takes_no_memory() -> None:
    long = warc_record(1, HTML + bytes(100_000))
    data = io.BytesIO(packed([long, warc_record(2)], "gzip"))
    records = [each for each in warc_records(data, RESPONSES, 1000) if isinstance(each, WarcRecord)]
    assert [each.is_cut for each in records] == [True, False]
    assert len(records[0].block) == 1000
    huge = warc_record(3, kind="request").replace(b"Length: ", b"Length: 999999999999")
    records, damaged = read(huge + warc_record(4))
    assert numbers(records) == [4] and "are not skipped" in damaged[0].what


def test_damaged_places_of_a_file_are_bounded() -> None:
    records, damaged = read(b"WARC/1.0\n" * (warc_reading.MAX_DAMAGES + 100))
    assert not records and len(damaged) == warc_reading.MAX_DAMAGES + 1


def capture(record: bytes) -> tuple[str, bytes, list[tuple[str, str]]] | None:
    (found,), _ = read(record, frozenset({"response", "resource"}))
    made = capture_of(found, "segment")
    if made is None:
        return None
    given_page = made.load()
    return given_page.url, given_page.body, given_page.headers


def test_a_capture_has_url_date_and_id_of_its_record() -> None:
    (found,), _ = read(warc_record(7, fields="WARC-Extra: x\r\n"))
    made = capture_of(found, "segment")
    assert made is not None
    row = made.row
    assert (row.url, row.status) == ("http://shop.example/product/7", 200)
    assert row.record_id == "urn:uuid:00000000-0000-4000-8000-000000000007"
    assert row.date_us == 1_795_428_007_000_000


def test_what_is_no_page_of_the_web_is_no_capture() -> None:
    assert capture(warc_record(url="dns:a.example")) is None
    assert capture(warc_record(url="ftp://a.example/")) is None
    assert capture(warc_record(url="http://a.example/\x01")) is None
    assert capture(warc_record(block=b"HTTP/1.1 404 Not Found\r\n\r\nnothing")) is None
    assert capture(warc_record(block=b"\x16\x03\x01")) is None
    assert capture(warc_record(url="<http://a.example/>")) == (
        "http://a.example/",
        PAGE,
        [("content-type", "text/html")],
    )


def test_a_resource_has_its_block_as_body() -> None:
    record = warc_record(block=PAGE, kind="resource").replace(
        b"application/http; msgtype=response", b"text/html"
    )
    found = capture(record)
    assert found is not None and found[1:] == (PAGE, [("content-type", "text/html")])


def test_chunks_are_joined_and_what_is_none_stays() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    found = capture(warc_record(block=head + b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"))
    assert found is not None and found[1] == b"hello world"
    found = capture(warc_record(block=head + PAGE))
    assert found is not None and found[1] == PAGE, "it was stored without its chunks"
    assert unchunked(b"5\r\nhel") == b"hel"


def test_files_whose_tables_would_have_equal_names_are_refused(tmp_path: Path) -> None:
    assert stem_of_file(Path("x/CC-MAIN-2026.warc.gz")) == "CC-MAIN-2026"
    with pytest.raises(ValueError, match="may have letters"):
        stem_of_file(Path("x/a b.warc"))
    with pytest.raises(ValueError, match="same name"):
        ForeignCaptures([tmp_path / "a.warc", tmp_path / "a.warc.gz"])


def test_damage_is_told_with_its_file_and_place(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(warc_record(1) + b"nothing\r\n" + warc_record(2))
    told: list[str] = []
    source = ForeignCaptures([path], told.append)
    assert [each.row.record_id[-1] for each in source.captures("a")] == ["1", "2"]
    assert told == [f"{path}, byte {len(warc_record(1))}: no record begins there"]
