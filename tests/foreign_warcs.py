"""WARC files as other programs write them."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PAGE = (
    b"<title>A lamp</title><article class=product><h2>Lamp</h2><b itemprop=price>9.5</b></article>"
)
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def warc_record(
    number: int = 1,
    block: bytes = HTML + PAGE,
    kind: str = "response",
    url: str = "",
    version: str = "1.1",
    fields: str = "",
) -> bytes:
    """One uncompressed record."""
    uri = url or f"http://shop.example/product/{number}"
    head = (
        f"WARC/{version}\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {uri}\r\n"
        f"WARC-Date: 2026-11-23T10:00:{number % 60:02d}Z\r\n"
        f"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{number:012d}>\r\n"
        f"Content-Type: application/http; msgtype=response\r\n{fields}"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def packed(records: Iterable[bytes], form: str) -> bytes:
    """A file of these records: ``plain``, ``gzip``, ``zstd``, or ``whole`` as one gzip member."""
    listed = list(records)
    if form == "gzip":
        return b"".join(gzip.compress(each, 1, mtime=0) for each in listed)
    if form == "zstd":
        return b"".join(zstd.compress(each, 1) for each in listed)
    whole = b"".join(listed)
    return gzip.compress(whole, 1, mtime=0) if form == "whole" else whole


FORMS = ("plain", "gzip", "zstd", "whole")
