"""Header lines: those that we send, and a bounded collection of those that we receive.

A WARC record needs the header block as the server sent it, so lines are kept as bytes in the order
of arrival, without parsing, joining or trimming. Interim responses (1xx) come in the same stream
before the final one, and trailers after it. Neither belongs to the block, but both count towards
the limits, so that an endless stream of either ends.
"""

from __future__ import annotations

import re

from lycosa.base.config.sections import FetchSection
from lycosa.base.model.fetched import FetchRequest, as_sent
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import origin_of, scheme_of

ACCEPT_ENCODING = "gzip, br, zstd, deflate"
_EMAIL = re.compile(r"(?:mailto:)?([^@\s()<>,;:]+@[^@\s()<>,;:/]+)")
_VISIBLE = re.compile(r"[\x20-\x7e]*")
_FIELD_VALUE = re.compile(r"[\x20-\x7e\x80-\xff]+")
_TARGET = re.compile(r"[^:/?#]*://[^/?#]*([^#]*)")
_STATUS_LINE = re.compile(rb"HTTP/[12]\S* +\d{3}(?!\S)")
_GREAT_LENGTH = re.compile(rb"content-length:\s*0*[1-9]\d{18}", re.IGNORECASE)
_ACCEPT_ANY = "*/*"
_ACCEPTS = {
    "document": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "iframe": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "image": "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5",
    "style": "text/css,*/*;q=0.1",
    "": "application/json,text/plain,*/*",
}
_PROTOCOLS = {b"HTTP/1.1": "http/1.1", b"HTTP/1.0": "http/1.0", b"HTTP/2 ": "h2", b"HTTP/2": "h2"}


def build_user_agent(product: str, version: str, contact: str) -> str:
    """``lycosa/0.1 (+https://example.org/bot)``; without a contact only product and version.

    Raises ``ValueError`` when ``contact`` is not valid in a header's comment (RFC 9110 section
    5.6.5).
    """
    contact = contact.strip()
    if not _VISIBLE.fullmatch(contact) or set(contact) & set("()\\"):
        raise ValueError(
            f"contact must be visible ASCII without parentheses and backslashes: {contact!r}"
        )
    return f"{product}/{version} (+{contact})" if contact else f"{product}/{version}"


def email_of(contact: str) -> str:
    """The e-mail address for the From header (RFC 9110 section 10.1.2).

    Empty when ``contact`` is not an e-mail address.
    """
    match = _EMAIL.fullmatch(contact.strip())
    return match[1] if match else ""


def common_lines(section: FetchSection, user_agent: str, contact: str) -> list[bytes]:
    """The header lines of every request."""
    fields = [
        ("User-Agent", user_agent),
        ("From", email_of(contact)),
        ("Accept", section.accept),
        ("Accept-Language", section.accept_language),
        ("Accept-Encoding", ACCEPT_ENCODING),
    ]
    return [f"{name}: {value}".encode("latin-1") for name, value in fields if value]


def request_lines(common: list[bytes], request: FetchRequest) -> list[bytes]:
    """The header lines of a request: the common ones, with its own Accept and Referer if it
    has any, and conditions.

    The validators of the last capture are conditions (RFC 9110 section 13.1). A value that is not a
    valid field value is left out. Validators come from a server, and one with a line break would
    add lines of the server's choice.
    """
    pairs = (("If-None-Match", request.etag), ("If-Modified-Since", request.last_modified))
    conditions = [
        f"{name}: {value}".encode("latin-1")
        for name, value in pairs
        if _FIELD_VALUE.fullmatch(value)
    ]
    return (wanted_lines(common, request) if request.accept else common) + conditions


def wanted_fields(destination: str, page_url: str, url: str) -> tuple[str, str]:
    """Accept and Referer of a request for what a page needs, as browsers send them.

    Accept follows from the destination (Fetch standard, "fetch", step 13); Referer is that of the
    policy strict-origin-when-cross-origin (Referrer Policy, section 3.7). A script cannot change
    either.
    """
    accept = _ACCEPTS.get(destination, _ACCEPT_ANY)
    origin, other = origin_of(page_url), origin_of(url)
    if origin == other:
        return accept, page_url
    is_downgrade = scheme_of(page_url) == "https" and scheme_of(url) == "http"
    return accept, "" if is_downgrade else f"{origin}/"


def wanted_lines(common: list[bytes], request: FetchRequest) -> list[bytes]:
    """The common header lines, with Accept and Referer of a request that has its own."""
    accept = f"Accept: {request.accept}".encode("latin-1")
    lines = [accept if line.startswith(b"Accept: ") else line for line in common]
    if request.referer:
        lines.append(f"Referer: {as_sent(request.referer)}".encode("latin-1"))
    return lines


def plain_block(url: str, header_lines: list[bytes]) -> bytes:
    """The request as libcurl sends it in HTTP/1.1.

    That is the target unchanged, Host, then our lines in their order.
    """
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2].encode()
    return b"\r\n".join(
        (
            b"GET " + request_target(url).encode() + b" HTTP/1.1",
            b"Host: " + host,
            *header_lines,
            b"",
            b"",
        )
    )


def request_target(url: str) -> str:
    """The request target in origin form (RFC 9112 section 3.2.1), characters unchanged.

    libcurl itself would rewrite ``%3a`` to ``%3A``.
    """
    match = _TARGET.match(url)
    target = match[1] if match else ""
    return target if target.startswith("/") else f"/{target}"


def protocol_of(block: bytes) -> str:
    """``http/1.0``, ``http/1.1`` or ``h2``, from the status line; empty when there is none."""
    return _PROTOCOLS.get(block[:8]) or _PROTOCOLS.get(block[:7], "")


class HeaderBlock:
    """Collects the header lines of one response, one complete line at a time."""

    __slots__ = ("_bytes_left", "_lines", "_lines_left", "is_complete")

    def __init__(self, max_bytes: int, max_lines: int) -> None:
        self._lines: list[bytes] = []
        self._bytes_left = max_bytes
        self._lines_left = max_lines + 2  # the status line and the blank one are not fields
        self.is_complete = False

    def add_line(self, line: bytes) -> Reason:
        """Add one line. Returns ``HEADERS_TOO_LARGE`` beyond the limits, otherwise ``NONE``."""
        self._bytes_left -= len(line)
        self._lines_left -= 1
        if self._bytes_left < 0 or self._lines_left < 0:
            return Reason.HEADERS_TOO_LARGE
        if self.is_complete:
            return Reason.NONE  # a trailer
        self._lines.append(line)
        # libcurl takes any line that begins like this for the empty one, and refuses a CR inside
        # other lines. A single CR is the rest of a line that was cut off.
        if line[:1] in (b"\r", b"\n") and line != b"\r":
            if self._is_interim():
                self._lines.clear()
            else:
                self.is_complete = True
        return Reason.NONE

    def joined(self) -> bytes:
        """The block so far, byte for byte."""
        return b"".join(self._lines)

    def about_body(self) -> tuple[int, str, str]:
        """The status, and the values of Content-Type and Content-Disposition (Latin-1)."""
        values: dict[bytes, str] = {}
        for line in self._lines[1:]:
            name, _, value = line.partition(b":")
            values[name.strip().lower()] = value.strip().decode("latin-1")
        words = self._lines[0].split(None, 2)
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        return status, values.get(b"content-type", ""), values.get(b"content-disposition", "")

    def flaw(self) -> str:
        """A flaw that libcurl accepts and other clients do not, or the empty string.

        An invalid status line (RFC 9112 section 4), or an empty line that is not empty (section
        2.2).
        """
        if not _STATUS_LINE.match(self._lines[0]):
            return f"the status line is {self._lines[0][:40].decode('latin-1')!r}"
        if self.is_complete and self._lines[-1] not in (b"\r\n", b"\n"):
            return f"the header lines end with {self._lines[-1][:40].decode('latin-1')!r}"
        return ""

    def is_length_beyond_counting(self) -> bool:
        """Whether Content-Length is so large that libcurl ignores it.

        Then the received body is not the one that was announced.
        """
        return any(map(_GREAT_LENGTH.match, self._lines)) and not any(
            line[:18].lower() == b"transfer-encoding:" for line in self._lines
        )

    def _is_interim(self) -> bool:
        words = self._lines[0].split(None, 2)
        return len(words) > 1 and len(words[1]) == 3 and words[1][:1] == b"1" and words[1] != b"101"
