"""Hosts ordered by the time at which they may be fetched, grouped by address.

After BUbiNG (Boldi, Marino, Santini, Vigna: BUbiNG, massive crawling for the masses, 2018). The
heap has groups, and a group has the hosts of one address. The time of a group is the later of its
address's time and its earliest host's time. So a thousand hosts of one address cost one heap entry,
and no fetch slot ever has a host that is not ready. With ``max_hosts_of_address`` hosts an address
is full: the frontier adds no more of its hosts, because they would only keep others out.

Invariant: a host is in at most one group and never both in a group and in process. A group is in
the heap exactly when it has hosts and a free slot. Outdated heap entries are recognised by the
group's version and dropped.
"""

from __future__ import annotations

import heapq
from math import inf

from lycosa.stages.frontier.visit_state import VisitState


class _Group:
    """Hosts of one address, or one host whose address is not known yet."""

    __slots__ = ("hosts", "in_use", "key", "next_time", "version")

    def __init__(self, key: str) -> None:
        self.key = key
        self.next_time = 0.0
        self.in_use = 0
        self.version = 0
        self.hosts: list[tuple[float, int, VisitState]] = []


class Workbench:
    """The hosts that the worker is visiting.

    ``put_host`` adds a host, ``acquire`` returns the next ready one, and ``put_host`` returns it.
    ``postpone_address`` delays all hosts of an address.
    """

    def __init__(self, address_slots: int) -> None:
        self.address_slots = address_slots
        self.max_hosts_of_address: float = inf
        self._groups: dict[str, _Group] = {}
        self._heap: list[tuple[float, int, str, int]] = []
        self._empty: list[tuple[float, str]] = []
        self._count = 0
        self._ticket = 0

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<Workbench hosts={self._count} groups={len(self._groups)}>"

    def put_host(self, host: VisitState) -> None:
        """Add a host; it is ready at its ``ready_time``."""
        assert not host.in_process
        host.on_workbench = True
        host.group = host.record.address or f"?{host.name}"
        group = self._groups.get(host.group)
        if group is None:
            group = self._groups[host.group] = _Group(host.group)
        self._ticket += 1
        heapq.heappush(group.hosts, (host.ready_time, self._ticket, host))
        self._count += 1
        if group.hosts[0][2] is host:
            self._schedule(group)

    def move_host(self, host: VisitState) -> None:
        """Update a waiting host that is now ready at another time."""
        self.remove_host(host)
        self.put_host(host)

    def remove_host(self, host: VisitState) -> None:
        group = self._groups[host.group]
        group.hosts = [entry for entry in group.hosts if entry[2] is not host]
        heapq.heapify(group.hosts)
        self._count -= 1
        host.on_workbench = False
        self._schedule(group)

    def acquire(self, now: float) -> VisitState | None:
        """A ready host, which is then in process, or ``None``.

        It takes a place at its address until ``leave_address``.
        """
        self._drop_empty(now)
        while self._heap:
            time, _, key, version = self._heap[0]
            group = self._groups.get(key)
            # Entries are not removed from the middle of a heap. An outdated one is dropped at the
            # top of it.
            if group is None or group.version != version:
                heapq.heappop(self._heap)
                continue
            if time > now:
                return None
            heapq.heappop(self._heap)
            # The best of its address: the entry of the group has the time of its first host.
            _, _, host = heapq.heappop(group.hosts)
            self._count -= 1
            group.in_use += 1
            host.in_process = True
            self._schedule(group)
            return host
        return None

    def enter_address(self, host: VisitState) -> None:
        """Begin a visit of a host that does not wait here; it takes a place at its address."""
        host.in_process = True
        host.group = host.record.address or f"?{host.name}"
        group = self._groups.get(host.group)
        if group is None:
            group = self._groups[host.group] = _Group(host.group)
        group.in_use += 1
        self._schedule(group)

    def leave_address(self, host: VisitState) -> None:
        """End the visit's use of its address."""
        host.in_process = False
        group = self._groups.get(host.group)
        if group is not None:
            group.in_use -= 1
            assert group.in_use >= 0
            self._schedule(group)

    def hold_place(self, key: str) -> None:
        """Let a request whose visit gave its host back take a place in the group ``key``."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(key)
        group.in_use += 1
        self._schedule(group)

    def free_place(self, key: str) -> None:
        """End what ``hold_place`` began."""
        group = self._groups[key]
        group.in_use -= 1
        self._schedule(group)

    def rejoin_address(self, host: VisitState, address: str) -> None:
        """Move a visit to the group of its address, which became known or changed."""
        if host.group == address:
            return
        old = self._groups.get(host.group)
        if old is not None:
            old.in_use -= 1
            self._schedule(old)
        host.group = address
        group = self._groups.get(address)
        if group is None:
            group = self._groups[address] = _Group(address)
        group.in_use += 1
        self._schedule(group)

    def is_full(self, address: str) -> bool:
        """Whether the address has as many hosts here (also in process) as it can use."""
        group = self._groups.get(address)
        return group is not None and len(group.hosts) + group.in_use >= self.max_hosts_of_address

    def postpone_address(self, address: str, until: float) -> None:
        """Let no host of this address be ready before ``until``."""
        group = self._groups.get(address)
        if group is not None and until > group.next_time:
            group.next_time = until
            self._schedule(group)

    def next_time(self) -> float | None:
        """When the next host is ready; ``None`` when that depends on the end of a visit."""
        while self._heap:
            time, _, key, version = self._heap[0]
            group = self._groups.get(key)
            if group is not None and group.version == version:
                return time
            heapq.heappop(self._heap)
        return None

    def hosts(self) -> list[VisitState]:
        """All hosts that wait here, in no order."""
        return [host for group in self._groups.values() for _, _, host in group.hosts]

    def _schedule(self, group: _Group) -> None:
        """Update the group's heap entry."""
        # No two groups ever have one version: an entry of a group that was dropped must not count
        # for a later group of the same address.
        self._ticket += 1
        group.version = self._ticket
        if not group.hosts:
            if group.in_use == 0:
                # The group stays until the time of its address, because a host that joins again
                # must wait for that.
                heapq.heappush(self._empty, (group.next_time, group.key))
            return
        if group.in_use >= self.address_slots:
            return
        self._ticket += 1
        if len(self._heap) > 4 * len(self._groups) + 1000:
            self._drop_outdated()
        heapq.heappush(
            self._heap,
            (max(group.next_time, group.hosts[0][0]), self._ticket, group.key, group.version),
        )

    def _drop_empty(self, now: float) -> None:
        """Drop groups without hosts whose time has come."""
        while self._empty and self._empty[0][0] <= now:
            _, key = heapq.heappop(self._empty)
            group = self._groups.get(key)
            if (
                group is not None
                and not group.hosts
                and group.in_use == 0
                and group.next_time <= now
            ):
                del self._groups[key]

    def _drop_outdated(self) -> None:
        """Drop outdated entries.

        They leave by themselves only at the top of the heap, so those with a late time would
        accumulate.
        """
        self._heap = [
            entry
            for entry in self._heap
            if (group := self._groups.get(entry[2])) and group.version == entry[3]
        ]
        heapq.heapify(self._heap)
