"""Assembles a worker: the one place where stages, ports, settings and the crawl folder meet.

A real crawl uses ``RealPorts``; virtual time and tests bring other ports. This module makes no
decisions.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial

import msgspec

from lycosa.base.calls import (
    DeadLetterDecision,
    GiveResults,
    GiveUrls,
    HostDecision,
    LeaseUrls,
    ReparseDecision,
)
from lycosa.base.config.sections import FetchSection
from lycosa.base.model.end import End
from lycosa.base.model.fetched import Limits
from lycosa.base.ports import Addresses, Clock, Fetcher, Offload, Parser, Resolver
from lycosa.base.system.memory_plan import MemoryPlan
from lycosa.base.system.meter import Meter
from lycosa.base.urls.identity import Canonicalizer, surt
from lycosa.stages.admit.scope import Scope
from lycosa.stages.admit.traps import Traps, year_of
from lycosa.stages.fetch.silence import LEAST_ADDRESSES, Silence
from lycosa.stages.frontier.alike_pages import find_alike
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.politeness.address_table import AddressTable
from lycosa.stages.politeness.machine_addresses import MachineAddresses
from lycosa.state.attempts import StoringMark
from lycosa.state.attempts.shipping import AttemptShipper
from lycosa.state.commit import ShardLease, folder_lease
from lycosa.state.exchange import ExchangeEnds
from lycosa.state.folder.names import addresses_path, attempts_folder
from lycosa.state.kv.kv_port import Opener
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.seen.duplicates import Duplicates
from lycosa.state.seen.near_judge import NearJudge
from lycosa.state.seen.recent import RecentHashes
from lycosa.state.shard.opened_shard import Shard
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.warc_records import CrawlInfo
from lycosa.worker.calls.call_handlers import CallDesk, CallHandler
from lycosa.worker.calls.dead_letter_decisions import LetterDesk
from lycosa.worker.calls.host_decisions import OperatorDesk
from lycosa.worker.calls.url_submission import UrlSubmission
from lycosa.worker.commit.committer import WorkerFiles
from lycosa.worker.commit.folder_shard import open_folder_shard
from lycosa.worker.commit.owned_shard import Owned, open_owned
from lycosa.worker.commit.reparser import Reparser
from lycosa.worker.fault_point import FaultPoint
from lycosa.worker.intake.admission import Admission
from lycosa.worker.intake.delivery import Delivery
from lycosa.worker.intake.incoming_parcels import IncomingParcels, ParcelReceivers
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.near_duplicates import NearDuplicates
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels
from lycosa.worker.intake.owners import Addressing
from lycosa.worker.job import Extensions, WorkerJob
from lycosa.worker.machine_table import open_host_table, open_machine_table
from lycosa.worker.measures import measured_worker
from lycosa.worker.setting_updates import AppliedSettings
from lycosa.worker.visit.capture_builder import CaptureBuilder
from lycosa.worker.visit.errands import ErrandRoutes, Errands
from lycosa.worker.visit.host_robots import Robots
from lycosa.worker.visit.leasing import Leasing
from lycosa.worker.visit.pacing import Pacing
from lycosa.worker.visit.permits import GrantedPermits, LocalPermits
from lycosa.worker.visit.pipeline import Pipeline
from lycosa.worker.visit.request_sender import RequestSender
from lycosa.worker.visit.robots_reader import RobotsReader
from lycosa.worker.visit.slicing import Slices
from lycosa.worker.visit.worker_stages import Stages
from lycosa.worker.worker import Worker


class Ports(msgspec.Struct, frozen=True):
    """Everything that takes time or depends on chance, and the free space of the disk."""

    clock: Clock
    offload: Offload
    fetcher: Fetcher
    resolver: Resolver
    parser: Parser
    open_table: Opener
    reach: FaultPoint
    free_bytes: Callable[[], int] = lambda: sys.maxsize
    lease: ShardLease = msgspec.field(default_factory=folder_lease)
    addresses: Callable[[WorkerJob], Addresses] | None = None
    """The slots of addresses that the worker shares with others.

    The default is the table of the machine, or else the crawl's table.
    """
    exchange: ExchangeEnds | None = None
    """The exchange with other workers, if there are any."""
    objects: ObjectStore | None = None
    """Where closed attempt logs are sent, in a cluster."""


class Assembled(msgspec.Struct, frozen=True):
    """A worker and the parts of it that its process or simulation uses."""

    worker: Worker
    intake: Intake
    pipeline: Pipeline
    sender: RequestSender
    store: SegmentStore
    delivery: Delivery
    permits: LocalPermits | GrantedPermits
    robots: Robots
    clock: CrawlClock
    live: AppliedSettings
    meter: Meter
    calls: CallDesk
    stages: Stages
    close: Callable[[], None]


def limits_of(section: FetchSection) -> Limits:
    """The bounds of a request by the settings."""
    return Limits(
        connect_s=section.connect_s,
        first_byte_s=section.first_byte_s,
        total_s=section.total_s,
        min_bytes_per_s=section.min_bytes_per_s,
        min_speed_window_s=section.min_speed_window_s,
        header_bytes=section.header_bytes,
        header_count=section.header_count,
        body_bytes=section.body_bytes,
        spool_bytes=section.spool_bytes,
    )


def assemble(
    job: WorkerJob,
    ports: Ports,
    want_permits: Callable[[], None] | None = None,
    shard: Shard | None = None,
    extensions: Extensions | None = None,
) -> Assembled:
    """Connect the stages over an open shard, or over the shard of a crawl folder. Blocks.

    A crawl folder must have been through ``recover_crawl``. A worker among several is given
    ``want_permits``, by which it asks its coordinator for permits.
    """
    config, shard = job.config, shard or open_folder_shard(job, ports.open_table)
    owned = open_owned(job, CrawlClock(ports.clock, job.time_base), shard)
    clock = owned.clock
    addresses = ports.addresses(job) if ports.addresses else _addresses(job, ports.clock)
    sender = _sender(owned, ports, addresses)
    departures = _departures(owned, ports, lambda e: worker.fail(e))  # noqa: PLW0108 (made later)
    settling = StoringMark(attempts_folder(job.folder), job.number)
    slices = Slices(clock, settling)
    stages = _stages(owned, ports, sender, departures, slices, extensions or Extensions())
    permits = _permits(owned, want_permits, lambda: worker.stop(End.LIMIT))
    pipeline = Pipeline(stages, config, clock, permits, owned.crashes.suspicion_of)
    pipeline.outside.crawl = job.manifest.crawl
    books = _books(owned, ports, stages.store)
    if job.plan is not None:
        _bound(job.plan, stages)
    worker = Worker(config, owned.frontier, pipeline, books, clock, ports.offload, ports.reach)
    if job.is_careful:
        worker.start_carefully(max(clock.monotonic(), job.held_until))
    delivery = Delivery(departures, _arrivals(owned, ports, stages, worker))
    delivery.arrivals.take_own_parcels(departures.outboxes)
    if want_permits is not None:
        worker.is_alone, worker.committer.mail, worker.on_quiet = False, delivery, departures.hurry
    meter = measured_worker(worker, pipeline, stages, departures, clock)
    slots = [addresses.close, *([sender.hosts.close] if sender.hosts is not None else [])]
    return Assembled(
        worker,
        stages.intake,
        pipeline,
        sender,
        stages.store,
        delivery,
        permits,
        stages.robots,
        clock,
        _live(owned, worker, stages),
        meter,
        _call_desk(owned, stages, worker, pipeline),
        stages,
        _closed_in_turn(meter.stop_watching, settling.close, *slots, shard.close),
    )


def _live(owned: Owned, worker: Worker, stages: Stages) -> AppliedSettings:
    """The live settings, from those that the last commit names."""
    since = owned.shard.last.settings if owned.shard.last else 0
    return AppliedSettings(
        owned.job.config, since, worker, owned.frontier, stages.pacing, stages.capturing
    )


def _closed_in_turn(*closes: Callable[[], None]) -> Callable[[], None]:
    """One function that closes parts in this order."""

    def close() -> None:
        for each in closes:
            each()

    return close


def _call_desk(owned: Owned, stages: Stages, worker: Worker, pipeline: Pipeline) -> CallDesk:
    operators = OperatorDesk(owned.frontier, stages.intake, owned.clock, worker.reparse_now)
    handlers: dict[type, CallHandler] = {
        GiveUrls: UrlSubmission(stages.intake, owned.clock).take_urls,
        HostDecision: operators.decide_host,
        ReparseDecision: operators.decide_reparse,
        DeadLetterDecision: LetterDesk(stages.intake, owned.clock).decide_letters,
        LeaseUrls: pipeline.outside.lease_urls,
        GiveResults: pipeline.outside.give_results,
    }
    committed = partial(worker.next_commit, is_called=True)
    desk = CallDesk(owned.partitions, handlers, committed, worker.wake)
    worker.is_called = lambda: desk.open_calls > 0 or pipeline.outside.open_leases > 0
    return desk


def _departures(
    owned: Owned, ports: Ports, fail: Callable[[BaseException], None]
) -> OutgoingParcels:
    tables, number = owned.shard.tables, owned.job.config.frontier.partitions
    return OutgoingParcels(
        owned.partitions, tables, ports.exchange, owned.clock.sleep, fail, number
    )


def _arrivals(owned: Owned, ports: Ports, stages: Stages, worker: Worker) -> IncomingParcels:
    shard = owned.shard
    takers = ParcelReceivers(stages.intake, stages.duplicates, stages.errands, stages.near)
    inbound = ports.exchange.inbound if ports.exchange is not None else None
    inbox = shard.last.inbox if shard.last else 0
    return IncomingParcels(owned.partitions, shard.tables, takers, worker, inbound, inbox)


def _sender(owned: Owned, ports: Ports, addresses: Addresses) -> RequestSender:
    limits, clock = limits_of(owned.job.config.fetch), owned.clock
    sender = RequestSender(
        ports.fetcher, ports.resolver, addresses, owned.attempts, clock, limits, ports.lease
    )
    sender.hosts = _shared_hosts(owned.job, ports.clock)
    sender.network = Silence(owned.job.config.retry.away_s, LEAST_ADDRESSES)
    owned.frontier.on_benched = sender.prefetch_addresses
    return sender


def _shared_hosts(job: WorkerJob, clock: Clock) -> MachineAddresses | None:
    """The slots of hosts, if crawls of this machine share what they request."""
    if job.machine_table is None:
        return None
    section, request_s = job.config.politeness, job.config.fetch.total_s
    return MachineAddresses(open_host_table(job.machine_table, section, request_s), clock)


def _stages(
    owned: Owned,
    ports: Ports,
    sender: RequestSender,
    departures: OutgoingParcels,
    slices: Slices,
    extensions: Extensions,
) -> Stages:
    config, clock, frontier = owned.job.config, owned.clock, owned.frontier
    partitions, suspicion = owned.partitions, owned.crashes.suspicion_of
    intake, store = _intake(owned, departures, extensions), _store(owned)
    robots = Robots(RobotsReader(config.robots, config.agent.product, ports.offload), sender, clock)
    pacing = Pacing(config.politeness, clock, owned.chance)
    if owned.job.held_until:
        frontier.hold_all(owned.job.held_until, pacing.delay_of)
    ends = ErrandRoutes(frontier, departures.post_errand)
    errands = Errands(robots, intake, store, pacing, slices, clock, ends)
    distance = config.seen.max_distance if config.seen.near_duplicates else -1
    tables = {number: partition.table for number, partition in partitions.items()}
    count = config.frontier.partitions
    near = NearDuplicates(
        partitions, NearJudge(count, tables, max(distance, 0)), intake, departures.post_near
    )
    # Workers on one machine ask each other, because an answer takes milliseconds there. Shards that
    # read their parcels from a topic judge by events (docs/decisions/near-duplicates.md).
    later = near if _has_topic(ports) else None
    duplicates = Duplicates(count, tables, departures, distance, later)
    segments = owned.shard.ground.segments
    return Stages(
        frontier=frontier,
        robots=robots,
        leasing=Leasing(frontier, robots, intake, errands, clock, ports.offload, suspicion),
        sender=sender,
        pacing=pacing,
        parser=ports.parser,
        duplicates=duplicates,
        near=near,
        capturing=CaptureBuilder(
            config, clock, duplicates, store, intake, ports.offload, extensions.sinks
        ),
        store=store,
        intake=intake,
        reparsing=Reparser(segments, partitions, intake, ports.parser, ports.offload, clock),
        slices=slices,
        errands=errands,
    )


def _has_topic(ports: Ports) -> bool:
    """Whether the worker is one shard of a cluster, with one partition."""
    return ports.exchange is not None and ports.exchange.inbound is not None


def _store(owned: Owned) -> SegmentStore:
    job, shard, sites = owned.job, owned.shard, owned.sites
    # IDs must differ between crawls, runs and restarts. They must be the same when the same history
    # is replayed.
    seed = f"{job.config.seed}:{job.manifest.crawl}:{job.number}:{shard.term}:{shard.next_sequence}"
    # The first use of each reads the public suffix list, which takes 50 ms. It happens here, not in
    # a step of the loop.
    sites.site_of("www.example.org")
    sites.public_suffixes("www.example.org")
    return SegmentStore(
        shard.found or shard.ground.segments.find_segments(shard.term),
        job.config.store,
        _crawl_info(job),
        job.number,
        random.Random(seed),
        surt,
        sites.public_suffixes,
    )


def _books(owned: Owned, ports: Ports, store: SegmentStore) -> WorkerFiles:
    job = owned.job
    books = WorkerFiles(
        job.manifest.crawl,
        owned.shard,
        store,
        owned.attempts,
        owned.crashes,
        ports.free_bytes,
        lease=ports.lease,
        held_until=job.held_until,
        find_similar=partial(find_alike, owned.shard.tables[job.owned[0]].get)
        if _has_topic(ports)
        else None,
        shipper=AttemptShipper(ports.objects, attempts_folder(job.folder), job.number)
        if ports.objects is not None
        else None,
    )
    if job.plan is None:
        return books
    return msgspec.structs.replace(books, batch_bytes=job.plan.batch)


def _permits(
    owned: Owned,
    want: Callable[[], None] | None,
    on_limit: Callable[[], None],
) -> LocalPermits | GrantedPermits:
    limits = owned.job.config.limits
    counters = [partition.counters for partition in owned.partitions.values()]
    captures = sum(each.captures for each in counters)
    if want is not None:
        return GrantedPermits(limits, captures, want)
    body_bytes = sum(each.body_bytes for each in counters)
    return LocalPermits(limits, captures, body_bytes, on_limit)


def _bound(plan: MemoryPlan, stages: Stages) -> None:
    """Bound the caches by the memory plan. Their sizes are not settings."""
    stages.robots.most_rules = min(stages.robots.most_rules, plan.rules)
    owners = stages.intake.owners
    owners.most = min(owners.most, plan.note_hosts)
    for partition in stages.frontier.partitions.values():
        partition.bounds.capacity = min(partition.bounds.capacity, plan.note_hosts // plan.owned)


def _intake(owned: Owned, departures: OutgoingParcels, extensions: Extensions) -> Intake:
    config, clock, sites = owned.job.config, owned.clock, owned.sites
    scope, year = Scope(config.scope, sites.site_of), year_of(clock.wall())
    traps = Traps(config.traps, year)
    admission = Admission(scope, traps, extensions.rules, config.budgets, config.sitemaps)
    addressing = Addressing(Canonicalizer(config.canonical), sites, config.frontier.partitions)
    recent = RecentHashes(config.seen.recent)
    intake = Intake(
        owned.partitions,
        addressing,
        admission,
        recent,
        clock,
        departures.post_urls,
        departures.post_place,
    )
    intake.add_places(owned.job.places)
    for table in owned.shard.tables.values():
        intake.add_places(key[1:].decode() for key, _ in table.scan(b"J", prefix_end(b"J")))
    return intake


def _addresses(job: WorkerJob, clock: Clock) -> Addresses:
    section, request_s = job.config.politeness, job.config.fetch.total_s
    if job.machine_table is not None:
        table = open_machine_table(job.machine_table, section, request_s)
    else:
        table = AddressTable(addresses_path(job.folder), section, request_s=request_s)
    return MachineAddresses(table, clock)


def _crawl_info(job: WorkerJob) -> CrawlInfo:
    return CrawlInfo(
        crawl=job.manifest.crawl[:8],
        software=job.software,
        user_agent=job.user_agent,
        operator=job.config.agent.contact,
    )
