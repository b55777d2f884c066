"""Progress of a crawl: counts from its committed state, and the status that a running crawl writes.

The estimates are lower bounds and are named so: the URLs that wait at a host today, one request
after another at the host's pace, without any URLs that will still be found there.
"""

from __future__ import annotations

import heapq
import json
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.config.sections import Config, RefetchSection
from lycosa.base.messages.progress import Progress
from lycosa.base.model.due_band import DueBand
from lycosa.base.model.url_state import UrlState
from lycosa.base.preferences.use_policy import agent_policy
from lycosa.base.reasons import Reason
from lycosa.base.system.durations import long_duration
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.explain.own_facts import OwnHostLine, OwnHostLines
from lycosa.inspect.policy_state import PolicyState, row_and_total, sum_of_walks
from lycosa.inspect.running import is_running, lock_holder
from lycosa.inspect.saved_settings import SavedSettings
from lycosa.inspect.status_parts import (
    AddressWait,
    AddressWaits,
    Output,
    RefetchCost,
    RenderTallies,
    WaitingRenders,
    outputs_in,
    outputs_of,
    refetch_cost,
    removed_outputs,
)
from lycosa.inspect.top_lists import (
    HostLine,
    Order,
    SiteLine,
    SiteLines,
    Top,
    failures_of,
    host_line,
)
from lycosa.inspect.wall_time import visit_in_wall_time
from lycosa.stages.frontier.address_grids import address_prices_of
from lycosa.stages.frontier.due import is_probe_place
from lycosa.stages.frontier.policy_walk import WalkRow
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.stages.schedule.refetch_value import mean_weight, weighed_pages
from lycosa.stages.schedule.validator_trust import is_distrusted
from lycosa.state.cold.cold_rows import cold_files
from lycosa.state.folder.lock import LockHolder
from lycosa.state.folder.names import status_path
from lycosa.state.folder.seed_sources import SeedSource, load_sources
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.shard.counters import Counters, total_of
from lycosa.state.shard.view import ShardPosition
from lycosa.state.store.closing import LackingFile, lacking_files

DEFAULT_HOSTS = 10
_FRESH_S = 15.0  # an older status file is not used
_STARTING_S = 60.0  # a start takes seconds; on a busy machine, or after a crash, longer
_LONG_S = 600.0  # a host that needs longer than this is named


class ReasonLine(msgspec.Struct, frozen=True):
    """The number of URLs with a reason, and its meaning."""

    reason: str
    count: int
    cause: str
    meaning: str


class ScriptedHost(msgspec.Struct, frozen=True, order=True):
    """A host with captures that seem to be empty until their scripts run."""

    captures: int
    host: str


class RanksInUse(msgspec.Struct, frozen=True):
    """The set of ranks that ``priority.ranks`` names: from where, of how many hosts and pages.

    Of a crawl on many machines only the digest is known here. ``damage`` says why a folder's set
    cannot be read.
    """

    digest: str
    source: str = ""
    hosts: int = 0
    pages: int = 0
    damage: str = ""


class CrawlStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The whole status.

    ``folder`` is the name of the crawl where it has no folder. Only folders have seeds, derived
    files and the status of a running crawl. ``live`` is what the running crawl wrote within the
    last seconds, or empty. ``clock_set_back_s`` is how far the wall clock is behind the clock by
    which the crawl waits. ``removed`` are files that were removed here after their upload
    to ``upload_url``. ``shards`` are those of a crawl on many machines, where ``is_running`` is
    unknown and false. ``preferences`` counts captures by what their sites stated about the use of
    the page, ``purpose`` is that of the last start. ``hosts_paused`` were paused by operators,
    ``leased`` URLs are with outside fetchers. ``due_pages`` counts the waiting pages that are to be
    fetched again, by ``DueBand``; they are among those that are queued. ``refetches`` is what
    the price of a refetch costs, where pages have it. ``policies`` says how far refetch policies
    are applied. ``validators`` counts answers to refetches by what they showed
    (``ValidatorFinding``), ``hosts_distrusted`` the hosts whose validators are not believed.
    ``set_back`` counts waiting URLs that are set back because of near copies.
    ``addresses`` are the ten that are worst off of those that many hosts share.
    ``items`` counts the rows of user code by extractor. ``cold`` counts the URLs whose record is in
    a cold file, by state; ``cold_files`` and ``cold_bytes`` are the files. ``scripted`` counts
    captures that seem to be empty until their scripts run, ``scripted_hosts`` are the ten hosts
    with most of them. ``renders`` are the pages that are to be rendered, ``rendered`` counts the
    renders that ended, by how. ``ranks`` are those that the crawl goes by. ``own_hosts`` are those
    that the settings name.
    """

    folder: str
    crawl: str
    created: str
    started: str
    runs: int
    is_running: bool
    holder: LockHolder | None = None
    live: dict[str, Any] = {}
    last_commit: float = 0.0
    discovered: int = 0
    states: dict[str, int] = {}
    is_balanced: bool = True
    captures: int = 0
    pages: int = 0
    requests: int = 0
    body_bytes: int = 0
    remarks: list[ReasonLine] = []
    refusals: list[ReasonLine] = []
    hosts_by_state: dict[str, int] = {}
    hosts_paused: int = 0
    leased: int = 0
    due_pages: dict[str, int] = {}
    refetches: RefetchCost | None = None
    policies: PolicyState | None = None
    hosts: list[HostLine] = []
    sites: list[SiteLine] = []
    longest: HostLine | None = None
    next_due_s: float = -1.0
    clock_set_back_s: float = 0.0
    seeds: list[SeedSource] = []
    outputs: list[Output] = []
    lacking: list[LackingFile] = []
    waits_for: str = ""
    upload_url: str = ""
    removed: list[Output] = []
    shards: list[ShardPosition] = []
    preferences: dict[str, int] = {}
    purpose: tuple[str, ...] = ()
    validators: dict[str, int] = {}
    hosts_distrusted: int = 0
    set_back: int = 0
    addresses: list[AddressWait] = []
    items: dict[str, int] = {}
    cold: dict[str, int] = {}
    cold_files: int = 0
    cold_bytes: int = 0
    scripted: int = 0
    scripted_hosts: list[ScriptedHost] = []
    own_hosts: list[OwnHostLine] = []
    renders: WaitingRenders = WaitingRenders()
    rendered: dict[str, int] = {}
    ranks: RanksInUse | None = None


_SCRIPTED_HOSTS = 10  # that are listed
_SUMS = (
    "discovered",
    "captures",
    "pages",
    "requests",
    "body_bytes",
    "hosts_paused",
    "leased",
    "set_back",
)
"""Counters that the status has as they are."""


def crawl_status(
    reader: CrawlReader,
    saved: SavedSettings,
    now: float,
    hosts: int = DEFAULT_HOSTS,
    by: Order = Order.QUEUE,
    sites: int = 0,
) -> CrawlStatus:
    """Read counters and hosts of all partitions; about ten microseconds a host.

    ``now`` is wall time. ``hosts`` and ``sites`` are the numbers to list, ``by`` is their order.
    Listing sites holds in memory the sites of one partition that have work left.
    """
    manifest, folder, behind = reader.manifest, reader.origin.folder, reader.ahead_s(now)
    runs, live = _running(reader, now)  # first, before the status file is outdated
    tally = _Tally(saved.config, now, behind, Top(hosts, by), Top(sites, by))
    for view in reader.partition_views():
        tally.add_partition(view, reader if sites else None)
    total = total_of(tally.counters)
    status = CrawlStatus(
        folder=reader.name,
        crawl=manifest.crawl,
        created=manifest.created,
        started=manifest.started,
        runs=manifest.term,
        is_running=runs,
        holder=lock_holder(folder) if folder else None,
        live=live,
        last_commit=reader.last_commit,
        states={state.label: total.count_in(state) for state in UrlState},
        is_balanced=all(each.is_balanced for each in tally.counters),
        **{name: getattr(total, name) for name in _SUMS},
        remarks=_reasons(total.reasons),
        refusals=_reasons(total.rule_refusals),
        due_pages={band.label: number for band in DueBand if (number := total.due.get(band, 0))},
        next_due_s=max(min(tally.due) - behind - now, 0.0) if tally.due else -1.0,
        clock_set_back_s=behind,
        outputs=outputs_of(folder) if folder else outputs_in(reader.source.list_segments()),
        upload_url=saved.config.upload.url,
        shards=list(reader.source.seen.shards.values()),
        preferences=total.stated,
        validators=total.validators,
        items=total.items,
        rendered=total.rendered,
        purpose=agent_policy(saved.config.agent).purpose,
        **tally.values(),
        ranks=_ranks(saved.config.priority.ranks, folder),
        **_cold(total, tally.cold),
        **_refetching(saved.config.refetch, total.cells, reader.price, tally),
        **(_only_in(folder, runs) if folder else {}),
    )
    return msgspec.structs.replace(status, waits_for=_waits_for(status, folder, now))


def _running(reader: CrawlReader, now: float) -> tuple[bool, dict[str, Any]]:
    """Whether the crawl runs, and what a folder's running crawl wrote of itself."""
    folder = reader.origin.folder
    runs = is_running(folder) if folder else reader.source.seen.is_live
    return runs, live_status(folder, now) if folder and runs else {}


def _refetching(
    section: RefetchSection, cells: dict[int, int], price: float, tally: _Tally
) -> dict[str, Any]:
    """What there is to say of refetches; ``price`` is that of the last commit."""
    return {
        "refetches": refetch_cost(section, cells, price),
        "policies": sum_of_walks(tally.walks),
        "addresses": tally.addresses.worst(mean_weight(*weighed_pages(section, cells))),
    }


def _cold(total: Counters, sizes: list[int]) -> dict[str, Any]:
    """Cold records, in files of these sizes."""
    states = {state.label: number for state in UrlState if (number := total.cold.get(state, 0))}
    return {"cold": states, "cold_files": len(sizes), "cold_bytes": sum(sizes)}


def _ranks(digest: str, folder: Path | None) -> RanksInUse | None:
    """The ranks with this digest."""
    if not digest or folder is None:
        return RanksInUse(digest) if digest else None
    # Imported here, because it imports numpy, and most crawls have no ranks.
    from lycosa.state.ranks.rank_results import RanksError
    from lycosa.state.ranks.rank_set import read_rank_set

    try:
        found = read_rank_set(FolderStore(str(folder), folder), digest)
    except (RanksError, ObjectError) as error:
        return RanksInUse(digest, damage=str(error))
    return RanksInUse(digest, found.source, found.hosts, found.pages)


def _only_in(folder: Path, runs: bool) -> dict[str, Any]:
    """What only a crawl in a folder has."""
    return {
        "seeds": load_sources(folder),
        # not those of the segment that a running crawl has just closed
        "lacking": [each for each in lacking_files(folder) if each.reason or not runs],
        "removed": removed_outputs(folder),
    }


class _Tally:
    """Counters and due times of partitions, hosts by state, the lists of hosts and sites, and the
    host that needs longest. The wall clock is ``behind`` seconds behind the crawl's time.
    """

    def __init__(
        self, config: Config, now: float, behind: float, hosts: Top[HostLine], sites: Top[SiteLine]
    ) -> None:
        self._config, self._now, self._behind = config, now, behind
        self.hosts, self.sites = hosts, sites
        self.counters: list[Counters] = []
        self.cold: list[int] = []  # sizes of files
        self.due: list[int] = []
        self.walks: list[tuple[WalkRow, int]] = []
        self.states: dict[str, int] = {}
        self.longest: HostLine | None = None
        self.distrusted = self.scripted = 0
        self.scripted_hosts: list[ScriptedHost] = []
        self.own_hosts = OwnHostLines(config, now)
        self.renders = RenderTallies()
        self.addresses = AddressWaits(config.politeness.address_delay_s)

    def add_partition(self, view: TableView, reader: CrawlReader | None) -> None:
        """Add a partition, in one pass over its hosts.

        With a ``reader``, which knows the sites of hosts, their sites are added too.
        """
        # The lists are kept in heaps, so memory is only theirs.
        self.counters.append(view.counters())
        self.cold += [row.size for row in cold_files(view).values()]
        self.renders.add_partition(view)
        found = SiteLines(reader.sites.site_of, view, self._config) if reader else None
        for entry in view.hosts():
            self._add_host(visit_in_wall_time(entry.record, self._behind), found)
        for line in found.lines() if found else ():
            self.sites.add_line(line, line.site)
        self.due += _next_due(view)
        self.walks.append(row_and_total(view))
        self.addresses.add_prices(address_prices_of(view.get))

    def _add_host(self, record: VisitRecord, sites: SiteLines | None) -> None:
        state = record.shown_state
        self.states[state.label] = self.states.get(state.label, 0) + 1
        self.addresses.add_host(record)
        if record.scripted:
            self._note_scripted(record)
        self.own_hosts.add_host(record)
        self.distrusted += record.validators is not None and is_distrusted(record.validators)
        if not record.waiting + record.retrying + record.parked and not (
            self.hosts.by is Order.ERRORS and failures_of(record)
        ):
            return
        line = host_line(record, self._config, self._now)
        self.hosts.add_line(line, record.host)
        if sites is not None:
            sites.add_host(line)
        is_active = state in (HostState.READY, HostState.SNOOZED)
        if is_active and (self.longest is None or line.needs_s > self.longest.needs_s):
            self.longest = line

    def _note_scripted(self, record: VisitRecord) -> None:
        self.scripted += record.scripted
        line = ScriptedHost(record.scripted, record.host)
        if len(self.scripted_hosts) < _SCRIPTED_HOSTS:
            heapq.heappush(self.scripted_hosts, line)
        else:
            heapq.heappushpop(self.scripted_hosts, line)

    def values(self) -> dict[str, Any]:
        """What the status has of it as it is."""
        return {
            "hosts_by_state": self.states,
            "hosts": self.hosts.lines(),
            "sites": self.sites.lines(),
            "longest": self.longest,
            "scripted": self.scripted,
            "scripted_hosts": sorted(self.scripted_hosts, reverse=True),
            "own_hosts": self.own_hosts.lines(),
            "hosts_distrusted": self.distrusted,
            "renders": self.renders.result(),
        }


def _next_due(view: TableView) -> Iterator[int]:
    """The earliest due times of a partition: of its URLs and of its parked hosts."""
    for prefix in (b"D", b"P"):
        for key, _ in islice(view.scan(prefix, prefix_end(prefix)), 1):
            if not is_probe_place(due_at := int.from_bytes(key[1:5], "big")):
                yield due_at


def estimate(status: CrawlStatus) -> str:
    """One sentence on the minimum time that remains, or empty."""
    line = status.longest
    if (
        line is None
        or line.needs_s < _LONG_S
        or line.state in (HostState.RETIRED.label, HostState.PARKED.label)
    ):
        return ""
    what = (
        f"for the {line.waiting:,} URLs that wait there now"
        if line.waiting != 1
        else "for the one URL that waits there now"
    )
    needed = long_duration(line.needs_s)
    return f"host {line.host} alone needs {needed} at {line.delay_s:g} s a request, {what}"


def _reasons(table: dict[int, int]) -> list[ReasonLine]:
    found = [(Reason(number), times) for number, times in table.items() if number != Reason.NONE]
    lines = [
        ReasonLine(reason.label, times, reason.cause.value, reason.meaning)
        for reason, times in found
    ]
    return sorted(lines, key=lambda line: (-line.count, line.reason))


def live_status(folder: Path, now: float) -> dict[str, Any]:
    """The status that the running supervisor wrote, unless it is old."""
    try:
        live = json.loads(status_path(folder).read_bytes())
    except (OSError, ValueError):
        return {}  # a crawl that is just starting has none, and half of one says nothing
    updated = live.get("updated") if isinstance(live, dict) else None
    return live if isinstance(updated, int | float) and abs(now - updated) < _FRESH_S else {}


class LiveStatus(msgspec.Struct, frozen=True):
    """The part of that status that commands show."""

    state: str
    progress: Progress
    deaths: int = 0


def shown_status(live: dict[str, Any]) -> LiveStatus | None:
    """The part of a live status that commands show; ``None`` for none, or of another version."""
    try:
        return msgspec.convert(live, LiveStatus, str_keys=True)
    except msgspec.ValidationError:
        return None  # what another version wrote is not known well enough to be shown


def is_starting(holder: LockHolder | None, now: float) -> bool:
    """Whether a running crawl may not have had the time to write its first status.

    A new holder takes the lock before it writes its name: until then that of the last run is there.
    """
    return holder is None or holder.released or now - holder.started < _STARTING_S


def _waits_for(status: CrawlStatus, folder: Path | None, now: float) -> str:
    if status.live:
        return str(status.live.get("waiting_for", ""))
    if status.is_running and folder is not None:
        if is_starting(status.holder, now):
            return "its start: it has not written its status yet"
        return "unknown: it has not written its status for a while; it may hang"
    waiting = status.states[UrlState.QUEUED.label]
    if waiting:
        due = (
            f", the next is due in {long_duration(status.next_due_s)}"
            if status.next_due_s > 0 and not _is_ready(status)
            else ""
        )
        urls = "1 queued URL" if waiting == 1 else f"{waiting:,} queued URLs"
        if folder is None:
            return f"its workers, for {urls}{due}"
        return f"`lycosa crawl --dir {shlex.quote(str(folder))}` to resume {urls}{due}"
    if status.next_due_s >= 0:
        return f"nothing now; the next refetch is due in {long_duration(status.next_due_s)}"
    return "nothing"


def _is_ready(status: CrawlStatus) -> bool:
    return bool(status.hosts_by_state.get(HostState.READY.label, 0))
