"""Everything remembered of one host, and the cache of hosts in use.

The record is persisted. The object around it adds the head of the back queue and where the host is
at the moment. A host that is neither on the workbench nor recently used takes no memory. It is read
from the table when a URL of it is found.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial

import msgspec

from lycosa.base.model.copy_record import CopyRecord
from lycosa.base.model.factors import NO_RANK
from lycosa.base.model.host_memory import (
    MissingPage,
    OwnFile,
    Pace,
    RenderTally,
    SpeculationRecord,
    Usage,
    ValidatorCounts,
    with_times,
)
from lycosa.base.model.parcel_items import Errand, Question
from lycosa.base.model.source_truth import SourceTruth
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.back_queue import BackQueue, Lane
from lycosa.stages.frontier.host_names import HostNames
from lycosa.stages.frontier.ranking import Ranks, rank_of_host
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    SET_BACK_BAND,
    SPECULATIVE_BAND,
    encode_record,
    host_key,
)

RISEN = 16
"""A gain of authority that may be worth a better place, in 255ths: half a band of eight by the
default weights would be 64; a host has at most sixteen such gains."""

LATELY_S = 600.0
"""For so long an answer by one scheme shows that a host is there."""


class HostState(IntEnum):
    """State of a host. The value is written to disk, except ``IN_PROCESS`` and ``PAUSED``."""

    EXHAUSTED = 0  # no URL waits, except for a retry or the end of a lease
    READY = 1  # URLs wait; they may be fetched from its next time on
    SNOOZED = 2  # URLs wait for a time (Retry-After, unreachable robots.txt, failed DNS lookup)
    PARKED = 3  # URLs wait; the host is over a budget
    RETIRED = 4  # not fetched any more
    IN_PROCESS = 5  # in a visit
    PAUSED = 6  # paused by an operator, whatever the stored state is; see ``shown_state``

    @property
    def label(self) -> str:
        """The name in outputs."""
        return self.name.lower()


_WAITING = (HostState.READY, HostState.SNOOZED, HostState.EXHAUSTED)


def counted_as(state: HostState) -> UrlState:
    """The state in which the queued URLs of a host in this state are counted."""
    if state is HostState.PARKED:
        return UrlState.PARKED
    return UrlState.RETIRED if state is HostState.RETIRED else UrlState.QUEUED


def shown_state(state: HostState, is_paused: bool) -> HostState:
    """The state of a host as shown to people: a retired host is not paused."""
    return HostState.PAUSED if is_paused and state is not HostState.RETIRED else state


class HostPause(msgspec.Struct, frozen=True, array_like=True):
    """The pause of a host: by which operator, since when (microseconds since 1970), and why."""

    by: str
    date_us: int
    why: str = ""


class VisitRecord(msgspec.Struct, array_like=True):
    """The persisted part of a host's state. Times are crawl time (``crawl_clock``), in seconds.

    ``waiting`` counts entries of the back queue outside the parked band, ``parked`` those of the
    parked band, and ``retrying`` URLs that wait for a retry time. ``next_at`` is the earliest start
    of a request for the host's own URLs. ``rest_at`` is the earliest start of any request,
    including errands; it is earlier than ``next_at`` when robots.txt or names are unreachable (-1 =
    it equals ``next_at``). ``deepest`` bounds the depth of the queued URLs. ``refused`` counts
    links found on this host's pages and refused by a pure rule. ``asleep_until`` is the whole
    second at which a sleeping host lines up again, 0 when it does not sleep. ``has_place`` says
    that it counts towards the hosts that its site may have. ``errors`` counts requests that failed.
    ``front`` is a place in the line of the address ``line``, or in the partition's front queues if
    ``line`` is empty. ``errands`` are requests to this host that other hosts asked for,
    ``questions`` are those that it asked of other hosts. ``pause`` is set while an operator has
    paused the host; its state and its counts stay as they are. ``failures`` counts requests in a
    row without any answer, ``dns_failures`` lookups without one; ``away_since`` is the time of the
    first of either (0 = none). ``answered_at`` are the times of its last answers by http and
    by https. ``stated`` counts its captures by what it stated about the use of the page
    (``preference_labels``). ``turn`` and ``due_turn`` are those of its back queue. ``cells`` counts
    its pages that have a cell in the grid of the refetch price. ``signals`` has, by
    ``SignalSource``, how often the source was right about the pages of the host. ``copies`` counts
    its pages that were near copies of others; there is none before the first one. ``validators``
    are the findings about its validators, ``missing`` its answer to a path that does not exist;
    ``None`` before there is anything to say. ``software`` is that of the server, as far as it was
    needed (``base.server_software``). ``importance`` is in [0, 1]: 1 for the host of a seed, else
    by how many sites link to it, whose hashes are in ``linking`` (``admit.linking_sites``).
    ``ranked_as`` is the lowest authority, in 255ths, with which one of its waiting URLs got its
    band (255 if that is not known). ``scripted`` counts captures that seem to be empty until their
    scripts run. ``speculation`` counts its speculative URLs. ``renders`` is what rendering its
    pages added, by the shape of their paths (``schedule.render_choice``). ``own_file`` is the last
    look at the file that proves a host of the operator.
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
    pause: HostPause | None = None
    away_since: float = 0.0
    answered_at: tuple[float, float] = (0.0, 0.0)
    stated: dict[str, int] = {}
    turn: int = 0
    due_turn: int = 0
    cells: int = 0
    signals: dict[int, SourceTruth] = {}
    copies: CopyRecord | None = None
    validators: ValidatorCounts | None = None
    missing: MissingPage | None = None
    software: str = ""
    linking: bytes = b""
    ranked_as: int = 255
    scripted: int = 0
    speculation: SpeculationRecord | None = None
    renders: dict[int, RenderTally] = {}
    own_file: OwnFile | None = None

    @property
    def rests_until(self) -> float:
        """The earliest start of any request."""
        return self.next_at if self.rest_at < 0 else self.rest_at

    @property
    def shown_state(self) -> HostState:
        """The state as shown to people."""
        return shown_state(self.state, self.pause is not None)


_DECODER = msgspec.msgpack.Decoder(VisitRecord)
decode_visit = _DECODER.decode


class VisitState:
    """One host in memory.

    ``next_time`` (for its own URLs) and ``rest_time`` (for any request) are monotonic.
    ``on_workbench`` says that it is on the workbench or in a visit. ``rank`` is its rank in 255ths
    by the ranks in force, ``NO_RANK`` without one; ``authority``, in [0, 1], is that rank, or else
    the importance of its record. ``open_requests`` counts those of visits that gave the host back
    when they sent them, which only proved own hosts have; with ``awaits_end`` it stays in process
    until one of them ends.
    """

    __slots__ = (
        "authority",
        "awaits_end",
        "dirty",
        "group",
        "host8",
        "in_process",
        "is_judged",
        "is_leased",
        "next_time",
        "on_workbench",
        "open_requests",
        "partition",
        "pulled",
        "queue",
        "ran_errand",
        "rank",
        "record",
        "rest_band",
        "rest_time",
        "resumes_at",
    )

    def __init__(self, partition: int, host8: bytes, record: VisitRecord, head: int) -> None:
        self.partition = partition
        self.host8 = host8
        self.record = record
        self.queue = BackQueue(host8, record.lanes, head, record.turn, record.due_turn)
        self.next_time = self.rest_time = 0.0
        self.ran_errand = False  # whether its last turn was for an errand
        self.on_workbench = False
        self.in_process = False
        self.open_requests, self.awaits_end = 0, False
        self.dirty = False
        # whether its waiting URLs are judged, because pages were near copies, or are set back
        self.is_judged = record.copies is not None and (
            record.copies.is_alarmed or SET_BACK_BAND in record.lanes
        )
        # While it rests because of near copies: when it would have its next turn without that, and
        # the first band whose URLs end the rest (-1: it does not rest).
        self.resumes_at, self.rest_band = 0.0, -1
        self.is_leased = False  # whether its visit leased a URL, as far as it is judged
        self.pulled = False  # from its front queue; the row stays for a restart
        self.group = ""  # key of its group on the workbench
        self.rank, self.authority = NO_RANK, record.importance

    def __repr__(self) -> str:
        return (
            f"<VisitState {self.record.host} {self.state.label} waiting={self.record.waiting}"
            f" {self.queue!r}>"
        )

    @property
    def name(self) -> str:
        return self.record.host

    @property
    def has_risen(self) -> bool:
        """Whether its authority is so much higher than when its URLs got their bands that it may
        deserve a better place."""
        return 255 * self.authority >= self.record.ranked_as + RISEN

    def use_rank(self, ranks: Ranks | None) -> None:
        """Go by its rank, if it has one, or else by the importance of its record."""
        self.rank = NO_RANK if ranks is None else rank_of_host(ranks, self.host8, self.name)
        self.authority = self.record.importance if self.rank < 0 else self.rank / 255

    def raise_importance(self, importance: float) -> None:
        """Note a higher importance. Only a rank that is known counts more."""
        self.record.importance = importance
        if self.rank < 0:
            self.authority = importance

    @property
    def state(self) -> HostState:
        """The state as shown to people."""
        return HostState.IN_PROCESS if self.in_process else self.record.shown_state

    @property
    def may_wait(self) -> bool:
        """Whether its URLs take part in scheduling."""
        record = self.record
        return record.pause is None and record.state in _WAITING

    @property
    def is_barred(self) -> bool:
        """Whether an operator forbids every request to it, errands included."""
        record = self.record
        return record.pause is not None or record.reason is Reason.RETIRED_BY_OPERATOR

    @property
    def may_line_up(self) -> bool:
        """Whether it belongs in a front queue when URLs wait: not on the workbench, not asleep."""
        return not self.on_workbench and not self.record.asleep_until and self.may_be_visited

    @property
    def may_be_visited(self) -> bool:
        """Whether it may have turns: for its URLs, or for errands.

        Parked and retired hosts run errands too, unless an operator retired them.
        """
        return self.may_wait or (bool(self.record.errands) and not self.is_barred)

    @property
    def ready_time(self) -> float:
        """When its next turn may begin (monotonic).

        An errand waits only for the host's rest, not for anything else that its URLs wait for.
        """
        return self.rest_time if self.record.errands else self.next_time

    def has_own_turn(self, now: float) -> bool:
        """Whether a URL of the host itself may be fetched now."""
        return (
            self.may_wait and self.next_time <= now and self.record.waiting > self.queue.open_leases
        )

    def has_errands_turn(self, now: float) -> bool:
        """Whether its turn is for an errand.

        While its own URLs may be fetched, at most every second turn is.
        """
        return bool(self.record.errands) and not (self.ran_errand and self.has_own_turn(now))

    def rest(self, until: float, time_until: float, now: float) -> None:
        """Let the host rest until ``until`` (monotonic; ``time_until`` in crawl time).

        If its own URLs wait for longer than ``now`` already, they keep waiting.
        """
        if self.open_requests:  # the answer of another one may require more
            until, time_until = (
                max(until, self.rest_time),
                max(time_until, self.record.rests_until),
            )
        is_waiting, record = self.next_time > now, self.record
        self.rest_time, record.rest_at = until, time_until
        self.next_time = max(self.next_time, until) if is_waiting else until
        record.next_at = max(record.next_at, time_until) if is_waiting else time_until

    def end_rest(self) -> None:
        """End a rest because of near copies."""
        # Never before the pause after its last request, which may have come since.
        saved_s = max(self.next_time - max(self.resumes_at, self.rest_time), 0.0)
        self.next_time -= saved_s
        self.record.next_at -= saved_s
        self.rest_band = -1

    def postpone(self, until: float) -> None:
        """Allow no turn before ``until`` (monotonic), because its address is in use."""
        self.next_time, self.rest_time = max(self.next_time, until), max(self.rest_time, until)

    def note_name(
        self, reason: Reason = Reason.NONE, time: float = 0.0, outage: bool = False
    ) -> None:
        """Note the result of a DNS lookup: an address, or none for a reason at crawl time ``time``.

        During an outage the failure does not count against the host.
        """
        record = self.record
        if reason is Reason.NONE:
            if record.dns_failures:
                record.dns_failures = 0
                record.away_since = record.away_since if record.failures else 0.0
            return
        record.last_error = reason
        if outage:
            record.dns_failures, record.away_since = 0, 0.0
        else:
            self._note_away(time)
            record.dns_failures += 1

    def note_answer(
        self, reason: Reason, status: int, address: str, is_secure: bool, time: float
    ) -> None:
        """Note the end of a request for one of its URLs that was answered, or broke off."""
        record = self.record
        record.last_error = reason
        if status:
            self.note_reached()
            http_at, https_at = record.answered_at
            record.answered_at = (http_at, time) if is_secure else (time, https_at)
            record.address = address or record.address

    def answers_otherwise(self, is_secure: bool, time: float) -> bool:
        """Whether it answered by the other scheme lately, so it is not the host that is away."""
        return 0 <= time - self.record.answered_at[not is_secure] < LATELY_S

    def note_failure(self, reason: Reason, time: float, outage: bool = False) -> None:
        """Note a request without any answer at crawl time ``time``.

        During an outage of ours it does not count, and earlier ones are forgotten.
        """
        self.record.last_error = reason
        if outage:
            self.note_reached()
        else:
            self._note_away(time)
            self.record.failures += 1

    def note_reached(self) -> None:
        self.record.failures, self.record.away_since = 0, 0.0

    def _note_away(self, time: float) -> None:
        record = self.record
        is_first = not (record.failures or record.dns_failures)
        # A later time than now is of a clock that was set back; 0 is of an older version.
        if is_first or not 0 < record.away_since <= time:
            record.away_since = time

    def away_s(self, time: float) -> float:
        """Seconds since the first of the failures in a row; 0 without any."""
        return max(time - self.record.away_since, 0.0) if self.record.away_since else 0.0

    @property
    def best_bands(self) -> list[int]:
        """The best band of new pages and that of due pages in which URLs wait."""
        return self.queue.best_bands

    @property
    def is_set_back(self) -> bool:
        """Whether all of its waiting URLs are set back."""
        return self.is_judged and not self.queue.has_waiting(0, SPECULATIVE_BAND - 1)

    def bound_wait(self, now: float, longest_s: float) -> None:
        """Bound the stored wait for the next request to ``longest_s``."""
        record = self.record
        record.next_at, record.rest_at = (
            min(record.next_at, now + longest_s),
            min(record.rest_at, now + longest_s),
        )
        record.pace = with_times(record.pace, partial(min, now), partial(min, record.next_at))

    def count_answer(self, body_bytes: int, duration_s: float, is_capture: bool) -> None:
        """Count a request in the host's usage. A capture resets the parking time."""
        usage = self.record.usage
        self.record.usage = Usage(
            usage.captures + is_capture,
            usage.bytes + body_bytes,
            usage.time_s + duration_s,
            usage.discovered,
            requisites=usage.requisites,
        )
        self.record.parks = 0 if is_capture else self.record.parks

    def count_discovered(self) -> None:
        """Count one more URL found on it."""
        usage = self.record.usage
        self.record.usage = Usage(
            usage.captures,
            usage.bytes,
            usage.time_s,
            usage.discovered + 1,
            usage.hosts,
            requisites=usage.requisites,
        )

    def count_requisites(self, number: int) -> None:
        """Count requisites on other hosts that a page of it brought."""
        usage = self.record.usage
        self.record.usage = msgspec.structs.replace(usage, requisites=usage.requisites + number)


class VisitStates:
    """The visit states of a partition that are in use, over its table."""

    def __init__(self, table: Overlay, partition: int, head: int, capacity: int) -> None:
        self._table = table
        self._partition = partition
        self._head = head
        self._capacity = capacity
        self._cache: dict[bytes, VisitState] = {}
        self._dirty: dict[bytes, VisitState] = {}
        self.names = HostNames(table)
        self._ranks: Ranks | None = None

    def use_ranks(self, ranks: Ranks | None) -> None:
        """Go by these ranks of hosts from now on, or by none."""
        self._ranks = ranks
        for host in self._cache.values():
            host.use_rank(ranks)

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
            if self._ranks is not None:
                host.use_rank(self._ranks)
        return host

    def peek_record(self, host8: bytes) -> VisitRecord | None:
        """The record of a host for reading only: a host that is not in use is not cached."""
        host = self._cache.get(host8)
        if host is not None:
            return host.record
        value = self._table.get(host_key(host8))
        return decode_visit(value) if value is not None else None

    def find_or_add_host(self, host8: bytes, name: str) -> VisitState:
        """The host's state; a new one for a new host."""
        host = self.find_host(host8)
        if host is None:
            host = self._cache[host8] = VisitState(
                self._partition, host8, VisitRecord(name), self._head
            )
            if self._ranks is not None:
                host.use_rank(self._ranks)
            self.names.add_name(name, host8)
            self.mark_changed(host)
        return host

    def mark_changed(self, host: VisitState) -> None:
        """Note that the host's record changed and belongs to the next commit."""
        if not host.dirty:
            host.dirty = True
            self._dirty[host.host8] = host

    def write_back(self) -> None:
        """Put changed records into the open batch, and drop idle hosts beyond the capacity."""
        self.names.add_older_names()
        for host8, host in self._dirty.items():
            host.queue.save(self._table)
            host.record.turn, host.record.due_turn = host.queue.turn, host.queue.due_turn
            self._table.put(host_key(host8), encode_record(host.record))
            host.dirty = False
        self._dirty.clear()
        if len(self._cache) > self._capacity:
            self._forget_idle(len(self._cache) - self._capacity // 2)

    def drop_caches(self) -> None:
        """Drop all idle hosts that the table has unchanged; they are read again when needed."""
        self._forget_idle(len(self._cache))

    def _forget_idle(self, most: int) -> None:
        idle = [
            host8
            for host8, v in self._cache.items()
            if not (v.on_workbench or v.dirty or v.queue.open_leases)
        ]
        for host8 in idle[:most]:
            del self._cache[host8]
