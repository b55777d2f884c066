"""What the operator is told about parse children that cannot be started: a line when it begins,
and one when it is over.
"""

from __future__ import annotations

from lycosa.model.parsed import ParserHealth

_WORTH_SAYING_S = 1.0


class ParserNotes:
    """Of all workers. ``hear`` takes each worker's reports in turn."""

    def __init__(self) -> None:
        self._away: dict[
            int, float
        ] = {}  # by worker: how long its parser had been away in all when that began

    def hear(self, worker: int, health: ParserHealth) -> str:
        """A line for the operator, or the empty string."""
        if worker not in self._away and health.away_s >= _WORTH_SAYING_S:
            self._away[worker] = health.away_total_s - health.away_s
            waits = "pages wait for it, and nothing new is fetched after some seconds"
            return f"worker {worker} cannot start its parse child ({health.away_why}): {waits}"
        if worker in self._away and not health.away_s:
            seconds = health.away_total_s - self._away.pop(worker)
            return (
                f"worker {worker} has a parse child again, after {max(seconds, 0.0):.0f} s; the"
                " pages that waited are parsed now"
            )
        return ""
