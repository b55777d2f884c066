"""The request for a path of a host that does not exist, which shows how the host answers it.

It is sent in a turn of the host, in place of a page, if robots.txt allows the path. The answer is
no capture, because no page links to the path; the host's record keeps what is compared with the
answers of pages (``schedule.soft_gone``).
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.model.host_memory import MissingPage
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, host_of, join_url, scheme_of, target_of
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.schedule.fetch_outcome import REDIRECTS, is_connection_failure, is_silent
from lycosa.stages.schedule.soft_gone import missing_path
from lycosa.stages.schedule.steps import TurnOver
from lycosa.state.attempts import Suspicion
from lycosa.worker.visit.examined_body import payload_digest
from lycosa.worker.visit.host_robots import OriginState
from lycosa.worker.visit.parser_queue import ParserQueue
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.worker_stages import Stages

_MOST_BYTES = 1_000_000  # of the answer


class MissingPaths:
    """One per worker."""

    def __init__(self, stages: Stages, parsing: ParserQueue) -> None:
        self._stages, self._clock, self._parsing = stages, stages.clock, parsing

    def is_wanted(self, host: VisitState, secure: bool, robots: OriginState) -> bool:
        """Whether the path is requested before the pages of an origin; ``robots`` must decide."""
        missing = host.record.missing
        if missing is None or not missing.is_wanted:
            return False
        url = self._url(host, missing, secure)
        is_hopeless = self._stages.suspicion(url) is Suspicion.HOPELESS
        if robots.decide(target_of(url)).allowed and not is_hopeless:
            return True
        # Nothing will be known of it, so nothing is judged by it.
        host.record.missing = MissingPage(self._clock.time())
        return False

    async def fetch_path(self, visit: Visit, robots: OriginState) -> TurnOver:
        """Request the path, if ``robots`` allows it."""
        host, stages, missing = visit.host, self._stages, visit.host.record.missing
        assert visit.slot is not None
        if missing is None or not self.is_wanted(host, visit.is_secure, robots):
            return TurnOver()
        url = self._url(host, missing, visit.is_secure)
        address = visit.slot.address
        request = stages.sender.file_request(url, address, FetchKind.PAGE, _MOST_BYTES)
        with stages.pacing.rest_of(host) as rest:
            fetched = await stages.sender.send_request(request, rest, visit.slot)
        if fetched.reason is Reason.LEASE_EXPIRED:
            return TurnOver()
        await visit.give_back_slot()  # before the parser, which may take its time
        simhash, target = 0, self._target(fetched)
        if fetched.body_bytes and fetched.status == 200:
            with self._parsing.counted(fetched):
                simhash = (await self._parsing.parse_body(fetched, is_sitemap=False)).simhash
        self._keep(visit, fetched, simhash, target, is_first=not missing.target)
        stages.ended.settled.append(url)
        return TurnOver()

    def _keep(
        self, visit: Visit, fetched: Fetched, simhash: int, target: str, is_first: bool
    ) -> None:
        host, time = visit.host, self._clock.time()
        if not fetched.status and (
            is_connection_failure(fetched.reason) or is_silent(fetched.reason)
        ):
            outage_s = self._stages.sender.outage_s(fetched.reason)
            host.note_failure(fetched.reason, time, outage_s > 0)
        else:
            is_secure = scheme_of(fetched.url) == "https"
            host.note_answer(fetched.reason, fetched.status, fetched.address, is_secure, time)
        is_whole = fetched.reason in (Reason.NONE, Reason.BODY_TRUNCATED)
        found = MissingPage(time, False, fetched.status if is_whole else 0)
        if target and target_of(fetched.url) in target:
            # To the same path at https or another host: this is not how it answers for the path.
            is_here = is_first and host_of(target) == host.name
            found = MissingPage(0.0, True, target=target) if is_here else MissingPage(time)
        elif is_whole:
            digest = payload_digest(fetched) if fetched.body_bytes else b""
            found = msgspec.structs.replace(found, digest=digest, simhash=simhash, target=target)
        host.record.missing = found
        visit.partition.visits.mark_changed(host)

    def _url(self, host: VisitState, missing: MissingPage, secure: bool) -> str:
        if missing.target:
            return missing.target  # it was redirected to itself at https
        scheme = "https" if secure else "http"
        return join_url(scheme, host.name, missing_path(host.name, self._clock.time()))

    def _target(self, fetched: Fetched) -> str:
        if fetched.status not in REDIRECTS or not fetched.location:
            return ""
        try:
            return self._stages.intake.canonical(fetched.location, fetched.url)
        except InvalidUrl:
            return ""
