"""Fixed intervals of refetches, for domains and for patterns of their URLs.

A text of the setting ``refetch.intervals`` is ``DOMAIN TIME`` or ``DOMAIN PATTERN TIME``::

    news.example 1h
    news.example /archive/* 30d
    * /feed* 10m

The domain stands for itself and all hosts below it; ``*`` is every host. The pattern stands for the
whole of path and query, and ``*`` in it for any characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from lycosa.base.config.units import read_seconds, show_seconds

MAX_INTERVALS = 1000
_MAX_CHARACTERS = 2000  # of one text
_MAX_STARS = 20
LONGEST_S = 3650 * 86_400.0
"""The longest interval, ten years: due times are below 2 ** 32 seconds."""


class FixedInterval(msgspec.Struct, frozen=True):
    """Pages of a domain, or those whose path and query match a pattern, have this interval."""

    domain: str
    pattern: str
    seconds: float

    def show(self) -> str:
        """The text that ``read_interval`` reads."""
        shown = (self.domain, *([self.pattern] if self.pattern else []))
        return " ".join((*shown, show_seconds(self.seconds)))

    def is_for(self, host: str, target: str) -> bool:
        """Whether it is for a URL: its host, with a port if it has one, and path and query."""
        if self.domain != "*":
            name = host if ":" in self.domain else host.partition(":")[0]
            if name != self.domain and not name.endswith(f".{self.domain}"):
                return False
        return not self.pattern or matches_stars(self.pattern, target)


def read_interval(text: str) -> FixedInterval:
    """One interval. Raises ``ValueError``."""
    words = text.split()
    if len(words) not in (2, 3) or len(text) > _MAX_CHARACTERS:
        raise ValueError(f"{text[:100]!r} is no interval; write DOMAIN TIME or DOMAIN PATTERN TIME")
    domain, pattern, seconds = words[0].lower(), "".join(words[1:-1]), read_seconds(words[-1])
    if domain != "*" and ("/" in domain or "*" in domain):
        raise ValueError(f"{domain!r} is no domain; write news.example, or * for all")
    if pattern and not pattern.startswith(("/", "*")):
        raise ValueError(f"{pattern!r} matches no path; a pattern begins with / or *")
    if pattern.count("*") > _MAX_STARS:
        raise ValueError(f"{pattern!r} has more than {_MAX_STARS} asterisks")
    if seconds < 1:
        raise ValueError(f"{words[-1]!r} is too short; write at least 1s")
    # A longer one is shortened and not refused, because saved crawls may have it.
    return FixedInterval(domain, pattern, min(seconds, LONGEST_S))


def check_intervals(texts: Sequence[str]) -> None:
    """Raises ``ValueError`` for a text that ``read_interval`` does not read."""
    if len(texts) > MAX_INTERVALS:
        raise ValueError(f"{len(texts)} intervals; there may be {MAX_INTERVALS}")
    for text in texts:
        read_interval(text)


@lru_cache(8)
def read_intervals(texts: tuple[str, ...]) -> tuple[FixedInterval, ...]:
    return tuple(map(read_interval, texts))


def find_interval(texts: tuple[str, ...], host: str, target: str) -> FixedInterval | None:
    """The first one that is for a URL."""
    return next((each for each in read_intervals(texts) if each.is_for(host, target)), None)


def matches_stars(pattern: str, target: str) -> bool:
    """Whether the pattern matches the whole target.

    The leftmost place for each literal part leaves most room for the others, so nothing is tried
    twice.
    """
    head, *parts = pattern.split("*")
    if not parts:
        return target == pattern
    tail = parts.pop()
    if not target.startswith(head) or len(target) < len(head) + len(tail):
        return False
    end = len(target) - len(tail)
    if target[end:] != tail:
        return False
    place = len(head)
    for part in parts:
        found = target.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
