"""Builds the parts of a worker that others reach while it runs: calls, and parcels."""

from __future__ import annotations

import msgspec

from lycosa.base.calls import (
    AnnounceChanges,
    DeadLetterDecision,
    FindCaptures,
    GiveRender,
    GiveResults,
    GiveUrls,
    HostDecision,
    LeaseUrls,
    OrderRenders,
    ReparseDecision,
    SiteNotice,
    TakeRenders,
)
from lycosa.base.ports import Offload, Parser
from lycosa.worker.calls.announced_changes import AnnouncedChanges
from lycosa.worker.calls.call_router import CallHandler, CallRouter
from lycosa.worker.calls.capture_finder import CaptureFinder
from lycosa.worker.calls.dead_letter_decisions import DeadLetterHandler
from lycosa.worker.calls.host_decisions import HostDecisionHandler
from lycosa.worker.calls.incoming_parcels import IncomingParcels, ParcelReceivers
from lycosa.worker.calls.lease_service import LeaseService
from lycosa.worker.calls.ordered_renders import RenderOrders
from lycosa.worker.calls.render_calls import RenderCalls
from lycosa.worker.calls.url_submission import UrlSubmission
from lycosa.worker.intake.intake_parts import IntakeParts
from lycosa.worker.owned_shard import OwnedShard
from lycosa.worker.render.desk import RenderDesk
from lycosa.worker.visit.visit_parts import VisitParts
from lycosa.worker.worker import Worker


class CallParts(msgspec.Struct, frozen=True):
    """What answers calls, and what receives parcels."""

    calls: CallRouter
    incoming: IncomingParcels


def build_calls(
    owned: OwnedShard,
    intake: IntakeParts,
    visit: VisitParts,
    worker: Worker,
    parser: Parser,
    offload: Offload,
    renders: RenderDesk | None,
) -> CallParts:
    """The parts over all others of a worker."""
    receivers = ParcelReceivers(
        intake.intake, intake.duplicates, visit.errands, intake.near, intake.wants
    )
    incoming = IncomingParcels(
        owned.partitions, owned.opened.tables, receivers, worker, intake.topic
    )
    incoming.take_own_parcels(intake.outgoing.outboxes)
    decisions = HostDecisionHandler(worker, intake.intake, owned.clock)
    leases = LeaseService(worker, visit, owned.clock)
    submission = UrlSubmission(intake.intake, owned.clock)
    changes = AnnouncedChanges(intake.intake, submission, owned.clock)
    handlers: dict[type, CallHandler] = {
        GiveUrls: submission.take_urls,
        AnnounceChanges: changes.take_changes,
        SiteNotice: visit.keys.take_notice,
        HostDecision: decisions.decide_host,
        ReparseDecision: decisions.decide_reparse,
        DeadLetterDecision: DeadLetterHandler(intake.intake, owned.clock).decide_dead_letters,
        LeaseUrls: leases.lease_urls,
        GiveResults: leases.give_results,
    }
    if renders is not None:
        captures = CaptureFinder(owned.opened.storage.segments, offload, worker.next_commit)
        rendering = RenderCalls(renders, captures, offload, owned.partitions)
        handlers[TakeRenders] = rendering.take_renders
        handlers[FindCaptures] = rendering.find_captures
        handlers[GiveRender] = rendering.give_render
        orders = RenderOrders(
            renders.queue,
            owned.opened.storage.segments,
            intake.intake,
            parser,
            offload,
            owned.clock,
            worker.next_commit,
        )
        handlers[OrderRenders] = orders.order_renders
    return CallParts(CallRouter(owned.partitions, handlers, worker), incoming)
