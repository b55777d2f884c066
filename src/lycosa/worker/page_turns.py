"""The request for a URL of the host itself, and what its answer means for the host."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.attempts import Suspicion
from lycosa.frontier.lease import Lease
from lycosa.model.fetched import MAX_SITEMAP_BYTES, Fetched, FetchKind, FetchRequest, Limits
from lycosa.reasons import Reason
from lycosa.schedule.fetch_outcome import is_connection_failure
from lycosa.schedule.steps import PageAnswered, TurnOver
from lycosa.worker.stages import Stages
from lycosa.worker.visit import Visit


class PageTurns:
    """One per worker."""

    def __init__(self, stages: Stages, suspicion: Callable[[str], Suspicion]) -> None:
        self._stages = stages
        self._suspicion = suspicion

    async def fetch(self, visit: Visit) -> PageAnswered | TurnOver:
        host, sender, slot = visit.host, self._stages.sender, visit.slot
        assert slot is not None
        visit.request = self.request_of(visit.lease, slot.address)
        with self._stages.pacing.rest_of(host) as rest:
            fetched = await sender.send_request(visit.request, rest, slot, visit.others)
        if fetched.reason is Reason.LEASE_EXPIRED:
            # Another worker may own the shard now and fetch it. If not, the host has another turn.
            return TurnOver()
        return self.note_answer(visit, fetched, rest.is_asked)

    @staticmethod
    def note_answer(visit: Visit, fetched: Fetched, is_asked: bool) -> PageAnswered:
        """Note what an answer says about the host; ``is_asked``: it asked for a longer rest."""
        host = visit.host
        visit.answer = fetched
        is_failure = is_connection_failure(fetched.reason)
        host.note_answer(fetched.reason, fetched.status, fetched.address, is_failure)
        return PageAnswered(
            reason=fetched.reason,
            status=fetched.status,
            detail=fetched.detail,
            failures=host.record.failures,
            rests_until=host.record.next_at if is_asked and host.may_wait else 0.0,
        )

    def request_of(self, lease: Lease, address: str) -> FetchRequest:
        """The request for a leased URL, conditional if the last capture has validators."""
        history, stages = lease.record.history, self._stages
        limits, kind = stages.sender.limits, FetchKind.PAGE
        if stages.intake.is_sitemap(lease):
            most = max(limits.body_bytes, MAX_SITEMAP_BYTES)
            limits, kind = msgspec.structs.replace(limits, body_bytes=most), FetchKind.SITEMAP
        if self._suspicion(lease.url) is Suspicion.POISON:
            limits = _tightened(limits)
        partition = stages.frontier.partitions[lease.host.partition]
        is_unparsed = lease.host.host8 + lease.entry.url8 in partition.unparsed
        # A conditional request would bring no body, but a body that was never parsed is needed
        # for its links.
        if history is None or history.status != 200 or is_unparsed:
            return FetchRequest(lease.url, address, kind, limits=limits)
        return FetchRequest(lease.url, address, kind, history.etag, history.last_modified, limits)


def _tightened(limits: Limits) -> Limits:
    """The limits for a URL that was in flight at two deaths of the worker."""
    return msgspec.structs.replace(
        limits,
        total_s=min(limits.total_s, 10.0),
        body_bytes=min(limits.body_bytes, 100_000),
        header_bytes=16_384,
    )
