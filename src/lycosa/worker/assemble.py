"""Assembles a worker from the parts of its four packages, in the order in which they depend.

    owned shard -> intake -> visit -> commit -> the worker's loop -> calls

Each part is built from those before it, and nothing is set afterwards. This module makes no
decisions.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.system.meter import Meter
from lycosa.base.system.process_memory import cpu_s
from lycosa.stages.extract.extension_child import ExtensionChild
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.state.seen.duplicates import Duplicates
from lycosa.state.shard.opened_shard import Shard
from lycosa.state.store.segments import SegmentStore
from lycosa.worker.calls.call_parts import CallParts, build_calls
from lycosa.worker.calls.call_router import CallRouter
from lycosa.worker.calls.incoming_parcels import IncomingParcels
from lycosa.worker.code_in_use import CodeInUse, WorkerCode, known_codes, note_unstored_items
from lycosa.worker.commit.commit_parts import build_commit
from lycosa.worker.commit.folder_shard import open_folder_shard
from lycosa.worker.extension_failures import ExtensionFailures
from lycosa.worker.extensions import CodeCaller, Extensions
from lycosa.worker.intake.inbox_topic import InboxTopic
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.intake_parts import IntakeParts, build_intake
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels
from lycosa.worker.job import WorkerJob
from lycosa.worker.measures import measure_refetches, measure_renders, measured_worker
from lycosa.worker.owned_shard import OwnedShard, open_owned_shard
from lycosa.worker.ranks_in_force import RanksInForce
from lycosa.worker.refetch_grids import RefetchReports, address_limits
from lycosa.worker.render.desk import RenderDesk
from lycosa.worker.run_signals import RunSignals
from lycosa.worker.setting_updates import AppliedSettings
from lycosa.worker.visit.host_robots import Robots
from lycosa.worker.visit.pacing import Pacing
from lycosa.worker.visit.permits import GrantedPermits, LocalPermits
from lycosa.worker.visit.pipeline import Pipeline
from lycosa.worker.visit.request_sender import RequestSender
from lycosa.worker.visit.tdm_files import TdmFiles
from lycosa.worker.visit.visit_parts import VisitParts, build_visit
from lycosa.worker.worker import Worker
from lycosa.worker.worker_ports import Ports


class Assembled(msgspec.Struct, frozen=True):
    """A worker and the parts of it that its process or simulation uses."""

    worker: Worker
    intake: Intake
    outgoing: OutgoingParcels
    incoming: IncomingParcels
    topic: InboxTopic
    duplicates: Duplicates
    pipeline: Pipeline
    sender: RequestSender
    pacing: Pacing
    robots: Robots
    tdm_files: TdmFiles | None
    permits: LocalPermits | GrantedPermits
    store: SegmentStore
    clock: CrawlClock
    live: AppliedSettings
    meter: Meter
    grids: RefetchReports
    calls: CallRouter
    failures: ExtensionFailures
    renders: RenderDesk | None
    close: Callable[[], None]


def assemble(
    job: WorkerJob,
    ports: Ports,
    shard: Shard | None = None,
    extensions: Extensions | None = None,
    *,
    has_coordinator: bool = False,
) -> Assembled:
    """Connect the parts over an open shard, or over the shard of a crawl folder. Blocks.

    A crawl folder must have been through ``recover_crawl``. A worker that ``has_coordinator`` waits
    for what its ``CoordinatorLink`` receives: live settings, and that no more seeds come. A worker
    is alone, and ends by itself, when its ports have no exchange.
    """
    signals, extensions = RunSignals(), extensions or Extensions()
    shard = shard or open_folder_shard(job, ports.open_table)
    owned = open_owned_shard(job, CrawlClock(ports.clock, job.time_base), shard)
    config = job.config
    ranks = RanksInForce(
        job.folder, ports.objects, owned.partitions, config.frontier.partitions, ports.offload
    )
    ranks.begin(config.priority.ranks)
    intake = build_intake(owned, ports, signals, extensions)
    caller = extensions.code or _code_caller(owned, extensions)
    visit = build_visit(owned, ports, intake, signals, extensions, caller)
    commit = build_commit(owned, ports, intake, visit, signals, ranks)
    worker = Worker(
        owned,
        visit,
        commit,
        intake.outgoing,
        signals,
        is_alone=ports.exchange is None,
        has_coordinator=has_coordinator,
    )
    renders = None
    if intake.renders is not None:
        renders = RenderDesk(
            intake.renders, visit.stages, ports.parser.parse, ports.offload, visit.code
        )
    calls = build_calls(owned, intake, visit, worker, ports.parser, ports.offload, renders)
    return _assembled(owned, intake, visit, worker, calls, extensions, ranks, renders)


def _code_caller(owned: OwnedShard, extensions: Extensions) -> CodeCaller:
    """The process of user code, which the first page starts."""
    job = owned.job
    section, path = job.config.extensions, job.plugins.path
    known = known_codes(CodeInUse(job.code).codes, section, path)
    note_unstored_items(known, job.formats, extensions.failures)
    tell = extensions.failures.tell_output
    return ExtensionChild(known, section, job.config.canonical, owned.clock, path, tell)


def _changed_code(owned: OwnedShard, visit: VisitParts, failures: ExtensionFailures) -> WorkerCode:
    job, store = owned.job, visit.stages.store
    caller, section = visit.code.caller, job.config.extensions
    extractors, path = store.use_extractors, job.plugins.path
    return WorkerCode(caller, section, failures, extractors, job.formats, path)


def _refetch_reports(owned: OwnedShard, visit: VisitParts, worker: Worker) -> RefetchReports:
    return RefetchReports(
        owned.prices,
        owned.partitions,
        visit.stages.pacing.delay_of,
        visit.stages.sender.times["total"],
        lambda: worker.slots,
        cpu_s,
        address_limits(owned.job.config),
    )


def _assembled(
    owned: OwnedShard,
    intake: IntakeParts,
    visit: VisitParts,
    worker: Worker,
    calls: CallParts,
    extensions: Extensions,
    ranks: RanksInForce,
    renders: RenderDesk | None,
) -> Assembled:
    failures = extensions.failures
    meter = measured_worker(worker, intake, visit, owned.clock, failures)
    grids = _refetch_reports(owned, visit, worker)
    measure_refetches(meter, grids)
    if renders is not None and intake.renders is not None:
        measure_renders(meter, renders, intake.renders)

    def close() -> None:
        meter.stop_watching()
        extensions.close()
        visit.code.caller.kill()
        visit.close()
        owned.opened.close()

    return Assembled(
        worker,
        intake.intake,
        intake.outgoing,
        calls.incoming,
        intake.topic,
        intake.duplicates,
        visit.pipeline,
        visit.stages.sender,
        visit.stages.pacing,
        visit.robots,
        visit.tdm_files,
        visit.permits,
        visit.stages.store,
        owned.clock,
        AppliedSettings(
            owned.job.config,
            worker,
            visit.stages.pacing,
            owned.prices,
            CodeInUse(owned.job.code, _changed_code(owned, visit, failures)),
            ranks,
            intake.intake,
        ),
        meter,
        grids,
        calls.calls,
        failures,
        renders,
        close,
    )
