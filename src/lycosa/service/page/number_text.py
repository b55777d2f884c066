"""Numbers and times as the pages show them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from lycosa.base.system.durations import short_duration

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")


def count_text(number: float) -> str:
    """``1,234,567``; small fractions keep two digits."""
    if isinstance(number, float) and not number.is_integer():
        return f"{number:,.2f}" if abs(number) < 100 else f"{number:,.0f}"
    return f"{int(number):,}"


def size_text(number: float) -> str:
    """Bytes with a decimal unit, three digits at most."""
    value, unit = float(number), 0
    while value >= 999.5 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {_SIZES[unit]}"


def time_text(wall: float) -> str:
    """A wall time, or that it never was."""
    return f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%d %H:%M:%S} UTC" if wall else "never"


def ago_text(wall: float) -> str:
    """How long ago, or in what time."""
    if not wall:
        return "never"
    away = wall - time.time()
    if abs(away) < 1:
        return "now"
    return f"in {short_duration(away)}" if away > 0 else f"{short_duration(-away)} ago"


def label_text(key: str) -> str:
    """What people read in place of the key of a fact, whose text has the unit."""
    return key.removesuffix("_s").replace("_", " ")


def text_of_bytes(body: bytes) -> str:
    """Text for a browser: characters that control it are replaced."""
    text = body.decode("utf-8", "replace").replace("\r\n", "\n")
    return "".join(
        sign if sign >= " " or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in text
    )
