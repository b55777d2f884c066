"""Sends a request, with the address slot before it and its lines in the attempt log.

Pages and files about an origin (robots.txt with the targets of its redirects,
tdmrep.json) are requested here. It is the only place where a request leaves the worker. So no
request is sent without its line in the attempt log and a slot of its address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import inf

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.media_rules import REQUISITES
from lycosa.base.model.fetched import Fetched, FetchKind, FetchRequest, Limits
from lycosa.base.ports import Clock, Fetcher, ResolveError, Resolver
from lycosa.base.reasons import Cause, Reason
from lycosa.base.system.meter import Histogram
from lycosa.base.system.metric_catalogue import SECONDS
from lycosa.base.urls.identity import host_of, name_of
from lycosa.stages.fetch.silence import MIN_ADDRESSES, ProxySilence, Silence
from lycosa.stages.schedule.fetch_outcome import is_away
from lycosa.state.attempts import AttemptLog
from lycosa.worker.extensions import AttemptListener
from lycosa.worker.request_slots import RequestSlots, Slot

DelayAfter = Callable[[Fetched, float, float, bool], float]
"""Maps the end of a request to the effective delay of its host from then on, in seconds.

Its arguments are the answer, the end (monotonic, then wall time) and whether it was for a file
about the origin, as robots.txt.
"""

_CLASSES = {0: "none", 1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}
_FAILURES = frozenset(reason for reason in Reason if reason.is_failure)
_NEXT_ADDRESS = frozenset(
    {Reason.CONNECT_REFUSED, Reason.CONNECT_TIMEOUT, Reason.NETWORK_UNREACHABLE}
)
_LONGEST_REST_S = (
    60.0  # before a second attempt in the same visit; after a longer rest the URL is retried later
)
_LATELY_S = 600.0  # for so long an answer shows that the network can reach the address
_STALE_S = 150.0  # without a lookup for longer nothing is known of the name servers
_OUTAGE = "the network of this machine: no {}; hosts wait, and nothing is counted against them"


class RequestSender:
    """One per worker. ``listeners`` are called at the end of each attempt."""

    def __init__(
        self,
        fetcher: Fetcher,
        resolver: Resolver,
        slots: RequestSlots,
        attempts: AttemptLog,
        clock: Clock,
        config: Config,
        listeners: Sequence[AttemptListener] = (),
    ) -> None:
        self._fetcher = fetcher
        self._resolver = resolver
        self.slots = slots
        self._attempts = attempts
        self._clock = clock
        self.limits = _limits_of(config)
        """The bounds of every request that has none itself."""
        self._listeners = listeners
        self.is_own: Callable[[str, float], bool] | None = None
        """Whether a host is proved to be the operator's at a wall time, if any can be."""
        self.in_flight, self.has_answer = 0, False  # a server has answered, with any status
        self.network = Silence(config.retry.away_s, MIN_ADDRESSES)
        """Whether any address that answered lately still does."""
        self._names_away: tuple[float, float] = (-inf, 0.0)
        self._proxies = ProxySilence()
        self._looking_up: set[asyncio.Task[None]] = set()
        self.times = {phase: Histogram(SECONDS) for phase in ("connect", "first_byte", "total")}
        """Seconds from the start of an attempt, by the phase that ended."""
        self.responses = dict.fromkeys(("1xx", "2xx", "3xx", "4xx", "5xx", "other", "none"), 0)
        """Attempts by the class of their status."""
        self.errors = {cause.value: 0 for cause in Cause}
        """Failed attempts by cause."""

    async def resolve_host(self, host: str) -> Sequence[str]:
        """The addresses of a host. Raises ``ResolveError``."""
        try:
            return await self._resolver.resolve(name_of(host))
        except ResolveError as error:
            # Kept for `outage_text`. The visit handles the error itself.
            self._names_away = (self._clock.monotonic(), error.outage_s)
            raise

    def outage_s(self, reason: Reason) -> float:
        """For how long it has been our network or our proxy that fails, if an attempt ended so."""
        whose = self._proxies if reason is Reason.PROXY_FAILED else self.network
        return whose.outage_s(self._clock.monotonic())

    def outage_text(self, now: float) -> str:
        """What the crawl waits for in an outage of this machine's network; else empty."""
        if why := self._proxies.reason(now):
            return f"the proxy cannot be used ({why}): hosts wait, and nothing counts against them"
        if outage_s := self.network.outage_s(now):
            return _OUTAGE.format(f"host has accepted a connection for {_rough(outage_s)}")
        noted, outage_s = self._names_away
        if outage_s and now - noted < _STALE_S:
            return _OUTAGE.format(f"name has been answered for {_rough(outage_s + now - noted)}")
        return ""

    def prefetch_addresses(self, hosts: Iterable[str]) -> None:
        """Look up names before they are needed; the results stay in the resolver's cache."""
        for host in hosts:
            task = asyncio.get_running_loop().create_task(self._look_up(host))
            self._looking_up.add(task)
            task.add_done_callback(self._looking_up.discard)

    async def _look_up(self, host: str) -> None:
        # Only the cache matters here. The visit asks again, and handles the failure.
        with suppress(ResolveError):
            await self.resolve_host(host)

    def slot(self, address: str, host: str) -> Slot:
        """A slot for a request to a host at an address, not taken yet."""
        return Slot(address, host, self.slots)

    async def send_request(
        self, request: FetchRequest, rest: DelayAfter, slot: Slot, others: Sequence[str] = ()
    ) -> Fetched:
        """Send a request, with ``slot`` of ``request.address`` taken, and give the slot back.

        ``rest`` is called once per attempt, when it has ended, and returns the host's delay. A
        second attempt is made in two cases. If the server closed a kept connection instead of
        answering, it uses a new connection. If no connection could be made, it goes to the first of
        the ``others`` (further addresses of the host). It is made only after the host's rest, like
        any other request, and only if a slot is free. ``LEASE_EXPIRED`` means that nothing was
        sent, because the lease on the shard had expired, or the host may have no further request;
        it does not count as a failure.
        """
        fetched, delay_s = await self._attempt(request, rest, slot)
        address = _address_of_second(fetched.reason, request.address, others)
        if not address or delay_s > _LONGEST_REST_S:
            return fetched
        await self._sleep(delay_s)
        second = self.slot(address, slot.host)
        second.may_begin, second.at_once = slot.may_begin, slot.at_once
        # The first answer is a result too. Waiting would hold the visit, and the URL is retried
        # later.
        if await second.take() > 0:
            return fetched
        again = msgspec.structs.replace(request, address=address)
        answered, _ = await self._attempt(again, rest, second)
        # Nothing was sent the second time, so the first attempt is what happened.
        return fetched if answered.reason is Reason.LEASE_EXPIRED else answered

    async def _attempt(
        self, request: FetchRequest, rest: DelayAfter, slot: Slot
    ) -> tuple[Fetched, float]:
        clock = self._clock
        async with slot:
            begun = await slot.begin()
            if begun is None:
                unsent = Fetched(
                    request.url,
                    Reason.LEASE_EXPIRED,
                    address=request.address,
                    started=clock.wall(),
                )
                return unsent, self._ended(unsent, request, rest)
            number = self._attempts.begin_attempt(
                host_of(request.url),
                slot.address,
                request.url,
                request.kind,
                begun,
                clock.wall(),
                slot.note(begun).text,
                slot.at_once,
            )
            self.in_flight += 1
            try:
                fetched = await self._exchange(request, slot, begun)
            except BaseException:
                # Cancelled, because the worker stops at once. The line in the log shows that we
                # ended the request, so it is not taken for a crash. The host did get a request,
                # so the next run keeps its rest.
                broken = Fetched(
                    request.url,
                    Reason.INTERNAL,
                    "broken off",
                    address=request.address,
                    duration_s=clock.monotonic() - begun,
                )
                self._ended(broken, request, rest, number)
                raise
            finally:
                self.in_flight -= 1
        self._note_reach(fetched, slot.address)
        return fetched, self._ended(fetched, request, rest, number)

    def _note_reach(self, fetched: Fetched, address: str) -> None:
        """Note what an attempt says about our own network."""
        network, now = self.network, self._clock.monotonic()
        if fetched.reason is Reason.PROXY_FAILED:
            self._proxies.note_failure(fetched.detail, now)
        elif fetched.status > 0:
            self.has_answer = True
            if self._proxies.why:
                self._proxies.note_answer()
            network.note_answer(address, now + _LATELY_S)
        # An address that has not answered lately may be down itself, and says nothing about our
        # network.
        elif is_away(fetched.reason) and not fetched.sent_s and network.is_known(address, now):
            network.note_no_answer(address, now)

    async def _exchange(self, request: FetchRequest, slot: Slot, begun: float) -> Fetched:
        """Send the request and read its answer.

        The table of addresses is given the time at which the request really began.
        """
        # Before the request: other processes must see it although this one dies during the request.
        await slot.record_start(begun)
        fetched = await self._fetcher.fetch(request)
        if self.slots.pace.is_on:
            self.slots.pace.note_bytes(fetched.body_bytes)
        began = self._clock.monotonic() - fetched.duration_s
        answered = began + fetched.first_byte_s
        # Again with the exact times: connecting may have taken seconds since the first note.
        await slot.record_start(began + fetched.sent_s, answered)
        return fetched

    def _ended(
        self, fetched: Fetched, request: FetchRequest, rest: DelayAfter, number: int | None = None
    ) -> float:
        """Record the end of an attempt; return the host's delay.

        ``number`` is its number in the attempt log, if it began.
        """
        now, wall = self._clock.monotonic(), self._clock.wall()
        # Before the log has the end, because its line has the delay from which the audit proves the
        # pause.
        delay_s = rest(fetched, now, wall, request.kind.is_of_origin)
        if number is not None:
            is_own = (
                self.is_own is not None
                and not request.kind.is_of_origin
                and self.is_own(host_of(request.url), wall)
            )
            self._attempts.end_attempt(
                number,
                fetched.reason,
                fetched.status,
                fetched.duration_s,
                now,
                wall,
                delay_s,
                is_own,
            )
            self._count(fetched)
            for listener in self._listeners:
                listener(request, fetched, delay_s)
        return delay_s

    def _count(self, fetched: Fetched) -> None:
        """Count an attempt in the meter's numbers."""
        times = self.times
        if fetched.sent_s:
            times["connect"].observe(fetched.sent_s)
        if fetched.first_byte_s:
            times["first_byte"].observe(fetched.first_byte_s)
        times["total"].observe(fetched.duration_s)
        self.responses[_CLASSES.get(fetched.status // 100, "other")] += 1
        if fetched.reason in _FAILURES:
            self.errors[fetched.reason.cause.value] += 1

    async def _sleep(self, delay_s: float) -> None:
        """Sleep for at least ``delay_s``.

        The loop's timers may fire up to a millisecond early, which would make the pause too short.
        """
        until = self._clock.monotonic() + delay_s
        while (wait := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait)

    def file_request(self, url: str, address: str, kind: FetchKind, max_bytes: int) -> FetchRequest:
        """A request for a file about an origin, as robots.txt: small, never spooled."""
        limits = msgspec.structs.replace(
            self.limits,
            body_bytes=max_bytes,
            spool_bytes=max_bytes + 1,
            media_bytes=0,
            accepts=(),
        )
        return FetchRequest(url, address, kind, limits=limits)

    async def close(self) -> None:
        """Close the fetcher and the resolver."""
        for task in self._looking_up:
            task.cancel()
        await self._fetcher.close()
        await self._resolver.close()


def _limits_of(config: Config) -> Limits:
    """The bounds of a request for a page by the settings."""
    section, accept = config.fetch, config.scope.accept
    return Limits(
        connect_s=section.connect_s,
        first_byte_s=section.first_byte_s,
        total_s=section.total_s,
        min_bytes_per_s=section.min_bytes_per_s,
        min_speed_window_s=section.min_speed_window_s,
        header_bytes=section.header_bytes,
        header_count=section.header_count,
        body_bytes=section.body_bytes,
        spool_bytes=section.spool_bytes,
        media_bytes=section.media_bytes,
        accepts=(*accept, *REQUISITES) if accept and config.scope.requisites else accept,
    )


def _rough(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _address_of_second(reason: Reason, first: str, others: Sequence[str]) -> str:
    """The address for a second attempt after an answer of ``first``; empty if none would help."""
    if reason is Reason.REQUEST_UNANSWERED:
        return first
    if reason in _NEXT_ADDRESS:
        return next((address for address in others if address != first), "")
    return ""
