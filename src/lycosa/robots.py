"""robots.txt of the worker's hosts: what is stored, what it says, and how it is fetched.

The decisions are ``politeness``'s; here they meet the partition's table and the wire. The file is stored per origin (scheme and
host with port, RFC 9309 §2.3) and compiled matchers are kept for the origins in use. Long files are read and compiled away from the loop
(``robots_reading``), so a caller asks ``state`` first, and awaits ``load`` when that says that the file is not ready.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from lycosa.crawl_clock import CrawlClock
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import VisitRecord, VisitState
from lycosa.kv.records import robots_key
from lycosa.model.capture import Capture, RobotsDecision
from lycosa.model.discovered import LinkKind
from lycosa.model.fetched import Fetched, FetchKind, FetchRequest
from lycosa.pacing import Rest
from lycosa.parse.identify import identify
from lycosa.politeness.robots_cache import RobotsRecord, RobotsState, decision, robots_state
from lycosa.politeness.robots_rules import Matcher
from lycosa.ports import ResolveError
from lycosa.reasons import Reason
from lycosa.robots_reading import Ready, RobotsReader, whole_body
from lycosa.schedule.outcome import REDIRECTS
from lycosa.sender import Sender
from lycosa.url import InvalidUrl, hash8, host_of

_HOPS = 5
_LONGEST_WAIT_S = 120.0  # for a host that robots.txt redirects to; one that rests for longer counts as unreachable for now
_MATCHERS = 20_000
_RULES = 1_000_000  # about half a kilobyte each, rule and matcher


class OriginState(msgspec.Struct, frozen=True):
    """What robots.txt says of one origin now: fetch it (``is_needed``), wait for it (``wait_until``, crawl time), or decide by it."""

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
        """Whether a judgement may take milliseconds, so that the loop should have a turn after each."""
        return self.matcher is not None and self.matcher.is_costly

    def decide(self, target: str) -> RobotsDecision:
        """The verdict on a path and query."""
        assert self.record is not None and self.matcher is not None
        return decision(self.record, self.matcher.judge(target))


class Robots:
    """One per worker."""

    def __init__(
        self,
        reader: RobotsReader,
        frontier: Frontier,
        sender: Sender,
        clock: CrawlClock,
        resolve_url: Callable[[str, str], str],
        partition_of: Callable[[str], int],
    ) -> None:
        self._reader = reader
        self._frontier = frontier
        self._sender = sender
        self._clock = clock
        self._resolve_url = resolve_url
        self._partition_of = partition_of
        self._known: OrderedDict[bytes, Ready] = OrderedDict()
        self._rules = 0  # of all known files: a hostile one has as many as ten thousand ordinary ones
        self.most_rules = _RULES

    def shed(self) -> None:
        """Lets go of the files that it has ready; they are read again from the table."""
        self._known.clear()
        self._rules = 0

    def state(self, partition: Partition, visit: VisitState, secure: bool, time: float) -> OriginState | None:
        """What is known of the origin at a crawl time; ``None`` when its file is long and not ready: ``load`` it first."""
        key = robots_key(visit.host8, secure)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        elif (stored := partition.table.get(key)) is not None:
            known = self._reader.load_short(stored)
            if known is None:
                return None
            self._keep(key, known)
        record = known.record if known else None
        state = robots_state(record, time)
        wait_until = record.next_try if record is not None and state is RobotsState.WAIT else 0.0
        return OriginState(state is RobotsState.NEEDED, wait_until, record, known.matcher if known else None)

    async def ready_state(self, partition: Partition, visit: VisitState, secure: bool, time: float) -> OriginState:
        """``state``, after the file was made ready where it has to be."""
        while (state := self.state(partition, visit, secure, time)) is None:
            await self.load(partition, visit, secure)
        return state

    async def load(self, partition: Partition, visit: VisitState, secure: bool) -> Ready | None:
        """What is stored of the origin, ready to judge by; ``state`` knows it when this returns, until something else is awaited."""
        key = robots_key(visit.host8, secure)
        known = self._known.get(key)
        if known is None and (stored := partition.table.get(key)) is not None:
            known = await self._reader.load(stored)
            self._keep(key, known)
        return known

    async def fetch(self, partition: Partition, visit: VisitState, secure: bool, address: str, rest: Rest) -> list[Capture]:
        """Fetches the file, its redirects at once, and remembers what it means. Gives the responses to be stored.

        The slot of ``address`` is taken; ``rest`` decides the host's rest.
        """
        fetched = await self._sender.send(self._request(robots_url(visit.host, secure), address), rest)
        captures = [_capture(fetched, visit)] if fetched.status else []
        if fetched.status in REDIRECTS:
            fetched = await self._follow(fetched, visit, rest, captures)
        old, other = await self.load(partition, visit, secure), await self.load(partition, visit, not secure)
        ready, stored = await self._reader.read(fetched, old.record if old else None, self._clock.time())
        record = ready.record
        visit.record.last_error = record.error if record.failures else fetched.reason
        partition.table.put(robots_key(visit.host8, secure), stored)
        self._keep(robots_key(visit.host8, secure), ready)
        # The delay is the host's, the file an origin's: where http and https ask for different ones, the longer holds.
        crawl_delay_s = max(record.rules.crawl_delay_s, other.record.rules.crawl_delay_s if other else -1.0)
        visit.record.pace = msgspec.structs.replace(visit.record.pace, crawl_delay_s=crawl_delay_s)
        rest.decide()
        partition.visits.touch(visit)
        return captures

    async def _follow(self, fetched: Fetched, visit: VisitState, rest: Rest, captures: list[Capture]) -> Fetched:
        """Up to five hops (RFC 9309 §2.3.1.2), each through names, guard and address table, and no host pressed by them."""
        self._frontier.lend(visit.host8, rest.until)
        try:
            for _ in range(_HOPS):
                location = fetched.location
                try:
                    url = self._resolve_url(location, fetched.url)
                except InvalidUrl as error:
                    return msgspec.structs.replace(fetched, reason=Reason.BAD_REDIRECT, detail=str(error))
                if not location:
                    return msgspec.structs.replace(fetched, reason=Reason.BAD_REDIRECT)
                fetched = await self._hop(url, rest)
                if fetched.status:
                    captures.append(_capture(fetched, visit))
                if fetched.status not in REDIRECTS:
                    return fetched
            return msgspec.structs.replace(fetched, reason=Reason.TOO_MANY_REDIRECTS)
        finally:
            self._frontier.end_lending(visit.host8)

    async def _hop(self, url: str, rest: Rest) -> Fetched:
        """One request to a host outside its visits, which then rests by its own pace."""
        host = host_of(url)
        host8, partition = hash8(host), self._partition_of(host)
        try:
            address = (await self._sender.resolve(host))[0]
        except ResolveError as error:
            return Fetched(url, error.reason, str(error))
        clock = self._clock
        if not await self._is_free(lambda: self._frontier.borrow(partition, host, host8, clock.monotonic(), clock.time())):
            return Fetched(url, Reason.TOTAL_TIMEOUT, f"{host} may not be asked now")
        other = self._frontier.known(partition, host8)
        rest = rest.of(other if other is not None else VisitState(partition, host8, VisitRecord(host), 1))
        until = clock.monotonic()
        try:
            if not await self._is_free(lambda: self._sender.take(address)):
                return Fetched(url, Reason.TOTAL_TIMEOUT, f"{address} may not be asked now")
            until = rest.until
            fetched = await self._sender.send(self._request(url, address), rest)
            until = rest.until
            return fetched
        finally:
            self._frontier.return_borrowed(partition, host8, until, rest.time_until)

    async def _is_free(self, take: Callable[[], float]) -> bool:
        """Waits until a host or an address is taken; not for long."""
        start = self._clock.monotonic()
        while (wait := take()) > 0:
            if self._clock.monotonic() + wait > start + _LONGEST_WAIT_S:
                return False
            await self._clock.sleep(wait)
        return True

    def forget(self, partition: Partition, visit: VisitState, secure: bool) -> None:
        """What was learnt of the origin does not count: nobody was asked."""
        partition.table.delete(robots_key(visit.host8, secure))
        known = self._known.pop(robots_key(visit.host8, secure), None)
        self._rules -= len(known.record.rules.rules) if known else 0

    def _request(self, url: str, address: str) -> FetchRequest:
        return self._sender.robots_request(url, address, self._reader.section.max_bytes + 1)

    def _keep(self, key: bytes, known: Ready) -> None:
        old = self._known.pop(key, None)
        self._known[key] = known
        self._rules += len(known.record.rules.rules) - (len(old.record.rules.rules) if old else 0)
        while len(self._known) > _MATCHERS or (self._rules > self.most_rules and len(self._known) > 1):
            _, dropped = self._known.popitem(last=False)
            self._rules -= len(dropped.record.rules.rules)


def robots_url(host: str, secure: bool) -> str:
    """Where an origin's robots.txt stands."""
    return f"{'https' if secure else 'http'}://{host}/robots.txt"


def _capture(fetched: Fetched, visit: VisitState) -> Capture:
    digest = hashlib.sha1(whole_body(fetched), usedforsecurity=False).digest()
    return Capture(
        fetched=fetched,
        kind=FetchKind.ROBOTS,
        host=host_of(fetched.url),
        site="",
        depth=0,
        via="",
        link_kind=LinkKind.OTHER,
        payload_digest="sha1:" + b32encode(digest).decode(),
        media_type=identify(fetched),
    )
