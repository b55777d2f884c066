"""WARC files of other programs: the reader ends, each record is within its bounds and behind the
one before, and damage in front of a sound record does not hide it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from foreign_warcs import FORMS, HTML, PAGE, packed, warc_record
from lycosa.feeds.extraction.foreign_captures import capture_of, unchunked
from lycosa.state.store.warc_reading import MAX_BLOCK, DamagedPlace, WarcRecord, warc_records

_KINDS = frozenset({"response", "resource"})
_LAST = warc_record(999_999)
_PACKED = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x5d\x2a\x4d\x18")

WORDS = (
    *("WARC/1.0\r\n", "WARC/1.1\r\n", "\r\n\r\nWARC/", "Content-Length: 5\r\n"),
    *("Content-Length: 99999999999\r\n", "Content-Length: -1\r\n", "WARC-Type: response\r\n"),
    *("WARC-Type: resource\r\n", "WARC-Target-URI: <http://a.example/>\r\n", "\r\n\r\n", "\n\n"),
    *("HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
    *("\x1f\x8b\x08", "\x28\xb5\x2f\xfd", "\x5d\x2a\x4d\x18", "Content-Encoding: gzip\r\n"),
)


def check(data: bytes) -> None:
    found = _read(data)
    for each in found:
        if isinstance(each, WarcRecord):
            _capture(each)
    _is_found_behind(data)
    assert len(unchunked(data)) <= len(data)


def _read(data: bytes) -> list[WarcRecord | DamagedPlace]:
    found, at = [], 0
    for each in warc_records(io.BytesIO(data), _KINDS):
        assert at <= each.offset <= len(data), "a place before the last one"
        at = each.offset
        if isinstance(each, WarcRecord):
            assert each.kind in _KINDS and len(each.block) <= MAX_BLOCK
        found.append(each)
    return found


def _capture(record: WarcRecord) -> None:
    capture = capture_of(record, "segment")
    if capture is None:
        return
    row = capture.row
    assert row.url.lower().startswith(("http://", "https://"))
    assert row.url.isprintable() and row.record_id.isprintable() and row.record_id
    assert 0 <= row.date_us < 253_402_300_800_000_000
    given = capture.load()
    assert given.url == row.url and given.status == 200


def _is_found_behind(data: bytes) -> None:
    """A record behind any bytes is found, unless they state that it belongs to their last one, or
    that all is compressed.
    """
    if b"length" in data.lower() or data[:4].startswith(_PACKED):
        return
    behind = [each for each in _read(data + b"\n" + _LAST) if isinstance(each, WarcRecord)]
    assert behind and behind[-1].fields["warc-record-id"].endswith("999999>")


def samples() -> Iterator[bytes]:
    records = [warc_record(number) for number in range(3)]
    for form in FORMS:
        whole = packed(records, form)
        yield whole
        yield whole[:-20]
        yield whole[:30] + b"\xff" + whole[31:]
    yield warc_record(block=b"body", kind="resource", fields="Content-Type: text/plain\r\n")
    yield warc_record(block=b"HTTP/1.0 200 OK\n\n" + PAGE, version="0.18")
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    yield warc_record(block=chunks)
    yield packed([warc_record(block=HTML + bytes(40_000))], "gzip")
    yield b"WARC/1.0\n" * 500
