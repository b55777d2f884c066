"""``/.well-known/tdmrep.json`` of the worker's hosts: storing it, reading it, requesting it.

The file is requested like robots.txt: in a turn of its host, stored per origin in the partition's
table, and before a page of the origin is. It is requested only if the purpose of the crawl contains
``ai-train``, and only if robots.txt allows it. Otherwise there is no ``TdmFiles`` and nothing here
costs anything. The decisions are in ``politeness.tdm_cache``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import partial

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.capture import RobotsDecision
from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.ports import Offload
from lycosa.base.preferences.preference_model import NARROWER, Statement, Use
from lycosa.base.preferences.tdm_file import MAX_FILE_BYTES
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import TDM_PATH, tdm_url
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.politeness.robots_cache import answer_of
from lycosa.stages.politeness.tdm_body import decoded_file
from lycosa.stages.politeness.tdm_cache import (
    TdmRecord,
    after_response,
    decode_tdm_record,
    is_needed,
)
from lycosa.stages.schedule.fetch_outcome import is_away
from lycosa.stages.schedule.steps import RobotsAnswered, TurnOver
from lycosa.state.attempts import Suspicion
from lycosa.state.kv.table_records import encode_record, tdm_key
from lycosa.worker.visit.host_robots import OriginState, origin_capture
from lycosa.worker.visit.robots_reader import SHORT_BYTES, whole_body
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.worker_stages import Stages

MOST_FILES = 20_000
MOST_BYTES = 4 << 20
"""Bounds on the records in memory, by the size of their rows: some 20 MB with all objects."""


class TdmFiles:
    """One per worker."""

    def __init__(self, stages: Stages, config: Config, offload: Offload) -> None:
        self._stages, self._offload = stages, offload
        self._section, self._clock = config.robots, stages.clock
        self._known: OrderedDict[bytes, tuple[TdmRecord, int]] = OrderedDict()
        self._bytes = 0  # of the rows of all known records
        self.answers = {"file": 0, "none": 0, "failed": 0}
        """Requests by what was learned."""

    def drop_caches(self) -> None:
        """Drop the records in memory; they are read again from the table."""
        self._known.clear()
        self._bytes = 0

    def is_wanted(
        self, partition: Partition, host: VisitState, secure: bool, robots: OriginState
    ) -> bool:
        """Whether the file of an origin is requested before its pages; ``robots`` must decide."""
        if not is_needed(self._record(partition, host, secure), self._clock.time()):
            return False
        # A file that kills workers states nothing, like one that cannot be fetched.
        is_hopeless = self._stages.suspicion(tdm_url(host.name, secure)) is Suspicion.HOPELESS
        return not is_hopeless and robots.decide(TDM_PATH).allowed

    def is_known(self, partition: Partition, host: VisitState, secure: bool, at: float) -> bool:
        """Whether a response is known that was requested at crawl time ``at`` or later."""
        record = self._record(partition, host, secure)
        return record is not None and record.fetched >= at

    def statement(
        self, partition: Partition, host: VisitState, secure: bool, target: str
    ) -> Statement | None:
        """What the file of an origin says about a path and query."""
        record = self._record(partition, host, secure)
        return record.rules.statement(target) if record is not None else None

    async def fetch_file(self, visit: Visit, robots: OriginState) -> RobotsAnswered | TurnOver:
        """Request the file of an origin; ``robots`` allows it."""
        host, secure, stages = visit.host, visit.is_secure, self._stages
        assert visit.slot is not None
        url, most = tdm_url(host.name, secure), MAX_FILE_BYTES + 1
        request = stages.sender.file_request(url, visit.slot.address, FetchKind.TDM_FILE, most)
        with stages.pacing.rest_of(host) as rest:
            fetched = await stages.sender.send_request(request, rest, visit.slot)
        if fetched.reason is Reason.LEASE_EXPIRED:
            return TurnOver()
        if is_away(fetched.reason) and not fetched.sent_s:
            # No connection says nothing about the file. The host waits as after a page.
            stages.ended.settled.append(url)
            return self._away(visit, fetched)
        await self.take_in(visit.partition, host, secure, fetched, robots.decide(TDM_PATH))
        stages.ended.settled.append(url)
        return TurnOver()

    async def take_in(
        self,
        partition: Partition,
        host: VisitState,
        secure: bool,
        fetched: Fetched,
        decision: RobotsDecision | None = None,
        at: float = 0.0,
    ) -> None:
        """Keep what a response at crawl time ``at`` (0 = now) means.

        With a decision of robots.txt the response itself is stored too.
        """
        old, time = self._record(partition, host, secure), at or self._clock.time()
        is_long = len(fetched.body) > SHORT_BYTES or bool(fetched.spool)
        record, row = (
            await self._offload.run(lambda: self._read(fetched, old, time))
            if is_long
            else self._read(fetched, old, time)
        )
        # No commit is cut from here on, so the response and what it means are in one commit.
        keep = partial(self._settle, partition, host, secure, fetched, (record, row), decision)
        self._stages.slices.run_at_once(fetched.url, keep)

    def _settle(
        self,
        partition: Partition,
        host: VisitState,
        secure: bool,
        fetched: Fetched,
        read: tuple[TdmRecord, bytes],
        decision: RobotsDecision | None,
    ) -> Iterator[None]:
        if decision is not None and fetched.status:
            site = self._stages.intake.site_of(host.name)
            self._stages.store.append_capture(
                msgspec.structs.replace(
                    origin_capture(fetched, FetchKind.TDM_FILE), site=site, robots=decision
                )
            )
            host.note_reached()
            partition.visits.mark_changed(host)
        (record, row), key = read, tdm_key(host.host8, secure)
        partition.table.put(key, row)
        self._keep(key, record, len(row))
        found = "file" if record.version else "none"
        self.answers["failed" if record.failures else found] += 1
        return iter(())

    def _read(
        self, fetched: Fetched, old: TdmRecord | None, time: float
    ) -> tuple[TdmRecord, bytes]:
        """The record after a response, and its row."""
        body = decoded_file(fetched, whole_body(fetched)) if 200 <= fetched.status < 300 else b""
        record = after_response(old, answer_of(fetched, body), self._section, time)
        return record, encode_record(record)

    def _away(self, visit: Visit, fetched: Fetched) -> RobotsAnswered:
        host, time = visit.host, self._clock.time()
        outage_s = self._stages.sender.outage_s(fetched.reason)
        host.note_failure(fetched.reason, time, outage=outage_s > 0)
        visit.partition.visits.mark_changed(host)
        return RobotsAnswered(
            is_answered=False,
            error=fetched.reason,
            failures=host.record.failures,
            wait_until=0.0,
            detail=fetched.detail,
            address=fetched.address,
            away_s=host.away_s(time),
            outage_s=outage_s,
        )

    def _record(self, partition: Partition, host: VisitState, secure: bool) -> TdmRecord | None:
        key = tdm_key(host.host8, secure)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known[0]
        row = partition.table.get(key)
        if row is None:
            return None
        record = decode_tdm_record(row)
        self._keep(key, record, len(row))
        return record

    def _keep(self, key: bytes, record: TdmRecord, size: int) -> None:
        _, before = self._known.pop(key, (None, 0))
        self._known[key] = record, size
        self._bytes += size - before
        while len(self._known) > MOST_FILES or self._bytes > MOST_BYTES:
            _, (_, dropped) = self._known.popitem(last=False)
            self._bytes -= dropped


def wants_tdm_files(config: Config) -> bool:
    """Whether the purpose of the crawl contains ai-train, or a use that covers it."""
    return any(
        use == Use.AI_TRAIN or Use.AI_TRAIN in NARROWER.get(use, ()) for use in config.agent.purpose
    )
