"""What is stored in tables and said between processes: any bytes decode to a value that comes
back the same, or are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from lycosa.base.messages.worker_messages import (
    Probe,
    Seeds,
    Stop,
    decode_from_worker,
    decode_to_worker,
)
from lycosa.base.model.capture import Original, StoredOriginal
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.host_memory import Usage
from lycosa.base.model.parsed import Link, Parsed, ParseInput
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.system.frames import UNREADABLE, FrameError, FrameReader, frame_pieces
from lycosa.cluster.network.connection import DECODER as EXCHANGED
from lycosa.cluster.network.connection import Acknowledgements, Hello, Parcels, Questions, Replies
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.stages.politeness.robots_rules import RobotsRules
from lycosa.state.commit import Commit, PartitionBatch
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.kv.table_records import UrlRecord, decode_url, due_urls, encode_url, row_urls
from lycosa.state.shard.counters import Counters
from lycosa.worker.visit.host_robots import RobotsRecord

WORDS = ("urn:uuid:", "http://a/", "Seeds", "Stop", "\u0000\u0000\u0000\u0001")
_MAX_FRAME = 1000


class _Codec(NamedTuple):
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes] = msgspec.msgpack.encode


def _plain(kind: Any) -> _Codec:
    return _Codec(msgspec.msgpack.Decoder(kind).decode)


_CODECS = (
    _Codec(decode_url, encode_url),
    *map(
        _plain,
        (
            VisitRecord,
            RobotsRecord,
            RobotsRules,
            Counters,
            Usage,
            Original,
            StoredOriginal,
            Commit,
            list[Discovered],
            ParseInput,
            Parsed,
        ),
    ),
    _Codec(EXCHANGED.decode),
    _Codec(decode_to_worker),
    _Codec(decode_from_worker),
)


def check(data: bytes) -> None:
    """The first byte says which codec gets the rest; all of it is a stream of frames as well."""
    if data:
        _comes_back(_CODECS[data[0] % len(_CODECS)], data[1:])
    _cuts_alike(data)
    assert all(len(url8) <= 8 for url8 in row_urls(data)) and b"".join(row_urls(data)) == data
    assert b"".join(due_urls(data[:21], data[21:])) == data[5:]


def _comes_back(codec: _Codec, data: bytes) -> None:
    try:
        value = codec.decode(data)
    except UNREADABLE:
        return
    again = codec.encode(value)
    found = codec.decode(again)
    assert codec.encode(found) == again
    assert found == value or "nan" in repr(value)


def _cuts_alike(data: bytes) -> None:
    """In one piece or in many, the frames of a stream are the same, and so is the error."""
    assert _frames(data, len(data) or 1) == _frames(data, 1 + len(data) % 7)
    assert _frames(_frame(data), 3)[:1] == ([data] if len(data) <= _MAX_FRAME else ["too long"])


def _frames(data: bytes, step: int) -> list[bytes | str]:
    reader, found = FrameReader(_MAX_FRAME), list[bytes | str]()
    try:
        for start in range(0, len(data), step):
            found += reader.feed(data[start : start + step])
    except FrameError:
        return [*found, "too long"]
    try:
        reader.end()
    except FrameError:
        return [*found, "inside a frame"]
    return [*found, "between frames"]


def _frame(payload: bytes) -> bytes:
    return b"".join(frame_pieces(payload))


def samples() -> Iterator[bytes]:
    history = History(
        2,
        1_790_000_000,
        200,
        b"d" * 20,
        2**63,
        '"e"',
        "Sun, 06 Nov 1994 08:49:37 GMT",
        1,
        86_400,
        1_790_000_000_123_456,
    )
    stored = msgspec.structs.replace(
        history, record_id="urn:uuid:00000000-0000-4000-8000-000000000001", segment="s", offset=9
    )
    url = UrlRecord(
        UrlState.FETCHED, True, "/a?b", 1, 128, LinkKind.A, 1_790_000_000, "/", history=stored
    )
    discovered = Discovered(
        "http://a/b", b"h" * 8, b"u" * 8, LinkKind.A, 1, "http://a/", importance=0.5
    )
    batch = PartitionBatch(3, {b"Uhhhhhhhhuuuuuuuu": b"v", b"gone": None})
    link = Link("http://a/b", b"h" * 8, b"u" * 8, LinkKind.IMG, "anchor", True)
    values: tuple[list[Any], ...] = (
        [
            url,
            msgspec.structs.replace(url, history=history),
            msgspec.structs.replace(url, history=None, state=UrlState.QUEUED),
        ],
        [VisitRecord(host="a.example")],
        [RobotsRecord()],
        [RobotsRules([(False, "/a*", 2)], "*", 1.5, ["http://a/s.xml"])],
        [Counters()],
        [Usage()],
        [Original("http://a/", 1_790_000_000_000_000, "urn:uuid:1")],
        [StoredOriginal("http://a/", 1_790_000_000_000_000, "urn:uuid:1", "s.warc.gz", 9)],
        [Commit(term=1, sequence=2, wall=3.5, lengths={"warc/a": 4}, batches=[batch])],
        [[discovered]],
        [ParseInput("http://a/", 200, [("content-type", "text/html")], b"<p>")],
        [Parsed(title="t", links=[link], hints={"http://a/b": (5, 0.5)}, refused_links={1: 2})],
        [
            *(
                Hello("c"),
                Parcels([(1, Parcel(0, 1, 2, [discovered]))]),
                Acknowledgements([(1, "")]),
            ),
            *(Questions([(1, [(2, b"k")])]), Replies([(1, {b"k": None})])),
        ],
        [Seeds("seeds 1", ["http://a/"]), Stop("interrupted"), Probe(3)],
        [],
    )
    for number, (codec, many) in enumerate(zip(_CODECS, values, strict=True)):
        for value in many:
            yield bytes((number,)) + codec.encode(value)
    yield _frame(b"one") + _frame(b"") + _frame(b"three")[:-1]
    yield _frame(bytes(_MAX_FRAME + 1))
