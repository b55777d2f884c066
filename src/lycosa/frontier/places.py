"""Where the hosts of a partition wait for the workbench: in its front queues, or in the lines of their addresses. A host has one place."""

from __future__ import annotations

from lycosa.frontier.address_lines import AddressLines
from lycosa.frontier.front_queues import FrontQueues
from lycosa.frontier.visit_state import VisitState, VisitStates
from lycosa.kv.overlay import Overlay


class Places:
    """The front queues and the lines of one partition, and the places of its hosts in them."""

    def __init__(self, table: Overlay, bands: int, visits: VisitStates) -> None:
        self.front = FrontQueues(table, bands)
        self.lines = AddressLines(table, bands)
        self._visits = visits

    def __repr__(self) -> str:
        return f"<Places {self.front!r} {self.lines!r}>"

    def line_up(self, visit: VisitState, band: int, address: str = "") -> None:
        """Puts the host at the end of a front queue, or of the line of an address; it leaves the place it had."""
        self.leave(visit)
        visit.record.line = address
        visit.record.front = self._queue_of(visit).push(visit.host8, band)
        visit.pulled = False
        self._visits.touch(visit)

    def leave(self, visit: VisitState) -> None:
        """The host has no place any more."""
        if visit.record.front is not None:
            self._queue_of(visit).remove(visit.record.front)
            visit.record.front, visit.record.line = None, ""

    def note_waiting(self, visit: VisitState, band: int) -> None:
        """A URL of this band waits: a host without a place gets one, another moves up in its own queue when that makes it earlier."""
        if not visit.may_line_up:
            return
        if visit.record.front is None or visit.pulled:
            self.line_up(visit, band)
        elif self._queue_of(visit).is_better(band, visit.record.front):
            self.line_up(visit, band, visit.record.line)

    def save(self) -> None:
        """Puts what a start needs into the open batch."""
        self.front.save()
        self.lines.save()

    def _queue_of(self, visit: VisitState) -> FrontQueues:
        return self.lines.of(visit.record.line) if visit.record.line else self.front
