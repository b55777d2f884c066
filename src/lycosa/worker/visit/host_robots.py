"""robots.txt of the worker's hosts: storing it, judging by it, fetching it.

The decisions are in ``politeness``. This module connects them with the partition's table and the
network. A file is stored per origin (scheme and host with port, RFC 9309 §2.3). Compiled matchers
are kept for the origins in use. Long files are read and compiled outside the loop
(``robots_reader``). So a caller asks ``origin_state`` first, and awaits ``load_origin`` when the
file is not ready. ``errands`` follow redirects.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from collections import OrderedDict

import msgspec

from lycosa.base.model.capture import Capture, RobotsDecision
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.reasons import Reason
from lycosa.base.system.meter import Histogram
from lycosa.base.system.metric_catalogue import AGES
from lycosa.base.urls.identity import host_of, robots_url
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.parse.identify import identify
from lycosa.stages.politeness.robots_cache import (
    LONGEST_USE_S,
    RobotsAnswer,
    RobotsRecord,
    RobotsState,
    decision,
    robots_state,
)
from lycosa.stages.politeness.robots_rules import Matcher
from lycosa.state.kv.table_records import encode_record, robots_key
from lycosa.worker.request_slots import Slot
from lycosa.worker.visit.pacing import HostRest
from lycosa.worker.visit.request_sender import RequestSender
from lycosa.worker.visit.robots_reader import Ready, RobotsReader, whole_body

_MATCHERS = 20_000
MOST_RULES = 1_000_000
"""Rules in memory, if the memory plan allows as many: half a kilobyte each, with the matcher."""


class OriginState(msgspec.Struct, frozen=True):
    """What robots.txt means for one origin now.

    It has to be fetched (``is_needed``) or waited for (``wait_until``, crawl time), or it decides.
    """

    is_needed: bool
    wait_until: float
    record: RobotsRecord | None
    matcher: Matcher | None

    @property
    def detail(self) -> str:
        """Why the host waits."""
        return self.record.outage if self.record is not None else ""

    @property
    def sitemaps(self) -> list[str]:
        """The Sitemap lines of the file."""
        return self.record.rules.sitemaps if self.record is not None else []

    @property
    def is_costly(self) -> bool:
        """Whether a judgement may take milliseconds.

        Then the loop should run other tasks after each.
        """
        return self.matcher is not None and self.matcher.is_costly

    def decide(self, target: str) -> RobotsDecision:
        """The decision about a path and query."""
        assert self.record is not None and self.matcher is not None
        return decision(self.record, self.matcher.judge_target(target))


class Learned(msgspec.Struct, frozen=True):
    """What an answer means for an origin.

    It has the record, ready and in its stored form; the Crawl-delay that applies to http and https
    of its host; and why the last request failed.
    """

    ready: Ready
    stored: bytes
    crawl_delay_s: float
    reason: Reason

    @property
    def sitemaps(self) -> list[str]:
        """The Sitemap lines of the file."""
        return self.ready.record.rules.sitemaps


class Robots:
    """One per worker."""

    def __init__(
        self,
        reader: RobotsReader,
        sender: RequestSender,
        clock: CrawlClock,
        max_rules: int = MOST_RULES,
        needs_usage: bool = False,
    ) -> None:
        """At most ``max_rules`` rules are kept in memory, or one file.

        ``needs_usage``: the crawl has a purpose, for which lines about use must have been read.
        """
        self._reader = reader
        self._sender = sender
        self._clock, self._needs_usage = clock, needs_usage
        self._known: OrderedDict[bytes, Ready] = OrderedDict()
        self._rules = (
            0  # of all known files: a hostile file has as many as ten thousand ordinary ones
        )
        self._most_rules = max_rules
        self.ages = Histogram(AGES)
        """Age of the file at each judgement, in seconds."""
        self.answers = {"answered": 0, "unreachable": 0}
        """Requests by whether they showed what the file is."""
        self.misses = 0
        """Judgements that had to wait for the file."""

    @property
    def rules(self) -> int:
        """Number of rules in memory."""
        return self._rules

    def drop_caches(self) -> None:
        """Drop the files that are ready; they are read again from the table."""
        self._known.clear()
        self._rules = 0

    def origin_state(
        self, partition: Partition, host: VisitState, secure: bool, time: float
    ) -> OriginState | None:
        """What is known of the origin at a crawl time.

        ``None`` when its file is long and not ready; then ``load_origin`` has to be awaited first.
        """
        key = robots_key(host.host8, secure)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        elif (stored := partition.table.get(key)) is not None:
            known = self._reader.load_short(stored)
            if known is None:
                return None
            self._keep(key, known)
        record = known.record if known else None
        state = robots_state(record, time, self._needs_usage)
        wait_until = record.next_try if record is not None and state is RobotsState.WAIT else 0.0
        if state is RobotsState.NEEDED:
            self.misses += 1
        elif record is not None and record.fetched:
            self.ages.observe(time - record.fetched)
        return OriginState(
            state is RobotsState.NEEDED, wait_until, record, known.matcher if known else None
        )

    async def ready_state(
        self, partition: Partition, host: VisitState, secure: bool, time: float
    ) -> OriginState:
        """``origin_state``, after making the file ready if necessary."""
        while (state := self.origin_state(partition, host, secure, time)) is None:
            await self.load_origin(partition, host, secure)
        return state

    async def load_origin(
        self, partition: Partition, host: VisitState, secure: bool
    ) -> Ready | None:
        """Read what is stored of the origin.

        ``origin_state`` has it ready when this returns, until something else is awaited.
        """
        key = robots_key(host.host8, secure)
        known = self._known.get(key)
        if known is None and (stored := partition.table.get(key)) is not None:
            known = await self._reader.load_record(stored)
            self._keep(key, known)
        return known

    async def fetch_file(self, url: str, slot: Slot, rest: HostRest) -> Fetched:
        """Request a robots.txt, or the target of its redirect.

        ``slot`` must be taken; ``rest`` decides the host's rest.
        """
        most = self._reader.section.max_bytes + 1
        request = self._sender.file_request(url, slot.address, FetchKind.ROBOTS, most)
        return await self._sender.send_request(request, rest, slot)

    async def read_response(
        self, partition: Partition, host: VisitState, secure: bool, fetched: Fetched
    ) -> Learned:
        """What the last response means for an origin, after all redirects."""
        old = await self.load_origin(partition, host, secure)
        ready, stored = await self._reader.read_answer(
            fetched, old.record if old else None, self._clock.time()
        )
        return await self._learned(partition, host, secure, ready, stored, fetched.reason)

    async def read_foreign(self, fetched: Fetched) -> tuple[RobotsRecord, bytes]:
        """What the response to an errand means for the askers, and its stored form."""
        ready, stored = await self._reader.read_answer(fetched, None, self._clock.time())
        return ready.record, stored

    async def judge_failure(
        self,
        partition: Partition,
        host: VisitState,
        secure: bool,
        answer: RobotsAnswer,
        until: float = 0.0,
    ) -> Learned:
        """What it means for an origin that no file was found at the end of the redirects.

        After a failure it is requested again no earlier than at ``until`` (crawl time).
        """
        old, time = await self.load_origin(partition, host, secure), self._clock.time()
        ready = self._reader.judge_failure(answer, old, time)
        if ready.record.failures and until > ready.record.next_try:
            record = msgspec.structs.replace(
                ready.record, next_try=min(until, time + LONGEST_USE_S)
            )
            ready = Ready(record, ready.matcher)
        return await self._learned(
            partition, host, secure, ready, encode_record(ready.record), answer.reason
        )

    async def adopted_file(
        self, partition: Partition, host: VisitState, secure: bool
    ) -> Learned | None:
        """The file that ``adopt_file`` stored, if it is still there."""
        stored, ready = (
            partition.table.get(robots_key(host.host8, secure)),
            await self.load_origin(partition, host, secure),
        )
        return (
            await self._learned(partition, host, secure, ready, stored, Reason.NONE)
            if stored and ready
            else None
        )

    def adopt_file(
        self, partition: Partition, host: VisitState, secure: bool, stored: bytes
    ) -> None:
        """Store the file of another host as the file of an origin."""
        self._drop(robots_key(host.host8, secure))
        partition.table.put(robots_key(host.host8, secure), stored)

    def keep_learned(
        self, partition: Partition, host: VisitState, secure: bool, learned: Learned
    ) -> None:
        """Store what was learned about an origin, and update its host."""
        record = learned.ready.record
        self.answers["unreachable" if record.failures else "answered"] += 1
        host.record.last_error = record.error if record.failures else learned.reason
        partition.table.put(robots_key(host.host8, secure), learned.stored)
        self._keep(robots_key(host.host8, secure), learned.ready)
        host.record.pace = msgspec.structs.replace(
            host.record.pace, crawl_delay_s=learned.crawl_delay_s
        )
        partition.visits.mark_changed(host)

    def fresh_answer(self, partition: Partition, host: VisitState, url: str) -> bytes | None:
        """The stored form of the robots.txt at a URL of this host.

        ``None`` unless it was fetched, has not expired and is ready.
        """
        secure = url.startswith("https:")
        if url != robots_url(host.name, secure):
            return None
        state = self.origin_state(partition, host, secure, self._clock.time())
        if state is None or state.record is None or state.is_needed or state.record.failures:
            return None
        return partition.table.get(robots_key(host.host8, secure))

    async def _learned(
        self,
        partition: Partition,
        host: VisitState,
        secure: bool,
        ready: Ready,
        stored: bytes,
        reason: Reason,
    ) -> Learned:
        # A file belongs to an origin, but the delay belongs to the host. If http and https ask for
        # different delays, the longer one applies.
        other = await self.load_origin(partition, host, not secure)
        crawl_delay_s = max(
            ready.record.rules.crawl_delay_s, other.record.rules.crawl_delay_s if other else -1.0
        )
        return Learned(ready, stored, crawl_delay_s, reason)

    def forget_origin(self, partition: Partition, host: VisitState, secure: bool) -> None:
        """Delete what was learned of the origin, because no request was sent."""
        partition.table.delete(robots_key(host.host8, secure))
        self._drop(robots_key(host.host8, secure))

    def _drop(self, key: bytes) -> None:
        known = self._known.pop(key, None)
        self._rules -= len(known.record.rules.rules) if known else 0

    def _keep(self, key: bytes, known: Ready) -> None:
        old = self._known.pop(key, None)
        self._known[key] = known
        self._rules += len(known.record.rules.rules) - (len(old.record.rules.rules) if old else 0)
        while len(self._known) > _MATCHERS or (
            self._rules > self._most_rules and len(self._known) > 1
        ):
            _, dropped = self._known.popitem(last=False)
            self._rules -= len(dropped.record.rules.rules)


def robots_capture(fetched: Fetched) -> Capture:
    """The capture of a response for robots.txt."""
    return origin_capture(fetched, FetchKind.ROBOTS)


def origin_capture(fetched: Fetched, kind: FetchKind) -> Capture:
    """The capture of a response for a file about an origin."""
    digest = hashlib.sha1(whole_body(fetched), usedforsecurity=False).digest()
    return Capture(
        fetched=fetched,
        kind=kind,
        host=host_of(fetched.url),
        site="",
        depth=0,
        via="",
        link_kind=LinkKind.OTHER,
        payload_digest="sha1:" + b32encode(digest).decode(),
        media_type=identify(fetched),
    )


def robots_words(decision: RobotsDecision) -> str:
    """The line of the robots.txt that decided about a URL, or that none did."""
    if not (decision.line or decision.bound):
        return f"no rule (robots.txt {decision.version or decision.status})"
    line = decision.bound or f"line {decision.line}: {decision.rule}"
    return f"{line} (robots.txt {decision.version or decision.status})"
