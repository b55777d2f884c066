"""The requests for robots.txt and tdmrep.json: a host's own file, or an errand for another host.

One turn of the host is one request. ``robots`` knows what the file means, and ``errands`` follow a
redirect. ``tdm_files`` know what a tdmrep.json means, ``missing_paths`` what the answer for a path
that does not exist is kept for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from lycosa.base.model.fetched import Fetched
from lycosa.base.model.parcel_items import Answer, Errand
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import robots_url
from lycosa.stages.frontier.errand_queue import is_for_key, is_for_own
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.politeness.robots_cache import RobotsState, robots_state
from lycosa.stages.schedule.fetch_outcome import REDIRECTS, is_away
from lycosa.stages.schedule.steps import (
    ErrandFound,
    FindErrand,
    HostSetAside,
    RefuseErrand,
    RobotsAnswered,
    TurnOver,
)
from lycosa.state.attempts import Suspicion
from lycosa.worker.intake.intake import LINKS_AT_ONCE
from lycosa.worker.visit.errands import Errands
from lycosa.worker.visit.host_robots import Learned, Robots, robots_capture
from lycosa.worker.visit.key_files import KeyFiles
from lycosa.worker.visit.missing_paths import MissingPaths
from lycosa.worker.visit.own_files import OwnFiles
from lycosa.worker.visit.tdm_files import TdmFiles
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.worker_stages import Stages


class RobotsTurns:
    """One per worker."""

    def __init__(
        self,
        stages: Stages,
        robots: Robots,
        errands: Errands,
        keys: KeyFiles,
        missing_paths: MissingPaths,
        tdm_files: TdmFiles | None = None,
        own: OwnFiles | None = None,
    ) -> None:
        self._stages, self._robots, self._errands = stages, robots, errands
        self._keys, self._missing_paths, self._tdm_files = keys, missing_paths, tdm_files
        self._own = own
        self._clock, self._suspicion = stages.clock, stages.suspicion

    # -- the host's own file

    async def fetch_robots(self, visit: Visit) -> RobotsAnswered | TurnOver:
        """Request the file of an origin."""
        host, secure, robots = visit.host, visit.is_secure, self._robots
        assert visit.slot is not None
        url, learned = robots_url(host.name, secure), None
        with self._stages.pacing.rest_of(host) as rest:
            fetched = await robots.fetch_file(url, visit.slot, rest)
            if fetched.reason is Reason.LEASE_EXPIRED:
                return TurnOver()
            outage_s = self._stages.sender.outage_s(fetched.reason)
            if outage_s and is_away(fetched.reason):
                # An outage of ours says nothing about the host, so its record stays as it is.
                host.note_failure(fetched.reason, self._clock.time(), outage=True)
                self._stages.ended.settled.append(url)
                return _of_outage(fetched, outage_s)
            if fetched.status not in REDIRECTS:
                learned = await robots.read_response(visit.partition, host, secure, fetched)
                host.record.pace = msgspec.structs.replace(
                    host.record.pace, crawl_delay_s=learned.crawl_delay_s
                )
                rest.decide_delay()
        if learned is None:
            # No await between the two, so that the record and the question to the target's host
            # are in one commit.
            self._store(host, fetched)
            means = self._errands.follow_redirect(host, secure, fetched)
            if means is None:
                self._stages.ended.settled.append(url)
                return TurnOver()
            learned = await robots.judge_failure(visit.partition, host, secure, means)
        await self._take_in(visit, url, learned, fetched)
        self._stages.ended.settled.append(url)
        return self._meaning(visit, learned, is_answered=fetched.status > 0)

    async def _take_in(self, visit: Visit, url: str, learned: Learned, fetched: Fetched) -> None:
        kept = None if fetched.status in REDIRECTS else fetched  # a redirect is stored already
        start = partial(self._settle, visit, learned, kept)
        is_long = len(learned.sitemaps) > LINKS_AT_ONCE
        await self._stages.slices.take(url, start, is_long)

    def _settle(self, visit: Visit, learned: Learned, fetched: Fetched | None) -> Iterator[None]:
        """Store the response and what it means; return the steps that take in its sitemaps."""
        host, secure = visit.host, visit.is_secure
        if fetched is not None and fetched.status:
            self._store(host, fetched)
        self._robots.keep_learned(visit.partition, host, secure, learned)
        url = robots_url(host.name, secure)
        return self._stages.intake.sitemap_steps(host, learned.sitemaps, url)

    def _store(self, host: VisitState, fetched: Fetched) -> None:
        site = self._stages.intake.site_of(host.name)
        self._stages.store.append_capture(
            msgspec.structs.replace(robots_capture(fetched), site=site)
        )
        host.note_reached()

    def _meaning(self, visit: Visit, learned: Learned, is_answered: bool) -> RobotsAnswered:
        """What the file means for the host now."""
        record, known = visit.host.record, learned.ready.record
        error, time = record.last_error, self._clock.time()
        waits = robots_state(known, time) is RobotsState.WAIT
        if not is_answered and is_away(error):
            visit.host.note_failure(error, time)
        return RobotsAnswered(
            is_answered=is_answered,
            error=error,
            failures=record.failures,
            wait_until=known.next_try if waits else 0.0,
            detail=known.outage,
            address=visit.slot.address if visit.slot is not None else "",
            away_s=visit.host.away_s(time),
        )

    async def fetch_tdm_file(self, visit: Visit) -> RobotsAnswered | TurnOver:
        """Request the tdmrep.json of an origin, if its robots.txt still allows it."""
        partition, host, secure = visit.partition, visit.host, visit.is_secure
        robots = await self._robots.ready_state(partition, host, secure, self._clock.time())
        if self._tdm_files is None or robots.is_needed or robots.wait_until:
            return TurnOver()  # it expired since the URL was judged, which the next turn does again
        return await self._tdm_files.fetch_file(visit, robots)

    async def fetch_missing_path(self, visit: Visit) -> TurnOver:
        """Request a path that does not exist, if the robots.txt of the origin still allows it."""
        partition, host, secure = visit.partition, visit.host, visit.is_secure
        robots = await self._robots.ready_state(partition, host, secure, self._clock.time())
        if robots.is_needed or robots.wait_until:
            return TurnOver()
        return await self._missing_paths.fetch_path(visit, robots)

    def forget(self, visit: Visit) -> None:
        """Delete what was learned, so that a reopened host is requested at once."""
        self._robots.forget_origin(visit.partition, visit.host, visit.is_secure)

    # -- errands

    async def find_errand(self, visit: Visit, step: FindErrand) -> ErrandFound | TurnOver:
        """Find the errand that needs a request, if there is one."""
        visit.host.ran_errand = True
        errand = await self._key_errand(visit.host)
        errand = visit.errand = errand or await self._errands.next_errand(visit.host)
        if errand is None:
            return TurnOver()
        return ErrandFound(self._suspicion(errand.url) is Suspicion.HOPELESS)

    async def _key_errand(self, host: VisitState) -> Errand | None:
        """What to request next for a notice of the site; there is one of an hour at most."""
        for errand in filter(is_for_key, host.record.errands):
            files = self._files_of(errand)
            if files is not None and (file := await files.next_step(host, errand)) is not None:
                return file
            self._errands.end_key_errand(host, errand.url)
        return None

    def _files_of(self, errand: Errand) -> KeyFiles | OwnFiles | None:
        """What requests a key file; none if the settings name no own hosts any more."""
        return self._own if is_for_own(errand) else self._keys

    async def refuse_errand(self, visit: Visit, step: RefuseErrand) -> HostSetAside:
        """Answer the errand without a request."""
        assert visit.errand is not None
        answer = Answer((), visit.errand.url, reason=step.reason, detail=step.detail)
        self._errands.answer_askers(visit.host, answer)
        return HostSetAside(False)

    async def run_errand(self, visit: Visit) -> TurnOver:
        """Send one request: for the target of another host's robots.txt, or for a key file."""
        errand = visit.errand
        assert errand is not None and visit.slot is not None
        with self._stages.pacing.rest_of(visit.host) as rest:
            if is_for_key(errand):
                files = self._files_of(errand)
                assert files is not None  # `_key_errand` has found it
                if await files.fetch(visit.host, errand, visit.slot, rest):
                    self._errands.end_key_errand(visit.host, errand.url)
                    self._stages.ended.settled.append(errand.url)
            elif await self._errands.run_errand(visit.host, errand, visit.slot, rest):
                self._stages.ended.settled.append(errand.url)
        return TurnOver()


def _of_outage(fetched: Fetched, outage_s: float) -> RobotsAnswered:
    return RobotsAnswered(
        is_answered=False,
        error=fetched.reason,
        failures=0,
        wait_until=0.0,
        detail="",
        address=fetched.address,
        outage_s=outage_s,
    )
