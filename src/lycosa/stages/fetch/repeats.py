"""Requests that libcurl would repeat by itself, and the reasons of the server.

libcurl repeats a request, up to five times and at once, when a kept connection ends without a
response, when an HTTP/2 server refuses the stream (REFUSED_STREAM, or GOAWAY with an earlier last
stream), and over HTTP/1.1 when the server demands that. None of this can be turned off. A crawler
that promises one request at a time, with a pause after it, must prevent it: the second request is
stopped before it is sent. What happened to the first one is derived here from libcurl's trace, the
only place that shows it.
"""

from __future__ import annotations

from enum import Flag, auto

from lycosa.base.reasons import Reason


class Sign(Flag):
    """What the trace said about one request."""

    NONE = 0
    KEPT = auto()  # the connection was a kept one
    REFUSED = auto()  # the stream was refused, which GOAWAY does too
    GOAWAY = auto()  # without an error
    TROUBLED = auto()  # an error of the whole connection, or ENHANCE_YOUR_CALM
    WANTS_HTTP1 = auto()


def sign_in(text: bytes) -> Sign:
    """The sign in one line of libcurl's trace."""
    if text.startswith(b"HTTP/2 stream "):
        if b" refused by server" in text:
            return Sign.REFUSED
        return Sign.REFUSED | Sign.TROUBLED if b"ENHANCE_YOUR_CALM" in text else Sign.NONE
    if text.startswith(b"received GOAWAY"):
        return Sign.GOAWAY if b"error=0," in text else Sign.TROUBLED
    if text.startswith(b"Reusing existing "):
        return Sign.KEPT
    return Sign.WANTS_HTTP1 if text.startswith(b"Downgrades to HTTP/1.1") else Sign.NONE


def reason_of_repeat(signs: Sign) -> tuple[Reason, str]:
    """Why libcurl would repeat the request: the reason of the first one's failure, and a text.

    A server that retires a kept connection (GOAWAY without an error) did not refuse the request. A
    server that refuses a stream, or sends GOAWAY on a new connection, did.
    """
    if Sign.WANTS_HTTP1 in signs:
        return Reason.REQUEST_UNANSWERED, "the server wants HTTP/1.1"
    if Sign.REFUSED in signs and not (
        Sign.GOAWAY in signs and Sign.KEPT in signs and Sign.TROUBLED not in signs
    ):
        return (
            Reason.REQUEST_REFUSED,
            "GOAWAY" if Sign.GOAWAY in signs or Sign.TROUBLED in signs else "REFUSED_STREAM",
        )
    return Reason.REQUEST_UNANSWERED, "the server closed the kept connection"
