"""Parameters that scripts put into URLs only to get past caches.

Two pages, or two rounds of one, ask for the same file with other values. What is stored without
them answers, and is the URL that is wanted; pywb and wabac match alike. The name of a JSONP
callback is one too if it ends in a number: the file is asked for with the name before the number,
and the name in the answer is replaced.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

_NAMES = frozenset(
    [
        "_",
        "_t",
        "_ts",
        "cb",
        "cachebust",
        "cachebuster",
        "cache_bust",
        "nocache",
        "no_cache",
        "ts",
        "timestamp",
        "rnd",
        "rand",
        "random",
        "__cb",
        "bust",
        "buster",
    ]
)
_CHANGING = re.compile(r"[\d.]{4,20}|[0-9a-f]{8,64}|0\.\d+", re.IGNORECASE)
_TIME = re.compile(r"\d{10,16}")  # of a clock, in a query that has no names
_CALLBACKS = frozenset({"callback", "jsonp", "jsoncallback", "cb"})
_NUMBERED = re.compile(r"([A-Za-z_$][\w$]{0,60}?)_?\d{4,40}(?:_\d{4,20})?")
_CALL = re.compile(
    rb"\s*(?:/\*\*/)?\s*(?:typeof [\w$.]{1,100} ?=== ?'function' && )?([\w$.]{1,100})\("
)


def without_busters(url: str) -> str:
    """The URL without what changes from page to page; empty when nothing of it does."""
    start, mark, query = url.partition("?")
    if not mark or len(query) > 4096:
        return ""
    kept, is_changed = [], False
    for part in query.split("&"):
        name, _, value = part.partition("=")
        name = name.lower()
        numbered = _NUMBERED.fullmatch(value) if name in _CALLBACKS else None
        if numbered:
            kept.append(f"{part.partition('=')[0]}={numbered[1]}")
            is_changed = True
        elif (name in _NAMES and (not value or _CHANGING.fullmatch(value))) or (
            _TIME.fullmatch(part)
        ):
            is_changed = True
        else:
            kept.append(part)
    if not is_changed:
        return ""
    return f"{start}?{'&'.join(kept)}" if kept else start


def with_callback(url: str, body: bytes) -> bytes:
    """A stored JSONP answer, calling the function that ``url`` names."""
    names = {
        unquote_plus(value)
        for name, _, value in (part.partition("=") for part in url.partition("?")[2].split("&"))
        if name.lower() in _CALLBACKS and _NUMBERED.fullmatch(value)
    }
    found = _CALL.match(body[:1000])
    if len(names) != 1 or not found:
        return body
    return body[: found.start(1)] + names.pop().encode() + body[found.end(1) :]
