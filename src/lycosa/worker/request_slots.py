"""The slots of a worker's requests: of addresses, of shared hosts, and of the crawl's pace.

Where crawls of one machine share their slots, a host has one too: two crawls that both have a host
request it in turn. No request is sent without a slot (``RequestSender``).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from types import TracebackType
from typing import Protocol

from lycosa.base.ports import Addresses, Clock, SlotNote
from lycosa.stages.politeness.crawl_pace import CrawlPace
from lycosa.state.commit import ShardLease

_LONG_WAIT_S = 5.0  # for a slot, before the operator is told
_MAX_WAITING = 1024  # addresses
_HOST_BUSY_S = 0.5  # until a host is tried again that another crawl requests
_LONGEST_HOLD_S = 60.0  # of a host's slot by several requests at once
_NO_LEASE_S = 1.0  # until a host has its turn again


class HostSlots(Protocol):
    """The slots of hosts that other crawls of the machine may request too (``Addresses``)."""

    async def take_slot(self, address: str, now: float, holder: object = None) -> float: ...
    async def release_slot(self, address: str, now: float, holder: object = None) -> None: ...
    def close(self) -> None: ...


class CommonHostSlots:
    """Slots of hosts that may have several requests of this worker at once.

    The host's slot is held from the first of them to the end of the last one. After a minute no
    further one joins, so that they end and another crawl can have its turn.
    """

    def __init__(self, slots: HostSlots) -> None:
        self._slots = slots
        self._users: dict[str, tuple[int, float]] = {}
        """Open requests by host, and since when its slot is held."""

    async def take_slot(self, address: str, now: float, holder: object = None) -> float:
        """0.0 when a request may start now, otherwise the seconds to wait."""
        number, since = self._users.get(address, (0, now))
        if number and now - since > _LONGEST_HOLD_S:
            return _HOST_BUSY_S
        if not number:
            wait_s = await self._slots.take_slot(address, now, holder)
            if wait_s > 0:
                return wait_s
        self._users[address] = number + 1, since
        return 0.0

    async def release_slot(self, address: str, now: float, holder: object = None) -> None:
        """Free the slot of a request that has ended."""
        number, since = self._users.pop(address)
        if number > 1:
            self._users[address] = number - 1, since
        else:
            await self._slots.release_slot(address, now, holder)

    def close(self) -> None:
        """Free all slots."""
        self._slots.close()


class RequestSlots:
    """The slots of a worker's requests.

    It counts those that are held, how often an address had none free, and for how long. ``hosts``
    are the slots of hosts that other crawls of the machine may request too; each host has one.
    ``pace`` is that of the whole crawl.
    """

    __slots__ = ("_waiting", "addresses", "clock", "held", "hosts", "lease", "pace", "waits")

    def __init__(
        self,
        addresses: Addresses,
        clock: Clock,
        lease: ShardLease,
        pace: CrawlPace,
        hosts: HostSlots | None = None,
    ) -> None:
        self.addresses, self.hosts, self.clock, self.lease = addresses, hosts, clock, lease
        self.pace = pace
        self.held = self.waits = 0
        # by address, monotonic seconds: since when every answer was to wait, and the last of them
        self._waiting: dict[str, tuple[float, float]] = {}

    def close(self) -> None:
        """Close the files that other processes share."""
        self.addresses.close()
        if self.hosts is not None:
            self.hosts.close()

    def note_taken(self, address: str, host: str) -> None:
        """A slot of the address, and of the host, was free."""
        self.held += 1
        self._waiting.pop(address, None)
        self._waiting.pop(host, None)

    def note_wait(self, address: str, now: float) -> None:
        """None was free of an address or a host."""
        self.waits += 1
        # Taken out and put in again, so that the first entry is the one whose last wait is the
        # oldest.
        since, last = self._waiting.pop(address, (now, now))
        self._waiting[address] = now if now - last > _LONG_WAIT_S else since, now
        if len(self._waiting) > _MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def trouble(self, address: str, now: float) -> str:
        """Why an address or a host waits, when it has for a while; empty when not."""
        since, last = self._waiting.get(address, (now, now))
        if now - since < _LONG_WAIT_S or now - last > _LONG_WAIT_S:
            return ""
        whose = "requests" if self.held else "requests of other crawls"
        return f"{whose} to {address} have left no room for {now - since:.0f} s"


class Slot:
    """A slot of an address, and of a host if those are shared, for one request.

    It is held from a ``take`` that returns 0 until ``give_back`` or the end of an ``async with``
    block. Giving back a slot that is not held does nothing.
    """

    __slots__ = (
        "_addresses",
        "_clock",
        "_hosts",
        "_lease",
        "_pace",
        "_slots",
        "_taken_at",
        "address",
        "at_once",
        "host",
        "is_held",
        "is_host_busy",
        "is_sent",
        "may_begin",
    )

    def __init__(self, address: str, host: str, slots: RequestSlots) -> None:
        self.address, self.host = address, host
        self._slots = slots
        self._addresses, self._hosts = slots.addresses, slots.hosts
        self._clock, self._lease, self._pace = slots.clock, slots.lease, slots.pace
        self._taken_at = 0.0
        self.at_once = 1
        """How many requests the host may have open when this one begins."""
        self.may_begin: Callable[[float], bool] | None = None
        """Whether it may begin (monotonic) while other requests of the host are open."""
        self.is_held = self.is_host_busy = self.is_sent = False

    def __repr__(self) -> str:
        return f"<Slot {self.address} {'held' if self.is_held else 'not held'}>"

    async def take(self) -> float:
        """Take the slot; return 0, or the seconds to wait before the next try.

        ``is_host_busy`` says whether the wait is for another crawl's request to the host. No slot
        is taken without the lease on the shard.
        """
        now = self._clock.monotonic()
        if not self._lease.holds(now):
            return _NO_LEASE_S
        if self._pace.is_on and (wait_s := self._pace.wait_s(now)) > 0:
            return wait_s
        hosts = self._hosts
        # The host first: while it is busy, no slot of the address is held that other hosts could
        # use.
        self.is_host_busy = hosts is not None and await hosts.take_slot(self.host, now, self) > 0
        if self.is_host_busy:
            self._slots.note_wait(self.host, now)
            return _HOST_BUSY_S
        wait = inf
        # A slot of the host that stays taken would keep all crawls of the machine from it.
        try:
            wait = await self._addresses.take_slot(self.address, now, self)
        finally:
            if hosts is not None and wait > 0:  # also when the call was cancelled
                await hosts.release_slot(self.host, now, self)
        if wait <= 0:
            # where several machines share the addresses, an answer was waited for
            self._taken_at, self.is_held = self._clock.monotonic(), True
            self._slots.note_taken(self.address, self.host)
            if self._pace.is_on:
                self._pace.note_request(now)
        else:
            self._slots.note_wait(self.address, now)
        return wait

    def note(self, at: float) -> SlotNote:
        """What holds for this slot when its request starts at ``at``."""
        return self._addresses.describe_slot(self.address, at, self)

    async def record_start(self, at: float, answered: float = 0.0) -> None:
        """Record that the request left at ``at`` and its response began at ``answered``."""
        self.is_sent = True
        await self._addresses.record_start(self.address, at, answered, self)

    async def begin(self) -> float | None:
        """The start of the request, which is now; ``None`` when it must not be sent: the lease has
        expired, or the host may have no further request.

        If the process was delayed since the slot was taken (by another thread or by other
        processes), it takes a slot again. Another worker may have taken the next slot meanwhile,
        and its request would follow ours too closely.
        """
        while (now := self._clock.monotonic()) - self._taken_at >= self.note(now).late_s:
            await self.give_back()
            while (wait := await self.take()) > 0:
                # Waiting for a slot may outlast the lease.
                if not self._lease.holds(self._clock.monotonic()):
                    return None
                await self._clock.sleep(wait)
        # Checked last, directly before the request, because the process may have been stopped in
        # between, and another request of the host may have ended.
        if self.may_begin is not None and not self.may_begin(now):
            return None
        return now if self._lease.holds(now) else None

    async def give_back(self) -> None:
        """Give back the slot: the request has ended, or none was sent."""
        if self.is_held:
            # First, so that a cancelled call and the end of the block do not give it back twice.
            self.is_held = False
            self._slots.held -= 1
            if self._pace.is_on and not self.is_sent:
                self._pace.return_request()
            now = self._clock.monotonic()
            await self._addresses.release_slot(self.address, now, self)
            # After the address, as `take` has taken them in the opposite order.
            if self._hosts is not None:
                await self._hosts.release_slot(self.host, now, self)

    async def __aenter__(self) -> Slot:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.give_back()
