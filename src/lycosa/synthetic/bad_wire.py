"""Misbehaviours below HTTP: programs of steps that no correct server sends.

Each takes the response that it damages and yields steps (see ``sent_response``). Endless ones
really are endless, so the reader has to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lycosa.synthetic.sent_response import (
    Response,
    WireEnd,
    WireStep,
    chunks,
    head,
    header_block,
    response_steps,
)

_LINE = "HTTP/1.1 200 OK"
_FILLER = b"<p>All work and no play makes a dull page.</p>\n" * 400


def _head_with(response: Response, *extra: tuple[str, str], line: str = _LINE) -> bytes:
    return header_block(line, [*response.headers, *extra])


def _slow_drip(response: Response) -> Iterator[WireStep]:
    yield head(response)
    for byte in response.body:
        yield bytes((byte,))
        yield 1.0


def _slow_headers(response: Response) -> Iterator[WireStep]:
    for byte in head(response):
        yield bytes((byte,))
        yield 2.0
    yield response.body


def _never_answers(response: Response) -> Iterator[WireStep]:
    yield WireEnd.HANG


def _stalls_in_body(response: Response) -> Iterator[WireStep]:
    yield head(response)
    yield response.body[: len(response.body) // 2]
    yield WireEnd.HANG


def _endless_body(response: Response) -> Iterator[WireStep]:
    yield _head_with(response, ("Connection", "close"))
    while True:
        yield _FILLER


def _endless_chunks(response: Response) -> Iterator[WireStep]:
    yield _head_with(response, ("Transfer-Encoding", "chunked"))
    while True:
        yield b"%x\r\n%s\r\n" % (len(_FILLER), _FILLER)


def _endless_headers(response: Response) -> Iterator[WireStep]:
    yield header_block(_LINE, response.headers)[:-2]
    number = 0
    while True:
        yield "".join(f"X-Filler-{number + i}: {'x' * 80}\r\n" for i in range(100)).encode()
        number += 100


def _huge_header_line(response: Response) -> Iterator[WireStep]:
    yield header_block(_LINE, response.headers)[:-2] + b"X-Huge: "
    for _ in range(64):
        yield b"x" * 65536
    yield b"\r\n\r\n"
    yield WireEnd.CLOSE


def _closes_at_once(response: Response) -> Iterator[WireStep]:
    yield WireEnd.CLOSE


def _resets_at_once(response: Response) -> Iterator[WireStep]:
    yield WireEnd.RESET


def _closes_in_headers(response: Response) -> Iterator[WireStep]:
    yield head(response)[:-10]
    yield WireEnd.CLOSE


def _closes_in_body(response: Response) -> Iterator[WireStep]:
    yield head(response)
    yield response.body[: len(response.body) // 2]
    yield WireEnd.CLOSE


def _resets_in_body(response: Response) -> Iterator[WireStep]:
    yield head(response)
    yield response.body[: len(response.body) // 2]
    yield 0.1  # otherwise the reset may overtake the sent bytes
    yield WireEnd.RESET


def _length_short(response: Response) -> Iterator[WireStep]:
    yield _head_with(
        response, ("Content-Length", str(len(response.body) // 2)), ("Connection", "close")
    )
    yield response.body
    yield WireEnd.CLOSE


def _length_long(response: Response) -> Iterator[WireStep]:
    yield _head_with(
        response, ("Content-Length", str(len(response.body) * 2)), ("Connection", "close")
    )
    yield response.body
    yield WireEnd.CLOSE


def _length_negative(response: Response) -> Iterator[WireStep]:
    yield _head_with(response, ("Content-Length", "-1"))
    yield response.body
    yield WireEnd.CLOSE


def _length_missing(response: Response) -> Iterator[WireStep]:
    yield _head_with(response)
    yield response.body
    yield WireEnd.CLOSE


def _chunk_garbled(response: Response) -> Iterator[WireStep]:
    yield _head_with(response, ("Transfer-Encoding", "chunked"))
    yield b"10\r\n" + response.body[:16] + b"\r\nno such size\r\n" + response.body[16:]
    yield WireEnd.CLOSE


def _chunk_unfinished(response: Response) -> Iterator[WireStep]:
    yield _head_with(response, ("Transfer-Encoding", "chunked"))
    yield b"%x\r\n%s\r\n" % (len(response.body), response.body)
    yield WireEnd.CLOSE


def _length_and_chunks(response: Response) -> Iterator[WireStep]:
    yield _head_with(response, ("Content-Length", "7"), ("Transfer-Encoding", "chunked"))
    yield from chunks(response.body)
    yield WireEnd.CLOSE


def _not_http(response: Response) -> Iterator[WireStep]:
    yield b"220 mail.example ESMTP ready\r\n"
    yield WireEnd.CLOSE


def _headerless(response: Response) -> Iterator[WireStep]:
    yield response.body
    yield WireEnd.CLOSE


def _status_garbled(response: Response) -> Iterator[WireStep]:
    yield _head_with(response, ("Content-Length", str(len(response.body))), line="HTTP/1.1 2OO OK")
    yield response.body
    yield WireEnd.CLOSE


def _status_without_phrase(response: Response) -> Iterator[WireStep]:
    yield _head_with(response, ("Content-Length", str(len(response.body))), line="HTTP/1.1 200")
    yield response.body


def _old_protocol(response: Response) -> Iterator[WireStep]:
    yield _head_with(response, line="HTTP/1.0 200 OK")
    yield response.body
    yield WireEnd.CLOSE


def _bare_line_feeds(response: Response) -> Iterator[WireStep]:
    yield head(response).replace(b"\r\n", b"\n")
    yield response.body


def _folded_header(response: Response) -> Iterator[WireStep]:
    yield _head_with(
        response,
        ("X-Folded", "first part\r\n second part"),
        ("Content-Length", str(len(response.body))),
    )
    yield response.body


def _header_without_colon(response: Response) -> Iterator[WireStep]:
    yield head(response).replace(b"\r\n", b"\r\nthis line has no colon\r\n", 1)
    yield response.body
    yield WireEnd.CLOSE


def _early_hints(response: Response) -> Iterator[WireStep]:
    yield b"HTTP/1.1 103 Early Hints\r\nLink: </static/style.css>; rel=preload\r\n\r\n"
    yield from response_steps(response)


BEHAVIOURS: dict[str, Callable[[Response], Iterator[WireStep]]] = {
    "slow-drip": _slow_drip,
    "slow-headers": _slow_headers,
    "never-answers": _never_answers,
    "stalls-in-body": _stalls_in_body,
    "endless-body": _endless_body,
    "endless-chunks": _endless_chunks,
    "endless-headers": _endless_headers,
    "huge-header-line": _huge_header_line,
    "closes-at-once": _closes_at_once,
    "resets-at-once": _resets_at_once,
    "closes-in-headers": _closes_in_headers,
    "closes-in-body": _closes_in_body,
    "resets-in-body": _resets_in_body,
    "length-short": _length_short,
    "length-long": _length_long,
    "length-negative": _length_negative,
    "length-missing": _length_missing,
    "chunk-garbled": _chunk_garbled,
    "chunk-unfinished": _chunk_unfinished,
    "length-and-chunks": _length_and_chunks,
    "not-http": _not_http,
    "headerless": _headerless,
    "status-garbled": _status_garbled,
    "status-without-phrase": _status_without_phrase,
    "old-protocol": _old_protocol,
    "bare-line-feeds": _bare_line_feeds,
    "folded-header": _folded_header,
    "header-without-colon": _header_without_colon,
    "early-hints": _early_hints,
}


def steps(response: Response, *, head_only: bool = False) -> Iterator[WireStep]:
    """The steps that send a response, well-behaved or not, without its latency."""
    program = response.program or BEHAVIOURS.get(response.behaviour)
    return program(response) if program else response_steps(response, head_only=head_only)
