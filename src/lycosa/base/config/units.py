"""Durations and sizes in text form: ``2h``, ``1h30m``, ``500ms``, ``10GB``, ``512KiB``.

A bare number is seconds or bytes. The forms are exact: ``read(show(x)) == x`` for every value that
a setting can have.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

_SECONDS = {
    "ms": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
_BYTES = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGTP", 1):
    # A bare letter is decimal, as disks and networks count; 1024 needs the binary unit.
    _BYTES |= {_letter: 1000**_power, f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}
_NUMBER = r"\d+(?:\.\d+)?"
_DURATION = re.compile(rf"(?:{_NUMBER}(?:ms|sec|s|min|m|h|d|w))+")
_PART = re.compile(rf"({_NUMBER})(ms|sec|s|min|m|h|d|w)")
_SIZE = re.compile(rf"({_NUMBER})\s*(B?|[KMGTP](?:I?B)?)", re.IGNORECASE)
_PLAIN = re.compile(rf"[+-]?(?:{_NUMBER}|\.\d+)(?:[eE][+-]?\d+)?")
_SHOWN_SECONDS = (("d", 86400), ("h", 3600), ("m", 60))
_SHOWN_BYTES = [
    (f"{letter}B", 1000**power) for power, letter in reversed(list(enumerate("KMGTP", 1)))
]
_SHOWN_BINARY = [
    (f"{letter}iB", 1024**power) for power, letter in reversed(list(enumerate("KMGTP", 1)))
]


_LONGEST_S = 1e10  # three hundred years; a time that far away still is a date


def read_seconds(text: str) -> float:
    """Seconds. Raises ``ValueError``, which says how to write them."""
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return _finite(float(text), text)
    compact = text.replace(" ", "")
    if compact.startswith("-") and _DURATION.fullmatch(compact[1:]):
        raise ValueError(f"{text!r} is negative; a duration is at least 0")
    if not _DURATION.fullmatch(compact):
        raise ValueError(f"{text!r} is not a duration; write seconds, or 500ms, 1.5s, 10m, 2h, 1d")
    return _finite(
        math.fsum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(compact)), text
    )


def read_moment(text: str, now: float) -> float:
    """Seconds since 1970 of a time in ISO 8601 (UTC without a zone), or of a duration before
    ``now``. Raises ``ValueError``.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return now - read_seconds(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def read_bytes(text: str) -> int:
    """Bytes. Raises ``ValueError``, which says how to write them."""
    found = _SIZE.fullmatch(text.strip().replace("_", ""))
    if found is None and text.strip().startswith("-") and _SIZE.fullmatch(text.strip()[1:]):
        raise ValueError(f"{text!r} is negative; a size is at least 0")
    if found is None:
        raise ValueError(f"{text!r} is not a size; write bytes, or 512KiB, 100MB, 10GB")
    number, unit = found[1], _BYTES[found[2].upper()]
    size = float(number) * unit if "." in number else int(number) * unit
    if size != int(size):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(size)


def show_seconds(seconds: float) -> str:
    """The shortest exact form of a duration: ``1d``, ``90s``, ``0.2s``."""
    if seconds:
        for unit, size in _SHOWN_SECONDS:
            if seconds % size == 0:
                return f"{int(seconds // size)}{unit}"
    return f"{_number(seconds)}s"


def show_bytes(size: int) -> str:
    """The shortest exact form of a size: ``10MB``, ``512KiB``, ``512000``."""
    if size:
        for units in (_SHOWN_BYTES, _SHOWN_BINARY):
            for unit, factor in units:
                if size % factor == 0:
                    return f"{size // factor}{unit}"
    return str(size)


def show_mb(size: int) -> str:
    """The approximate size, for a message."""
    return f"{size / 1e6:.0f} MB"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _finite(value: float, text: str) -> float:
    if not value <= _LONGEST_S:
        raise ValueError(f"{text!r} is too large for a duration; write at most 100000d")
    return value
