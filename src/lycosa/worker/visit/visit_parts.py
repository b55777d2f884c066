"""Builds the parts of a worker that visit hosts, from the request for a URL to its capture."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from lycosa.base.model.end import End
from lycosa.base.ports import Addresses, Clock
from lycosa.base.preferences.use_policy import agent_policy
from lycosa.base.urls.identity import surt
from lycosa.stages.politeness.address_table import AddressTable
from lycosa.stages.politeness.crawl_pace import CrawlPace
from lycosa.stages.politeness.machine_addresses import MachineAddresses
from lycosa.stages.schedule.price_in_force import PriceInForce
from lycosa.state.attempts import StoringMark
from lycosa.state.folder.names import addresses_path, attempts_folder
from lycosa.state.store.journal_rows import RowBuilder
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.warc_records import CrawlInfo
from lycosa.worker.earlier_captures import earlier_of_job
from lycosa.worker.extensions import CodeCaller, Extensions
from lycosa.worker.intake.intake_parts import IntakeParts
from lycosa.worker.intake.render_queue import RenderQueue
from lycosa.worker.job import WorkerJob
from lycosa.worker.machine_table import open_host_table, open_machine_table
from lycosa.worker.owned_shard import OwnedShard
from lycosa.worker.refetch_planning import RefetchPlanner
from lycosa.worker.request_slots import CommonHostSlots, HostSlots, RequestSlots
from lycosa.worker.run_signals import RunSignals
from lycosa.worker.visit.address_finder import AddressFinder
from lycosa.worker.visit.capture_builder import CaptureBuilder
from lycosa.worker.visit.errands import Errands
from lycosa.worker.visit.examined_body import BodyExaminer
from lycosa.worker.visit.host_robots import MOST_RULES, Robots
from lycosa.worker.visit.key_files import KeyFiles
from lycosa.worker.visit.leasing import Leasing
from lycosa.worker.visit.lending import Demand, Lending
from lycosa.worker.visit.missing_paths import MissingPaths
from lycosa.worker.visit.own_files import OwnFiles, own_hosts
from lycosa.worker.visit.pacing import Pacing
from lycosa.worker.visit.page_code import PageCode, extractors_of
from lycosa.worker.visit.page_requests import OpenRequests, PageTurns
from lycosa.worker.visit.parser_queue import ParserQueue
from lycosa.worker.visit.permits import GrantedPermits, LocalPermits
from lycosa.worker.visit.pipeline import Pipeline, VisitSteps
from lycosa.worker.visit.refetch_checks import RefetchChecks
from lycosa.worker.visit.request_sender import RequestSender
from lycosa.worker.visit.robots_reader import RobotsReader
from lycosa.worker.visit.robots_requests import RobotsTurns
from lycosa.worker.visit.slicing import Slices
from lycosa.worker.visit.tdm_files import TdmFiles, wants_tdm_files
from lycosa.worker.visit.worker_stages import EndedUrls, Stages
from lycosa.worker.worker_ports import Ports


class VisitParts(msgspec.Struct, frozen=True):
    """What visits hosts. ``close`` closes the files of address slots and of crash marks."""

    stages: Stages
    pipeline: Pipeline
    permits: LocalPermits | GrantedPermits
    robots: Robots
    errands: Errands
    pages: PageTurns
    capturing: CaptureBuilder
    lending: Lending
    tdm_files: TdmFiles | None
    keys: KeyFiles
    code: PageCode
    renders: RenderQueue | None
    close: Callable[[], None]


def build_visit(
    owned: OwnedShard,
    ports: Ports,
    below: IntakeParts,
    signals: RunSignals,
    extensions: Extensions,
    caller: CodeCaller,
) -> VisitParts:
    """The parts over an open shard and the intake."""
    job, config = owned.job, owned.job.config
    slots, mark = _slots(owned, ports), StoringMark(attempts_folder(job.folder), job.number)
    stages = Stages(
        frontier=owned.frontier,
        intake=below.intake,
        store=_store(owned, caller),
        sender=_sender(owned, ports, slots, extensions),
        pacing=Pacing(config.politeness, owned.clock, owned.chance, own_hosts(config.requests)),
        slices=Slices(owned.clock, mark),
        ended=EndedUrls(),
        clock=owned.clock,
        suspicion=owned.crashes.suspicion_of,
    )
    if job.held_until:
        owned.frontier.hold_all(job.held_until, stages.pacing.delay_of)
    robots, permits = _robots(job, ports, stages), _permits(owned, ports, signals, below.renders)
    demands: dict[int, list[Demand]] = {}
    at_once = None
    if stages.pacing.own is not None and config.requests.own_concurrency > 1:
        at_once = OpenRequests(config.requests, stages, stages.pacing.own, demands, signals.wake)
    steps = _steps(job, owned.prices, ports, below, stages, robots, at_once)
    lending = Lending(stages, steps.pages, permits, job.manifest.crawl, demands)

    code = PageCode(caller, config.canonical, job.formats, extensions.failures)

    def close() -> None:
        mark.close()
        slots.close()

    return VisitParts(
        stages=stages,
        pipeline=Pipeline(config, stages, steps, lending, permits, extensions, code),
        code=code,
        renders=below.renders,
        permits=permits,
        robots=robots,
        errands=steps.errands,
        pages=steps.pages,
        capturing=steps.capturing,
        lending=lending,
        tdm_files=steps.tdm_files,
        keys=steps.keys,
        close=close,
    )


def _sender(
    owned: OwnedShard, ports: Ports, slots: RequestSlots, extensions: Extensions
) -> RequestSender:
    return RequestSender(
        ports.fetcher,
        ports.resolver,
        slots,
        owned.attempts,
        owned.clock,
        owned.job.config,
        extensions.listeners,
    )


def _robots(job: WorkerJob, ports: Ports, stages: Stages) -> Robots:
    reader = RobotsReader(job.config.robots, job.config.agent.product, ports.offload)
    max_rules = min(MOST_RULES, job.plan.rules) if job.plan is not None else MOST_RULES
    needs_usage = bool(job.config.agent.purpose)
    return Robots(reader, stages.sender, stages.clock, max_rules, needs_usage)


def _steps(
    job: WorkerJob,
    prices: PriceInForce,
    ports: Ports,
    below: IntakeParts,
    stages: Stages,
    robots: Robots,
    at_once: OpenRequests | None,
) -> VisitSteps:
    config, errands = job.config, Errands(stages, robots, below.outgoing)
    hosts = stages.pacing.own
    own = OwnFiles(stages, robots, hosts) if hosts is not None else None
    keys = KeyFiles(stages, robots, config.indexnow)
    tdm_files = TdmFiles(stages, config, ports.offload) if wants_tdm_files(config) else None
    capturing = CaptureBuilder(
        RefetchPlanner(prices, config, below.intake, stages.frontier.partitions),
        RefetchChecks(stages.frontier.partitions, stages.clock),
        below.duplicates,
        stages.store,
        below.intake,
    )
    parsing = ParserQueue(ports.parser, config.fetch.open_bytes // 2, stages.clock)
    missing_paths = MissingPaths(stages, parsing)
    return VisitSteps(
        leasing=Leasing(stages, robots, errands, ports.offload, missing_paths, tdm_files),
        errands=errands,
        addresses=AddressFinder(stages, config.politeness.address_delay_s),
        robots=RobotsTurns(stages, robots, errands, keys, missing_paths, tdm_files, own),
        pages=PageTurns(stages, own.ask_if_due if own is not None else None, at_once),
        parsing=parsing,
        examining=BodyExaminer(
            below.duplicates, stages.store, ports.offload, earlier_of_job(job, ports.offload)
        ),
        capturing=capturing,
        tdm_files=tdm_files,
        keys=keys,
        renders=below.renders,
    )


def _slots(owned: OwnedShard, ports: Ports) -> RequestSlots:
    """The slots of addresses and, if crawls of this machine share what they request, of hosts."""
    job = owned.job
    partitions = job.config.frontier.partitions
    pace = CrawlPace(job.config.fetch, lambda: len(owned.partitions) / partitions, ports.clock.wall)
    addresses = ports.addresses(job) if ports.addresses else _addresses(job, ports.clock)
    if job.machine_table is None:
        return RequestSlots(addresses, ports.clock, ports.lease, pace)
    section, request_s = job.config.politeness, job.config.fetch.total_s
    table = open_host_table(job.machine_table, section, request_s)
    hosts: HostSlots = MachineAddresses(table, ports.clock)
    if job.config.requests.own_hosts and job.config.requests.own_concurrency > 1:
        hosts = CommonHostSlots(hosts)
    return RequestSlots(addresses, ports.clock, ports.lease, pace, hosts)


def _addresses(job: WorkerJob, clock: Clock) -> Addresses:
    section, request_s = job.config.politeness, job.config.fetch.total_s
    if job.machine_table is not None:
        table = open_machine_table(job.machine_table, section, request_s)
    else:
        table = AddressTable(addresses_path(job.folder), section, request_s=request_s)
    return MachineAddresses(table, clock)


def _permits(
    owned: OwnedShard, ports: Ports, signals: RunSignals, renders: RenderQueue | None
) -> LocalPermits | GrantedPermits:
    """A worker that is alone knows what the crawl has; others are granted permits."""
    limits = owned.job.config.limits
    counters = [partition.counters for partition in owned.partitions.values()]
    captures = sum(each.limited_captures for each in counters)
    if ports.exchange is not None:
        return GrantedPermits(limits, captures)
    body_bytes = sum(each.body_bytes for each in counters)

    def awaits_renders() -> bool:
        return renders is not None and renders.is_busy

    return LocalPermits(
        limits, captures, body_bytes, lambda: signals.stop(End.LIMIT), awaits_renders
    )


def _store(owned: OwnedShard, caller: CodeCaller) -> SegmentStore:
    job, shard, sites = owned.job, owned.opened, owned.sites
    # IDs must differ between crawls, runs and restarts. They must be the same when the same history
    # is replayed.
    seed = f"{job.config.seed}:{job.manifest.crawl}:{job.number}:{shard.term}:{shard.next_sequence}"
    # The first use of each reads the public suffix list, which takes 50 ms. It happens here, not in
    # a step of the loop.
    sites.site_of("www.example.org")
    sites.public_suffixes("www.example.org")
    return SegmentStore(
        shard.found or shard.storage.segments.find_segments(shard.term),
        job.store,
        CrawlInfo(
            crawl=job.manifest.crawl[:8],
            software=job.software,
            user_agent=job.user_agent,
            operator=job.config.agent.contact,
        ),
        job.number,
        random.Random(seed),
        RowBuilder(
            surt,
            sites.public_suffixes,
            job.config.store.text,
            job.config.store.links,
            job.formats,
            extractors_of(caller.codes),
        ),
        agent_policy(job.config.agent),
    )
