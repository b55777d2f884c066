"""What a server says on a connection, through libcurl and the real fetcher, into a record: no
hang, and no byte that was not said.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

from fuzz.judging import MAX_BYTES, scratch, vectors
from fuzz.targets.warc import is_stored_whole
from lycosa.base.config.sections import FetchSection, RetrySection
from lycosa.base.model.fetched import Fetched, FetchRequest, Limits
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.base.urls.identity import Sites
from lycosa.stages.fetch.cookies import CookieJars
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.http_client import CurlFetcher, RequestHooks
from lycosa.stages.schedule.fetch_outcome import judge_answer
from raw_server import OK

_LIMITS = Limits(
    connect_s=5, first_byte_s=5, total_s=5, header_bytes=8192, header_count=50, body_bytes=20_000
)
_HANG_S = 20.0
_JARS_BYTES = 100_000
_CUT = (Reason.BODY_TRUNCATED, Reason.CONNECTION_LOST)

WORDS = (
    *(
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 ",
        "HTTP/2 200 \r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 ",
        "HTTP/1.1 204 No\r\n",
    ),
    *(
        "HTTP/1.1 304 \r\n",
        "Content-Length: ",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
    ),
    *(
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        ";ext=1\r\n",
        "Connection: keep-alive\r\n",
        "Location: /\r\n",
        "\r\n folded",
        "\r\r\n",
        "\r\n\r\n",
    ),
    *(
        "Content-Range: bytes 0-4/9\r\n",
        "Upgrade: h2c\r\n",
        "Set-Cookie: a=b\r\n",
        "; Path=/a",
        "; Domain=",
        "; Max-Age=9",
        "99999999999999999999",
        "ICY 200 OK\r\n",
        "RTSP/1.0 200 OK\r\n",
    ),
)


class _Says(asyncio.Protocol):
    """Says the bytes at hand when the request is there, in one piece or in two, then closes."""

    pieces: tuple[bytes, ...] = ()

    def __init__(self) -> None:
        self._request = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._request += data
        if self._request.endswith(b"\r\n\r\n"):
            self._say(_Says.pieces)

    def _say(self, pieces: tuple[bytes, ...]) -> None:
        if not pieces or self._transport.is_closing():
            self._transport.close()
            return
        self._transport.write(pieces[0])
        asyncio.get_running_loop().call_soon(self._say, pieces[1:])


class _Exchange:
    """A server and a fetcher on one loop, for as long as the target runs."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # each input is another site, so that no cookie of one is seen by the next
        self.sites = itertools.count()
        self.server = self.loop.run_until_complete(self.loop.create_server(_Says, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]
        self.jars = CookieJars(Sites().site_of, _JARS_BYTES)
        guard = Guard(["127.0.0.0/8"])
        self.fetcher = CurlFetcher(
            FetchSection(connections=0),
            "lycosa/0.1",
            "",
            guard,
            SystemClock(),
            scratch(),
            RequestHooks(self.jars),
        )

    def fetch(self, site: int, *pieces: bytes) -> Fetched:
        _Says.pieces = pieces
        request = FetchRequest(
            f"http://www.site{site}.test:{self.port}/a", "127.0.0.1", limits=_LIMITS
        )
        return self.loop.run_until_complete(asyncio.wait_for(self.fetcher.fetch(request), _HANG_S))

    def close(self) -> None:
        self.loop.run_until_complete(self.fetcher.close())
        self.server.close()
        self.loop.run_until_complete(self.server.wait_closed())
        self.loop.close()


_running: list[_Exchange] = []


def check(data: bytes) -> None:
    if not _running:
        _running.append(_Exchange())
    exchange = _running[0]
    site = next(exchange.sites)
    fetched = exchange.fetch(site, data)
    _is_sound(fetched, data)
    if fetched.header_block:
        assert is_stored_whole(fetched)
    place = sum(data[:8]) % (len(data) + 1)
    again = exchange.fetch(site, data[:place], data[place:])
    once, twice = _what_counts(fetched), _what_counts(again)
    assert once == twice, f"in two pieces, cut at {place}: {twice}, not {once}"
    _is_one_request(again.request_block, fetched.request_block)
    assert exchange.jars.snapshot().size_bytes <= _JARS_BYTES


def close() -> None:
    """Ends what the first check began."""
    while _running:
        _running.pop().close()


def _is_sound(fetched: Fetched, data: bytes) -> None:
    block, body = fetched.header_block, fetched.body
    assert fetched.spool == "" and fetched.body_bytes == len(body) <= _LIMITS.body_bytes
    assert len(block) <= _LIMITS.header_bytes and block.count(b"\n") <= _LIMITS.header_count + 2
    assert bool(block) == bool(fetched.status) or block.split(None, 2)[1:2] == [b"000"]
    if fetched.reason is Reason.NONE:
        assert block and fetched.truncated == ""
    else:
        assert bool(fetched.truncated) == bool(block) and (
            fetched.reason in _CUT or not body or block
        )
    if b"transfer-encoding" not in block.lower():
        assert body in data, "a body that nobody said"
    judge_answer(fetched, tries=0, conditional=False, section=RetrySection())


def _is_one_request(block: bytes, first: bytes) -> None:
    """The second request has the cookies that came, in one line, and is the first one but for
    them.
    """
    lines = block.split(b"\r\n")
    others = [line for line in lines if not line.startswith(b"Cookie: ")]
    assert (
        len(lines) - len(others) <= 1
        and b"\r\n".join(others) == first
        and b"\n" not in b"".join(lines)
    )


def _what_counts(fetched: Fetched) -> tuple[Reason, int, bytes, bytes]:
    return fetched.reason, fetched.status, fetched.header_block, fetched.body


def samples() -> Iterator[bytes]:
    yield OK
    yield (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nTrailer:"
        b" x\r\n\r\n"
    )
    yield b"HTTP/1.0 302 Found\nLocation: /b\n folded\n\nbody to the end"
    yield (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 204 No"
        b" Content\r\n\r\n"
    )
    yield (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Domain=.site0.test; Path=/; HttpOnly\r\nSet-Cookie:"
        b" c=\r\nContent-Length: 0\r\n\r\n"
    )
    yield (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: __Host-d=e f; Max-Age=99; SameSite=Lax\r\nSet-Cookie: g;"
        b" Expires=Sun, 06 Nov 1994\r\n\r\n"
    )
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nless"
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more"
    yield b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 60 + b"\r\n"
    yield b"HTTP/1.1 200 OK\r\n\r\n" + bytes(30_000)
    yield b"\x16\x03\x01\x02\x00\x01"
    yield from (
        raw
        for raw in vectors("http/raw-responses-sample.jsonl.gz", "raw")
        if len(raw) < MAX_BYTES // 4
    )
