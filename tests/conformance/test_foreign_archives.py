"""Archives that others wrote: each HTTP message in them goes through our writer and comes out of
three readers as it was.

The crawler reads no foreign archives, so what these files can show is that real messages of others
survive being stored: chunked, compressed, cut short, with odd URLs, from ARC as well. And Common
Crawl's schema, column by column.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator
from warcio.bufferedreaders import ChunkedDataReader
from warcio.exceptions import ArchiveLoadFailed

from lycosa.base.model.capture import Location, StoredOriginal
from lycosa.state.store import layout, warc
from lycosa.state.store.pages_table import COMMON_CRAWL_COLUMNS
from lycosa.state.store.stored_data import read_record
from lycosa.state.store.warc_records import Draft
from store_samples import capture, fetched

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "warc"
IDS = tuple(f"urn:uuid:00000000-0000-4000-8000-00000000000{number}" for number in range(1, 5))
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not DATA.is_dir(), reason="the shared WARC data is not beside the checkout"),
]

_DAMAGED = "damaged on purpose: warcio refuses it too, and there is no whole HTTP message in it"
_NO_MESSAGE = "no HTTP message in it: the crawler makes no resource records"
_POST = "a request with a body: the crawler sends GET only"
KNOWN_MISSES = {
    "bad.arc": {_DAMAGED: 1},
    "example-bad-non-chunked.warc.gz": {_DAMAGED: 1},
    "example-bad.warc.gz.bad": {_DAMAGED: 1},
    "example-resource.warc.gz": {_NO_MESSAGE: 1},
    "example-space-in-target-uri.warc.gz": {_NO_MESSAGE: 1},
    "post-test.warc.gz": {_POST: 3},
}


_HEAD_END = re.compile(rb"\r?\n\r?\n")


class Message(NamedTuple):
    kind: str
    url: str
    block: bytes

    def parts(self) -> tuple[bytes, bytes]:
        """Header block and body, without chunks."""
        found = _HEAD_END.search(self.block)
        assert found is not None
        head, body = self.block[: found.end()], self.block[found.end() :]
        if b"\r\ntransfer-encoding: chunked" in head.lower():
            body = ChunkedDataReader(io.BytesIO(body)).read(1 << 20)
        return head, body


def messages(path: Path) -> Iterator[Message]:
    """The HTTP messages that warcio finds, up to where it gives up."""
    try:
        with path.open("rb") as file:
            for record in ArchiveIterator(file, no_record_parse=True, arc2warc=True):
                block = record.raw_stream.read()
                if record.rec_type in ("response", "request", "revisit") and _HEAD_END.search(
                    block
                ):
                    yield Message(
                        record.rec_type, record.rec_headers.get_header("WARC-Target-URI"), block
                    )
    except ArchiveLoadFailed:
        return


def survives(message: Message, folder: Path) -> bool:
    """Whether all three readers find what was stored, with digests that agree."""
    head, body = message.parts()
    if message.kind == "request":
        made = Draft(
            capture(fetched(url=message.url, request_block=message.block)), *IDS, 1
        ).build()
    elif message.kind == "revisit":
        original = StoredOriginal(message.url, 1_789_000_000_123_456, IDS[0])
        made = Draft(
            capture(fetched(url=message.url, header_block=head, body=body), original=original),
            *IDS,
            1,
        ).build()
    else:
        made = Draft(
            capture(fetched(url=message.url, header_block=head, body=body)), *IDS, 1
        ).build()
    packed = b"".join(piece for piece in made.data if isinstance(piece, bytes))
    expected = (
        message.block if message.kind == "request" else warc.stored_response_head(head) + body
    )
    path = folder / "warc" / "crawl-w000-000001-20260101000000.warc.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed)
    place = (
        (0, made.request_length)
        if message.kind == "request"
        else (made.request_length, made.main_length)
    )
    own = read_record(folder, Location(layout.warc_name(layout.stem_of(path)), *place, IDS[1]))
    return all(
        found == expected
        for found in (own.header_block + own.body, *_read_by_others(packed, message.kind, expected))
    )


def _read_by_others(packed: bytes, kind: str, expected: bytes) -> Iterator[bytes]:
    for record in ArchiveIterator(io.BytesIO(packed), no_record_parse=True):
        if record.rec_type == kind:
            yield record.raw_stream.read()
    for record in ArchiveIterator(io.BytesIO(packed), check_digests="raise"):
        if record.rec_type == kind == "response":
            yield expected if expected.endswith(record.raw_stream.read()) else b""
    for record in FastIterator(io.BytesIO(packed), parse_http=False):
        if record.headers["WARC-Type"] == kind:
            assert record.verify_block_digest()
            yield record.reader.read()


@pytest.mark.parametrize(
    "name", sorted(path.name for path in DATA.glob("*arc*")) if DATA.is_dir() else []
)
def test_http_messages_of_others_survive_being_stored(name: str, tmp_path: Path) -> None:
    found = list(messages(DATA / name))
    missed = sum(not survives(message, tmp_path) for message in found) if found else 1
    known = KNOWN_MISSES.get(name, {})
    print(f"warc/{name}: passed {len(found) - missed if found else 0} of {len(found) or 1}")
    for reason, count in known.items():
        print(f"  {count} missed: {reason}")
    assert missed == sum(known.values())


def test_pages_begin_with_the_columns_of_common_crawls_index() -> None:
    names = {"string": "string", "integer": "int32", "short": "int16", "timestamp": "timestamp[us]"}
    fields = json.loads((DATA / "cc-index-schema-flat.json").read_text())["fields"]
    expected = [(field["name"], names[field["type"]], field["nullable"]) for field in fields]
    ours = [(name, str(kind), nullable) for name, kind, nullable, _ in COMMON_CRAWL_COLUMNS]
    same = sum(one == other for one, other in zip(ours, expected, strict=False))
    print(f"warc/cc-index-schema-flat.json: passed {same} of {len(expected)}")
    assert ours == expected
