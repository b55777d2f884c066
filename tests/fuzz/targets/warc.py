"""WARC records: whatever header block and body came, three readers find the bytes that were
stored, and digests that agree.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator

import brotli
from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator

from fuzz.judging import scratch, vectors
from fuzz.targets.bodies import assembled
from lycosa.base.model.capture import Location, StoredOriginal
from lycosa.base.model.fetched import Fetched
from lycosa.state.store import layout, warc
from lycosa.state.store.stored_data import read_record
from lycosa.state.store.warc_records import Draft
from store_samples import capture, fetched, misshapen

_IDS = tuple(f"urn:uuid:00000000-0000-4000-8000-00000000000{number}" for number in range(1, 5))
_STATUS_LINE = re.compile(rb"HTTP/[12]\S*\s+\d{3}(?!\S)")  # what the fetcher lets pass
_FOLDER = scratch()
_FILE = _FOLDER / "warc" / "crawl-w000-000001-20260101000000.warc.gz"
_FILE.parent.mkdir()

WORDS = (
    *(
        "HTTP/1.1 200 OK\r\n",
        "HTTP/2 200 \r\n",
        "Content-Type: text/html\r\n",
        "Transfer-Encoding: chunked\r\n",
        "\r\n\r\n",
    ),
    *(
        "\n\n",
        "\r\n \r\n",
        "Content-Encoding: gzip\r\n",
        "Content-Length: 5\r\n",
        "WARC/1.1\r\n",
        "WARC-Type: response\r\n",
        "\x1f\x8b\x08",
    ),
    *("5\r\nhello\r\n0\r\n\r\n",),
)


def check(data: bytes) -> None:
    block, body = assembled(data)
    if not _is_let_pass(block):
        return
    answer = fetched(header_block=block, body=body)
    assert is_stored_whole(answer, len(data) % 4)
    _revisits(data, block, warc.stored_response_head(block))


def is_stored_whole(answer: Fetched, level: int = 1) -> bool:
    """Whether what was stored of an answer comes out of three readers; raises ``AssertionError``
    or theirs where it does not.
    """
    stored, body = warc.stored_response_head(answer.header_block), answer.body
    assert stored.endswith(b"\r\n\r\n") and len(stored) <= len(answer.header_block) + 500
    made = Draft(capture(answer), *_IDS, level).build()
    (packed,) = (piece for piece in made.data if isinstance(piece, bytes))
    _FILE.write_bytes(packed)
    main = packed[made.request_length :][: made.main_length]
    location = Location(
        layout.warc_name(layout.stem_of(_FILE)), made.request_length, made.main_length, _IDS[1]
    )
    record = read_record(_FOLDER, location)
    assert record.header_block + record.body == stored + body
    assert (record.fields["WARC-Type"], record.fields["WARC-Record-ID"]) == (
        "response",
        f"<{_IDS[1]}>",
    )
    _others_agree(main, stored, body)
    whole = zlib.decompressobj(31)
    assert whole.decompress(main).endswith(b"\r\n\r\n")
    return whole.eof and not whole.unused_data


def _is_let_pass(block: bytes) -> bool:
    """Whether the fetcher gives such a block: libcurl refuses NUL and CR in a line, one without
    a colon, and a block that does not end.
    """
    *lines, end = block.removesuffix(b"\n").split(b"\n")
    if not lines or not _STATUS_LINE.match(lines[0]) or end[:1] not in (b"", b"\r"):
        return False
    if b"\0" in block or any(b"\r" in line.removesuffix(b"\r") for line in lines):
        return False
    return all(line[:1] in (b" ", b"\t") or b":" in line for line in lines[1:])


def _others_agree(main: bytes, stored: bytes, body: bytes) -> None:
    record = next(iter(FastIterator(io.BytesIO(main), parse_http=False)))
    assert record.verify_block_digest()
    assert record.reader.read() == stored + body
    (block,) = [
        found.raw_stream.read() for found in ArchiveIterator(io.BytesIO(main), no_record_parse=True)
    ]
    assert block == stored + body
    (payload,) = [
        found.raw_stream.read()
        for found in ArchiveIterator(io.BytesIO(main), check_digests="raise")
    ]
    assert payload == body, "warcio separates header and body elsewhere"
    record = next(iter(FastIterator(io.BytesIO(main), parse_http=True)))
    assert record.verify_payload_digest(), "FastWARC separates header and body elsewhere"


def _revisits(data: bytes, block: bytes, stored: bytes) -> None:
    original = StoredOriginal("http://a.example/", 1_789_000_000_123_456, _IDS[0])
    made = Draft(
        capture(fetched(header_block=block), original=original, not_modified=len(data) % 2 == 0),
        *_IDS,
        1,
    ).build()
    (packed,) = (piece for piece in made.data if isinstance(piece, bytes))
    records = list(FastIterator(io.BytesIO(packed), parse_http=False))
    assert len(records) == 3
    (found,) = [
        each.raw_stream.read()
        for each in ArchiveIterator(io.BytesIO(packed), no_record_parse=True)
        if each.rec_type == "revisit"
    ]
    assert found == stored


def samples() -> Iterator[bytes]:
    for each in misshapen(_FOLDER / "spool").values():
        yield each.fetched.header_block + each.fetched.body[:2000]
    yield b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n" + brotli.compress(b"text " * 99)
    yield b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n\x28\xb5\x2f\xfd" + bytes(300)
    yield from vectors("http/raw-responses-sample.jsonl.gz", "raw")
