"""A response and how it is sent: used by both the socket server and the in-process fetcher.

A misbehaviour of the wire is a small program of steps (bytes to send, a pause, an end). The server
plays the steps on a socket, the in-process fetcher plays them on a virtual clock, so that a crawl
gets the same bytes from both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from http import HTTPStatus

import msgspec


class Response(msgspec.Struct, frozen=True, gc=False):
    """A response before framing.

    ``headers`` lack Content-Length and Transfer-Encoding, which framing adds (``chunked`` chooses).
    ``latency_s`` is the time until the first byte. ``behaviour`` names a wire misbehaviour
    (``BEHAVIOURS`` of ``bad_wire``), or is empty for a well-behaved response; ``program`` is a
    program of the caller instead.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""
    latency_s: float = 0.0
    behaviour: str = ""
    chunked: bool = False
    program: Program | None = None


class WireEnd(Enum):
    """How a misbehaving transfer ends."""

    CLOSE = "the connection is closed"
    RESET = "the connection is reset"
    HANG = "nothing more is sent, the connection stays open"


WireStep = bytes | float | WireEnd
"""Bytes to send, seconds to wait, or the end.

A program without ``WireEnd`` leaves a connection that can be used again.
"""
Program = Callable[[Response], Iterator[WireStep]]

_CHUNK = 4096


def phrase(status: int) -> str:
    """The reason phrase of a status code (RFC 9110 section 15), or "Unknown"."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def has_body(status: int) -> bool:
    """Whether a response with this status may have a body (RFC 9112 section 6.3)."""
    return status >= 200 and status not in (204, 304)


def header_block(status_line: str, headers: list[tuple[str, str]]) -> bytes:
    """The bytes from the status line to the blank line."""
    lines = [status_line, *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace")


def head(response: Response) -> bytes:
    """The header block of a well-behaved response, with its framing field."""
    headers = list(response.headers)
    if has_body(response.status):
        headers.append(
            ("Transfer-Encoding", "chunked")
            if response.chunked
            else ("Content-Length", str(len(response.body)))
        )
    return header_block(f"HTTP/1.1 {response.status} {phrase(response.status)}", headers)


def chunks(body: bytes) -> Iterator[bytes]:
    """The body in chunked coding (RFC 9112 section 7.1), including the last chunk."""
    for start in range(0, len(body), _CHUNK):
        piece = body[start : start + _CHUNK]
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def response_steps(response: Response, *, head_only: bool = False) -> Iterator[WireStep]:
    """The steps of a well-behaved response, without its latency."""
    yield head(response)
    if head_only or not has_body(response.status):
        return
    if response.chunked:
        yield from chunks(response.body)
    elif response.body:
        yield response.body
