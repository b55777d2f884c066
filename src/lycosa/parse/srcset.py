"""The URLs of a ``srcset`` attribute, in the order in which they stand.

Follows "parse a srcset attribute" of the HTML standard, because a comma may stand inside a URL and inside a descriptor's
parentheses, so that splitting at commas both invents and loses images. Candidates whose descriptors are errors are
dropped, as a browser drops them.
"""

from __future__ import annotations

import re
from enum import Enum, auto

_SKIP = re.compile(r"[ \t\n\f\r,]*")
_URL = re.compile(r"[^ \t\n\f\r]+")
_SPACE = frozenset(" \t\n\f\r")
_INTEGER = re.compile(r"[0-9]+\Z")
_FLOAT = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")


class _State(Enum):
    """Where the descriptor tokenizer stands (the standard's three states)."""

    IN_DESCRIPTOR = auto()
    IN_PARENTHESES = auto()
    AFTER_DESCRIPTOR = auto()


def srcset_urls(value: str) -> list[str]:
    """Raw URLs of the valid image candidates. Source: HTML standard 4.8.4.3.10."""
    urls: list[str] = []
    position = _SKIP.match(value, 0).end()  # type: ignore[union-attr]  # the pattern matches the empty string
    while found := _URL.match(value, position):
        url, position = found.group(), found.end()
        if url.endswith(","):
            url, descriptors = url.rstrip(","), list[str]()
        else:
            descriptors, position = _descriptors(value, position)
        if _is_valid(descriptors):
            urls.append(url)
        position = _SKIP.match(value, position).end()  # type: ignore[union-attr]  # the pattern matches the empty string
    return urls


def _descriptors(value: str, position: int) -> tuple[list[str], int]:
    """The descriptors from ``position`` to the candidate's comma, and the position behind that."""
    descriptors: list[str] = []
    current, state = "", _State.IN_DESCRIPTOR
    while position < len(value):
        char = value[position]
        position += 1
        if state is _State.IN_PARENTHESES:
            current += char
            if char == ")":
                state = _State.IN_DESCRIPTOR
        elif char in _SPACE:
            if current:
                descriptors.append(current)
                current, state = "", _State.AFTER_DESCRIPTOR
        elif char == ",":
            break
        else:
            current += char
            state = _State.IN_PARENTHESES if char == "(" else _State.IN_DESCRIPTOR
    if current:
        descriptors.append(current)
    return descriptors, position


def _is_valid(descriptors: list[str]) -> bool:
    """Whether no descriptor is an error and they go together."""
    seen: set[str] = set()
    for descriptor in descriptors:
        number, unit = descriptor[:-1], descriptor[-1]
        if unit in seen or not _is_number(number, unit):
            return False
        seen.add(unit)
    if "x" in seen and len(seen) > 1:
        return False
    return "h" not in seen or "w" in seen


def _is_number(number: str, unit: str) -> bool:
    if unit in "wh":
        return bool(_INTEGER.match(number)) and int(number[:20]) > 0
    if unit == "x":
        return bool(_FLOAT.match(number)) and float(number[:50]) >= 0
    return False
