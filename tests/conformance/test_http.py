"""HTTP answers and compressed bodies that others wrote: raw answers against what four clients make
of them, and codecs.

The four are curl, urllib3, aiohttp and httpx; what two or more of them agree on is the verdict, and
where two say one thing and two another, either will do. Their error is ours when we give a reason
other than ``NONE`` or decode it with one.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from http_answers import fetch_all
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.base.system.content_encoding import decode_content

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "http"
COMPRESSED = DATA / "compressed"
RAW = DATA / "raw-responses-sample.jsonl.gz"
CLIENTS = ("curl", "urllib3", "aiohttp", "httpx")
MAX, RATIO = 10_000_000, 1000
FAILED = "failed"

pytestmark = pytest.mark.shared_data
needs_compressed = pytest.mark.skipif(
    not COMPRESSED.is_dir(), reason="the shared HTTP data is not beside the checkout"
)
needs_raw = pytest.mark.skipif(
    not RAW.is_file(), reason="the shared HTTP data is not beside the checkout"
)

# Each with the reason why we differ from the majority, on purpose or because libcurl does.
KNOWN_MISSES: dict[str, str] = {}

ENCODINGS = {
    "html-br.bin": "br",
    "html-gzip.bin": "gzip",
    "html-gzip-deflate.bin": "gzip, deflate",
    "html-gzip-deflate-gzip.bin": "gzip, deflate, gzip",
    "html-rawdeflate.bin": "deflate",
    "html-zlibdeflate.bin": "deflate",
    "html-zstd-static-content-size.bin": "zstd",
    "html-zstd-static-no-content-size.bin": "zstd",
    "html-zstd-streaming-no-content-size.bin": "zstd",
}


@needs_compressed
def test_compressed_files() -> None:
    cases = {
        **{f"{name}": (name, encoding, _is_html) for name, encoding in ENCODINGS.items()},
        **{
            path.name: (path.name, "br", _is_file(path.with_suffix(".out")))
            for path in COMPRESSED.glob("brotli-*.br")
        },
        **{path.name: (path.name, "zstd", _is_whole) for path in COMPRESSED.glob("zstd-good-*")},
        **{path.name: (path.name, "zstd", _is_broken) for path in COMPRESSED.glob("zstd-bad-*")},
        **{
            path.name: (path.name, path.stem.removeprefix("bomb-"), _is_bomb)
            for path in COMPRESSED.glob("bomb-*")
        },
        "feed-sample1.xml.gz": (
            "feed-sample1.xml.gz",
            "gzip",
            _is_file(COMPRESSED / "feed-sample1.xml"),
        ),
        "truncated-crc-error.gz": ("truncated-crc-error.gz", "gzip", _ends_with(b"</html")),
        "truncated-crc-error-short.gz": (
            "truncated-crc-error-short.gz",
            "gzip",
            _ends_with(b"</html>"),
        ),
        "unexpected-eof.gz": (
            "unexpected-eof.gz",
            "gzip",
            _is_latin(COMPRESSED / "unexpected-eof-output.txt"),
        ),
        **{
            name: (name, "", _is_file(COMPRESSED / name))
            for name in ("feed-sample1.xml.bz2", "feed-sample1.zip")
        },
    }
    misses = [
        name
        for name, (file, encoding, holds) in cases.items()
        if not holds((COMPRESSED / file).read_bytes(), encoding)
    ]
    print(f"http/compressed: passed {len(cases) - len(misses)} of {len(cases)}")
    print(
        f"http/compressed: {len(cases)} bodies to decode,"
        f" {len(list(COMPRESSED.iterdir())) - len(cases)} files say what they decode to"
    )
    assert misses == []


def _decoded(body: bytes, encoding: str) -> tuple[bytes, Reason]:
    return decode_content(body, encoding, MAX, RATIO)[:2]


def _is_whole(body: bytes, encoding: str) -> bool:
    return _decoded(body, encoding)[1] is Reason.NONE


def _is_html(body: bytes, encoding: str) -> bool:
    text, reason = _decoded(body, encoding)
    return (
        reason is Reason.NONE
        and text.startswith(b"<!DOCTYPE HTML>")
        and text.endswith(b"</html>\n")
        and len(text) in (74837, 74840)
    )


def _is_broken(body: bytes, encoding: str) -> bool:
    return _decoded(body, encoding)[1] is Reason.DECODE_FAILED


def _is_bomb(body: bytes, encoding: str) -> bool:
    text, reason = _decoded(body, encoding)
    return reason is Reason.DECODE_LIMIT and 1_000_000 < len(text) <= MAX


def _is_file(path: Path) -> Any:
    return lambda body, encoding: _decoded(body, encoding) == (path.read_bytes(), Reason.NONE)


def _ends_with(end: bytes) -> Any:
    def holds(body: bytes, encoding: str) -> bool:
        text, reason = _decoded(body, encoding)
        return reason is Reason.DECODE_FAILED and text.endswith(end)

    return holds


def _is_latin(path: Path) -> Any:
    """The output was recorded as text: Latin-1 read, UTF-8 written."""

    def holds(body: bytes, encoding: str) -> bool:
        text, reason = _decoded(body, encoding)
        return (
            reason is Reason.DECODE_FAILED and text.decode("latin-1").encode() == path.read_bytes()
        )

    return holds


def _verdict(client: dict[str, Any]) -> tuple[int, str] | str:
    if client.get("exit") or client.get("status") is None:
        return FAILED
    return client["status"], client["sha"]


def _ours(fetched: Fetched) -> tuple[int, str] | str:
    encodings = [value for name, value in fetched.headers() if name == "content-encoding"]
    body, reason, *_ = decode_content(fetched.body, encodings, MAX, RATIO)
    if fetched.reason is not Reason.NONE or reason is not Reason.NONE:
        return FAILED
    return fetched.status, hashlib.sha256(body).hexdigest()[:16]


@needs_raw
async def test_raw_answers(tmp_path: Path) -> None:
    with gzip.open(RAW, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    fetched = await fetch_all([base64.b64decode(case["raw_b64"]) for case in cases], tmp_path)
    misses = {}
    for case, answer in zip(cases, fetched, strict=True):
        votes = Counter(_verdict(case[client]) for client in CLIENTS).most_common()
        accepted = [verdict for verdict, count in votes if count == votes[0][1]]
        if _ours(answer) not in accepted:
            misses[case["id"]] = (
                f"{case['name']}: {_ours(answer)} ({answer.reason.label}: {answer.detail}),"
                f" majority {accepted}"
            )
    print(f"http/raw-responses-sample: passed {len(cases) - len(misses)} of {len(cases)}")
    for name in sorted(misses):
        print(f"  {name}: {KNOWN_MISSES.get(name, misses[name])}")
    assert misses.keys() - KNOWN_MISSES.keys() == set()
    assert KNOWN_MISSES.keys() - misses.keys() == set()
