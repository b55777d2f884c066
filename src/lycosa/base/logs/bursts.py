"""Limits bursts of equal log records: the first of a minute are written, the others are counted.

A host that answers wrongly thousands of times, or a service that fails at each retry, would
otherwise fill the log and hide everything else. Records are equal when they have the same key: the
kind of event, the host and the reason. Successful fetches have no key and are always written.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

MAX_EQUAL = 20
"""Equal records that are written in one window."""
WINDOW_S = 60.0
_MAX_KEYS = 10_000
BurstKey = tuple[str, str, str]
"""Event, host and reason or message."""


class Suppressed(NamedTuple):
    """So many records with that key were counted only."""

    key: BurstKey
    number: int


class _Window:
    __slots__ = ("began", "suppressed", "written")

    def __init__(self, began: float) -> None:
        self.began, self.written, self.suppressed = began, 0, 0


class BurstLimiter:
    """Decides record by record; ``now`` is in seconds and does not fall."""

    def __init__(self, most: int = MAX_EQUAL, window_s: float = WINDOW_S) -> None:
        self._most, self._window_s = most, window_s
        self._windows: OrderedDict[BurstKey, _Window] = OrderedDict()
        self.suppressed = 0
        """Records that were counted only, since the start."""

    def __repr__(self) -> str:
        return f"<BurstLimiter keys={len(self._windows)} suppressed={self.suppressed}>"

    @property
    def has_pending(self) -> bool:
        """Whether ``close_windows`` will have something to say later."""
        return any(window.suppressed for window in self._windows.values())

    def may_write(self, key: BurstKey, now: float) -> bool:
        """Whether a record with this key is written; otherwise it is counted."""
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(now)
        if window.written < self._most:
            window.written += 1
            return True
        window.suppressed += 1
        self.suppressed += 1
        return False

    def close_windows(self, now: float, everything: bool = False) -> list[Suppressed]:
        """End the windows that are over, and the oldest when there are too many.

        Returns what was suppressed in them.
        """
        found = []
        while self._windows:
            key, window = next(iter(self._windows.items()))
            is_over = now - window.began >= self._window_s
            if not (is_over or everything or len(self._windows) > _MAX_KEYS):
                break
            del self._windows[key]
            if window.suppressed:
                found.append(Suppressed(key, window.suppressed))
        return found
