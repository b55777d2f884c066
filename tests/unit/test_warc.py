"""WARC records as bytes."""

from __future__ import annotations

import io
import zlib
from random import Random

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from lycosa.base.model.capture import RobotsDecision, StoredOriginal
from lycosa.base.model.fetched import FetchKind
from lycosa.state.store import warc
from lycosa.state.store.warc_records import (
    CrawlInfo,
    Draft,
    capture_fields,
    dns,
    record_id,
    warcinfo,
)
from store_samples import START, capture, digest, fetched, head

FIELD = st.tuples(
    st.from_regex(rb"\A[A-Za-z][A-Za-z0-9-]{0,20}\Z"),
    st.binary(max_size=40).filter(lambda value: not any(byte in value for byte in b"\r\n\x00")),
)


def one(data: bytes) -> tuple[dict[str, str], bytes]:
    """The only record in some bytes, as warcio sees it: fields, block."""
    (found,) = [
        (dict(record.rec_headers.headers), record.raw_stream.read())
        for record in ArchiveIterator(io.BytesIO(data), no_record_parse=True)
    ]
    return found


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=3000), max_size=4), st.integers(0, 3))
def test_a_member_is_ordinary_gzip(parts: list[bytes], level: int) -> None:
    gzip = zlib.decompressobj(31)
    assert gzip.decompress(warc.member(parts, level)) == b"".join(parts)
    assert gzip.eof and not gzip.unused_data


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 3_000_000])
def test_large_and_incompressible_members_keep_their_checksum(size: int, level: int) -> None:
    data = Random(size).randbytes(size)
    assert zlib.decompress(warc.member((data[:7], data[7:]), level), 31) == data


@pytest.mark.parametrize("size", [300, 65_535, 65_536, 200_000])
@pytest.mark.parametrize("after", [b"", b"\r\n\r\n", b"x" * 70_000])
def test_a_compressed_piece_is_stored_as_it_is(size: int, after: bytes) -> None:
    packed = b"\x1f\x8b\x08" + Random(1).randbytes(size - 3)
    made = warc.member((b"WARC/1.1\r\n" * 50, packed, after), 2)
    reader = zlib.decompressobj(31)
    assert reader.decompress(made) == b"WARC/1.1\r\n" * 50 + packed + after
    assert reader.eof
    assert not reader.unused_data
    assert len(made) < len(packed) + len(after) + 200


@settings(deadline=None, max_examples=100)
@given(st.lists(FIELD, max_size=6), st.binary(max_size=500))
def test_both_readers_separate_any_header_block_from_any_body(
    fields: list[tuple[bytes, bytes]], body: bytes
) -> None:
    block = (
        b"HTTP/1.1 200 OK\r\n"
        + b"".join(name + b": " + value + b"\r\n" for name, value in fields)
        + b"\r\n"
    )
    response = fetched(body=body, header_block=block)
    made = Draft(
        capture(response), "urn:uuid:1", "urn:uuid:2", "urn:uuid:3", "urn:uuid:4", 1
    ).build()
    data = b"".join(piece for piece in made.data if isinstance(piece, bytes))
    main = data[made.request_length :][: made.main_length]
    record = next(iter(FastIterator(io.BytesIO(main), parse_http=False)))
    assert record.verify_block_digest()
    record.parse_http()
    assert record.verify_payload_digest()
    (body_read,) = [
        record.raw_stream.read()
        for record in ArchiveIterator(io.BytesIO(main), check_digests="raise")
    ]
    assert body_read == body


def test_a_line_break_in_a_value_cannot_forge_a_field() -> None:
    fields = (("via", "http://a/\r\nWARC-Type: warcinfo\nx"), ("empty", ""))
    assert warc.named_fields(fields) == "via: http://a/ WARC-Type: warcinfo x\r\n"


def test_dates_have_microseconds() -> None:
    assert warc.warc_date(1_790_000_000_000_007) == "2026-09-21T14:13:20.000007Z"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-Crawler-Transfer-Encoding: chunked\r\n\r\n",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding : gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-Crawler-transfer-encoding : gzip\r\n\r\n",
        ),
        (
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding:"
                b" chunked\r\ncontent-LENGTH : 7\r\nX-Content-Length: 3\r\n\r\n"
            ),
            (
                b"HTTP/1.1 200 OK\r\nX-Crawler-Content-Length: 0\r\nX-Crawler-Transfer-Encoding:"
                b" chunked\r\nX-Crawler-content-LENGTH : 7\r\nX-Content-Length: 3\r\n\r\n"
            ),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTE: x\r\nX-Transfer-Encoding: y\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTE: x\r\nX-Transfer-Encoding: y\r\n\r\n",
        ),
        (b"HTTP/2 200 \r\na: b\r\n\r\n", b"HTTP/1.1 200 \r\na: b\r\n\r\n"),
        (b"HTTP/3 404\r\n\r\n", b"HTTP/1.1 404\r\n\r\n"),
        (b"HTTP/1.0 200 OK\r\n  folded\r\n\r\n", b"HTTP/1.0 200 OK\r\n  folded\r\n\r\n"),
        (
            b"HTTP/1.1 200 OK\r\na: b\r\n \t \r\nc: d\r\n\r\n",
            b"HTTP/1.1 200 OK\r\na: b\r\nc: d\r\n\r\n",
        ),
        (b"HTTP/1.1 200 OK\na: b\n\n", b"HTTP/1.1 200 OK\na: b\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\na: b", b"HTTP/1.1 200 OK\r\na: b\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\na: b\r\n\r\r\n", b"HTTP/1.1 200 OK\r\na: b\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\na: b\r\n\r \r\n", b"HTTP/1.1 200 OK\r\na: b\r\n\r\n"),
        (
            b"HTTP/1.1 200 OK\r\na: b\r\n\t\xa0\r\r\nc: d\r\n\r\n",
            b"HTTP/1.1 200 OK\r\na: b\r\nc: d\r\n\r\n",
        ),
    ],
)
def test_header_blocks_change_only_where_readers_would_be_misled(sent: bytes, kept: bytes) -> None:
    assert warc.stored_response_head(sent) == kept


def test_an_http2_request_is_kept_in_http1_syntax() -> None:
    assert (
        warc.stored_request(b"GET /a HTTP/2\r\nHost: a\r\n\r\n")
        == b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    untouched = b"GET /a HTTP/1.1\r\nX: y HTTP/2\r\n\r\n"
    assert warc.stored_request(untouched) == untouched


@pytest.mark.parametrize(
    ("tls", "named"), [("TLSv1.3", "tls/1.3"), ("tls/1.2", "tls/1.2"), ("SSLv3", "ssl/3"), ("", "")]
)
def test_protocols_are_named_as_the_proposal_names_them(tls: str, named: str) -> None:
    assert warc.protocols("h2", tls)[0] == ("WARC-Protocol", "h2")
    assert [value for _, value in warc.protocols("h2", tls)[1:]] == ([named] if named else [])


def test_a_request_that_was_not_recorded_has_no_record() -> None:
    made = Draft(
        capture(fetched(request_block=b"")),
        "urn:uuid:1",
        "urn:uuid:2",
        "urn:uuid:3",
        "urn:uuid:4",
        1,
    ).build()
    assert made.request_length == 0
    data = b"".join(piece for piece in made.data if isinstance(piece, bytes))
    fields, _ = one(data[: made.main_length])
    assert "WARC-Concurrent-To" not in fields


@pytest.mark.parametrize("word", ["length", "time", "disconnect", ""])
def test_why_a_body_is_short_is_said_in_the_records_own_words(word: str) -> None:
    made = Draft(
        capture(fetched(truncated=word)), "urn:uuid:1", "urn:uuid:2", "urn:uuid:3", "urn:uuid:4", 1
    ).build()
    data = b"".join(piece for piece in made.data if isinstance(piece, bytes))
    fields, _ = one(data[made.request_length :][: made.main_length])
    assert fields.get("WARC-Truncated", "") == word


def test_an_original_without_an_id_is_named_by_url_and_date() -> None:
    draft = Draft(
        capture(original=StoredOriginal("http://a.example/", 7)),
        "urn:uuid:1",
        "urn:uuid:2",
        "urn:uuid:3",
        "urn:uuid:4",
        1,
    )
    made = draft.build()
    data = b"".join(piece for piece in made.data if isinstance(piece, bytes))
    fields, block = one(data[made.request_length :][: made.main_length])
    assert (
        "WARC-Refers-To" not in fields
        and fields["WARC-Refers-To-Target-URI"] == "http://a.example/"
    )
    assert block == draft.capture.fetched.header_block


def test_metadata_counts_the_hops_by_their_kind() -> None:
    assert (
        dict(capture_fields(capture(depth=2, chain=("http://a/", "http://b/"))))["hopsFromSeed"]
        == "LLRR"
    )
    assert dict(capture_fields(capture(depth=0)))["hopsFromSeed"] == ""
    assert dict(capture_fields(capture(kind=FetchKind.ROBOTS, depth=3)))["hopsFromSeed"] == "P"


def test_a_robots_rule_cannot_forge_metadata() -> None:
    item = capture(robots=RobotsDecision(True, "V", 1.0, 200, "*", 3, "Allow: /\r\nvia: evil"))
    text = warc.named_fields(capture_fields(item))
    assert "robotsRule: Allow: / via: evil\r\n" in text and text.count("\r\nvia:") == 0


def test_the_warcinfo_record_says_who_crawls_and_how() -> None:
    info = CrawlInfo(
        crawl="c",
        software="lycosa/1",
        user_agent="ua",
        operator="a@b.example",
        hostname="h",
        settings="abc",
    )
    fields, block = one(warcinfo(info, "urn:uuid:1", int(START * 1e6), "name.warc.gz", 2))
    assert fields["WARC-Type"] == "warcinfo" and fields["WARC-Filename"] == "name.warc.gz"
    for line in (
        b"software: lycosa/1",
        b"isPartOf: c",
        b"operator: a@b.example",
        b"robots: RFC 9309",
        b"format: WARC File Format 1.1",
    ):
        assert line + b"\r\n" in block


def test_an_address_record_says_its_type() -> None:
    _, block = one(dns("a.example", ["::1", "192.0.2.1"], "urn:uuid:1", 0, "urn:uuid:2", 2))
    assert block == b"a.example.\tIN\tAAAA\t::1\r\na.example.\tIN\tA\t192.0.2.1\r\n"


def test_record_ids_are_version_4_uuids_of_the_given_chance() -> None:
    first, again = record_id(Random(5)), record_id(Random(5))
    assert (
        first == again and first.startswith("urn:uuid:") and first[23] == "4" and len(first) == 45
    )


def test_the_digest_is_the_well_known_one_of_nothing() -> None:
    assert warc.block_digest() == digest(b"") == "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"


def test_a_header_without_fields_is_a_header() -> None:
    assert warc.stored_response_head(head()) == b"HTTP/1.1 200 OK\r\n\r\n"
