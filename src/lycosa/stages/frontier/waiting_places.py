"""Where the hosts of a partition wait for the workbench.

A host is in a front queue, in the line of its address, or asleep until a time. It has one place.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.stages.frontier.address_lines import AddressLines
from lycosa.stages.frontier.due import DueQueue
from lycosa.stages.frontier.front_queues import FrontQueues
from lycosa.stages.frontier.turn_shares import SharedTurns
from lycosa.stages.frontier.visit_state import VisitState, VisitStates
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import SET_BACK_BAND
from lycosa.state.shard.counters import Counters


class WaitingPlaces:
    """The front queues, the lines and the sleeping hosts of one partition."""

    def __init__(
        self,
        table: Overlay,
        bands: int,
        visits: VisitStates,
        sleepers: DueQueue,
        counters: Counters,
        share: SharedTurns,
        raised_bands: Callable[[VisitState], list[int]],
    ) -> None:
        """``sleepers`` has the times at which sleeping hosts line up, and those of parked hosts.

        ``raised_bands`` are the best bands of a host whose authority has risen.
        """
        self._last_band = bands - 1
        self.front = FrontQueues(table, bands, share=share)
        self.lines = AddressLines(table, bands, share)
        self._visits, self._sleepers, self._counters = visits, sleepers, counters
        self._raised_bands = raised_bands

    def line_up_host(self, host: VisitState, bands: list[int], address: str = "") -> None:
        """Put the host at the end of a front queue or of the line of an address.

        It waits in that of the bands where its turn comes first, and leaves its old place.
        """
        self.leave_place(host)
        host.record.line = address
        queue = self._queue_of(host)
        band = bands[0] if len(bands) == 1 else queue.soonest(bands)
        if band == SET_BACK_BAND:  # hosts have no such band
            band = self._last_band
        host.record.front = queue.push_host(host.host8, band)
        host.pulled = False
        self._visits.mark_changed(host)

    def leave_place(self, host: VisitState) -> None:
        """Remove the host from its place."""
        if host.record.front is not None:
            self._queue_of(host).remove_host(host.record.front)
            host.record.front, host.record.line = None, ""

    def note_waiting(self, host: VisitState, band: int) -> None:
        """Note that a URL of this band waits.

        A host without a place gets one. Another host moves up in its queue if that makes it
        earlier.
        """
        if not host.may_line_up:
            return
        if host.record.front is None or host.pulled:
            self.line_up_host(host, [band])
        elif band != SET_BACK_BAND and self._queue_of(host).is_better(band, host.record.front):
            self.line_up_host(host, [band], host.record.line)

    def rotate_host(self, host: VisitState, address: str = "") -> None:
        """Move the host from the workbench to the end of a front queue or of an address's line."""
        host.on_workbench = False
        bands = self._raised_bands(host) if host.has_risen else host.best_bands
        self.line_up_host(host, bands, address)

    def sleep_host(self, host: VisitState, until: int) -> None:
        """Put the host to sleep outside the workbench until crawl time ``until``."""
        host.on_workbench = False
        self.leave_place(host)
        # A host that sleeps already only gets another time.
        self._counters.hosts_asleep += not host.record.asleep_until
        host.record.asleep_until = until
        self._sleepers.add_due(until, host.host8)
        self._visits.mark_changed(host)

    def wake_host(self, host: VisitState) -> None:
        """Wake a sleeping host."""
        host.record.asleep_until = 0
        self._counters.hosts_asleep -= 1
        # A host without anything to do gets no place: a turn of it would be a write for nothing.
        if host.record.waiting or host.record.errands:
            self._line_up_again(host)
        self._visits.mark_changed(host)

    def recall_host(self, host: VisitState) -> None:
        """Line up a host before the end of its wait, because it may have something to do."""
        if host.record.asleep_until:
            self._drop_alarm(host)
            self.wake_host(host)
        else:
            self._line_up_again(host)

    def raise_host(self, host: VisitState) -> None:
        """Give a host whose authority has risen its better place, if it waits for its turn."""
        if host.record.front is not None and not host.pulled and host.has_risen:
            self._line_up_again(host)

    def _line_up_again(self, host: VisitState) -> None:
        for band in self._raised_bands(host) if host.has_risen else host.best_bands:
            self.note_waiting(host, band)

    def end_sleep(self, host: VisitState) -> None:
        """Wake a host that may not be visited, and give it no place."""
        if host.record.asleep_until:
            self._drop_alarm(host)
            host.record.asleep_until = 0
            self._counters.hosts_asleep -= 1
            self._visits.mark_changed(host)

    def _drop_alarm(self, host: VisitState) -> None:
        until = host.record.asleep_until
        if until != host.record.parked_until:  # else the row is that of the parked host
            self._sleepers.remove_due(until, host.host8)

    def save(self) -> None:
        """Put what a start needs into the open batch."""
        self.front.save()
        self.lines.save()

    def _queue_of(self, host: VisitState) -> FrontQueues:
        return self.lines.line_of(host.record.line) if host.record.line else self.front
