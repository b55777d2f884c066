"""What a host's record remembers of its speculative URLs: those that only a text looks like."""

from __future__ import annotations

import msgspec

from lycosa.base.urls.url_patterns import pattern_of

MISSES = 10
"""A pattern of URLs is stopped after so many in a row that did not exist."""

_MAX_PATTERNS = 64


class SpeculationRecord(msgspec.Struct, array_like=True):
    """``requests`` were given to speculative URLs, each retry counted.

    ``misses`` has, by pattern (``base.urls.url_patterns``), how many of the last ones in a row did
    not exist; a pattern whose last one did has none.
    """

    requests: int = 0
    misses: dict[str, int] = {}

    def is_stopped(self, target: str) -> bool:
        """Whether too many URLs like this one did not exist."""
        return self.misses.get(pattern_of(target), 0) >= MISSES

    def note_answer(self, target: str, exists: bool) -> None:
        """Count the answer for a speculative URL.

        If there are too many patterns, the one with the fewest misses is forgotten. A stopped one
        is forgotten last, and then costs ten requests again.
        """
        pattern = pattern_of(target)
        before = self.misses.pop(pattern, 0)
        if exists:
            return
        if len(self.misses) >= _MAX_PATTERNS:
            del self.misses[min(self.misses, key=lambda each: self.misses[each])]
        self.misses[pattern] = before + 1
