"""The calls that w3lib's own tests make of its URL functions: the safe or canonical form of a URL
that they give is the same URL to us.

Two forms are compared, not two texts: w3lib makes URLs for requests and for fingerprints, we make
them for a table of URLs.
"""

from __future__ import annotations

import base64
import json
from operator import ne
from pathlib import Path
from typing import Any

import pytest

from lycosa.base.config.sections import CanonicalSection
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl

FILE = Path(__file__).parents[2].parent / "shared" / "data" / "urls" / "w3lib-url-calls.jsonl"
BASE = "http://base.example/a/b"  # for what is relative
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(
        not FILE.is_file(), reason="the conformance vectors are not beside the checkout"
    ),
]

SAFE = Canonicalizer(CanonicalSection(drop_session_ids=False, drop_tracking=False))
SORTED = Canonicalizer(
    CanonicalSection(drop_session_ids=False, drop_tracking=False, sort_query=True)
)

_BRACKETS = (
    "the WHATWG standard leaves brackets and backslashes in paths and queries as they are; w3lib"
    " encodes them, as RFC 3986 has it"
)
_PATH = (
    "a path is UTF-8 by the WHATWG standard, whatever the charset of the page; theirs was asked to"
    " take another"
)
_QUERY = (
    "which parameters are the same is left to the server: none is sorted by its value, dropped or"
    " respelled"
)
_BEYOND = (
    "what a charset does not have stands in a query as a number reference, as forms send it"
    " (WHATWG); theirs goes back to UTF-8"
)
_CLEANER = (
    "url_query_cleaner drops what its caller names; here settings drop parameters of sessions and"
    " tracking"
)
_PARTS = "asked with the parts that a parser of theirs made, not with a URL"
# By the number of the call among those that are asked, from 0.
KNOWN_MISSES = {
    "the standard refuses an IPv6 address of the future; theirs takes it for a name": {107},
    _BRACKETS: {162, 166, 215, 217, 219, 223},
    _PATH: {229, 237, 251, 252, 262, 263, 331, 332},
    _QUERY: {338, 339, 342, 343, 345, 346, 347, 348, 350, 363, 373},
    _BEYOND: {355, 356},
    "theirs resolves a query alone against the root": {382},
    _PARTS: {394, 395, 396, 397, 398, 399, 400},
    "a percent sign inside ISO-2022-JP stays one (WHATWG, percent-encode after encoding)": {409},
}


def answers(call: dict[str, Any]) -> tuple[object, object]:
    """Ours and theirs for one call; a refusal is ``None``."""
    url, *further = call["args"]
    charset = call["kw"].get("encoding") or next(
        (value for value in further[:1] if isinstance(value, str)), "utf-8"
    )
    if isinstance(url, dict) and "b64" in url:
        url = base64.b64decode(url["b64"]).decode(charset, "surrogateescape")
    canonicalizer = SORTED if call["fn"].endswith("canonicalize_url") else SAFE
    ours = form(canonicalizer, url, charset) if isinstance(url, str) else None
    return ours, None if call["exc"] else form(canonicalizer, call["ret"], "utf-8")


def form(canonicalizer: Canonicalizer, url: str, charset: str) -> str | None:
    try:
        return canonicalizer.canonical(url, BASE, charset)
    except InvalidUrl as error:
        return None if error.reason.label == "unparsable" else error.reason.label


def test_what_w3lib_calls_one_url_is_one_url() -> None:
    calls = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    asked = [call for call in calls if not call["fn"].endswith("url_query_cleaner")]
    missed = {number for number, call in enumerate(asked) if ne(*answers(call))}
    print(f"w3lib-url-calls.jsonl: passed {len(asked) - len(missed)} of {len(calls)}")
    for reason, numbers in KNOWN_MISSES.items():
        print(f"  {len(numbers)} missed: {reason}")
    print(f"  {len(calls) - len(asked)} missed: {_CLEANER}")
    assert missed == set().union(*KNOWN_MISSES.values())
