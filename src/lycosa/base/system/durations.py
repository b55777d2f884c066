"""Durations as people read them: the two largest units, rounded to the smaller of the two.

A duration is rounded, never cut: 2.9 seconds are not "2 s". Below ten seconds three digits are
kept, because delays of hosts are compared there.
"""

from __future__ import annotations

_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_SHORT = {"day": "d", "hour": "h", "minute": "min", "second": "s"}
_EXACT_BELOW_S = 10


def duration_parts(seconds: float) -> list[tuple[float, str]]:
    """The two largest units of a duration with their numbers; the second one may be 0.

    A negative duration counts as none. Only seconds below ten have decimals.
    """
    left = max(seconds, 0.0)
    if left < _EXACT_BELOW_S:
        return [(float(f"{left:.3g}"), "second")]
    for place, (name, size) in enumerate(_UNITS):
        smaller, small = _UNITS[min(place + 1, len(_UNITS) - 1)]
        whole = round(left / small) * small  # may be a full larger unit: 59.6 s are a minute
        if whole < size:
            continue
        number, rest = divmod(whole, size)
        return [(number, name)] if small == size else [(number, name), (rest // small, smaller)]
    raise AssertionError(seconds)  # ten seconds or more have a unit


def short_duration(seconds: float) -> str:
    """``2 h 5 min``, ``2.53 s``."""
    return " ".join(f"{number:g} {_SHORT[name]}" for number, name in _told(seconds))


def long_duration(seconds: float) -> str:
    """``2 hours 5 minutes``, ``1 second``, ``2.53 seconds``."""
    return " ".join(
        f"{number:g} {name}{'s' if number != 1 else ''}" for number, name in _told(seconds)
    )


def _told(seconds: float) -> list[tuple[float, str]]:
    """The parts without a second one that is 0."""
    first, *rest = duration_parts(seconds)
    return [first, *(part for part in rest if part[0])]
