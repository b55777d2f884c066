"""Finds an address for a host whose turn has come: DNS lookup, then a slot of the address."""

from __future__ import annotations

from lycosa.base.ports import ResolveError
from lycosa.base.urls.identity import name_of
from lycosa.stages.schedule.steps import (
    AddressFound,
    FindAddress,
    NameFailed,
    Purpose,
    TurnOver,
)
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.worker_stages import Stages


class AddressFinder:
    """One per worker."""

    def __init__(self, stages: Stages, address_delay_s: float) -> None:
        self._frontier, self._sender = stages.frontier, stages.sender
        self._store, self._clock = stages.store, stages.clock
        self._address_delay_s = address_delay_s

    async def find_address(
        self, visit: Visit, step: FindAddress
    ) -> AddressFound | NameFailed | TurnOver:
        """Look up the host's name and take a slot of its address if one is free."""
        host, purpose, workbench = visit.host, step.purpose, self._frontier.workbench
        if host.open_requests and purpose is not Purpose.PAGE:
            visit.await_end()  # a request for a file about the host is alone
            return TurnOver()
        try:
            addresses = await self._sender.resolve_host(host.name)
        except ResolveError as error:
            time = self._clock.time()
            outage_s = error.outage_s or self._sender.network.outage_s(self._clock.monotonic())
            if purpose is not Purpose.ERRAND:  # only the host's own requests count as its failures
                host.note_name(error.reason, time, outage_s > 0)
            failures, away_s = host.record.dns_failures, host.away_s(time)
            return NameFailed(purpose, error.reason, str(error), failures, away_s, outage_s)
        # The address of the last visit is kept as long as the host has it, so that the host stays
        # in one group of the workbench.
        if host.record.address in addresses:
            others = [address for address in addresses if address != host.record.address]
            addresses = [host.record.address, *others]
        elif name_of(host.name) not in addresses:
            # Stored once per host and again when it moved: the WARC files show which addresses the
            # name had.
            self._store.append_dns(name_of(host.name), addresses, self._clock.wall())
        host.record.address = addresses[0]
        # Before the slot is taken: the delay of an address counts for all hosts of its group.
        workbench.rejoin_address(host, addresses[0])
        visit.slot, visit.others = self._sender.slot(addresses[0], host.name), addresses[1:]
        wait_s = await visit.slot.take()
        if wait_s <= 0:
            now = self._clock.monotonic()
            workbench.postpone_address(addresses[0], now + self._address_delay_s)
        if purpose is not Purpose.ERRAND:
            # The name was found, which ends a series of failures.
            host.note_name()
        return AddressFound(purpose, wait_s, visit.slot.is_host_busy)
