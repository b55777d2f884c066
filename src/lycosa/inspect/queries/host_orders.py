"""The hosts of one partition by queue, by wait and by errors, without reading all of them again.

An index of these orders would be written at nearly every fetch. Instead all hosts are read once in
a while, and the first hosts of each order are kept, for each state apart. Reading continues in
pieces and from any thread that reads the table, so no caller waits for it: an answer comes from the
last complete pass, whose age it tells, or from what the first pass has seen so far.

A host is kept as one integer: its rank above its key. So its row can be found, equal ranks have one
order in all partitions, and the lists of a partition take some 100 kB whatever number of hosts it
has.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import msgspec

from lycosa.inspect.queries.time_budget import OutOfTime, TimeBudget
from lycosa.stages.frontier.visit_state import HostPause, HostState, shown_state
from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.kv.table_records import host_key, prefix_end

KEPT = 500
"""Hosts of each order and state that are kept of a partition."""

HOST_ORDERS = ("queue", "wait", "errors")
_KEY_BITS = 64
_KEYS = (1 << _KEY_BITS) - 1
_MAX_RANK = (1 << 62) - 1


class _Ranked(msgspec.Struct, array_like=True, gc=False):
    """The fields of a visit state (``VisitRecord``) that the orders need; others are skipped."""

    host: msgspec.Raw
    state: int = 0
    lanes: msgspec.Raw = msgspec.Raw()
    waiting: int = 0
    retrying: int = 0
    parked: int = 0
    next_at: float = 0.0
    reason: msgspec.Raw = msgspec.Raw()
    detail: msgspec.Raw = msgspec.Raw()
    pace: msgspec.Raw = msgspec.Raw()
    usage: msgspec.Raw = msgspec.Raw()
    failures: msgspec.Raw = msgspec.Raw()
    dns_failures: int = 0
    parks: msgspec.Raw = msgspec.Raw()
    parked_until: int = 0
    front: msgspec.Raw = msgspec.Raw()
    deepest: msgspec.Raw = msgspec.Raw()
    importance: msgspec.Raw = msgspec.Raw()
    refused: msgspec.Raw = msgspec.Raw()
    address: msgspec.Raw = msgspec.Raw()
    last_error: msgspec.Raw = msgspec.Raw()
    asleep_until: msgspec.Raw = msgspec.Raw()
    has_place: msgspec.Raw = msgspec.Raw()
    errors: int = 0
    line: msgspec.Raw = msgspec.Raw()
    rest_at: msgspec.Raw = msgspec.Raw()
    errands: msgspec.Raw = msgspec.Raw()
    questions: msgspec.Raw = msgspec.Raw()
    pause: HostPause | None = None


_decode = msgspec.msgpack.Decoder(_Ranked).decode
_PARKED = int(HostState.PARKED)


def order_mark(rank: int, host8: bytes) -> str:
    """Text that sorts hosts by rank, the greatest first: the cursor after a host in an order."""
    return f"{_MAX_RANK - min(rank, _MAX_RANK):016x}{host8.hex()}"


class _Pass:
    """One pass over the hosts of a partition; ``wall`` is when it began."""

    def __init__(self, wall: float) -> None:
        self.wall, self.next_key = wall, host_key(b"")
        self.work_s, self.hosts = 0.0, 0
        self._kept: dict[tuple[str, int], list[int]] = {}

    def add_hosts(self, table: SavedTable, budget: TimeBudget) -> bool:
        """Read hosts until the budget is spent; return whether all were read."""
        began = budget.spent_s
        try:
            for key, value in table.scan(self.next_key, prefix_end(b"H")):
                self._add(key[1:], _decode(value))
                self.next_key = key + b"\0"
                self.hosts += 1
                budget.spend()
        except OutOfTime:
            # Not an error: `next_key` has the place, and the next idle time continues there.
            return False
        finally:
            self.work_s += budget.spent_s - began
        return True

    def first(self, order: str, state: int | None) -> Iterator[tuple[int, bytes]]:
        """Rank and key of the kept hosts, the greatest rank first.

        Ends where a host of another state may be missing.
        """
        states = range(len(HostState)) if state is None else (state,)
        lists = [sorted(self._kept.get((order, each), ()), reverse=True) for each in states]
        last = max((each[-1] for each in lists if len(each) >= KEPT), default=0)
        for entry in heapq.merge(*lists, reverse=True):
            if entry < last:
                return
            yield entry >> _KEY_BITS, (_KEYS - (entry & _KEYS)).to_bytes(8, "big")

    def is_cut(self, order: str, state: int | None) -> bool:
        """Whether there may be more hosts in this order than were kept."""
        states = range(len(HostState)) if state is None else (state,)
        return any(len(self._kept.get((order, each), ())) >= KEPT for each in states)

    def _add(self, host8: bytes, host: _Ranked) -> None:
        low = _KEYS - int.from_bytes(host8, "big")
        waits_until = host.parked_until if host.state == _PARKED else host.next_at
        shown = int(shown_state(HostState(host.state), host.pause is not None))
        for order, rank in (
            ("queue", host.waiting + host.retrying + host.parked),
            ("wait", max(int(waits_until), 0)),
            ("errors", host.errors + host.dns_failures),
        ):
            kept = self._kept.setdefault((order, shown), [])
            entry = rank << _KEY_BITS | low
            if len(kept) < KEPT:
                heapq.heappush(kept, entry)
            elif entry > kept[0]:
                heapq.heapreplace(kept, entry)


class HostOrders:
    """The orders of one partition, kept between questions."""

    def __init__(self) -> None:
        self._complete: _Pass | None = None
        self._running: _Pass | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all hosts were read at least once."""
        return self._complete is not None

    @property
    def wall(self) -> float:
        """When the reading began of which the orders are (0 = never)."""
        found = self._complete or self._running
        return found.wall if found else 0.0

    @property
    def work_s(self) -> float:
        """Seconds that reading all hosts took the last time."""
        return self._complete.work_s if self._complete else 0.0

    def is_older(self, now: float, seconds: float) -> bool:
        """Whether the last complete reading began longer ago than this."""
        return self._complete is None or now - self._complete.wall > seconds

    def read_on(self, table: SavedTable, budget: TimeBudget, now: float) -> None:
        """Continue the reading in progress, or begin one."""
        self._running = self._running or _Pass(now)
        if self._running.add_hosts(table, budget):
            self._complete, self._running = self._running, None

    def first(self, order: str, state: int | None) -> Iterator[tuple[int, bytes]]:
        """Rank and key of the first hosts of an order, of one state or of all (``None``)."""
        found = self._complete or self._running
        return found.first(order, state) if found else iter(())

    def is_cut(self, order: str, state: int | None) -> bool:
        """Whether the order goes no further than the hosts that ``first`` gives."""
        return self._complete is not None and self._complete.is_cut(order, state)
