"""HTTP/1 answers that break rules, each with what the majority of curl 7.88, urllib3 2.8, aiohttp
3.14 and httpx 0.28 made of it; and a server that gives them.

A verdict is the status and the body without its codings, or ``None`` for an error. Where two say
one thing and two another, both are given.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lycosa.base.config.sections import FetchSection
from lycosa.base.model.fetched import Fetched, FetchRequest, Limits
from lycosa.base.system.clock import SystemClock
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.http_client import CurlFetcher

Verdict = tuple[int, bytes] | None

PACKED = gzip.compress(b"hello", mtime=0)
_GZIP = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"

ANSWERS: dict[str, tuple[bytes, Verdict] | tuple[bytes, Verdict, Verdict]] = {
    "lf only": (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", (200, b"hello")),
    "cr only": (b"HTTP/1.1 200 OK\rContent-Length: 5\r\rhello", None),
    "mixed ends": (b"HTTP/1.1 200 OK\nContent-Length: 5\r\n\nhello", (200, b"hello")),
    "leading crlf": (b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "leading lf": (b"\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "leading junk": (b"garbage\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "leading space": (b" HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "lower http": (b"http/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "HTTP/1.2": (b"HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\nhello", None, (200, b"hello")),
    "HTTP/2.0 text": (b"HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", (200, b"hello")),
    "HTTP/3": (b"HTTP/3 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "HTTP/1.10": (b"HTTP/1.10 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "HTTP/0.9 status": (b"HTTP/0.9 200 OK\r\nContent-Length: 5\r\n\r\nhello", (200, b"hello")),
    "HTTP 200": (b"HTTP 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "ICY": (b"ICY 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "no reason space": (b"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello", (200, b"hello")),
    "tab sep": (b"HTTP/1.1\t200\tOK\r\nContent-Length: 5\r\n\r\nhello", None),
    "two spaces": (b"HTTP/1.1  200  OK\r\nContent-Length: 5\r\n\r\nhello", (200, b"hello"), None),
    "2 digits": (b"HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "4 digits": (b"HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "status 999": (b"HTTP/1.1 999 OK\r\nContent-Length: 5\r\n\r\nhello", (999, b"hello")),
    "status 000": (b"HTTP/1.1 000 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "status 600": (b"HTTP/1.1 600 X\r\nContent-Length: 5\r\n\r\nhello", (600, b"hello")),
    "status 2xx": (b"HTTP/1.1 2xx OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "status -200": (b"HTTP/1.1 -200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "status +200": (b"HTTP/1.1 +200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "status 200.1": (b"HTTP/1.1 200.1 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "200OK": (b"HTTP/1.1 200OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "reason utf8": (
        b"HTTP/1.1 200  \xc3\x9cn\xc3\xafcode\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "reason nul": (b"HTTP/1.1 200 O\x00K\r\nContent-Length: 5\r\n\r\nhello", None, (200, b"hello")),
    "reason ctl": (b"HTTP/1.1 200 O\x01K\x7f\r\nContent-Length: 5\r\n\r\nhello", (200, b"hello")),
    "length plus": (b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", (200, b"hello"), None),
    "length neg": (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", None),
    "length hex": (b"HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\nhello", None),
    "length empty": (b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhello", None),
    "length tab": (b"HTTP/1.1 200 OK\r\nContent-Length:\t5\t\r\n\r\nhello", (200, b"hello")),
    "length junk": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5 bytes\r\n\r\nhello",
        (200, b"hello"),
        None,
    ),
    "length list same": (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", (200, b"hello")),
    "length list differ": (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello", None),
    "length twice same": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "length twice differ": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
        None,
    ),
    "length twice differ2": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nhello",
        None,
    ),
    "length float": (b"HTTP/1.1 200 OK\r\nContent-Length: 5.0\r\n\r\nhello", (200, b"hello"), None),
    "length 1e1": (b"HTTP/1.1 200 OK\r\nContent-Length: 1e1\r\n\r\nhello", None),
    "length underscore": (b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\nhellohello", None),
    "length unicode digits": (b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\nhello", None),
    "length huge": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nhello",
        None,
    ),
    "length 2^63": (b"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nhello", None),
    "length too long": (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello world", (200, b"hell")),
    "length short": (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", None),
    "length 0 body": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nhello", (200, b"")),
    "length name space": (b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello", (200, b"hello")),
    "length name tab": (
        b"HTTP/1.1 200 OK\r\nContent-Length\t: 5\r\n\r\nhello",
        (200, b"hello"),
        None,
    ),
    "length fold": (b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\nhello", (200, b"hello")),
    "chunked+cl": (
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length:"
            b" 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        ),
        (200, b"hello"),
    ),
    "cl+chunked": (
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding:"
            b" chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        ),
        (200, b"hello"),
    ),
    "chunked 1.0": (
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        (200, b"hello"),
    ),
    "chunked no last": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        None,
    ),
    "chunked no last crlf": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        None,
    ),
    "chunked cut in chunk": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
        None,
    ),
    "chunked cut in size": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1",
        None,
    ),
    "chunked empty": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        (200, b""),
    ),
    "chunked nothing": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", None),
    "chunked 0x": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    "chunked plus": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    "chunked neg": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    "chunked space before": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    "chunked space after": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5  \r\nhello\r\n0  \r\n\r\n",
        (200, b"hello"),
    ),
    "chunked tab after": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\t\r\nhello\r\n0\r\n\r\n",
        (200, b"hello"),
    ),
    "chunked zeros": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n000005\r\nhello\r\n00000\r\n\r\n",
        (200, b"hello"),
    ),
    "chunked huge": (
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding:"
            b" chunked\r\n\r\nffffffffffffffff\r\nhello\r\n0\r\n\r\n"
        ),
        None,
    ),
    "chunked overflow": (
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding:"
            b" chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"
        ),
        None,
    ),
    "chunked ext": (
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding:"
            b' chunked\r\n\r\n5;a=b;c="d;e"\r\nhello\r\n0;x\r\n\r\n'
        ),
        (200, b"hello"),
    ),
    "chunked ext space": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 ; a = b\r\nhello\r\n0\r\n\r\n",
        (200, b"hello"),
        None,
    ),
    "chunked ext lf": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\n",
        (200, b"hello"),
    ),
    "chunked lf": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n", None),
    "chunked no crlf after data": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello5\r\nworld\r\n0\r\n\r\n",
        None,
    ),
    "chunked junk size": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    "chunked empty size": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    "chunked but not": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello", None),
    "chunked html not": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<html>", None),
    "trailers bad": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nno colon\r\n\r\n",
        None,
    ),
    "trailers cut": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n",
        None,
    ),
    "transfer identity": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
        None,
    ),
    "transfer empty": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "transfer chunked, chunked": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        (200, b"hello"),
    ),
    "no headers": (b"HTTP/1.1 200 OK\r\n\r\nhello", (200, b"hello")),
    "no blank": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", None),
    "half line": (b"HTTP/1.1 200 OK\r\nContent-Le", (200, b""), None),
    "only status": (b"HTTP/1.1 200 OK", None),
    "only status crlf": (b"HTTP/1.1 200 OK\r\n", (200, b""), None),
    "nothing": (b"", None),
    "09": (b"<html>hello</html>", None),
    "colonless": (b"HTTP/1.1 200 OK\r\nFoo\r\nContent-Length: 5\r\n\r\nhello", None),
    "colonless last": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nFoo\r\n\r\nhello", None),
    "empty name": (
        b"HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
        None,
    ),
    "name space": (
        b"HTTP/1.1 200 OK\r\nFoo Bar: x\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
        None,
    ),
    "name nonascii": (
        b"HTTP/1.1 200 OK\r\nX-Caf\xe9: x\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
        None,
    ),
    "name ctl": (
        b"HTTP/1.1 200 OK\r\nX-\x01: x\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
        None,
    ),
    "value nul": (b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 5\r\n\r\nhello", None),
    "value ctl": (
        b"HTTP/1.1 200 OK\r\nX: a\x01b\x7f\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "value cr": (
        b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
        None,
    ),
    "value latin1": (
        b"HTTP/1.1 200 OK\r\nX: \xe9\xff\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "first folded": (
        b"HTTP/1.1 200 OK\r\n X: y\r\nContent-Length: 5\r\n\r\nhello",
        None,
        (200, b"hello"),
    ),
    "fold": (
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\tc\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "fold blank": (
        b"HTTP/1.1 200 OK\r\nX: a\r\n \r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "blank w/ space": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n \r\nhello", None),
    "100 then 200": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "100 w/ cl": (
        (
            b"HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length:"
            b" 5\r\n\r\nhello"
        ),
        (200, b"hello"),
    ),
    "101": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello",
        (101, b""),
    ),
    "100 only": (b"HTTP/1.1 100 Continue\r\n\r\n", None),
    "204 body": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", (204, b"")),
    "204 chunked": (
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        (204, b""),
    ),
    "205 body": (b"HTTP/1.1 205 Reset\r\nContent-Length: 5\r\n\r\nhello", (205, b"hello")),
    "304 body": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello", (304, b"")),
    "401 weird": (
        b'HTTP/1.1 401 U\r\nWWW-Authenticate: ,,="\r\nContent-Length: 5\r\n\r\nhello',
        (401, b"hello"),
    ),
    "gzip empty": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
        (200, b""),
    ),
    "encoding unknown": (b"HTTP/1.1 200 OK\r\nContent-Encoding: foo\r\n\r\nhello", (200, b"hello")),
    "encoding utf-8": (b"HTTP/1.1 200 OK\r\nContent-Encoding: UTF-8\r\n\r\nhello", (200, b"hello")),
    "encoding none": (b"HTTP/1.1 200 OK\r\nContent-Encoding: none\r\n\r\nhello", (200, b"hello")),
    "location w/o redirect": (
        b"HTTP/1.1 200 OK\r\nLocation: http://[\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "302 no location": (b"HTTP/1.1 302 F\r\nContent-Length: 5\r\n\r\nhello", (302, b"hello")),
    "302 bad location": (
        b"HTTP/1.1 302 F\r\nLocation: http://[\r\nContent-Length: 5\r\n\r\nhello",
        (302, b"hello"),
    ),
    "302 two locations": (
        b"HTTP/1.1 302 F\r\nLocation: /a\r\nLocation: /b\r\nContent-Length: 5\r\n\r\nhello",
        (302, b"hello"),
    ),
    "upgrade h2c": (
        b"HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "h2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
    "h2 frames": (b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", None),
    "tls alert": (b"\x15\x03\x01\x00\x02\x02F", None),
    "ssh": (b"SSH-2.0-OpenSSH_8.0\r\n", None),
    "smtp": (b"220 mail ESMTP\r\n", None),
    "bom": (b"\xef\xbb\xbfHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "pipelined extra": (
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 404 No\r\nContent-Length:"
            b" 0\r\n\r\n"
        ),
        (200, b"hello"),
    ),
    "status after spaces": (
        b"HTTP/1.1 200 OK   \r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "status vt": (b"HTTP/1.1\x0b200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "xHTTP": (b"XHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "HTTP/1.1.1": (b"HTTP/1.1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "HTTP/a.b": (b"HTTP/a.b 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "HTTP/1.": (b"HTTP/1. 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "HTTP/11": (b"HTTP/11 200 OK\r\nContent-Length: 5\r\n\r\nhello", None),
    "CR CR LF at the end": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\r\nhello", None),
    "CR blank CR LF at the end": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r \r\nhello", None),
    "CR before a field": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\rX: y\r\n\r\nhello", None),
    "CR before a field of chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\rX: y\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    "CR CR LF after each line": (b"HTTP/1.1 200 OK\r\r\nContent-Length: 5\r\r\n\r\r\nhello", None),
    "cut in the empty line": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r", None),
    "cut in the empty line before chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r",
        None,
    ),
    "LF CR": (b"HTTP/1.1 200 OK\r\nServer: x\r\n\n\rhello", (200, b"\rhello")),
    "long reason": (
        b"HTTP/1.1 200 " + b"x" * 9000 + b"\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "long field": (
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 6000 + b"\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "many interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20
        + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "gzip named in capitals": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: GZip\r\n\r\n" + PACKED,
        (200, b"hello"),
    ),
    "gzip with rubbish behind it": (_GZIP + b"\r\n" + PACKED + b"junk", (200, b"hello")),
    "gzip with zeros behind it": (_GZIP + b"\r\n" + PACKED + bytes(10), (200, b"hello")),
    "gzip in two members": (_GZIP + b"\r\n" + PACKED + PACKED, (200, b"hellohello")),
    "gzip in two fields": (
        _GZIP + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(PACKED),
        (200, b"hello"),
    ),
    "gzip with a wrong checksum": (_GZIP + b"\r\n" + PACKED[:-8] + b"abcd" + PACKED[-4:], None),
    "gzip in chunks": (
        _GZIP + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(PACKED), PACKED),
        (200, b"hello"),
    ),
    "gzip with too great a length": (_GZIP + b"Content-Length: 99\r\n\r\n" + PACKED, None),
    "gzip that ends in its trailer": (_GZIP + b"\r\n" + PACKED[:-4], (200, b"hello")),
    "gzip that is none": (_GZIP + b"\r\nhello", None),
    "deflate with a zlib header": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + zlib.compress(b"hello"),
        (200, b"hello"),
    ),
    "deflate without": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + zlib.compress(b"hello")[2:-4],
        (200, b"hello"),
    ),
    "gzip as a transfer coding": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n" + PACKED,
        (200, PACKED),
    ),
}


class _Canned(asyncio.Protocol):
    """Answers one request per connection with the raw bytes of the case that the path names,
    then closes.
    """

    def __init__(self, answers: Sequence[bytes]) -> None:
        self._answers = answers
        self._request = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._request += data
        if self._request.endswith(b"\r\n\r\n"):
            number = int(self._request.split(b" ", 2)[1].removeprefix(b"/"))
            self._transport.write(self._answers[number])
            self._transport.close()


async def fetch_all(answers: Sequence[bytes], folder: Path) -> list[Fetched]:
    """What our fetcher makes of each. Raises ``TimeoutError`` when it hangs."""
    server = await asyncio.get_running_loop().create_server(
        lambda: _Canned(answers), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    fetcher = CurlFetcher(
        FetchSection(connections=0), "lycosa/0.1", "", Guard(["127.0.0.0/8"]), SystemClock(), folder
    )
    limits = Limits(connect_s=5, first_byte_s=5, total_s=5)
    try:
        requests = [
            FetchRequest(f"http://x.test:{port}/{number}", "127.0.0.1", limits=limits)
            for number in range(len(answers))
        ]
        return [await asyncio.wait_for(fetcher.fetch(request), 10) for request in requests]
    finally:
        await fetcher.close()
        server.close()
