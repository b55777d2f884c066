"""The address pool in plain memory: the rules of the script that runs in Redis, readable.

Simulated histories use it, and a test gives both the same calls. The state of one server is a
``PoolServer``; a failover, an emptied server and a clock that is set are changes of its fields.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.stages.politeness import address_pool
from lycosa.stages.politeness.address_pool import GRANT_S, MICRO

_NO_SLOT_S, _UNREPORTED_S = 0.05, 0.02


class _PooledAddress:
    """One address. ``granted`` is the slot whose request has not been reported as started."""

    __slots__ = ("before", "granted", "slots", "start")

    def __init__(self) -> None:
        self.start: int | None = None
        self.before: int | None = None  # the start before the one that is not reported
        self.granted = ""
        self.slots: dict[str, int] = {}  # until when each is in use at most


class PoolServer:
    """One server of the pool. ``clock_us`` is its clock, ``name`` the name of its life."""

    def __init__(self, name: str, clock_us: Callable[[], int]) -> None:
        self.name, self.clock_us = name, clock_us
        self._server, self._since, self._last = "", 0, 0
        self._present: dict[str, int] = {}  # until when, by member
        # by crawl: number of shards, settling time, when it called last
        self._crawls: dict[str, tuple[int, int, int]] = {}
        self._addresses: dict[str, _PooledAddress] = {}

    def empty(self) -> None:
        """Lose everything, as ``FLUSHALL`` does."""
        self.__init__(self.name, self.clock_us)  # type: ignore[misc]  # the same server, new data

    def answer(self, call: address_pool.PoolCall, deadline_us: int) -> address_pool.PoolAnswer:
        """Perform a call, as the script does."""
        now = self.clock_us()
        if now > deadline_us:
            return address_pool.PoolAnswer(self.name, now, is_late=True)
        unsettled, expected = self._enter(call, now)
        present = len(self._present)
        is_shared = present >= expected and unsettled <= 0
        waits = []
        for request in call.requests:
            address = self._addresses.setdefault(request.address, _PooledAddress())
            if isinstance(request, address_pool.WantedSlot):
                waits.append(_take(address, request, call.member, now, is_shared))
            elif isinstance(request, address_pool.StartedSlot):
                _start(address, request, now)
            else:
                _free(address, request)
        if call.leaves:
            self._present.pop(_name(call.member), None)
        return address_pool.PoolAnswer(
            self.name,
            now,
            is_shared,
            tuple(waits),
            present=present,
            expected=expected,
            unsettled_us=max(unsettled, 0),
        )

    def _enter(self, call: address_pool.PoolCall, now: int) -> tuple[int, int]:
        """Note that the caller is present; returns when all is known, and how many are expected."""
        member = call.member
        if self._server != self.name or now + int(address_pool.SET_BACK_S * MICRO) < self._last:
            self._present.clear()
            self._crawls.clear()
            self._server, self._since = self.name, now
        absent = [name for name, until in self._present.items() if until < now]
        for name in absent:
            del self._present[name]
        if absent or call.is_new:
            self._since = now
        self._last = now
        self._present[_name(member)] = now + int(address_pool.PRESENT_S * MICRO)
        self._crawls[member.crawl] = (member.shards, member.settle_us, now)
        for crawl, (_, settle, heard) in list(self._crawls.items()):
            if now - heard > settle:
                del self._crawls[crawl]
        settle = max(settle for _, settle, _ in self._crawls.values())
        return self._since + settle - now, sum(shards for shards, _, _ in self._crawls.values())


def _name(member: address_pool.PoolMember) -> str:
    return f"{member.crawl}/{member.shard}"


def _take(
    address: _PooledAddress,
    request: address_pool.WantedSlot,
    member: address_pool.PoolMember,
    now: int,
    is_shared: bool,
) -> int:
    for slot, until in list(address.slots.items()):
        if until <= now:
            del address.slots[slot]
    start = None if address.start is None else min(address.start, now)
    if is_shared:
        wait = (
            0
            if start is None
            else wait_for_start_us(now, start, not address.granted, member.delay_us)
        )
        if not wait and len(address.slots) >= member.slots:
            wait = wait_for_slot_us(member.delay_us)
        if wait:
            return wait
    address.before = start
    if start is not None and address.granted:
        address.before = min(start + int(GRANT_S * MICRO), now)
    address.start, address.granted = now, request.slot
    address.slots[request.slot] = now + member.slot_us
    return 0


def _start(address: _PooledAddress, request: address_pool.StartedSlot, now: int) -> None:
    at = now - request.age_us
    address.start = at if address.start is None else max(address.start, at)
    if address.granted == request.slot:
        address.granted, address.before = "", None


def _free(address: _PooledAddress, request: address_pool.FreedSlot) -> None:
    address.slots.pop(request.slot, None)
    if address.granted == request.slot and not request.was_sent:
        address.start, address.before, address.granted = address.before, None, ""


def wait_for_slot_us(delay_us: int) -> int:
    """How long to wait before asking again when all slots are in use."""
    return max(int(_NO_SLOT_S * MICRO), min(delay_us, MICRO))


def wait_for_start_us(now_us: int, start_us: int, is_reported: bool, delay_us: int) -> int:
    """How long a request must wait for the last start, 0 when it need not.

    A start that is not reported yet will probably be reported soon, so the wait is short then.
    """
    due_us = start_us + delay_us
    if is_reported or due_us > now_us:
        return max(due_us - now_us, 0)
    last_us = due_us + int(GRANT_S * MICRO) - now_us
    return max(min(last_us, int(_UNREPORTED_S * MICRO)), 0)
