"""How long the loop of a worker pauses when nothing runs and no host is ready.

A second at most while there is something to commit, a lease to renew or a result to expect. When
all of it has been committed, a minute: the wall clock may be set forward meanwhile, and then a page
is due earlier than it seemed. Whatever happens ends the pause at once.
"""

from __future__ import annotations

import math

IDLE_S = 1.0
STILL_S = 60.0
_SETTLING_S = 3.0  # after the last event, until all that it caused is committed
_EARLY_S = 0.01  # by which a timer may be early


class IdlePause:
    """The pauses of one worker; ``is_still`` says that nothing runs and no host is ready."""

    def __init__(self, commit_s: float) -> None:
        """``commit_s`` is the time between two commits."""
        self._settling_s = max(_SETTLING_S, 2 * commit_s)
        self._disturbed_at = -math.inf  # by anything but a time that had come
        self.is_still = False

    def __repr__(self) -> str:
        return f"<IdlePause still={self.is_still} disturbed_at={self._disturbed_at:.1f}>"

    def longest_s(self, now: float, reparse_at: float) -> float | None:
        """The longest pause from ``now``; ``None`` while it is not known that nothing is left."""
        if not self.is_still or now - self._disturbed_at <= self._settling_s:
            return None
        return min(STILL_S, max(reparse_at - now, IDLE_S))

    def note_end(self, began: float, planned_s: float, now: float) -> None:
        """Note the end of a pause."""
        if not self.is_still:
            self._disturbed_at = began
        elif now < began + planned_s - _EARLY_S:
            self._disturbed_at = now
