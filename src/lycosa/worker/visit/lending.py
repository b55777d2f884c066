"""Lends the URLs of visits to outside fetchers, and keeps what their leases hold.

A URL is lent in an ordinary visit of its host, at the moment when the visit would send the request:
the host's turn has come, robots.txt allows the URL, the name is looked up, and the visit has a slot
of the address and a permit for a capture. The lease keeps slot and permit until it ends, and the
host is busy until then.

What only memory has (slot and permit) is lost when the worker dies. The host stays busy, because
its times are in the commit with the lease.
"""

from __future__ import annotations

import asyncio
from math import ceil

from lycosa.base.calls import LeasedUrl, LeaseUrls
from lycosa.base.urls.identity import hash8
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.outside_leases import TOLERANCE_S, LeaseRow
from lycosa.worker.request_slots import Slot
from lycosa.worker.visit.host_robots import robots_words
from lycosa.worker.visit.page_requests import PageTurns
from lycosa.worker.visit.permits import Permits
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.worker_stages import Stages


class Demand:
    """One call for URLs that waits for visits to lend them."""

    def __init__(self, call: LeaseUrls) -> None:
        self.call = call
        self.urls: list[LeasedUrl] = []
        self.has_first, self.is_full = asyncio.Event(), asyncio.Event()


class Lending:
    """One per worker. ``crawl`` is the id of the crawl, from which the ids of leases are made.

    ``demands`` has the calls that wait for URLs, by partition.
    """

    def __init__(
        self,
        stages: Stages,
        pages: PageTurns,
        permits: Permits,
        crawl: str,
        demands: dict[int, list[Demand]],
    ) -> None:
        self._pages, self._pacing = pages, stages.pacing
        self._permits, self._clock, self._crawl = permits, stages.clock, crawl
        self._partitions = stages.frontier.partitions
        self.demands = demands
        self._held: dict[str, tuple[Slot | None, asyncio.TimerHandle]] = {}
        self._freeing: set[asyncio.Task[None]] = set()

    @property
    def open_leases(self) -> int:
        """Number of URLs that outside fetchers hold."""
        return sum(len(each.outside) for each in self._partitions.values())

    def add_demand(self, partition: int, demand: Demand) -> None:
        """Let the next visits of the partition lend URLs to a call."""
        self.demands.setdefault(partition, []).append(demand)

    def withdraw_demand(self, partition: int, demand: Demand) -> None:
        """Lend nothing more to a call."""
        waiting = self.demands.get(partition, [])
        if demand in waiting:
            waiting.remove(demand)
        if not waiting:
            self.demands.pop(partition, None)

    def lend(self, visit: Visit) -> bool:
        """Lend the URL of a visit that is about to request it, if a call waits for one."""
        host, partition, lease = visit.host, visit.partition, visit.lease
        waiting = self.demands.get(partition.number)
        if not waiting or visit.slot is None or visit.decision is None or not visit.has_permit:
            return False
        demand = waiting[0]
        call, begun = demand.call, self._clock.time()
        expires = begun + call.lease_s
        busy_until = self._pacing.lend(host, call.lease_s + TOLERANCE_S)
        url = host.host8 + lease.entry.url8
        row = LeaseRow(
            self.lease_id(partition.number, url, int(expires * 1000), call.holder),
            call.holder,
            call.call,
            lease.url,
            begun,
            expires,
            ceil(expires + TOLERANCE_S),
            busy_until,
            visit.slot.address,
            visit.decision,
            visit.stated_by_robots,
        )
        demand.urls.append(self.leased_url(row, lease))
        demand.has_first.set()
        slot = visit.lend(row)
        timer = asyncio.get_running_loop().call_later(
            call.lease_s + TOLERANCE_S, self._expire, row.lease
        )
        self._held[row.lease] = slot, timer
        partition.visits.mark_changed(host)
        if len(demand.urls) >= call.most:
            self.withdraw_demand(partition.number, demand)
            demand.is_full.set()
        return True

    def leased_url(self, row: LeaseRow, lease: Lease) -> LeasedUrl:
        """What the outside fetcher is given with a URL."""
        request = self._pages.request_of(lease, row.address)
        return LeasedUrl(
            row.lease,
            row.url,
            lease.host.name,
            row.address,
            robots_words(row.decision),
            round(row.busy_until - row.expires - TOLERANCE_S, 3),
            self._clock.wall() + row.expires - self._clock.time(),
            request.etag,
            request.last_modified,
            round(lease.record.priority / 255, 4),
        )

    def lease_id(self, partition: int, url: bytes, expires_ms: int, holder: str) -> str:
        """The id of a lease.

        Its end tells it from ids that were never given, also after a restart, when nothing else is
        left of a lease that was settled.
        """
        facts = f"{self._crawl} {partition} {url.hex()} {expires_ms} {holder}"
        return f"{partition}-{url.hex()}-{expires_ms}-{hash8(facts).hex()[:8]}"

    # -- the end of leases

    def holds(self, lease: str) -> bool:
        """Whether the lease keeps a permit, which it does not after a restart of the worker."""
        return lease in self._held

    def end_lease(self, lease: str) -> Slot | None:
        """The slot that the lease kept. Slot and permit are the caller's from now on."""
        slot, timer = self._held.pop(lease, (None, None))
        if timer is not None:
            timer.cancel()
        return slot

    def _expire(self, lease: str) -> None:
        """Free what the lease kept; its row ends when its URL is due."""
        slot, _ = self._held.pop(lease)
        self._permits.return_permit()
        if slot is not None:
            task = asyncio.get_running_loop().create_task(slot.give_back())
            self._freeing.add(task)
            task.add_done_callback(self._freeing.discard)

    async def close(self) -> None:
        """Free what leases keep, at the end of the run. The leases remain in the table."""
        for lease, (_, timer) in list(self._held.items()):
            timer.cancel()
            self._expire(lease)
        await asyncio.gather(*self._freeing, return_exceptions=True)
