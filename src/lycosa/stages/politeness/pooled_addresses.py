"""The ``Addresses`` port of a worker that shares addresses with other machines.

Each slot is taken twice: in the address pool, which all machines share, and in the machine's table,
which other crawls of the machine use too. While the pool is shared, both apply the limits of the
crawl. Otherwise the table applies the divided ones, which are safe without any pool. Which of the
two holds is decided by the pool's last answer; ``address_pool`` says why that is safe.

    the pool said      and answers     a request needs
    shared             yes             its slot there, and the table's
    divided            yes             the table's by divided limits; it is recorded in the pool
    anything           no              nothing is sent until the pool counts this worker as absent;
                                       then the table's by divided limits

After each change every address waits one divided delay. Otherwise starts by one kind of limits
would come on top of those by the other kind: machines that divide the limits may all have started
just now. So the crawl is never stopped by the pool, and slowed at the change.

All calls of a worker go through one loop, which sends what has come together in the meantime, and
at least one call a second to show that the worker is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Protocol

import msgspec

from lycosa.base.model.pool_time import PoolTime
from lycosa.base.model.progress_parts import PoolState, PoolUse
from lycosa.base.ports import Addresses, Clock, SlotNote
from lycosa.stages.politeness.address_pool import (
    ABSENT_S,
    ANSWER_S,
    GRANT_S,
    MICRO,
    START_S,
    AddressPool,
    FreedSlot,
    PoolAnswer,
    PoolAway,
    PoolCall,
    PoolClock,
    PoolRequest,
    PoolWorker,
    StartedSlot,
    WantedSlot,
    divided,
)

_CALL_S = 1.0  # the maximum pause between two calls
_AGAIN_S = 0.1  # until a slot is asked for again that the pool could not be asked for
_MAX_REQUESTS = 128  # of one call
_SEEN_SHARE = 0.5  # as in the machine's table
_STEP_TOLERANCE_S = 0.05  # a greater disagreement of clocks is a clock that was set


class LocalAddresses(Addresses, Protocol):
    """A table of one machine whose limits can be changed."""

    def wait_s(self, address: str, now: float) -> float: ...
    def set_limits(self, delay_s: float, slots: int) -> None: ...


class PooledAddresses:
    """One worker's slots, in the pool and in its machine's table. Make it within a running loop."""

    def __init__(
        self, worker: PoolWorker, local: LocalAddresses, pool: AddressPool, clock: Clock
    ) -> None:
        self._local, self._pool, self._clock = local, pool, clock
        self._name, self._numbers, self._member = worker.name, 0, worker.member()
        self._shared, self._divided = worker.section, divided(worker.section, worker.nodes)
        self._held: dict[tuple[str, object], _Held] = {}  # by address and holder
        self._asked: list[tuple[_Asked, asyncio.Future[_Given | None] | None]] = []
        self._wake = asyncio.Event()
        self._times = PoolClock()
        self._server = ""
        # Until when a server may count this worker as present, by server. The first entry is that
        # of the shard's process before this one, which may have called any server.
        now = clock.monotonic()
        self._counted = {} if worker.is_first else {"": now + ABSENT_S}
        self._is_shared = self._answers = self._is_new = self._leaves = False
        self._rests_until = now + self._divided.address_delay_s
        self.use = PoolUse(PoolState.DIVIDED, clock.wall(), "it was not asked yet")
        local.set_limits(self._divided.address_delay_s, self._divided.address_slots)
        self._running = asyncio.get_running_loop().create_task(self._run())
        self._running.add_done_callback(self._fail_asked)

    def __repr__(self) -> str:
        held = len(self._held)
        return f"<PooledAddresses {self.use.state.value} {held} slots held {self._local!r}>"

    # -- the port

    async def take_slot(self, address: str, now: float, holder: object = None) -> float:
        """0.0 when the request may start now, otherwise the seconds to wait."""
        wait_s = self._rest_s(now) or self._local.wait_s(address, now)
        if wait_s > 0:
            return wait_s
        self._numbers += 1
        # The number makes the name of each slot unique, so that a late message about an earlier one
        # has no effect.
        slot = _Held(f"{self._name}{self._numbers}", self._answers)
        if slot.is_recorded:
            given = await self._ask(WantedSlot(address, slot.name))
            if given is None or given.wait_us:
                return _AGAIN_S if given is None else given.wait_us / MICRO
            slot.is_shared, slot.sent = given.is_shared, given.sent
            # The pool may have taken the slot back by now, or other limits hold than those by which
            # it was given.
            is_late = self._clock.monotonic() - given.sent > ANSWER_S
            if is_late or given.is_shared is not self._is_shared:
                self._send(FreedSlot(address, slot.name, was_sent=False))
                return _AGAIN_S
        now = self._clock.monotonic()
        wait_s = self._rest_s(now) or await self._local.take_slot(address, now)
        if wait_s > 0:
            if slot.is_recorded:
                self._send(FreedSlot(address, slot.name, was_sent=False))
            return wait_s
        # The pool does not know this request. It has to wait its delay before it shares limits
        # again.
        self._is_new = self._is_new or not slot.is_recorded
        self._held[address, holder] = slot
        return 0.0

    async def record_start(
        self, address: str, at: float, answered: float = 0.0, holder: object = None
    ) -> None:
        """Record that the request left at ``at`` and its response began at ``answered``."""
        slot = self._held[address, holder]
        await self._local.record_start(address, at, answered)
        slot.has_started = True
        if slot.is_recorded and self._answers:
            delay_s = self._shared.address_delay_s
            seen = max(at, min(answered, at + delay_s * _SEEN_SHARE))
            self._send(_Started(address, slot.name, seen))

    async def release_slot(self, address: str, now: float, holder: object = None) -> None:
        """Free the slot of a request that has ended."""
        slot = self._held.pop((address, holder))
        await self._local.release_slot(address, now)
        if slot.is_recorded and self._answers:
            self._send(FreedSlot(address, slot.name, slot.has_started))

    def describe_slot(self, address: str, at: float, holder: object = None) -> SlotNote:
        """What holds for a slot of ``address`` whose request starts at ``at`` (``PoolTime``)."""
        slot, note = self._held[address, holder], self._local.describe_slot(address, at)
        if not slot.is_recorded:
            return note
        times = self._times.latest_us(at), self._times.width_us
        late_s = START_S if slot.is_shared else note.late_s
        if at - slot.sent > GRANT_S:
            late_s = 0.0  # the process stood still: the pool counts on an earlier start
        return SlotNote(late_s, PoolTime(slot.is_shared, self._server[:12], *times).text())

    def close(self) -> None:
        """Free all slots. The pool frees its own when their time is over."""
        self._running.cancel()
        self._held.clear()
        self._local.close()

    async def leave(self) -> None:
        """Tell the pool that the worker ends in order, before ``close``. No request is open."""
        self._leaves = True
        self._wake.set()
        await self._running
        await self._pool.close()

    # -- which limits hold

    def _rest_s(self, now: float) -> float:
        """The seconds for which no request may start whatever its address, 0 when one may."""
        if not (self._answers and self._is_shared):
            # Until a server has noticed the absence, the workers there may share the limits.
            elsewhere = (
                until
                for server, until in self._counted.items()
                if not (self._answers and server == self._server)
            )
            until = max(elsewhere, default=-inf) + self._divided.address_delay_s
            if now < until:
                return min(until - now, _AGAIN_S)
            if self._is_shared:
                self._divide()
        return max(self._rests_until - now, 0.0)

    def _divide(self) -> None:
        self._is_shared = False
        self._local.set_limits(self._divided.address_delay_s, self._divided.address_slots)

    def _share(self) -> None:
        self._is_shared = True
        self._local.set_limits(self._shared.address_delay_s, self._shared.address_slots)

    # -- the loop

    async def _ask(self, request: WantedSlot) -> _Given | None:
        """What the pool gives; ``None`` when there is no answer."""
        # The loop has ended: ``result`` raises its error, which would otherwise be seen by no
        # caller.
        if self._running.done():
            self._running.result()
            return None
        given: asyncio.Future[_Given | None] = asyncio.get_running_loop().create_future()
        self._asked.append((request, given))
        self._wake.set()
        try:
            return await given
        except asyncio.CancelledError:
            # It may be on its way; a slot that was not taken is freed without effect.
            self._asked = [each for each in self._asked if each[1] is not given]
            self._send(FreedSlot(request.address, request.slot, was_sent=False))
            raise

    def _send(self, request: FreedSlot | _Started) -> None:
        self._asked.append((request, None))
        self._wake.set()

    async def _run(self) -> None:
        while not self._leaves:
            await self._exchange()
            if not self._asked and not self._leaves:
                self._wake.clear()
                # not wait_for, which ignores a cancellation that comes together with the event
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CALL_S):
                        await self._wake.wait()
        if self._answers:
            await self._exchange()

    def _fail_asked(self, running: asyncio.Task[None]) -> None:
        """An error in the loop is the error of who waits for it."""
        error = None if running.cancelled() else running.exception()
        for _, given in self._asked:
            if given is not None and not given.done():
                given.set_exception(error) if error is not None else given.set_result(None)
        self._asked.clear()

    async def _exchange(self) -> None:
        asked, self._asked = self._asked[:_MAX_REQUESTS], self._asked[_MAX_REQUESTS:]
        sent = self._clock.monotonic()
        is_new, self._is_new = self._is_new, False
        requests = [_aged(each, sent) for each, _ in asked]
        answer: PoolAnswer | None = None
        try:
            answer = await self._pool.exchange(
                PoolCall(self._member, requests, is_new, self._leaves)
            )
            self._is_new = self._is_new or (is_new and answer.is_late)
            self._receive(answer, sent)
        except PoolAway as error:
            # What this call was to report is not lost: the next call that is answered reports it
            # again.
            self._is_new = self._is_new or is_new
            self._miss(error)
        finally:
            _tell(asked, answer, sent)

    def _receive(self, answer: PoolAnswer, sent: float) -> None:
        received = self._clock.monotonic()
        # Another primary has another clock, so times of the old one mean nothing for it.
        if answer.server != self._server:
            self._times = PoolClock()
        elif not self._times.agrees(answer.now_us, sent, received, _STEP_TOLERANCE_S):
            self._is_new = True  # its clock was set: the starts that it knows are worth nothing
        self._times.note_answer(answer.now_us, sent, received)
        self._server = answer.server
        if answer.is_late:
            return
        self._note_counted(answer.server, received)
        self._answers = True
        if answer.is_shared is not self._is_shared:
            self._share() if answer.is_shared else self._divide()
            # Starts under the old limits and under the new ones must be a delay apart as well.
            self._rests_until = received + self._divided.address_delay_s
        self._note_use(*_use_of(answer))

    def _miss(self, error: PoolAway) -> None:
        if error.server:
            self._note_counted(error.server, self._clock.monotonic())
        self._answers = False
        self._note_use(PoolState.AWAY, str(error))
        # Slots that are not freed now are freed when their time is over.
        _tell(self._asked, None, 0.0)
        self._asked.clear()

    def _note_counted(self, server: str, now: float) -> None:
        rest_s = self._divided.address_delay_s
        self._counted = {
            name: until for name, until in self._counted.items() if until + rest_s > now
        }
        self._counted[server] = now + ABSENT_S

    def _note_use(self, state: PoolState, why: str) -> None:
        since = self.use.since if self.use.state is state else self._clock.wall()
        self.use = PoolUse(state, since, why)


class _Held:
    """A slot for one request. ``is_recorded``: the pool knows it; ``is_shared``: it gave it."""

    __slots__ = ("has_started", "is_recorded", "is_shared", "name", "sent")

    def __init__(self, name: str, is_recorded: bool) -> None:
        self.name, self.is_recorded = name, is_recorded
        self.is_shared = self.has_started = False
        self.sent = 0.0  # when it was asked for


class _Started(msgspec.Struct, frozen=True):
    """A start at the moment ``at``, whose age is known when it is sent."""

    address: str
    slot: str
    at: float


class _Given(msgspec.Struct, frozen=True):
    """The answer to a ``WantedSlot``, in a call that was sent at the moment ``sent``."""

    wait_us: int
    is_shared: bool
    sent: float


_Asked = PoolRequest | _Started


def _aged(request: _Asked, sent: float) -> PoolRequest:
    if not isinstance(request, _Started):
        return request
    age_us = max(int((sent - request.at) * MICRO), 0)
    return StartedSlot(request.address, request.slot, age_us)


def _tell(
    asked: Sequence[tuple[_Asked, asyncio.Future[_Given | None] | None]],
    answer: PoolAnswer | None,
    sent: float,
) -> None:
    """Give the takes of a call their answers."""
    waits = iter(answer.waits_us if answer is not None else ())
    for request, future in asked:
        if isinstance(request, WantedSlot):
            wait = next(waits, None)
            if future is not None and not future.done():
                is_shared = answer is not None and answer.is_shared
                future.set_result(None if wait is None else _Given(wait, is_shared, sent))


def _use_of(answer: PoolAnswer) -> tuple[PoolState, str]:
    if answer.is_shared:
        return PoolState.SHARED, ""
    if answer.present < answer.expected:
        return PoolState.DIVIDED, f"{answer.present} of {answer.expected} workers call it"
    seconds = answer.unsettled_us / MICRO
    return PoolState.DIVIDED, f"it does not know all requests until {seconds:.0f} s from now"
