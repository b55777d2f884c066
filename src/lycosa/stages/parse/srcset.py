"""The URLs of a ``srcset`` attribute, in their order.

It follows "parse a srcset attribute" in the HTML standard: a comma may occur inside a URL and
inside a descriptor's parentheses, so splitting at commas would both invent and lose images.
Candidates with contradictory descriptors are dropped, as browsers drop them. Unknown descriptors
are ignored.
"""

from __future__ import annotations

import re

_SKIP = re.compile(r"[ \t\n\f\r,]*")
_URL = re.compile(r"[^ \t\n\f\r]+")
# Up to the candidate's comma. A comma inside parentheses does not count, and parentheses without an
# end extend to the end of the value.
_DESCRIPTORS = re.compile(r"(?:[^,(]|\([^)]*(?:\)|\Z))*")
# One descriptor: blanks inside parentheses do not end it.
_DESCRIPTOR = re.compile(r"(?:[^ \t\n\f\r(]|\([^)]*(?:\)|\Z))+")
_WIDTH_OR_HEIGHT = re.compile(r"([0-9]+)([wh])\Z")
_DENSITY = re.compile(r"(?:(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-0)x\Z")


def srcset_urls(value: str) -> list[str]:
    """Raw URLs of the image candidates. Source: HTML standard 4.8.4.3.10."""
    urls: list[str] = []
    position = _end(_SKIP, value, 0)
    while found := _URL.match(value, position):
        url, position = found.group(), found.end()
        descriptors = ""
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            end = _end(_DESCRIPTORS, value, position)
            descriptors, position = value[position:end], end
        if _are_consistent(descriptors):
            urls.append(url)
        position = _end(_SKIP, value, position)
    return urls


def _are_consistent(descriptors: str) -> bool:
    """Whether a candidate's descriptors agree.

    Each unit occurs once, no size is zero, a density is alone, and a height has a width.
    """
    seen: set[str] = set()
    for descriptor in _DESCRIPTOR.findall(descriptors):
        size = _WIDTH_OR_HEIGHT.match(descriptor)
        unit = size.group(2) if size else "x" if _DENSITY.match(descriptor) else ""
        if not unit:
            continue
        if unit in seen or (size and not size.group(1).strip("0")):
            return False
        seen.add(unit)
    return not ("x" in seen and len(seen) > 1) and not ("h" in seen and "w" not in seen)


def _end(pattern: re.Pattern[str], value: str, position: int) -> int:
    """The end of the match of a pattern that also matches the empty string."""
    found = pattern.match(value, position)
    assert found is not None
    return found.end()
