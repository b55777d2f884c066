"""WARC 1.1 records as bytes: values in, gzip members out, without file access.

Every record is one gzip member, so that its offset and length are enough to read it. A body that
the server compressed is stored in it unchanged, which costs a tenth of compressing it again and is
a little shorter. Header blocks are kept byte for byte, except for two fields.

The body is stored transfer-decoded, and a reader that found ``Transfer-Encoding: chunked`` above
such a body would try to decode it again. So that field is renamed ``X-Crawler-Transfer-Encoding``,
as in Common Crawl. Of the forms that were tested it is the only one whose payload digest warcio,
FastWARC and jwarc all accept. A ``Content-Length`` in the same block did not frame the body (RFC
9112 section 6.3), and a reader that trusts it cuts the body off there. So it is renamed too.

An HTTP/2 exchange has no header block. It is stored in HTTP/1.1 syntax and marked ``WARC-Protocol:
h2``, because readers reject a status line with HTTP/2.

Source: ISO 28500:2017 (WARC 1.1), sections 5 (fields) and 6 (record types); WARC-Protocol is the
IIPC proposal.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from isal import isal_zlib

Fields = Sequence[tuple[str, str]]
"""Named fields in order; a field with an empty value is left out."""

HTTP_REQUEST = "application/http;msgtype=request"
HTTP_RESPONSE = "application/http;msgtype=response"
WARC_FIELDS = "application/warc-fields"

IDENTICAL_DIGEST = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"

END = b"\r\n\r\n"
_GZIP = 16 + isal_zlib.MAX_WBITS
# First bytes of bodies that gzip would only make longer, and that take most of the time of a
# record: gzip, zstd, PNG, JPEG.
_COMPRESSED = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
_WORTH_STORING = 256
_GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_STORED = struct.Struct("<BHH")
_MAX_STORED = 0xFFFF
_LAST_BLOCK = _STORED.pack(1, 0, _MAX_STORED)
_GZIP_END = struct.Struct("<II")
_TRANSFER = re.compile(rb"^(transfer-encoding[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_LENGTH = re.compile(rb"^(content-length[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_NEW_HTTP = re.compile(rb"\AHTTP/[23](?:\.0)?(?=[ \r\n])")
_NEW_REQUEST = re.compile(rb"\A([^\r\n]* )HTTP/[23](?:\.0)?(?=\r?\n)")
_BREAKS = re.compile(r"[\r\n\x00]+")


def warc_date(date_us: int) -> str:
    """Microseconds since 1970 in the form of WARC 1.1: ``2026-11-20T22:50:45.123456Z``."""
    seconds, fraction = divmod(date_us, 1_000_000)
    return f"{_second(seconds)}.{fraction:06d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    # Cached, because hundreds of pages and all records of a page share a second.
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def base32_sha1(digest: bytes) -> str:
    """A SHA-1 in the form that WARC readers expect: ``sha1:`` and base32."""
    return "sha1:" + base64.b32encode(digest).decode("ascii")


def block_digest(*parts: bytes) -> str:
    """The digest of a block given in pieces."""
    state = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        state.update(part)
    return base32_sha1(state.digest())


def named_fields(fields: Fields) -> str:
    """``Name: value`` lines.

    Line breaks inside a value would forge a field, so they become spaces.
    """
    lines = [f"{name}: {value}\r\n" for name, value in fields if value]
    text = "".join(lines)
    if text.count("\r") == text.count("\n") == len(lines) and "\0" not in text:
        return text  # nearly always
    return "".join(f"{name}: {_BREAKS.sub(' ', value)}\r\n" for name, value in fields if value)


def record_head(kind: str, record_id: str, date_us: int, length: int, fields: Fields) -> bytes:
    """Everything before a record's block: version, mandatory fields, the given ones, blank line."""
    return (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {bracketed(record_id)}\r\nWARC-Date:"
        f" {warc_date(date_us)}\r\n{named_fields(fields)}Content-Length: {length}\r\n\r\n"
    ).encode("utf-8", "replace")


def bracketed(record_id: str) -> str:
    """A record ID as in header fields, ``<urn:uuid:...>``; the empty string stays empty."""
    return f"<{record_id.strip('<>')}>" if record_id else ""


def member(parts: Sequence[bytes], level: int) -> bytes:
    """One gzip member of the given pieces. ``level`` is libisal's, 0 to 3.

    A piece that is compressed already is stored unchanged.
    """
    for at, part in enumerate(parts):
        if len(part) > _WORTH_STORING and part.startswith(_COMPRESSED):
            return _member_around(b"".join(parts[:at]), part, b"".join(parts[at + 1 :]), level)
    # In one call, because copying a page costs less than a call for each piece.
    return isal_zlib.compress(b"".join(parts), level, _GZIP)


def _member_around(before: bytes, packed: bytes, after: bytes, level: int) -> bytes:
    """A gzip member in which ``packed`` and ``after`` are stored blocks.

    Source: RFC 1951 section 3.2.4, RFC 1952 section 2.3.
    """
    deflate = isal_zlib.compressobj(level, isal_zlib.DEFLATED, -isal_zlib.MAX_WBITS)
    # The flush ends on a byte boundary, where a stored block has to begin.
    pieces = [
        _GZIP_HEAD,
        deflate.compress(before),
        deflate.flush(isal_zlib.Z_SYNC_FLUSH),
    ]
    for piece in (packed, after):
        for start in range(0, len(piece), _MAX_STORED):
            block = piece[start : start + _MAX_STORED]
            pieces += (_STORED.pack(0, len(block), len(block) ^ _MAX_STORED), block)
    pieces.append(_LAST_BLOCK)
    check = isal_zlib.crc32(after, isal_zlib.crc32(packed, isal_zlib.crc32(before)))
    pieces.append(_GZIP_END.pack(check, (len(before) + len(packed) + len(after)) & 0xFFFFFFFF))
    return b"".join(pieces)


def record(
    kind: str, record_id: str, date_us: int, fields: Fields, block: Sequence[bytes], level: int
) -> bytes:
    """A complete record as one gzip member; the block is given in pieces, its digest is added."""
    digest = ("WARC-Block-Digest", block_digest(*block))
    head = record_head(kind, record_id, date_us, sum(map(len, block)), (*fields, digest))
    return member((head, *block, END), level)


def stored_response_head(header_block: bytes) -> bytes:
    """A response's header block as it is stored above a transfer-decoded body.

    It is unchanged except for what would mislead readers. ``Transfer-Encoding`` is renamed, and
    with it ``Content-Length``, which it overrides. An HTTP/2 status line is written as HTTP/1.1.
    Empty folded lines, which warcio takes for the end of the header, are left out. The block always
    ends with CRLF CRLF, which FastWARC requires.
    """
    block, codings = _TRANSFER.subn(rb"X-Crawler-\1", header_block)
    if codings:
        block = _LENGTH.sub(rb"X-Crawler-\1", block)
    if block.startswith((b"HTTP/2", b"HTTP/3")):
        block = _NEW_HTTP.sub(b"HTTP/1.1", block)
    if b"\n " in block or b"\n\t" in block:
        block = b"\n".join(line for line in block.split(b"\n") if not _is_empty_fold(line))
    return _ended(block)


def stored_request(request_block: bytes) -> bytes:
    """A request as it is stored: HTTP/2 request lines are written as HTTP/1.1."""
    return _ended(_NEW_REQUEST.sub(rb"\1HTTP/1.1", request_block))


def _is_empty_fold(line: bytes) -> bool:
    return line[:1] in (b" ", b"\t") and not (
        line.decode("latin-1").strip() and line.decode("utf-8", "ignore").strip()
    )


def _ended(block: bytes) -> bytes:
    if block.endswith(END):
        return block
    last = block.rstrip(b"\n").rfind(b"\n") + 1
    # The fetcher accepts any line that begins with CR as the empty line.
    if block[last : last + 1] == b"\r":
        block = block[:last]
    return block.rstrip(b"\r\n") + END


def protocols(protocol: str, tls: str) -> list[tuple[str, str]]:
    """``WARC-Protocol`` fields: one for the HTTP version, one for TLS.

    ``TLSv1.3`` and ``tls/1.3`` both give ``tls/1.3``.
    """
    fields = [("WARC-Protocol", protocol)]
    version = re.search(r"\d(?:\.\d)?", tls)
    if version:
        fields.append(
            ("WARC-Protocol", ("ssl/" if tls.lower().startswith("ssl") else "tls/") + version[0])
        )
    return fields
