"""What is noted of a fetch and a parse: everything, in order, and the first of each as before."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import msgspec
import pytest

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.capture import Capture
from lycosa.base.model.compatibility import FIRST_FORMATS, PROTOCOL
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.model.remark import Remark
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer
from lycosa.base.urls.surt import surt
from lycosa.stages.parse.document import DocumentParser
from lycosa.state.store.journal_rows import JournalRow, RecordPlace, RowBuilder, remarks_of
from store_samples import SITE, numbered

PAGE = b"<!DOCTYPE html><title>t</title><p>" + b"words of the page " * 300
PLACE = RecordPlace("s", 1, 2, 3, 4, "urn:uuid:1")


def parsed(
    body: bytes, *encodings: str, media_type: str = "text/html", max_bytes: int = 1_000_000
) -> Parsed:
    section = ParseSection(max_bytes=max_bytes)
    headers = [("content-type", media_type), *(("content-encoding", each) for each in encodings)]
    parser = DocumentParser(section, Canonicalizer(CanonicalSection()), "lycosa")
    return parser.parse(ParseInput(f"{SITE}/a", 200, headers, body))


def reasons(found: Parsed) -> list[Reason]:
    return [each.reason for each in found.remarks]


def row(
    found: Parsed, reason: Reason = Reason.NONE, detail: str = "", formats: int = PROTOCOL
) -> JournalRow:
    capture: Capture = msgspec.structs.replace(numbered(1), parsed=found)
    fetched = msgspec.structs.replace(capture.fetched, reason=reason, detail=detail)
    rows = RowBuilder(surt, None, text=True, links=True, formats=formats)
    return rows.build_row(msgspec.structs.replace(capture, fetched=fetched), PLACE)


def test_a_page_without_a_reason_has_no_remarks() -> None:
    found = parsed(PAGE)
    assert (found.reason, found.remarks) == (Reason.NONE, ())
    assert row(found).remarks == () == remarks_of(row(found))


def test_a_body_that_is_not_unpacked_and_too_long_has_both_remarks() -> None:
    found = parsed(bytes(range(256)) * 40, "sdch", max_bytes=1024)
    assert reasons(found) == [Reason.DECODE_FAILED, Reason.BODY_TRUNCATED]
    assert found.is_cut and found.remarks[1].detail == "more than 1024 bytes"


@pytest.mark.parametrize(
    ("encodings", "wanted"),
    [
        # the one that failed first, and the one before which it gave up
        (("sdch", "gzip"), [Reason.DECODE_FAILED, Reason.DECODE_FAILED]),
        (("gzip",), []),
    ],
)
def test_every_encoding_that_failed_is_noted(
    encodings: Sequence[str], wanted: list[Reason]
) -> None:
    binary = bytes(range(256)) * 40
    found = parsed(gzip.compress(binary)[:-9], *encodings, media_type="text/html")
    assert found.reason is Reason.DECODE_FAILED
    assert reasons(found)[: len(wanted)] == wanted
    if wanted:
        assert "sdch" in found.remarks[1].detail
        assert found.remarks[0] == Remark(found.reason, found.detail)


def test_a_body_that_does_not_unpack_and_is_no_document_has_both_remarks() -> None:
    image = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
    found = parsed(gzip.compress(image)[:-9], "gzip", media_type="image/png")
    assert reasons(found) == [Reason.DECODE_FAILED, Reason.CONTENT_TYPE]
    assert (found.reason, found.detail) == msgspec.structs.astuple(found.remarks[0])


def test_what_is_wrong_with_a_gzip_file_does_not_replace_what_was_wrong_with_its_encoding() -> None:
    file = bytearray(gzip.compress(PAGE))
    file[-5] ^= 255  # of the checksum
    found = parsed(gzip.compress(file)[:-4], "gzip", media_type="application/gzip")
    assert reasons(found) == [Reason.DECODE_FAILED] * 2
    assert "ends before" in found.detail and "ends before" not in found.remarks[1].detail
    assert found.detail == found.remarks[0].detail


def test_a_parser_that_failed_is_the_reason_and_what_was_noted_before_follows() -> None:
    body = gzip.compress(PAGE)[:-9]
    parser = DocumentParser(ParseSection(), Canonicalizer(CanonicalSection()), "lycosa")
    headers = [("content-type", "text/html"), ("content-encoding", "gzip")]
    # a header value that is no text is an error of the caller, after the body was decoded
    broken = [*headers, ("x-robots-tag", None)]
    found = parser.parse(ParseInput(f"{SITE}/a", 200, broken, body))  # type: ignore[arg-type]
    assert reasons(found) == [Reason.INTERNAL, Reason.DECODE_FAILED]
    assert found.reason is Reason.INTERNAL and found.detail == found.remarks[0].detail


def test_a_row_has_the_remarks_of_fetch_and_parse_in_order() -> None:
    image = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
    found = parsed(gzip.compress(image)[:-9], "gzip", media_type="image/png")
    made = row(found, Reason.BODY_TRUNCATED, "more than 10 bytes")
    assert made.remarks == (Remark(Reason.BODY_TRUNCATED, "more than 10 bytes"), *found.remarks)
    assert (made.reason, made.detail) == (Reason.BODY_TRUNCATED, "more than 10 bytes")
    assert made.parse_reason is Reason.DECODE_FAILED
    assert remarks_of(made) == made.remarks


def test_a_row_has_no_remarks_where_its_reasons_say_the_same() -> None:
    plain = parsed(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), media_type="image/png")
    made = row(plain)
    assert (made.parse_reason, made.remarks) == (Reason.CONTENT_TYPE, ())
    assert remarks_of(made) == (Remark(Reason.CONTENT_TYPE),)
    cut = row(parsed(PAGE), Reason.BODY_TRUNCATED, "more than 10 bytes")
    assert cut.remarks == ()
    assert remarks_of(cut) == (Remark(Reason.BODY_TRUNCATED, "more than 10 bytes"),)


def test_the_detail_of_a_parse_is_a_remark() -> None:
    found = parsed(PAGE, max_bytes=1024)
    assert row(found).remarks == (Remark(Reason.BODY_TRUNCATED, "more than 1024 bytes"),)


def test_rows_of_formats_1_have_no_remarks() -> None:
    made = row(parsed(PAGE, max_bytes=1024), formats=FIRST_FORMATS)
    assert made.remarks == () and made.parse_reason is Reason.BODY_TRUNCATED
    assert remarks_of(made) == (Remark(Reason.BODY_TRUNCATED),)
