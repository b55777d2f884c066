"""What comes over the wire: header lines one by one, and bodies under their content encodings."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator

import brotli

from fuzz.judging import MAX_BYTES, shared, vectors
from lycosa.base.config.sections import RetrySection
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.base.system.content_encoding import RATIO_FREE_BYTES, Decoded, decode_content
from lycosa.stages.fetch.headers import HeaderBlock, protocol_of
from lycosa.stages.schedule.fetch_outcome import judge_answer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_HEADER_BYTES, _HEADER_LINES = 4096, 40
_MAX_BYTES, _MAX_RATIO = 3_000_000, 50
_ENCODINGS = (
    "gzip",
    "deflate",
    "br",
    "zstd",
    "gzip, br",
    "zstd, deflate",
    "x-gzip",
    "identity",
    "nonsense",
    "br, gzip, zstd, br, gzip",
)
_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda plain: gzip.compress(plain, 1, mtime=0),
    "deflate": lambda plain: zlib.compress(plain, 1),
    "br": lambda plain: brotli.compress(plain, quality=1),
    "zstd": lambda plain: zstd.compress(plain, 1),
}

WORDS = (
    *(
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 ",
        "HTTP/2 204 \r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "Location: ",
        "Content-Length: ",
        "\r\n\r\n",
    ),
    *(
        "Transfer-Encoding: chunked\r\n",
        "Content-Encoding: gzip\r\n",
        "\r\n folded",
        "\x1f\x8b\x08\x00",
        "x\x9c",
    ),
)


def check(data: bytes) -> None:
    """An answer as libcurl hands it over, and the same bytes as a body under each encoding."""
    block, body = assembled(data)
    fetched = Fetched("http://a.example/", Reason.NONE, status=301, header_block=block, body=body)
    for name, value in fetched.headers():
        assert name == name.strip().lower() and value == value.strip() and "\n" not in value
        assert fetched.header(name) or not value or fetched.header(name) == ""
    assert protocol_of(block) in ("", "http/1.0", "http/1.1", "h2")
    judge_answer(fetched, tries=0, conditional=False, section=RetrySection())
    for number, encodings in enumerate(_ENCODINGS):
        if (len(data) + number) % 3 == 0:
            _is_bounded(body, encodings)
    name = tuple(_PACKERS)[len(data) % 4]
    _comes_back(data[: MAX_BYTES // 2], name)


def assembled(data: bytes) -> tuple[bytes, bytes]:
    """The header block and the body of an answer, by the parts that collect them; without a
    whole header all is the block.
    """
    header = HeaderBlock(_HEADER_BYTES, _HEADER_LINES)
    taken = 0
    while taken < len(data) and not header.is_complete:
        end = data.find(b"\n", taken) + 1 or len(data)
        line, taken = data[taken:end], end
        reason = header.add_line(line)
        assert reason in (Reason.NONE, Reason.HEADERS_TOO_LARGE)
        if reason:
            assert taken > _HEADER_BYTES or data[:taken].count(b"\n") + 1 > _HEADER_LINES
            break
    block = header.joined()
    assert len(block) <= _HEADER_BYTES and block.count(b"\n") <= _HEADER_LINES + 2
    if header.is_complete:
        assert len(header.flaw()) < 250
        header.is_length_beyond_counting()
    return block, data[taken:]


def _is_bounded(body: bytes, encodings: str) -> None:
    decoded = decode_content(body, encodings, _MAX_BYTES, _MAX_RATIO)
    assert decoded.reason in (Reason.NONE, Reason.DECODE_FAILED, Reason.DECODE_LIMIT)
    assert len(decoded.body) <= max(
        len(body), min(_MAX_BYTES, max(RATIO_FREE_BYTES, len(body) * _MAX_RATIO))
    )
    assert decoded.reason is not Reason.DECODE_LIMIT or decoded.detail


def _comes_back(plain: bytes, name: str) -> None:
    """Packed and unpacked it is the same; cut anywhere, what comes out is its beginning, with a
    reason.
    """
    packed = _PACKERS[name](plain)
    assert decode_content(packed, name, _MAX_BYTES, 10**6) == Decoded(plain)
    cut = decode_content(packed[: len(packed) * 2 // 3], name, _MAX_BYTES, 10**6)
    if cut.reason:
        assert plain.startswith(cut.body), f"{name}, cut: {cut.body[:50]!r} is not the beginning"
    limited = decode_content(packed, name, len(plain) // 2, 10**6)
    assert limited.body == plain[: len(plain) // 2] and (
        limited.reason is Reason.DECODE_LIMIT or not plain
    )


def samples() -> Iterator[bytes]:
    yield (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"
        + gzip.compress(b"<p>Hello" * 50, mtime=0)
    )
    yield (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 301 Moved\nLocation: /x\n folded\n\n"
        + zlib.compress(b"abc" * 99)
    )
    yield (
        b"HTTP/2 200 \r\na: b\r\nSet-Cookie: c=d\r\n\r\n"
        + zstd.compress(b"page " * 99)
        + zstd.compress(b"more")
    )
    yield b"HTTP/1.0 200\r\n\r\n" + brotli.compress(b"text " * 99)
    yield (
        b"HTTP/1.1 200 OK\r\n\r\n"
        + gzip.compress(b"", mtime=0) * 20
        + gzip.compress(bytes(9999), mtime=0)[:-3]
    )
    yield b"HTTP/1.1 200 OK\r\n\r\n" + zlib.compress(b"raw " * 99)[2:-4]
    for path in shared("http/compressed/*"):
        if path.stat().st_size < MAX_BYTES // 2:
            yield b"HTTP/1.1 200 OK\r\n\r\n" + path.read_bytes()
    yield from vectors("http/raw-responses-sample.jsonl.gz", "raw")
