"""Attacks below HTTP: programs of steps (see ``sent_response``) that cost a reader time or memory.

Some also break its framing.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import lru_cache

from lycosa.synthetic.sent_response import Program, Response, WireEnd, WireStep

_FILLER = b"<p>All work and no play makes a dull page.</p>\n" * 400
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
_PAGE = b"<!DOCTYPE html><title>Whole</title><p>Not a byte is missing.</p>"
_TEN_GIGABYTES = 10 * 1024**3


def _said(*parts: bytes) -> Program:
    """Send these bytes, then close the connection."""

    def program(response: Response) -> Iterator[WireStep]:
        yield from parts
        yield WireEnd.CLOSE

    return program


def _endless(head: bytes, flood: bytes) -> Program:
    """Send ``head``, then ``flood`` for ever, as fast as it is read."""

    def program(response: Response) -> Iterator[WireStep]:
        yield head
        while True:
            yield flood

    return program


def _dripping(head: bytes, drip: bytes, pause_s: float) -> Program:
    """Send ``head``, then ``drip`` for ever, with a pause before each."""

    def program(response: Response) -> Iterator[WireStep]:
        yield head
        while True:
            yield pause_s
            yield drip

    return program


def _chunked(body: bytes) -> bytes:
    pieces = [body[start : start + 23] for start in range(0, len(body), 23)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@lru_cache(maxsize=1)
def framings() -> dict[str, bytes]:
    """One page in every framing, with all bytes from the status line on."""
    packed = gzip.compress(_PAGE, 6, mtime=0)
    encoded = _OK + b"Content-Encoding: gzip\r\n"
    return {
        "identity": _OK + b"Content-Length: %d\r\n\r\n" % len(_PAGE) + _PAGE,
        "chunked": _OK + b"Transfer-Encoding: chunked\r\n\r\n" + _chunked(_PAGE),
        "gzip": encoded + b"Content-Length: %d\r\n\r\n" % len(packed) + packed,
        "gzip-chunked": encoded + b"Transfer-Encoding: chunked\r\n\r\n" + _chunked(packed),
    }


def _length(*values: bytes, body: bytes = _PAGE) -> Program:
    fields = b"".join(b"Content-Length: %s\r\n" % value for value in values)
    return _said(_OK + fields + b"\r\n", body)


def _status(line: bytes, body: bytes = _PAGE) -> Program:
    return _said(
        line + b"\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body), body
    )


_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"

PROGRAMS: dict[str, Program] = {
    "declares-10-gb": _endless(_OK + b"Content-Length: %d\r\n\r\n" % _TEN_GIGABYTES, _FILLER),
    "declares-10-gb-and-stops": _dripping(
        _OK + b"Content-Length: %d\r\n\r\n" % _TEN_GIGABYTES + _FILLER, b"", 1.0
    ),
    "body-endless": _endless(_OK + b"\r\n", _FILLER),
    "chunks-endless": _endless(_CHUNKED, b"%x\r\n%s\r\n" % (len(_FILLER), _FILLER)),
    "chunks-of-one-byte": _endless(_CHUNKED, b"1\r\nx\r\n" * 4000),
    "body-one-byte-a-second": _dripping(_OK + b"\r\n", b"x", 1.0),
    "headers-one-byte-a-second": _dripping(_OK + b"X-Slow: ", b"x", 1.0),
    "status-line-one-byte-a-second": _dripping(b"HTTP/1.1 200 ", b"O", 1.0),
    "headers-endless": _endless(_OK, b"X-Filler: " + b"x" * 90 + b"\r\n"),
    "headers-100000": _said(_OK, *[b"X: y\r\n" * 1000] * 100, b"Content-Length: 0\r\n\r\n"),
    "header-of-10-mb": _said(
        _OK + b"X: ", *[b"x" * 100_000] * 100, b"\r\nContent-Length: 0\r\n\r\n"
    ),
    "header-names-of-200-kb": _said(_OK + b"x" * 200_000 + b": y\r\nContent-Length: 0\r\n\r\n"),
    "interim-endless": _endless(
        b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n" * 100
    ),
    "interim-200": _said(b"HTTP/1.1 100 Continue\r\n\r\n" * 200, framings()["identity"]),
    "switches-protocols": _endless(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", b"\x81\x05hello" * 100
    ),
    "length-below-the-body": _length(b"10"),
    "length-beyond-the-body": _length(b"5000"),
    "length-below-zero": _length(b"-5"),
    "length-overflows": _length(b"18446744073709551680"),
    "length-twice": _length(*[str(len(_PAGE)).encode()] * 2),
    "length-differs": _length(b"10", b"20"),
    "length-is-a-word": _length(b"many"),
    "length-signed": _length(b"+%d" % len(_PAGE)),
    "chunk-size-overflows": _said(_CHUNKED + b"10000000000000040\r\n" + _PAGE),
    "chunk-size-huge": _endless(_CHUNKED + b"7fffffffffffffff\r\n", _FILLER),
    "chunk-size-negative": _said(_CHUNKED + b"-40\r\n" + _PAGE),
    "chunk-extension-endless": _endless(_CHUNKED + b"5;x=", b"y" * 10_000),
    "trailers": _said(
        _CHUNKED + _chunked(_PAGE)[:-2] + b"X-Trailer: yes\r\nSet-Cookie: a=b\r\n\r\n"
    ),
    "trailers-endless": _endless(_CHUNKED + _chunked(_PAGE)[:-2], b"X-Trailer: yes\r\n"),
    "body-of-204": _status(b"HTTP/1.1 204 No Content"),
    "body-of-304": _status(b"HTTP/1.1 304 Not Modified"),
    "status-999": _status(b"HTTP/1.1 999 Unknown"),
    "status-0": _status(b"HTTP/1.1 0 Nothing"),
    "status-000": _status(b"HTTP/1.1 000 Nothing"),
    "status-negative": _status(b"HTTP/1.1 -200 OK"),
    "status-of-four-digits": _status(b"HTTP/1.1 2000 OK"),
    "http-0.9": _said(_PAGE),
    "http-3.0": _status(b"HTTP/3.0 200 OK"),
    "headers-binary": _said(
        b"HTTP/1.1 200 \xff\xfe\r\nX-\x80\xff: \xfe\x01\x02\r\n"
        + framings()["identity"].partition(b"\r\n")[2]
    ),
    "headers-with-nul": _said(_OK + b"X: a\0b\r\n\r\n" + _PAGE),
    "location-with-control-characters": _said(
        b"HTTP/1.1 302 Found\r\nLocation: /a\x01\x7f\x1b[2Jb\r\nContent-Length: 0\r\n\r\n"
    ),
    "location-with-nul": _said(
        b"HTTP/1.1 302 Found\r\nLocation: /a\0b\r\nContent-Length: 0\r\n\r\n"
    ),
    "location-not-utf-8": _said(
        b"HTTP/1.1 302 Found\r\nLocation: /\xff\xfe\xe4\r\nContent-Length: 0\r\n\r\n"
    ),
    "location-of-200-kb": _said(
        b"HTTP/1.1 302 Found\r\nLocation: /" + b"x" * 200_000 + b"\r\nContent-Length: 0\r\n\r\n"
    ),
}


def closing_after(framing: str, number: int) -> Program:
    """Closes after so many bytes of a response in one of ``framings()``."""
    return _said(framings()[framing][:number])
