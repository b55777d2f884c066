"""One request of the fetch stage, and its result."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property

import msgspec

from lycosa.base.media_rules import is_media
from lycosa.base.reasons import Reason


def as_sent(value: str) -> str:
    """A header value with a URL, its bytes beyond ASCII percent-encoded.

    So the server gets its own bytes back in any encoding. Browsers do the same; curl would send
    them raw.
    """
    return (
        value
        if value.isascii()
        else "".join(each if each < "\x80" else f"%{ord(each):02X}" for each in value)
    )


MAX_SITEMAP_BYTES = 50 * 1024 * 1024
"""Maximum size of an uncompressed sitemap (sitemaps.org protocol)."""


PARSED_STATUSES = frozenset({200, 201, 203})
"""The statuses whose body is the page that was asked for, or one that stands for it.

203 is a page that a proxy changed, 201 one that was made by the request.
"""


class FetchKind(IntEnum):
    """The purpose of a request. The value is written to disk."""

    PAGE = 0
    ROBOTS = 1
    SITEMAP = 2
    TDM_FILE = 3  # /.well-known/tdmrep.json
    KEY_FILE = 4  # of a site that announces changes (IndexNow)

    is_of_origin: bool
    """Whether the response is about an origin, not a URL of the frontier."""

    def __init__(self, number: int) -> None:
        self.is_of_origin = number in (1, 3, 4)  # stored, because it is read for each capture


class Privacy(IntEnum):
    """Whether a request carried credentials of the operator. The value is written to disk."""

    PUBLIC = 0  # anyone gets such an answer
    PRIVATE = 1  # it stays in the crawl
    SHARED = 2  # with credentials, and the settings give it to others (requests.share)


class Limits(msgspec.Struct, frozen=True, gc=False):
    """Bounds on one request; sizes in bytes, times in seconds.

    ``media_bytes`` is that of the body of an image, a font, audio or video; 0 is ``body_bytes``.
    ``accepts`` are the media types of which a body is taken; none is any (``base.media_rules``).
    """

    connect_s: float = 10.0
    first_byte_s: float = 30.0
    total_s: float = 60.0
    min_bytes_per_s: int = 50
    min_speed_window_s: float = 20.0
    header_bytes: int = 256 * 1024
    header_count: int = 1000
    body_bytes: int = 10_000_000
    spool_bytes: int = 1_000_000  # a larger body is written to disk while it arrives
    media_bytes: int = 0
    accepts: tuple[str, ...] = ()

    def body_bound(self, url: str, content_type: str, disposition: str) -> int:
        """Bytes of a body that are taken, by its header fields; -1: its type is not accepted."""
        found = is_media(url, content_type, disposition, self.accepts)
        if found is None:
            return -1
        return self.media_bytes if found and self.media_bytes else self.body_bytes


class FetchRequest(msgspec.Struct, frozen=True, gc=False):
    """A request to send.

    ``url`` is canonical; ``address`` is the one IP address to connect to (text, no port). ``etag``
    and ``last_modified`` are validators of the last capture and make the request conditional.
    ``accept`` and ``referer`` are those of a request for what a page needs to be rendered; without
    them, ``fetch.accept`` is sent, and no Referer.
    """

    url: str
    address: str
    kind: FetchKind = FetchKind.PAGE
    etag: str = ""
    last_modified: str = ""
    limits: Limits = Limits()
    accept: str = ""
    referer: str = ""


class Fetched(msgspec.Struct, frozen=True, dict=True):
    """The result of a request.

    ``reason`` is ``NONE`` when a complete response arrived, ``BODY_TRUNCATED`` when we cut it, else
    why there is none. A response that broke off in the middle keeps its bytes and has its reason.
    ``header_block`` is byte for byte as received (status line to blank line of the final response).
    ``body`` is transfer-decoded and still content-encoded. A body over ``Limits.spool_bytes`` is in
    the file ``spool`` instead, which the receiver deletes. ``truncated`` is WARC's word for why a
    body is short: ``length``, ``time``, ``disconnect``, ``unspecified`` or empty. ``protocol`` is
    ``http/1.0``, ``http/1.1`` or ``h2``; ``tls`` is empty or the TLS version. ``started`` is wall
    time in seconds at the start of the request. The times from there are ``duration_s`` until the
    last byte, ``first_byte_s`` until the first, and ``sent_s`` until the request was sent (0 when
    it was not). ``fetcher`` names the outside fetcher that sent the request, if one did. With
    ``privacy`` other than ``PUBLIC`` the request had secrets: ``request_block`` has ``[n bytes]``
    in their place, and so has ``header_block`` in place of the cookies that the answer sets.
    """

    url: str
    reason: Reason
    detail: str = ""
    status: int = 0
    request_block: bytes = b""
    header_block: bytes = b""
    body: bytes = b""
    spool: str = ""
    body_bytes: int = 0
    truncated: str = ""
    address: str = ""
    protocol: str = ""
    tls: str = ""
    started: float = 0.0
    first_byte_s: float = 0.0
    duration_s: float = 0.0
    sent_s: float = 0.0
    fetcher: str = ""
    privacy: Privacy = Privacy.PUBLIC

    def headers(self) -> list[tuple[str, str]]:
        """Header fields in order, names lower-cased, values Latin-1, folded lines joined.

        Values are stripped. The list must not be changed.
        """
        return self._fields

    def header(self, name: str) -> str:
        """The first value of a header field (name in lower case), or the empty string."""
        return self._first_values.get(name, "")

    @property
    def location(self) -> str:
        """The value of ``Location``, relative or not; empty if it is missing or ambiguous."""
        return "" if self.reason is Reason.BAD_REDIRECT else as_sent(self.header("location"))

    @cached_property
    def _fields(self) -> list[tuple[str, str]]:
        # Parsed once for each response, because half a dozen stages read fields.
        fields: list[tuple[str, str]] = []
        for line in self.header_block.decode("latin-1").split("\n")[1:]:
            if line[:1] in (" ", "\t") and fields:
                name, value = fields[-1]
                fields[-1] = (name, f"{value} {line.strip()}".strip())
            else:
                name, colon, value = line.partition(":")
                if colon:
                    fields.append((name.strip().lower(), value.strip()))
        return fields

    @cached_property
    def _first_values(self) -> dict[str, str]:
        return dict(reversed(self._fields))
