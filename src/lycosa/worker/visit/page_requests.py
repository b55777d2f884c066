"""The request for a URL of the host itself, and what its answer means for the host.

**Several requests at once.** A visit of a proved own host gives the host back when it sends its
request, not when the answer is there. So the host has its next visit meanwhile, until as many
requests are open as the settings allow. A visit that may not send then leaves the host in process
(``awaits_end``), and the next request that ends gives it back. So a host is still in one place
only, and between its turn and its request one visit has it.

Only a URL of the host is requested together with others: not robots.txt or another file about the
host, an errand, a URL with credentials, or one for an outside fetcher. These wait until no request
is open. Each request is judged again directly before it is sent (``may_begin``): what the end of
another one requires, as Retry-After, holds for all, and a host that is not proved any more has one
request at a time again, its delay counted from the last end.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from lycosa.base.config.profile_texts import PrivateUrls
from lycosa.base.config.sections import RequestsSection
from lycosa.base.model.fetched import MAX_SITEMAP_BYTES, Fetched, FetchKind, FetchRequest, Limits
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import scheme_of
from lycosa.stages.fetch.headers import wanted_fields
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.politeness.delay import ordinary_delay_s
from lycosa.stages.politeness.own_proofs import OwnHosts
from lycosa.stages.schedule.fetch_outcome import is_connection_failure, is_silent
from lycosa.stages.schedule.steps import PageAnswered, TurnOver
from lycosa.stages.schedule.validator_trust import conditions_of
from lycosa.state.attempts import Suspicion
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.worker_stages import Stages


class OpenRequests:
    """One per worker, if the settings allow several requests at once.

    ``demands`` has the partitions of which outside fetchers wait for URLs. ``wake`` lets the
    worker's loop look for hosts.
    """

    def __init__(
        self,
        section: RequestsSection,
        stages: Stages,
        own: OwnHosts,
        demands: Container[int],
        wake: Callable[[], None],
    ) -> None:
        self._private = PrivateUrls(section.rules)
        self._most, self._own = section.own_concurrency, own
        self._pacing, self._clock = stages.pacing, stages.clock
        self._demands, self._wake = demands, wake

    def may_join(self, host: VisitState) -> bool:
        """Whether a host with open requests may have a visit that sends one more."""
        return (
            host.open_requests < self._most
            and not host.record.errands
            and host.partition not in self._demands
            and self._may_begin(host, self._clock.monotonic())
        )

    def _may_begin(self, host: VisitState, now: float) -> bool:
        """Whether a request may start next to those that are open.

        Not where robots.txt or the operator asks for a pause between two requests of the host.
        """
        wall, pacing = self._clock.wall(), self._pacing
        if not (self._own.is_proved(host.name, wall) and host.may_wait and host.rest_time <= now):
            return False
        section = self._own.section_of(host.name, pacing.section, wall)
        return ordinary_delay_s(host.record.pace, section) == 0

    def begin(self, visit: Visit) -> bool:
        """Give the host back, as its page is requested now, if it may have further requests.

        Returns false if the page may not be requested together with those that are open.
        """
        host, slot = visit.host, visit.slot
        assert slot is not None
        if visit.lease.url in self._private or not self._may_begin(host, self._clock.monotonic()):
            return not host.open_requests
        slot.at_once = self._most
        slot.may_begin = lambda now: self._may_begin(host, now)
        visit.leave_open(is_last=host.open_requests + 1 >= self._most)
        self._wake()
        return True

    def end(self, visit: Visit) -> None:
        """Its request has ended: the visit has the host again if that waits for this."""
        if visit.end_open():
            self._wake()


class PageTurns:
    """One per worker. ``ask_own`` asks for the file of an own host, at the origin of a URL.

    ``at_once`` lets proved own hosts have several requests at once, if the settings do.
    """

    def __init__(
        self,
        stages: Stages,
        ask_own: Callable[[Partition, VisitState, str], None] | None = None,
        at_once: OpenRequests | None = None,
    ) -> None:
        self._ask_own, self._at_once = ask_own, at_once
        self._stages, self._clock = stages, stages.clock
        self._suspicion = stages.suspicion

    def may_join(self, host: VisitState) -> bool:
        """Whether a host with open requests may have one more."""
        return self._at_once is not None and self._at_once.may_join(host)

    async def fetch(self, visit: Visit) -> PageAnswered | TurnOver:
        host, sender, slot = visit.host, self._stages.sender, visit.slot
        assert slot is not None
        visit.request = self.request_of(visit.lease, slot.address)
        at_once = self._at_once
        if at_once is not None and not at_once.begin(visit):
            visit.await_end()
            return TurnOver()
        with self._stages.pacing.rest_of(host) as rest:
            fetched = await sender.send_request(visit.request, rest, slot, visit.others)
        if at_once is not None:
            at_once.end(visit)
        if fetched.reason is Reason.LEASE_EXPIRED:
            # Another worker may own the shard now and fetch it. If not, the host has another turn.
            return TurnOver()
        if self._ask_own is not None and fetched.status:
            self._ask_own(visit.partition, host, fetched.url)
        outage_s = 0.0 if fetched.status else sender.outage_s(fetched.reason)
        return self.note_answer(visit, fetched, rest.is_asked, outage_s)

    def note_answer(
        self, visit: Visit, fetched: Fetched, is_asked: bool, outage_s: float, is_lent: bool = False
    ) -> PageAnswered:
        """Note what an answer says about the host; ``is_asked``: it asked for a longer rest."""
        host, time, reason = visit.host, self._clock.time(), fetched.reason
        visit.answer = fetched
        is_secure = scheme_of(fetched.url) == "https"
        if not fetched.status and (is_connection_failure(reason) or is_silent(reason)):
            host.note_failure(reason, time, outage_s > 0)
        else:
            host.note_answer(reason, fetched.status, fetched.address, is_secure, time)
        return PageAnswered(
            reason=fetched.reason,
            status=fetched.status,
            detail=fetched.detail,
            failures=host.record.failures,
            rests_until=host.record.next_at if is_asked and host.may_wait else 0.0,
            away_s=host.away_s(time),
            outage_s=outage_s,
            is_lent=is_lent,
            was_sent=fetched.sent_s > 0,
            other_answers=host.answers_otherwise(is_secure, time),
        )

    def request_of(self, lease: Lease, address: str) -> FetchRequest:
        """The request for a leased URL, conditional if the last capture has validators that are
        believed (``schedule.validator_trust``)."""
        history, stages = lease.record.history, self._stages
        limits, kind = stages.sender.limits, FetchKind.PAGE
        if stages.intake.is_sitemap(lease):
            most = max(limits.body_bytes, MAX_SITEMAP_BYTES)
            limits = msgspec.structs.replace(limits, body_bytes=most, media_bytes=0, accepts=())
            kind = FetchKind.SITEMAP
        if self._suspicion(lease.url) is Suspicion.POISON:
            limits = _tightened(limits)
        partition = stages.frontier.partitions[lease.host.partition]
        is_unparsed = lease.host.host8 + lease.entry.url8 in partition.unparsed
        if partition.demands.rows:
            demand = partition.demands.rows.get(lease.host.host8 + lease.entry.url8)
            if demand is not None:
                fields = wanted_fields(demand.destination, demand.page_url, lease.url)
                # The page needs it, whatever media types the crawl accepts by themselves.
                limits = msgspec.structs.replace(limits, accepts=())
                return FetchRequest(lease.url, address, kind, "", "", limits, *fields)
        # A conditional request would bring no body, but a body that was never parsed is needed
        # for its links.
        if history is None or is_unparsed:
            return FetchRequest(lease.url, address, kind, limits=limits)
        counts = lease.host.record.validators
        etag, modified = conditions_of(history, lease.record.reason, counts, lease.entry.url8)
        return FetchRequest(lease.url, address, kind, etag, modified, limits)


def _tightened(limits: Limits) -> Limits:
    """The limits for a URL that was in flight at two deaths of the worker."""
    return msgspec.structs.replace(
        limits,
        total_s=min(limits.total_s, 10.0),
        body_bytes=min(limits.body_bytes, 100_000),
        media_bytes=0,
        header_bytes=16_384,
    )
