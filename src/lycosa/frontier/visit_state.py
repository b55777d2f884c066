"""All that is remembered of one host, and the cache of those in use.

The record is what survives; the object around it adds the head of the back queue and where the host
is at the moment. A host that is neither on the workbench nor recently touched costs no memory: it
is read again from the table when somebody finds a URL on it.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from lycosa.frontier.back_queue import BackQueue, Lane
from lycosa.kv.overlay import Overlay
from lycosa.kv.records import encode_record, host_key
from lycosa.model.completed import UrlState
from lycosa.model.errand import Errand, Question
from lycosa.model.pace import Pace
from lycosa.model.usage import Usage
from lycosa.reasons import Reason


class HostState(IntEnum):
    """State of a host. The value is written to disk; ``IN_PROCESS`` is known in memory only."""

    EXHAUSTED = 0  # nothing waits
    READY = 1  # URLs wait; may be fetched when its time comes
    SNOOZED = 2  # URLs wait; asked to wait (Retry-After, robots.txt or names unreachable)
    PARKED = 3  # URLs wait; over a budget
    RETIRED = 4  # given up
    IN_PROCESS = 5  # a visit is going on

    @property
    def label(self) -> str:
        """The name in outputs."""
        return self.name.lower()


def counted_as(state: HostState) -> UrlState:
    """How the queued URLs of a host in this state are counted."""
    if state is HostState.PARKED:
        return UrlState.PARKED
    return UrlState.RETIRED if state is HostState.RETIRED else UrlState.QUEUED


class VisitRecord(msgspec.Struct, array_like=True):
    """The persisted part. Times are crawl time (``crawl_clock``), in seconds.

    ``waiting`` counts entries of the back queue outside the parked band, ``retrying`` those that
    wait for a retry time, ``parked`` those of the parked band. ``next_at`` is the earliest start of
    the next request. ``deepest`` bounds the depth of the queued URLs. ``refused`` counts links
    found on this host's pages and refused by a pure rule. ``asleep_until`` is the whole second at
    which a host that waits for long lines up again, 0 when it does not sleep. ``has_place`` says
    that it counts towards the hosts that its site may have. ``errors`` counts requests that failed.
    ``line`` is the address in whose line ``front`` is a place; when it is empty, ``front`` is a
    place in the partition's front queues. ``rest_at`` is the earliest start of any request, an
    errand's too, where ``next_at`` may be later because robots.txt or names are out of reach; -1 =
    it is ``next_at``. ``errands`` are requests that it owes to other hosts, ``questions`` those
    that others owe to it.
    """

    host: str
    state: HostState = HostState.EXHAUSTED
    lanes: dict[int, Lane] = {}
    waiting: int = 0
    retrying: int = 0
    parked: int = 0
    next_at: float = 0.0
    reason: Reason = Reason.NONE
    detail: str = ""
    pace: Pace = Pace()
    usage: Usage = Usage()
    failures: int = 0
    dns_failures: int = 0
    parks: int = 0
    parked_until: int = 0
    front: tuple[int, int] | None = None
    deepest: int = 0
    importance: float = 0.0
    refused: dict[int, int] = {}
    address: str = ""
    last_error: Reason = Reason.NONE
    asleep_until: int = 0
    has_place: bool = False
    errors: int = 0
    line: str = ""
    rest_at: float = -1.0
    errands: tuple[Errand, ...] = ()
    questions: tuple[Question, ...] = ()

    @property
    def rests_until(self) -> float:
        """The earliest start of any request."""
        return self.next_at if self.rest_at < 0 else self.rest_at


_DECODER = msgspec.msgpack.Decoder(VisitRecord)
decode_visit = _DECODER.decode


class VisitState:
    """One host in memory. ``next_time`` (of its own URLs) and ``rest_time`` (of any request) are
    monotonic; ``benched`` says that the workbench holds it or a visit goes on.
    """

    __slots__ = (
        "benched",
        "dirty",
        "group",
        "host8",
        "in_process",
        "next_time",
        "partition",
        "pulled",
        "queue",
        "ran_errand",
        "record",
        "rest_time",
    )

    def __init__(self, partition: int, host8: bytes, record: VisitRecord, head: int) -> None:
        self.partition = partition
        self.host8 = host8
        self.record = record
        self.queue = BackQueue(host8, record.lanes, head)
        self.next_time = self.rest_time = 0.0
        self.ran_errand = False  # in its last turn
        self.benched = False
        self.in_process = False
        self.dirty = False
        self.pulled = False  # its place in a front queue was taken; the entry stays for a restart
        self.group = ""  # key of the workbench's group that holds it

    def __repr__(self) -> str:
        return (
            f"<VisitState {self.record.host} {self.state.label} waiting={self.record.waiting}"
            f" {self.queue!r}>"
        )

    @property
    def name(self) -> str:
        return self.record.host

    @property
    def state(self) -> HostState:
        """The state as people see it."""
        return HostState.IN_PROCESS if self.in_process else self.record.state

    @property
    def may_wait(self) -> bool:
        """Whether its URLs take part in scheduling."""
        return self.record.state in (HostState.READY, HostState.SNOOZED, HostState.EXHAUSTED)

    @property
    def may_line_up(self) -> bool:
        """Whether it belongs into a front queue when URLs wait: nobody has it, and it does not
        sleep.
        """
        return not self.benched and not self.record.asleep_until and self.may_be_visited

    @property
    def may_be_visited(self) -> bool:
        """Whether it has a turn: for its URLs, or for errands, which a host that is parked or
        was given up runs as well.
        """
        return self.may_wait or bool(self.record.errands)

    @property
    def ready_time(self) -> float:
        """When its next turn may begin (monotonic). An errand waits for the host's rest and for
        nothing else that its URLs wait for.
        """
        return self.rest_time if self.record.errands else self.next_time

    def has_own_turn(self, now: float) -> bool:
        """Whether one of its own URLs could be fetched now."""
        return (
            self.may_wait and self.next_time <= now and self.record.waiting > self.queue.open_leases
        )

    def has_errands_turn(self, now: float) -> bool:
        """Whether its turn is an errand's: at most every second one while URLs of its own could be
        fetched."""
        return bool(self.record.errands) and not (self.ran_errand and self.has_own_turn(now))

    def rest(self, until: float, time_until: float, now: float) -> None:
        """An exchange ended: no request before ``until`` (monotonic; ``time_until`` in crawl time).
        What its own URLs wait for longer than ``now`` stays.
        """
        is_waiting, record = self.next_time > now, self.record
        self.rest_time, record.rest_at = until, time_until
        self.next_time = max(self.next_time, until) if is_waiting else until
        record.next_at = max(record.next_at, time_until) if is_waiting else time_until

    def postpone(self, until: float) -> None:
        """No turn before ``until`` (monotonic): its address is in use."""
        self.next_time, self.rest_time = max(self.next_time, until), max(self.rest_time, until)

    def note_name(self, reason: Reason = Reason.NONE, is_outage: bool = False) -> None:
        """Its name has an address; or it has none, for this reason. An outage says nothing of
        it.
        """
        if reason is Reason.NONE:
            self.record.dns_failures = 0
        else:
            self.record.dns_failures += not is_outage
            self.record.last_error = reason

    def note_answer(self, reason: Reason, status: int, address: str, is_failure: bool) -> None:
        """A request for one of its URLs ended; ``is_failure``: no connection came about."""
        record = self.record
        record.last_error = reason
        if is_failure:
            record.failures += 1
        elif status:
            record.failures = 0
            record.address = address or record.address

    @property
    def best_band(self) -> int:
        """The best band in which URLs wait."""
        return self.queue.best_band

    def bound_wait(self, now: float, longest_s: float) -> None:
        """Its next request is ``longest_s`` away at most, whatever was stored."""
        record = self.record
        record.next_at, record.rest_at = (
            min(record.next_at, now + longest_s),
            min(record.rest_at, now + longest_s),
        )
        backoff_at, retry_at = (
            min(record.pace.backoff_at, now),
            min(record.pace.retry_at, record.next_at),
        )
        record.pace = msgspec.structs.replace(record.pace, backoff_at=backoff_at, retry_at=retry_at)

    def count_discovered(self) -> None:
        """One more URL was found on it."""
        usage = self.record.usage
        self.record.usage = Usage(
            usage.pages, usage.bytes, usage.time_s, usage.discovered + 1, usage.hosts
        )


class VisitStates:
    """The visit states of a partition that are in use, over its table."""

    def __init__(self, table: Overlay, partition: int, head: int, capacity: int) -> None:
        self._table = table
        self._partition = partition
        self._head = head
        self._capacity = capacity
        self._cache: dict[bytes, VisitState] = {}
        self._dirty: dict[bytes, VisitState] = {}

    def __len__(self) -> int:
        return len(self._cache)

    def find_host(self, host8: bytes) -> VisitState | None:
        """The host's state, or ``None`` when it was never met."""
        host = self._cache.get(host8)
        if host is None:
            value = self._table.get(host_key(host8))
            if value is None:
                return None
            host = self._cache[host8] = VisitState(
                self._partition, host8, decode_visit(value), self._head
            )
        return host

    def peek_record(self, host8: bytes) -> VisitRecord | None:
        """The record of a host as it is, to look at: a host that is not in use stays on disk."""
        host = self._cache.get(host8)
        if host is not None:
            return host.record
        value = self._table.get(host_key(host8))
        return decode_visit(value) if value is not None else None

    def meet_host(self, host8: bytes, name: str) -> VisitState:
        """The host's state, made when it is new."""
        host = self.find_host(host8)
        if host is None:
            host = self._cache[host8] = VisitState(
                self._partition, host8, VisitRecord(name), self._head
            )
            self.mark_changed(host)
        return host

    def mark_changed(self, host: VisitState) -> None:
        """Its record changed and goes into the next commit."""
        if not host.dirty:
            host.dirty = True
            self._dirty[host.host8] = host

    def write_back(self) -> None:
        """Puts changed records into the open batch, and forgets hosts that nobody holds beyond
        the capacity.
        """
        for host8, host in self._dirty.items():
            host.queue.save(self._table)
            self._table.put(host_key(host8), encode_record(host.record))
            host.dirty = False
        self._dirty.clear()
        if len(self._cache) > self._capacity:
            self._forget_idle(len(self._cache) - self._capacity // 2)

    def shed(self) -> None:
        """Forgets all hosts that nobody holds and that the table has as they are: they are read
        again when they are needed.
        """
        self._forget_idle(len(self._cache))

    def _forget_idle(self, most: int) -> None:
        idle = [
            host8
            for host8, v in self._cache.items()
            if not (v.benched or v.dirty or v.queue.open_leases)
        ]
        for host8 in idle[:most]:
            del self._cache[host8]
