"""Builds the parts of a worker that others reach while it runs: calls, and parcels."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lycosa.base.calls import (
    AnnounceChanges,
    CallRefusal,
    DeadLetterDecision,
    FindCaptures,
    GivenUrl,
    GivenVerdict,
    GivenVerdicts,
    GiveRender,
    GiveResults,
    GiveUrls,
    HostDecision,
    LeaseUrls,
    OrderRenders,
    ReparseDecision,
    SiteNotice,
    TakeRenders,
    UrlVerdict,
)
from lycosa.base.model.source_truth import SignalSource
from lycosa.base.ports import Clock, Offload, Parser
from lycosa.base.urls.identity import InvalidUrl, hash8, host_of
from lycosa.stages.frontier.change_signals import SignalOutcome
from lycosa.stages.frontier.partition import Partition
from lycosa.worker.calls.call_router import CallHandler, CallRouter
from lycosa.worker.calls.capture_finder import CaptureFinder
from lycosa.worker.calls.dead_letter_decisions import DeadLetterHandler
from lycosa.worker.calls.host_decisions import HostDecisionHandler
from lycosa.worker.calls.incoming_parcels import IncomingParcels, ParcelReceivers
from lycosa.worker.calls.lease_service import LeaseService
from lycosa.worker.calls.ordered_renders import RenderOrders
from lycosa.worker.calls.render_calls import RenderCalls
from lycosa.worker.calls.url_submission import MAX_GIVEN, UrlSubmission
from lycosa.worker.intake.intake import Intake
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


# Changes of known URLs that another program announces, taken in by the owner of their hosts.
#
# A signal brings no URL in and none forward beyond what the source has earned: the partition
# decides (``Partition.announce_change``). A repeated call finds its signals known, so it has no
# effect. What a caller waits for is no signal.


_URLS_AT_ONCE = 100  # in one step of the loop: 5 ms
_VERDICTS = {
    SignalOutcome.SOONER: UrlVerdict.SOONER,
    SignalOutcome.WAITING: UrlVerdict.WAITING,
    SignalOutcome.KEPT: UrlVerdict.KEPT,
    SignalOutcome.ENDED: UrlVerdict.ENDED,
    SignalOutcome.UNKNOWN: UrlVerdict.NOT_KNOWN,
}


class AnnouncedChanges:
    """One per worker; URLs that are to be added are given to ``submission``."""

    def __init__(self, intake: Intake, submission: UrlSubmission, clock: Clock) -> None:
        self._intake, self._submission, self._clock = intake, submission, clock

    async def take_changes(
        self, partition: Partition, call: AnnounceChanges
    ) -> GivenVerdicts | CallRefusal:
        """Take in the changes; the verdicts are in the order of the URLs."""
        if len(call.urls) > MAX_GIVEN:
            return CallRefusal(f"{len(call.urls)} URLs: a call may have {MAX_GIVEN}")
        verdicts: list[GivenVerdict] = []
        for start in range(0, len(call.urls), _URLS_AT_ONCE):
            told = call.urls[start : start + _URLS_AT_ONCE]
            verdicts += self._take(partition, told, None if call.are_awaited else SignalSource.PUSH)
            await self._clock.sleep(0)
        if call.adds:
            await self._add(partition, call, verdicts)
        return GivenVerdicts(verdicts)

    def _take(
        self, partition: Partition, told: Sequence[GivenUrl], source: SignalSource | None
    ) -> list[GivenVerdict]:
        now = self._clock.wall()
        verdicts = []
        for each in told:
            try:
                url = self._intake.canonical(each.url)
            except InvalidUrl as error:
                why = f"not a URL that can be crawled: {error.detail or error.reason.meaning}"
                verdicts.append(GivenVerdict(each.url, UrlVerdict.REJECTED, why))
                continue
            host = host_of(url)
            owner = self._intake.partition_of_host(host)
            if owner != partition.number:
                why = f"its host belongs to partition {owner}, not to {partition.number}"
                verdicts.append(GivenVerdict(each.url, UrlVerdict.REJECTED, why))
                continue
            at = int(each.discovered_at or now)
            key = hash8(host) + hash8(url)
            became = partition.announce_change(key, source, at, now)
            verdicts.append(GivenVerdict(each.url, _VERDICTS[became]))
        return verdicts

    async def _add(
        self, partition: Partition, call: AnnounceChanges, verdicts: list[GivenVerdict]
    ) -> None:
        """Give the URLs that are not known to the crawl, and replace their verdicts."""
        places = [at for at, each in enumerate(verdicts) if each.verdict is UrlVerdict.NOT_KNOWN]
        if places:
            taken = await self._submission.take_given(partition, [call.urls[at] for at in places])
            for at, each in zip(places, taken, strict=True):
                verdicts[at] = each
