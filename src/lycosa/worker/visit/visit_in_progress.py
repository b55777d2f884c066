"""What one visit holds, and what its steps have found out so far.

A visit can hold four things: the host (or, at a proved own host, one of its open requests), the
lease of a URL, a slot of the host's address, and a permit for a capture. All four are taken through
a ``Visit``, which also releases them. Before each step it releases what the step does not keep
(``schedule.steps.Keeps``), and at the end of the ``async with`` block everything that is left. So a
visit that raises or is cancelled leaves nothing behind. The lease is released before the host,
because the host's next turn depends on the URLs that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from lycosa.base.model.capture import RobotsDecision
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.model.parcel_items import Errand
from lycosa.base.model.url_state import Completed
from lycosa.base.preferences.preference_model import Statement
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.outside_leases import LeaseRow
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.frontier.wanted_urls import lease_wanted
from lycosa.stages.schedule.steps import Keeps
from lycosa.worker.request_slots import Slot
from lycosa.worker.visit.examined_body import ExaminedBody
from lycosa.worker.visit.permits import Permits

_NOTHING = Keeps(host=False)


class Visit:
    """One visit of ``host``, which the frontier gave.

    The fields after ``slot`` are results of earlier steps, for the steps that follow.
    """

    __slots__ = (
        "_frontier", "_group", "_has_host", "_has_permit", "_lease", "_permits", "answer", "body",
        "decision", "errand", "host", "is_secure", "others", "partition", "passed", "request",
        "slot", "stated", "stated_by_robots",
    )  # fmt: skip

    def __init__(self, host: VisitState, frontier: Frontier, permits: Permits) -> None:
        self.host = host
        self.partition = frontier.partitions[host.partition]
        self._frontier = frontier
        self._permits = permits
        self._has_host = True
        self._group = ""  # where its open request has a place, after the host was given back
        self._has_permit = False
        self._lease: Lease | None = None
        self.slot: Slot | None = None
        self.others: Sequence[str] = ()  # further addresses of the host
        self.passed = 0  # number of URLs leased so far
        self.is_secure = False  # whether the robots.txt of the https origin applies
        self.decision: RobotsDecision | None = None
        self.errand: Errand | None = None
        self.request: FetchRequest | None = None
        self.answer: Fetched | None = None  # of the URL
        self.body: ExaminedBody | None = None
        self.stated: Statement | None = None  # of the origin's tdmrep.json about the URL
        self.stated_by_robots: tuple[Statement, ...] = ()  # about the URL that is leased

    def __repr__(self) -> str:
        held = {
            "host": self._has_host,
            "lease": self._lease,
            "slot": self.slot,
            "permit": self._has_permit,
        }
        return (
            f"<Visit {self.host.name} holds {' '.join(name for name, has in held.items() if has)}>"
        )

    # -- taking

    def take_url(self, now: float) -> Lease | None:
        """Lease the host's next URL at crawl time ``now``; ``None`` if it has none."""
        self.passed += 1
        self._lease = self.partition.lease_next(self.host, now)
        return self._lease

    def take_permit(self) -> bool:
        """Take a permit for a capture; return whether it may be made.

        What a page needs needs no permit.
        """
        self._has_permit = self._permits.take_permit()
        return self._has_permit or self._is_wanted

    def take_wanted(self) -> Lease | None:
        """Lease a URL of the host that a page needs; ``None`` if none waits."""
        self.passed += 1
        self._lease = lease_wanted(self.partition, self.host)
        return self._lease

    @property
    def _is_wanted(self) -> bool:
        return self._lease is not None and self._lease.record.kind is LinkKind.WANTED

    @property
    def has_permit(self) -> bool:
        """Whether the visit holds a permit."""
        return self._has_permit

    @property
    def lease(self) -> Lease:
        assert self._lease is not None
        return self._lease

    # -- lending to an outside fetcher, and taking back

    def lend(self, row: LeaseRow) -> Slot | None:
        """Lend the leased URL; returns the slot, which the visit has no longer.

        The permit is not the visit's any more either.
        """
        lease, self._lease = self.lease, None
        self.partition.outside.lend(lease, row)
        self._has_permit = False
        slot, self.slot = self.slot, None
        return slot

    def take_back(self, lease: Lease, has_permit: bool) -> None:
        """Continue with a URL that was lent, and with the permit that it had."""
        self.partition.outside.take_back(lease)
        self._lease, self._has_permit = lease, has_permit

    # -- several requests at once to one host

    @property
    def has_host(self) -> bool:
        """Whether the visit has the host."""
        return self._has_host

    def await_end(self) -> None:
        """Leave the host in process until one of its open requests ends."""
        assert self._has_host and self.host.open_requests
        self._has_host, self.host.awaits_end = False, True

    def leave_open(self, is_last: bool) -> None:
        """Give the host back when the request is sent.

        With ``is_last`` it may have no further one, and waits for an end.
        """
        host = self.host
        host.open_requests += 1
        # The request still has its slot of the address.
        self._group = host.group
        self._frontier.workbench.hold_place(self._group)
        if is_last:
            self.await_end()
        else:
            self._has_host = False
            self._frontier.give_back(host)

    def end_open(self) -> bool:
        """End the request, and take the host if it waits for that; return whether one was open."""
        if not self._group:
            return False
        host = self.host
        host.open_requests -= 1
        self._frontier.workbench.free_place(self._group)
        self._group = ""
        if host.awaits_end:
            host.awaits_end, self._has_host = False, True
        return True

    # -- using up

    def end_lease(self, done: Completed) -> str:
        """Complete the lease with the result for its URL; return the URL."""
        lease, self._lease = self.lease, None
        self.partition.complete_lease(lease, done)
        return lease.url

    def use_permit(self, body_bytes: int) -> None:
        """Use up the permit: a capture was made."""
        assert self._lease is not None, "its capture ends it"
        is_wanted = self._lease.record.kind is LinkKind.WANTED
        self.partition.counters.wanted += is_wanted
        self._permits.use_permit(body_bytes, not is_wanted, self._has_permit)
        self._has_permit = False

    # -- giving back

    def keep(self, kept: Keeps) -> None:
        """Release everything that is not in ``kept``, except the slot."""
        if self._lease is not None and not kept.lease:
            lease, self._lease = self._lease, None
            self.partition.restore_lease(lease)
        if self._has_permit and not kept.permit:
            self._has_permit = False
            self._permits.return_permit()
        if self._has_host and not kept.host:
            self._has_host = False
            self._frontier.give_back(self.host)

    async def give_back_slot(self) -> None:
        """Release the slot if it is held.

        It awaits, because another process may have the table of addresses.
        """
        if self.slot is not None:
            slot, self.slot = self.slot, None
            await slot.give_back()

    async def __aenter__(self) -> Visit:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.give_back_slot()
        finally:
            if self._group:  # which saves ordinary hosts a call
                self.end_open()
            self.keep(_NOTHING)
