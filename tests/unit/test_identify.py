"""What a body is that nobody parses."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.stages.parse.identify import identify

HTML = b"<!DOCTYPE html><title>301 Moved</title>"


def answer(body: bytes, *fields: str, status: int = 404, spool: str = "") -> Fetched:
    head = "".join(f"{field}\r\n" for field in (f"HTTP/1.1 {status} X", *fields, ""))
    return Fetched(
        "http://a.example/",
        Reason.NONE,
        status=status,
        header_block=head.encode(),
        body=body,
        spool=spool,
        body_bytes=len(body),
    )


@pytest.mark.parametrize(
    ("body", "fields", "essence"),
    [
        (HTML, ["Content-Type: text/html; charset=utf-8"], "text/html"),
        (HTML, [], "text/html"),
        (b"User-agent: *\nDisallow:\n", ["Content-Type: Text/Plain"], "text/plain"),
        (b"User-agent: *\nDisallow:\n", [], "text/plain"),
        (b"\x00\x01\x02", ["Content-Type: text/plain"], "application/octet-stream"),
        (b'{"error": 1}', ["Content-Type: application/json"], "application/json"),
        (b"\x89PNG\r\n\x1a\n", [], "image/png"),
        (gzip.compress(HTML * 10_000, mtime=0), ["Content-Encoding: gzip"], "text/html"),
        (
            gzip.compress(HTML + random.Random(1).randbytes(100_000), mtime=0),
            ["Content-Encoding: gzip"],
            "text/html",
        ),
        (
            gzip.compress(HTML, mtime=0)[:12],
            ["Content-Encoding: gzip", "Content-Type: text/html"],
            "text/html",
        ),
        (HTML, ["Content-Encoding: gzip"], "text/html"),
        (b"", ["Content-Type: text/html"], "text/html"),
        (b"", [], ""),
        (b"", ["Content-Type: nonsense"], ""),
    ],
)
def test_the_beginning_says_it(body: bytes, fields: list[str], essence: str) -> None:
    assert identify(answer(body, *fields)) == essence


def test_a_spooled_body_is_looked_at_too(tmp_path: Path) -> None:
    spool = tmp_path / "body"
    spool.write_bytes(HTML + bytes(1_000_000))
    assert identify(answer(b"", spool=str(spool))) == "text/html"
