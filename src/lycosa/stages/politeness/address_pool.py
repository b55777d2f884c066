"""The address pool: the slots and last starts of IP addresses that all machines of a cluster share.

The promise: while the pool is *shared*, requests to an address start no sooner than
``address_delay_s`` after the previous one, from whichever machine, and at most ``address_slots`` of
them are open. While it is not shared, no machine sends more than its part of that (``divided``).
For the time of a request after the pool was lost, its open requests come on top of these parts.

Why a rule for who is present is needed. A worker that cannot reach the pool uses the divided
limits, which are safe only if all others use them too. So the pool is shared only while **every
shard** of every crawl that uses it is *present*: its worker has called within ``PRESENT_S`` on the
pool's clock. A worker that gets no answer waits until the pool has certainly noticed its absence,
and then uses the divided limits. Two servers that both believe to be the pool never both have all
shards, so a failover that splits them makes all workers use the divided limits.

Why the pool is not shared at once. It must know all open requests and all last starts first. After
any event by which it may have missed some (another server answers, its data are gone, a shard was
absent, a worker sent requests without it), workers use the divided limits and record their requests
in the pool, until the longest request has ended (``PoolMember.settle_us``).

A slot that was granted and not reported as started counts as starting ``GRANT_S`` later: an answer
may take so long, and a request that does not start within it needs a new slot. All times of the
pool are microseconds on its own clock; a call that arrives after its ``deadline_us`` has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from lycosa.base.config.sections import PolitenessSection

ANSWER_S = 0.25
"""How long a worker waits for the pool's answer."""
START_S = 0.1
"""How long after the worker has its answer the request may start."""
GRANT_S = ANSWER_S + START_S
"""How long after its grant a request may start."""
PRESENT_S = 4.0
"""How long after its last call a worker counts as present."""
SET_BACK_S = 1.0
"""A clock of the pool that goes back by more than this is noticed by the pool itself."""
ABSENT_S = PRESENT_S + 2 * ANSWER_S + SET_BACK_S
"""How long after a worker has sent a call the pool may still count it as present.

A call takes effect at most two answers after it was sent, because its deadline is computed from the
time of an earlier answer.
"""
MICRO = 1_000_000


class WantedSlot(msgspec.Struct, frozen=True):
    """Asks for a slot of ``address``, which will be named ``slot``."""

    address: str
    slot: str


class StartedSlot(msgspec.Struct, frozen=True):
    """The request of the slot started ``age_us`` before the call was sent."""

    address: str
    slot: str
    age_us: int


class FreedSlot(msgspec.Struct, frozen=True):
    """The request of the slot has ended; ``was_sent`` says that there was one.

    If there was none, the start before it counts again.
    """

    address: str
    slot: str
    was_sent: bool


PoolRequest = WantedSlot | StartedSlot | FreedSlot


class PoolMember(msgspec.Struct, frozen=True):
    """A worker as the pool knows it, and the limits that it applies.

    ``crawl`` has ``shards`` shards, of which this is ``shard``. ``slot_us`` is the maximum time
    that a slot is in use, ``settle_us`` the time after which the pool knows all requests.
    """

    crawl: str
    shard: int
    shards: int
    delay_us: int
    slots: int
    slot_us: int
    settle_us: int


class PoolCall(msgspec.Struct, frozen=True):
    """What a worker tells and asks at once. Every call says that the worker is present.

    ``is_new`` says that it has sent requests which the pool does not know. With ``leaves`` the
    worker ends: it is absent from then on, and has no request open.
    """

    member: PoolMember
    requests: Sequence[PoolRequest] = ()
    is_new: bool = False
    leaves: bool = False


class PoolAnswer(msgspec.Struct, frozen=True):
    """The pool's answer.

    ``server`` names the life of the server that answered, ``now_us`` is its time. ``waits_us`` has
    an entry for each ``WantedSlot``: 0 when the slot is taken, else the time to wait. ``is_late``:
    the call arrived after its deadline and had no effect. ``present`` of ``expected`` workers are
    present; the pool knows all requests ``unsettled_us`` from now.
    """

    server: str
    now_us: int
    is_shared: bool = False
    waits_us: tuple[int, ...] = ()
    is_late: bool = False
    present: int = 0
    expected: int = 0
    unsettled_us: int = 0


class PoolAway(Exception):
    """The pool gave no answer; the message says why.

    ``server`` is the server to which the call was sent. There it may have had an effect, or may
    have one until its deadline. It is empty when the call certainly has none.
    """

    def __init__(self, text: str, server: str = "") -> None:
        super().__init__(text)
        self.server = server


class AddressPool(Protocol):
    """The pool as one worker reaches it.

    ``exchange`` sends a call and returns the answer within about ``ANSWER_S``, or raises
    ``PoolAway``. Calls are made one after the other.
    """

    async def exchange(self, call: PoolCall) -> PoolAnswer: ...
    async def close(self) -> None: ...


class PoolClock:
    """The pool's clock as far as its answers tell: bounds of its time at a moment of ours."""

    __slots__ = ("_high", "_low", "is_known")

    def __init__(self) -> None:
        self._low = self._high = 0
        self.is_known = False

    def note_answer(self, now_us: int, sent: float, received: float) -> None:
        """The pool's clock showed ``now_us`` between two moments (monotonic seconds)."""
        self._high, self._low = now_us - int(sent * MICRO), now_us - int(received * MICRO)
        self.is_known = True

    def agrees(self, now_us: int, sent: float, received: float, tolerance_s: float) -> bool:
        """Whether an answer fits what is known; a clock that was set does not."""
        tolerance = int(tolerance_s * MICRO)
        return not self.is_known or (
            self.latest_us(sent) - tolerance - (self._high - self._low) <= now_us
            and now_us <= self.latest_us(received) + tolerance
        )

    def latest_us(self, at: float) -> int:
        """The greatest time that it can show at the moment ``at``."""
        return self._high + int(at * MICRO)

    def deadline_us(self, at: float) -> int:
        """The deadline of a call that is sent at the moment ``at``."""
        return self.latest_us(at) + int(ANSWER_S * MICRO)

    @property
    def width_us(self) -> int:
        """How exactly the time is known: the answer took so long."""
        return self._high - self._low


def divided(section: PolitenessSection, nodes: int) -> PolitenessSection:
    """The limits of IP addresses for one of ``nodes`` nodes.

    Each node has its own table. Together they respect the limits of the crawl.
    """
    return msgspec.structs.replace(
        section,
        address_delay_s=section.address_delay_s * nodes,
        address_slots=max(section.address_slots // nodes, 1),
    )


class PoolWorker(msgspec.Struct, frozen=True):
    """One worker of a shard, and the limits of its crawl.

    ``name`` is unique among all processes. ``nodes`` divides the limits while the pool is not
    shared. ``total_s`` is the maximum time of a request. ``is_first`` says that no process ran the
    shard before this one.
    """

    name: str
    crawl: str
    shard: int
    shards: int
    nodes: int
    section: PolitenessSection
    total_s: float
    is_first: bool = False

    def member(self) -> PoolMember:
        """The worker as the pool knows it."""
        slot_s = self.total_s + GRANT_S + ABSENT_S
        settle_s = max(slot_s, divided(self.section, self.nodes).address_delay_s)
        return PoolMember(
            self.crawl,
            self.shard,
            self.shards,
            int(self.section.address_delay_s * MICRO),
            self.section.address_slots,
            int(slot_s * MICRO),
            int(settle_s * MICRO),
        )
