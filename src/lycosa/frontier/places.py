"""Where the hosts of a partition wait for the workbench: in its front queues, in the lines of their
addresses, or asleep until a time.

A host has one place.
"""

from __future__ import annotations

from lycosa.frontier.address_lines import AddressLines
from lycosa.frontier.counters import Counters
from lycosa.frontier.due import DueQueue
from lycosa.frontier.front_queues import FrontQueues
from lycosa.frontier.visit_state import VisitState, VisitStates
from lycosa.kv.overlay import Overlay


class Places:
    """The front queues, the lines and the sleepers of one partition, and the places of its hosts
    among them.
    """

    def __init__(
        self,
        table: Overlay,
        bands: int,
        visits: VisitStates,
        sleepers: DueQueue,
        counters: Counters,
    ) -> None:
        """``sleepers`` has the times at which sleeping hosts line up, beside those of parked
        hosts.
        """
        self.front = FrontQueues(table, bands)
        self.lines = AddressLines(table, bands)
        self._visits, self._sleepers, self._counters = visits, sleepers, counters

    def __repr__(self) -> str:
        return f"<Places {self.front!r} {self.lines!r}>"

    def line_up(self, visit: VisitState, band: int, address: str = "") -> None:
        """Puts the host at the end of a front queue, or of the line of an address; it leaves the
        place it had.
        """
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
        """A URL of this band waits: a host without a place gets one, another moves up in its own
        queue when that makes it earlier.
        """
        if not visit.may_line_up:
            return
        if visit.record.front is None or visit.pulled:
            self.line_up(visit, band)
        elif self._queue_of(visit).is_better(band, visit.record.front):
            self.line_up(visit, band, visit.record.line)

    def rotate(self, visit: VisitState, address: str = "") -> None:
        """The host leaves the workbench for the end of its front queue, or of the line of an
        address.
        """
        visit.benched = False
        self.line_up(visit, visit.best_band, address)

    def sleep(self, visit: VisitState, until: int) -> None:
        """The host waits for so long that it gives its place on the workbench to others; it
        lines up again at crawl time ``until``.
        """
        visit.benched = False
        self.leave(visit)
        self._counters.hosts_asleep += not visit.record.asleep_until
        visit.record.asleep_until = until
        self._sleepers.add(until, visit.host8)
        self._visits.touch(visit)

    def rouse(self, visit: VisitState) -> None:
        """A sleeping host's time has come."""
        visit.record.asleep_until = 0
        self._counters.hosts_asleep -= 1
        if visit.record.waiting or visit.record.errands:
            self.note_waiting(visit, visit.best_band)
        self._visits.touch(visit)

    def recall(self, visit: VisitState) -> None:
        """A host off the workbench may have something to do before the time that it was put
        aside for: it lines up.
        """
        until = visit.record.asleep_until
        if until and until != visit.record.parked_until:  # else it is the row of the parked host
            self._sleepers.remove(until, visit.host8)
        if until:
            self.rouse(visit)
        else:
            self.note_waiting(visit, visit.best_band)

    def save(self) -> None:
        """Puts what a start needs into the open batch."""
        self.front.save()
        self.lines.save()

    def _queue_of(self, visit: VisitState) -> FrontQueues:
        return self.lines.of(visit.record.line) if visit.record.line else self.front
