"""Puts a worker together: the one place where stages, ports, settings and the crawl folder meet.

``RealPorts`` are the ones of a crawl; virtual time and tests bring their own. Nothing in here
decides anything.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping

import msgspec

from lycosa.admit.budgets import over_discovery
from lycosa.admit.scope import Scope
from lycosa.admit.traps import Traps
from lycosa.attempts import AttemptLog, CrashCounts, Settling, Since, boot_id, last_contacts
from lycosa.commit import ShardLease, folder_lease
from lycosa.config.sections import FetchSection
from lycosa.config.sections import SeenUrls as SeenChoice
from lycosa.exchange import ExchangeEnds
from lycosa.folder.names import addresses_path, attempts_folder, suffix_list
from lycosa.frontier.crawl_clock import CrawlClock, ahead_s
from lycosa.frontier.forward import Forward
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.partition import Partition
from lycosa.frontier.rules import Rules
from lycosa.frontier.workbench import Workbench
from lycosa.kv.overlay import Overlay
from lycosa.kv.port import KeyValue, Opener
from lycosa.kv.records import prefix_end
from lycosa.model.end import End
from lycosa.model.fetched import Limits
from lycosa.politeness.addresses import AddressTable
from lycosa.politeness.delay import delay_s, hosts_of_address, longest_delay, longest_wait
from lycosa.politeness.machine_addresses import MachineAddresses
from lycosa.ports import Addresses, Clock, Fetcher, Offload, Parser, Resolver
from lycosa.schedule.priority import priority
from lycosa.seen.duplicates import Duplicates
from lycosa.seen.recent import RecentHashes
from lycosa.shard.opening import PartitionData, Shard
from lycosa.store.records import CrawlInfo
from lycosa.store.segments import SegmentStore
from lycosa.system.memory_plan import MemoryPlan
from lycosa.urls.identity import Canonicalizer, Sites, partition_of, surt
from lycosa.worker.admission import Admission
from lycosa.worker.arrivals import Arrivals, Takers
from lycosa.worker.capturing import Capturing
from lycosa.worker.committing import Books, Reach
from lycosa.worker.delivery import Delivery
from lycosa.worker.departures import Departures
from lycosa.worker.errands import Ends, Errands
from lycosa.worker.folder_shard import open_folder_shard
from lycosa.worker.intake import Addressing, Intake
from lycosa.worker.job import Extensions, WorkerJob
from lycosa.worker.leasing import Leasing
from lycosa.worker.live import Live
from lycosa.worker.machine_table import open_machine_table
from lycosa.worker.pacing import Pacing
from lycosa.worker.permits import GrantedPermits, LocalPermits
from lycosa.worker.pipeline import Pipeline
from lycosa.worker.reopening import reopen_allowed
from lycosa.worker.reparsing import Reparsing
from lycosa.worker.robots import Robots
from lycosa.worker.robots_reading import RobotsReader
from lycosa.worker.sender import Sender
from lycosa.worker.slicing import Slices
from lycosa.worker.stages import Stages
from lycosa.worker.suspects import suspects
from lycosa.worker.worker import Worker

_COMMIT_MARGIN_S = 60.0


class Ports(msgspec.Struct, frozen=True):
    """Everything that takes time or depends on chance, and the room that the disk has."""

    clock: Clock
    offload: Offload
    fetcher: Fetcher
    resolver: Resolver
    parser: Parser
    open_table: Opener
    reach: Reach
    free_bytes: Callable[[], int] = lambda: sys.maxsize
    lease: ShardLease = msgspec.field(default_factory=folder_lease)
    addresses: Callable[[WorkerJob], Addresses] | None = None
    """The slots of addresses that the worker shares with others; by default those of the
    machine's table, or of the crawl's own.
    """
    exchange: ExchangeEnds | None = None
    """With the other workers, when there are any."""


class Assembled(msgspec.Struct, frozen=True):
    """A worker and what its host talks to."""

    worker: Worker
    intake: Intake
    pipeline: Pipeline
    sender: Sender
    store: SegmentStore
    delivery: Delivery
    permits: LocalPermits | GrantedPermits
    robots: Robots
    clock: CrawlClock
    live: Live
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
    """Connects the stages over a shard that is open, or opens the one of a crawl folder that has
    been through ``recover_crawl``. Blocks.

    One worker of several is given ``want_permits``, by which it asks its coordinator for permits.
    """
    extensions = extensions or Extensions()
    config, folder, clock = job.config, job.folder, CrawlClock(ports.clock, job.time_base)
    shard = shard or open_folder_shard(job, ports.open_table)
    chance = random.Random(f"{config.seed}:{job.number}:{shard.term}")
    tables, segments = shard.tables, shard.ground.segments
    partitions = {
        number: _partition(job, number, data, clock) for number, data in shard.data.items()
    }
    sites = Sites(suffix_list(folder))
    addresses = (ports.addresses or _addresses)(job)

    def owner_of(host: str) -> int:
        return partition_of(sites.site_of(host), config.frontier.partitions)

    crashes = CrashCounts(
        {n: p.table for n, p in partitions.items()}, owner_of, attempts_folder(folder)
    )
    crashes.after_restart(
        suspects(attempts_folder(folder), lambda host: owner_of(host) in partitions),
        job.previous_end,
    )
    reopen_allowed(partitions.values(), config.fetch.allow_addresses, clock.time())
    frontier = _frontier(job, partitions, clock, chance)
    attempts = AttemptLog(
        attempts_folder(folder), job.number, clock.wall(), clock.monotonic(), session=shard.term
    )
    # After the log is open: a request without an end counts as one that lasted until then.
    frontier.hold_back(_recent_hosts(job, clock))
    settling = Settling(attempts_folder(folder), job.number)
    sender = Sender(
        ports.fetcher,
        ports.resolver,
        addresses,
        attempts,
        clock,
        limits_of(config.fetch),
        ports.lease,
    )
    frontier.on_benched = sender.prefetch
    addressing = Addressing(Canonicalizer(config.canonical), sites, config.frontier.partitions)

    def fail(error: BaseException) -> None:
        worker.fail(error)  # the worker is made later

    departures = Departures(
        partitions, tables, ports.exchange, clock.sleep, fail, config.frontier.partitions
    )
    intake = _intake(job, extensions, partitions, addressing, tables, clock, departures)
    # Ids must differ between crawls, runs and restarts, and be the same when the same history is
    # replayed.
    ids = random.Random(
        f"{config.seed}:{job.manifest.crawl}:{job.number}:{shard.term}:{shard.next_sequence}"
    )
    store = SegmentStore(
        segments.find(shard.term),
        config.store,
        _crawl_info(job),
        job.number,
        ids,
        surt,
        sites.public_suffixes,
    )
    # The list is read at the first use of each, which takes 50 ms: now, and not in a step of the
    # loop.
    sites.site_of("www.example.org")
    sites.public_suffixes("www.example.org")
    robots = Robots(RobotsReader(config.robots, config.agent.product, ports.offload), sender, clock)
    pacing, slices = Pacing(config.politeness, clock, chance), Slices(clock, settling)
    errands = Errands(
        robots, intake, store, pacing, slices, clock, Ends(frontier, departures.post_errand)
    )
    near = config.seen.max_distance if config.seen.near_duplicates else -1
    duplicates = Duplicates(
        config.frontier.partitions, {n: p.table for n, p in partitions.items()}, departures, near
    )
    stages = Stages(
        frontier=frontier,
        robots=robots,
        leasing=Leasing(frontier, robots, intake, errands, clock, ports.offload, crashes.suspicion),
        sender=sender,
        parser=ports.parser,
        capturing=Capturing(
            config, clock, duplicates, store, intake, ports.offload, extensions.sinks
        ),
        store=store,
        intake=intake,
        reparsing=Reparsing(segments, partitions, intake, ports.parser, ports.offload, clock),
        slices=slices,
        errands=errands,
    )
    permits = _permits(job, partitions, want_permits, lambda: worker.stop(End.LIMIT))
    pipeline = Pipeline(stages, config, clock, pacing, permits, crashes.suspicion)
    books = Books(
        job.manifest.crawl,
        shard,
        store,
        attempts,
        crashes,
        ports.free_bytes,
        lease=ports.lease,
        held_until=job.held_until,
    )
    if job.plan is not None:
        books = msgspec.structs.replace(books, batch_bytes=job.plan.batch)
        _bound(job.plan, frontier, intake, robots)
    worker = Worker(config, frontier, pipeline, books, clock, ports.offload, ports.reach)
    if job.is_careful:
        worker.start_carefully(max(clock.monotonic(), job.held_until))
    inbound = ports.exchange.inbound if ports.exchange is not None else None
    arrivals = Arrivals(
        partitions,
        tables,
        Takers(intake, duplicates, errands),
        worker,
        inbound,
        shard.last.inbox if shard.last else 0,
    )
    arrivals.take_own(departures.outboxes)
    delivery = Delivery(departures, arrivals)
    live = Live(config, shard.last.settings if shard.last else 0, worker, frontier, pacing)
    if want_permits is not None:
        worker.is_alone, worker.committer.mail = False, delivery

    def close() -> None:
        settling.close()
        addresses.close()
        shard.close()

    return Assembled(
        worker, intake, pipeline, sender, store, delivery, permits, robots, clock, live, close
    )


def _partition(job: WorkerJob, number: int, data: PartitionData, clock: CrawlClock) -> Partition:
    config = job.config
    return Partition(
        number,
        Overlay(data.table),
        data.seen,
        config.frontier,
        Rules(
            over_discovery=lambda usage: over_discovery(config.budgets, usage) is not None,
            prioritize=lambda factors: priority(factors, config.priority),
            forward=Forward(config.refetch, lambda: ahead_s(clock.time(), clock.wall())),
        ),
        lists_known=config.seen.urls is SeenChoice.BLOOM,
    )


def _frontier(
    job: WorkerJob, partitions: Mapping[int, Partition], clock: CrawlClock, chance: random.Random
) -> Frontier:
    config = job.config
    workbench = Workbench(config.politeness.address_slots)
    frontier = Frontier(
        partitions.values(),
        workbench,
        config.frontier.workbench,
        hosts_of_address(config.politeness),
    )
    frontier.longest_wait_s = longest_wait(config.politeness)
    frontier.longest_due_s = max(frontier.longest_due_s, config.refetch.max_s, config.retry.max_s)
    if job.held_until:
        frontier.hold_all(
            job.held_until,
            lambda visit: (
                delay_s(visit.record.pace, config.politeness, clock.time(), chance).seconds
            ),
        )
    return frontier


def _permits(
    job: WorkerJob,
    partitions: Mapping[int, Partition],
    want: Callable[[], None] | None,
    on_limit: Callable[[], None],
) -> LocalPermits | GrantedPermits:
    captures = sum(partition.counters.captures for partition in partitions.values())
    if want is not None:
        return GrantedPermits(job.config.limits, captures, want)
    body_bytes = sum(partition.counters.body_bytes for partition in partitions.values())
    return LocalPermits(job.config.limits, captures, body_bytes, on_limit)


def _bound(plan: MemoryPlan, frontier: Frontier, intake: Intake, robots: Robots) -> None:
    """What is kept only to save look-ups is bounded by memory, and is no setting."""
    robots.most_rules = min(robots.most_rules, plan.rules)
    intake.most_owners = min(intake.most_owners, plan.note_hosts)
    for partition in frontier.partitions.values():
        partition.bounds.capacity = min(partition.bounds.capacity, plan.note_hosts // plan.owned)


def _intake(
    job: WorkerJob,
    extensions: Extensions,
    partitions: Mapping[int, Partition],
    addressing: Addressing,
    tables: Mapping[int, KeyValue],
    clock: Clock,
    departures: Departures,
) -> Intake:
    scope = Scope(job.config.scope, addressing.sites.site_of)
    year = 1970 + int(clock.wall() // 31_556_952)
    admission = Admission(
        scope,
        Traps(job.config.traps, year),
        extensions.rules,
        job.config.budgets,
        job.config.sitemaps,
    )
    intake = Intake(
        partitions,
        addressing,
        admission,
        RecentHashes(job.config.seen.recent),
        clock,
        departures.post,
        departures.post_place,
    )
    intake.join(job.places)
    for table in tables.values():
        intake.join(key[1:].decode() for key, _ in table.scan(b"J", prefix_end(b"J")))
    return intake


def _addresses(job: WorkerJob) -> Addresses:
    section = job.config.politeness
    if job.machine_table is not None:
        return MachineAddresses(open_machine_table(job.machine_table, section))
    return MachineAddresses(AddressTable(addresses_path(job.folder), section))


def _recent_hosts(job: WorkerJob, clock: Clock) -> dict[str, float]:
    """Hosts contacted since shortly before the last commit, with the monotonic time from which they
    may be fetched again.

    What came before is in the committed visit states. One whose request never ended waits the
    longest ordinary delay from now, and so does every one after the machine itself went down.
    """
    now, wall, longest = clock.monotonic(), clock.wall(), longest_delay(job.config.politeness)
    since = min(job.last_commit or wall, wall - longest) - _COMMIT_MARGIN_S
    # The state's times are of the wall clock, which may have been set forward since: what is recent
    # by the other clock is held as well.
    recent = Since(since, now - longest - _COMMIT_MARGIN_S, boot_id())
    held: dict[str, float] = {}
    for host, contact in last_contacts(attempts_folder(job.folder), recent).items():
        if contact.is_unfinished or contact.boot != boot_id():
            held[host] = now + max(longest, contact.delay_s)
        else:
            held[host] = min(contact.monotonic, now) + contact.delay_s
    return held


def _crawl_info(job: WorkerJob) -> CrawlInfo:
    return CrawlInfo(
        crawl=job.manifest.crawl[:8],
        software=job.software,
        user_agent=job.user_agent,
        operator=job.config.agent.contact,
    )
