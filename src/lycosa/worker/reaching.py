"""From a host whose turn has come to an address that may be connected to: the name is looked up
and a slot of the address taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.frontier.frontier import Frontier
from lycosa.frontier.visit_state import VisitState
from lycosa.ports import Clock
from lycosa.store.segments import SegmentStore
from lycosa.urls.identity import name_of
from lycosa.worker.sender import Sender


class Reaching:
    """One per worker."""

    def __init__(
        self,
        frontier: Frontier,
        sender: Sender,
        store: SegmentStore,
        clock: Clock,
        address_delay_s: float,
    ) -> None:
        self._frontier, self._sender, self._store, self._clock = frontier, sender, store, clock
        self._address_delay_s = address_delay_s

    async def addresses(self, visit: VisitState) -> Sequence[str]:
        """Addresses of the host, the slot of the first one taken; empty when none is free: the host
        then has its turn when one is.

        Raises ``ResolveError``.
        """
        workbench = self._frontier.workbench
        addresses = await self._sender.resolve(visit.host)
        # The address that answered last time is kept while it is among the host's, so that a host
        # is one entry of one group.
        if visit.record.address in addresses:
            addresses = [visit.record.address, *(a for a in addresses if a != visit.record.address)]
        elif name_of(visit.host) not in addresses:
            # Once per host, and again when it moved: what its name stood for is part of the record.
            self._store.append_dns(name_of(visit.host), addresses, self._clock.wall())
        visit.record.address = addresses[0]
        workbench.rejoin(visit, addresses[0])
        wait = await self._sender.take(addresses[0])
        if wait <= 0:
            workbench.postpone(addresses[0], self._clock.monotonic() + self._address_delay_s)
            return addresses
        until = self._clock.monotonic() + wait
        workbench.postpone(addresses[0], until)
        # The host's own time too: a group that it leaves empty forgets the address's.
        visit.postpone(until)
        return ()
