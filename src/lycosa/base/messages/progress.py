"""The progress of a worker or of a crawl: its numbers, and what it waits for.

The numbers are a snapshot of the meter. Display, ``lycosa status``, API and ``/metrics`` read that
one snapshot; the attributes after the fields of ``Progress`` name its numbers for programs. The
fields have everything else: texts, the slowest hosts, the state of single processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from lycosa.base.messages.renderer_messages import RendererReport, RendererUse, summed_uses
from lycosa.base.model.code_failure import FailureNote, summed_notes
from lycosa.base.model.parsed import ParserHealth
from lycosa.base.model.progress_parts import PoolState, PoolUse, UploadState, WebhookNote
from lycosa.base.system.meter import MeterSnapshot, Number, carried, merged_snapshot

_FIRST = "lycosa_urls_discovered_total"  # a report of an open worker has it
MAX_SLOWEST_HOSTS = 5
"""Number of hosts that a report names."""
MAX_UNREAD = 10
"""Number of unread seeds that a report names."""
MAX_PROMISES = 10
"""Number of hosts with too many promises that a report names."""


class HostNote(msgspec.Struct, frozen=True):
    """A host that will keep the crawl waiting.

    It gives the URLs in its queue, its delay, and the seconds until it may be fetched.
    """

    host: str
    waiting: int
    delay_s: float
    next_in_s: float
    reason: str = ""

    @property
    def need_s(self) -> float:
        """The minimum time in which the host's known URLs can be fetched."""
        return self.waiting * self.delay_s + self.next_in_s


class PromiseNote(msgspec.Struct, frozen=True):
    """A host whose pages were promised more fetches a day than it has turns at its delay."""

    host: str
    promised: float
    turns: float


class UnreadSeed(msgspec.Struct, frozen=True):
    """A seed whose body was stored but not parsed, so its links are not known; ``reason`` is a code
    of ``lycosa.base.reasons``.
    """

    url: str
    reason: str


class ProcessMemory(msgspec.Struct, frozen=True):
    """The memory of one process.

    ``part`` is ``worker``, ``parser`` or ``text parser`` (for questions), with the worker's number
    when there are several, or ``supervisor``, ``coordinator``, ``node`` or ``api``. ``cpu_s`` is
    its processor time so far.
    """

    part: str
    own_bytes: int
    mapped_bytes: int
    cpu_s: float = 0.0


class _Count:
    """A count of the meter as an attribute of ``Progress``; ``value`` is that of the label."""

    __slots__ = ("metric", "value")

    def __init__(self, metric: str, value: str = "") -> None:
        self.metric, self.value = metric, value

    def __get__(self, progress: Progress, owner: type[Progress]) -> int:
        return progress.meter.whole(self.metric, self.value)


class _Counts:
    """The counts of the meter by label value as an attribute of ``Progress``."""

    __slots__ = ("metric",)

    def __init__(self, metric: str) -> None:
        self.metric = metric

    def __get__(self, progress: Progress, owner: type[Progress]) -> dict[str, int]:
        return progress.meter.table(self.metric)


class Progress(msgspec.Struct, frozen=True, tag=True):
    """A worker's progress, about twice a second; without it the worker counts as hanging.

    ``meter`` has the numbers. ``memory`` lists the processes. ``relief``
    describes what is done to stay below the bound, and ``undelivered`` the parcel that another
    worker has not taken for long; both are for messages. ``waits_for`` says what the worker waits
    for outside itself (Kafka, object storage), or how much of a snapshot it has restored; before
    its first commit nothing else is known. ``parser`` is the parser's health; for several workers
    it has the sums, and the first reason why one is away. ``needs`` counts hosts by the time that
    they still need (``forecast.need_bucket``). ``pool`` says how IP addresses are shared with other
    machines, where Redis is configured for it. ``is_paused``: an operator paused the crawl; the
    coordinator says so in the progress of the whole crawl. ``feeds_away`` are the feeds of
    ``lycosa crawl --feed`` whose processes do not run, with the reason. ``unread_seeds`` names the
    first seeds that the parser could not read. ``promises`` are hosts whose pages were promised
    more fetches (``every`` of ``refetch.policies``) than the host has turns, as of the last change
    of policies. ``failures`` are the rules and sinks of users that failed in this run.
    ``webhooks`` are those of the settings. ``renderer`` is the renderer process of this machine,
    ``renderers`` are those of all machines that asked for pages in the last minute.
    """

    meter: MeterSnapshot = MeterSnapshot()
    next_in_s: float = -1.0
    slowest: list[HostNote] = []
    needs: dict[int, int] = {}
    memory: list[ProcessMemory] = []
    relief: str = ""
    is_idle: bool = False
    lacks_room: bool = False
    reaches_nobody: bool = False
    parser: ParserHealth = ParserHealth()
    undelivered: str = ""
    waits_for: str = ""
    uploads: UploadState | None = None
    pool: PoolUse | None = None
    is_paused: bool = False
    feeds_away: tuple[str, ...] = ()
    unread_seeds: list[UnreadSeed] = []
    promises: list[PromiseNote] = []
    failures: list[FailureNote] = []
    webhooks: list[WebhookNote] = []
    renderer: RendererReport | None = None
    renderers: list[RendererUse] = []

    def with_numbers(
        self, numbers: Mapping[str, Number], tables: Mapping[str, dict[str, Number]] | None = None
    ) -> Progress:
        """The same progress with these numbers, by metric, in the place of those before.

        ``tables`` has the numbers of metrics with a label.
        """
        changed = {
            **self.meter.numbers,
            **{name: {"": number} for name, number in numbers.items()},
            **(tables or {}),
        }
        meter = MeterSnapshot(changed, self.meter.distributions)
        return msgspec.structs.replace(self, meter=meter)

    # -- numbers of the meter

    @property
    def has_counts(self) -> bool:
        """Whether the counts are known; a worker that opens its shard knows only its memory."""
        return _FIRST in self.meter.numbers

    discovered = _Count("lycosa_urls_discovered_total")
    """Distinct URLs found."""
    states = _Counts("lycosa_urls")
    """URLs by state; they add up to ``discovered``."""
    captures = _Count("lycosa_captures_total")
    """Stored fetches that are part of a commit."""
    wanted = _Count("lycosa_captures_wanted_total")
    """Those of ``captures`` that pages needed to be rendered; no limit counts them."""
    renders_awaited = _Count("lycosa_renders_awaited")
    """Pages that are to be rendered before the crawl ends."""
    pages = _Count("lycosa_pages_total")
    """Captures with status 200 that are HTML."""
    requests = _Count("lycosa_requests_total")
    """Requests for pages."""
    body_bytes = _Count("lycosa_received_bytes_total")
    """Bytes of bodies as received."""
    reasons = _Counts("lycosa_url_outcomes")
    """URLs by failure or remark."""
    rule_refusals = _Counts("lycosa_links_refused_total")
    """Refused links by rule."""
    stated = _Counts("lycosa_captures_stating_total")
    """Captures by what their sites stated about the use of the page."""
    running = _Count("lycosa_fetches_in_progress")
    """Visits in progress."""
    hosts = _Count("lycosa_hosts_known")
    """All hosts ever met."""
    hosts_ready = _Count("lycosa_hosts", "ready")
    """Hosts that may be fetched now."""
    hosts_snoozed = _Count("lycosa_hosts", "snoozed")
    """Hosts that were made to wait."""
    hosts_front = _Count("lycosa_hosts", "front")
    """Hosts that wait for a place on the workbench."""
    hosts_parked = _Count("lycosa_hosts", "parked")
    """Hosts beyond their budget."""
    hosts_retired = _Count("lycosa_hosts", "retired")
    """Retired hosts."""
    hosts_paused = _Count("lycosa_hosts", "paused")
    """Hosts that an operator paused."""
    leased = _Count("lycosa_leases_outside")
    """URLs that are with outside fetchers."""
    hosts_benched = _Count("lycosa_hosts_benched")
    """Hosts on the workbench."""
    memory_bytes = _Count("lycosa_memory_held_bytes")
    """What counts to the bound of the memory.

    That is the processes' private memory and, in a supervisor's sum, the program's code once.
    """
    memory_bound = _Count("lycosa_memory_bound_bytes")
    """The bound of the memory; 0 when it is unknown."""
    commits = _Count("lycosa_commits_total")
    """Commits over all runs."""
    damaged_segments = _Count("lycosa_damaged_segments")
    """Segments in object storage that were damaged when they were sealed."""
    unparsed = _Count("lycosa_unparsed_bodies")
    """Stored bodies that wait to be parsed again."""
    reparsed = _Count("lycosa_reparsed_total")
    """Stored bodies that were parsed again in this run."""
    policy_records_left = _Count("lycosa_policy_records_left")
    """URLs to which changed refetch policies are not applied yet."""

    @property
    def longest_turn_s(self) -> float:
        """The maximum processor time of one turn of a worker's loop in this run."""
        return float(self.meter.number("lycosa_loop_turn_seconds_max"))


class ContinuedProgress:
    """The progress of one worker over its processes, of which one follows another.

    What a process counts begins at zero. Here it continues from its predecessor's last report.
    Stored counters are those of the last commit, so a killed worker leaves none that fall. Between
    two processes the last report stays.
    """

    __slots__ = ("_ended", "latest")

    def __init__(self) -> None:
        self._ended = MeterSnapshot()
        self.latest = Progress()

    def begin_process(self) -> None:
        """From now on another process reports."""
        self._ended = carried(self.latest.meter)

    def receive(self, progress: Progress) -> None:
        """Take a report."""
        meter = progress.meter
        if not progress.has_counts:
            # The process is opening its shard: it knows its memory, and no counts yet.
            known = self.latest.meter
            meter = MeterSnapshot({**known.numbers, **meter.numbers}, known.distributions)
        elif self._ended.numbers or self._ended.distributions:
            meter = merged_snapshot((self._ended, meter))
        self.latest = msgspec.structs.replace(progress, meter=meter)


def total(reports: list[Progress]) -> Progress:
    """The sums over several workers."""
    if len(reports) == 1:
        return reports[0]
    waits = [report.next_in_s for report in reports if report.next_in_s >= 0]
    slowest = sorted(
        (note for report in reports for note in report.slowest), key=lambda note: -note.need_s
    )
    return Progress(
        meter=merged_snapshot(report.meter for report in reports),
        next_in_s=min(waits, default=-1.0),
        slowest=slowest[:MAX_SLOWEST_HOSTS],
        needs=_added_needs([report.needs for report in reports]),
        is_idle=all(report.is_idle for report in reports),
        lacks_room=any(report.lacks_room for report in reports),
        relief=next((report.relief for report in reports if report.relief), ""),
        undelivered=next((report.undelivered for report in reports if report.undelivered), ""),
        waits_for=next((report.waits_for for report in reports if report.waits_for), ""),
        parser=_health([report.parser for report in reports]),
        pool=_pool_use([report.pool for report in reports if report.pool is not None]),
        unread_seeds=[each for report in reports for each in report.unread_seeds][:MAX_UNREAD],
        promises=sorted(
            (each for report in reports for each in report.promises),
            key=lambda each: each.turns / each.promised,
        )[:MAX_PROMISES],
        failures=summed_notes([each for report in reports for each in report.failures]),
        renderers=summed_uses(each for report in reports for each in report.renderers),
    )


def _pool_use(uses: list[PoolUse]) -> PoolUse | None:
    """The use of the address pool by several workers: the worst, since the first of them has it."""
    for state in (PoolState.AWAY, PoolState.DIVIDED, PoolState.SHARED):
        if found := [use for use in uses if use.state is state]:
            why = next((use.why for use in found if use.why), "")
            of = f" ({len(found)} of {len(uses)} workers)" if len(found) < len(uses) else ""
            return PoolUse(state, min(use.since for use in found), why + of)
    return None


def _added_needs(tables: list[dict[int, int]]) -> dict[int, int]:
    needs: dict[int, int] = {}
    for table in tables:
        for bucket, number in table.items():
            needs[bucket] = needs.get(bucket, 0) + number
    return needs


def _health(parsers: list[ParserHealth]) -> ParserHealth:
    """The health of several workers' parsers as one."""
    return ParserHealth(
        waiting=sum(each.waiting for each in parsers),
        away_s=max((each.away_s for each in parsers), default=0.0),
        away_why=next((each.away_why for each in parsers if each.away_why), ""),
        away_total_s=sum(each.away_total_s for each in parsers),
        deaths=sum(each.deaths for each in parsers),
        tried_again=sum(each.tried_again for each in parsers),
    )


_NAMED = (
    "discovered",
    "states",
    "captures",
    "pages",
    "requests",
    "body_bytes",
    "reasons",
    "rule_refusals",
    "stated",
    "hosts",
    "memory_bytes",
)


def progress_values(progress: Progress) -> dict[str, Any]:
    """The progress as values for JSON, with its main numbers under separate names."""
    values: dict[str, Any] = msgspec.to_builtins(progress)
    values.pop("type", None)
    return {name: getattr(progress, name) for name in _NAMED} | values
