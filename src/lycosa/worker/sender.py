"""Sends one request with everything that must stand before and after it: name, address slot,
attempt log.

Pages and robots.txt, redirect hops of robots.txt too, go through here, so there is one place where
a request leaves the worker and none leaves without its line in the attempt log and a slot of its
address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from lycosa.attempts import AttemptLog
from lycosa.commit import ShardLease
from lycosa.model.fetched import Fetched, FetchKind, FetchRequest, Limits
from lycosa.ports import Addresses, Clock, Fetcher, ResolveError, Resolver
from lycosa.reasons import Reason
from lycosa.urls.identity import host_of, name_of

Rest = Callable[[Fetched, float, float, bool], float]
"""Given an answer and when it ended (monotonic, wall): the effective delay of its host from then
on, in seconds.
"""

_NEXT_ADDRESS = frozenset(
    {Reason.CONNECT_REFUSED, Reason.CONNECT_TIMEOUT, Reason.NETWORK_UNREACHABLE}
)
_MOST_ADDRESSES = 2
_LONGEST_REST_S = (
    60.0  # before a second attempt of the same visit; beyond it the URL has its own retry
)
_NO_LEASE_S = 1.0  # until a host has its turn again
_LATE_S = 0.001  # from taking a slot to the request


class Sender:
    """One per worker. ``limits`` bound every request that does not bring its own."""

    def __init__(
        self,
        fetcher: Fetcher,
        resolver: Resolver,
        addresses: Addresses,
        attempts: AttemptLog,
        clock: Clock,
        limits: Limits,
        lease: ShardLease,
    ) -> None:
        self._fetcher = fetcher
        self._resolver = resolver
        self._addresses = addresses
        self._attempts = attempts
        self._clock = clock
        self.limits = limits
        self._lease = lease
        self.in_flight = 0
        self.has_answer = False  # somebody answered, with whatever status
        self._taken: dict[str, float] = {}  # when slots were taken whose request has not begun
        self._looking_up: set[asyncio.Task[None]] = set()

    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of a host. Raises ``ResolveError``."""
        return await self._resolver.resolve(name_of(host))

    def prefetch(self, host: str) -> None:
        """Looks a name up before it is needed; what comes of it is in the resolver's cache."""
        task = asyncio.get_running_loop().create_task(self._look_up(host))
        self._looking_up.add(task)
        task.add_done_callback(self._looking_up.discard)

    async def _look_up(self, host: str) -> None:
        with suppress(ResolveError):
            await self.resolve(host)

    async def take(self, address: str) -> float:
        """Takes a slot of the address: 0, or the seconds to wait without one. None is taken
        without the lease on the shard.
        """
        now = self._clock.monotonic()
        if not self._lease.holds(now):
            return _NO_LEASE_S
        wait = await self._addresses.take(address, now)
        if wait <= 0:
            self._taken[address] = now
        return wait

    async def untake(self, address: str) -> None:
        """Gives a slot back unused."""
        self._taken.pop(address, None)
        await self._addresses.release(address, self._clock.monotonic())

    async def send(self, request: FetchRequest, rest: Rest, others: Sequence[str] = ()) -> Fetched:
        """Sends, with the slot of ``request.address`` already taken; the slot is given back.

        ``rest`` is asked once per attempt, when it has ended, how long the host then rests. A
        second attempt is made, after the host's rest as any other request and if the slot is free:
        on a new connection when the server closed a kept one instead of answering, and to one of
        the ``others`` (further addresses of the host) when no connection comes about.

        ``LEASE_EXPIRED`` means that nothing was sent, because the lease on the shard had run out by
        then: no failure, of nobody.
        """
        fetched, delay_s = await self._attempt(request, rest)
        if fetched.reason is Reason.REQUEST_UNANSWERED and delay_s <= _LONGEST_REST_S:
            await self._sleep(delay_s)
            if await self.take(request.address) > 0:
                return fetched
            second, _ = await self._attempt(request, rest)
            return fetched if second.reason is Reason.LEASE_EXPIRED else second
        for address in [a for a in others if a != request.address][: _MOST_ADDRESSES - 1]:
            if fetched.reason not in _NEXT_ADDRESS or delay_s > _LONGEST_REST_S:
                break
            await self._sleep(delay_s)
            if await self.take(address) > 0:
                break
            second, delay_s = await self._attempt(
                msgspec.structs.replace(request, address=address), rest
            )
            if second.reason is Reason.LEASE_EXPIRED:
                break
            fetched = second
        return fetched

    async def _attempt(self, request: FetchRequest, rest: Rest) -> tuple[Fetched, float]:
        clock, host, is_robots = self._clock, host_of(request.url), request.kind is FetchKind.ROBOTS
        begun = await self._on_time(request.address)
        if begun is None:
            now, wall = clock.monotonic(), clock.wall()
            unsent = Fetched(
                request.url, Reason.LEASE_EXPIRED, address=request.address, started=wall
            )
            return unsent, rest(unsent, now, wall, is_robots)
        number = self._attempts.begin(
            host, request.address, request.url, request.kind, begun, clock.wall()
        )
        self.in_flight += 1
        try:
            await self._addresses.started(request.address, begun)
            fetched = await self._fetcher.fetch(request)
            began = clock.monotonic() - fetched.duration_s
            await self._addresses.started(
                request.address, began + fetched.sent_s, began + fetched.first_byte_s
            )
        except BaseException:
            # Cancelled: the worker stops at once. The line says that we broke it off, so it is not
            # taken for a crash. The host was asked for something all the same, and the next run
            # keeps its rest.
            now, wall = clock.monotonic(), clock.wall()
            broken = Fetched(
                request.url,
                Reason.INTERNAL,
                "broken off",
                address=request.address,
                duration_s=now - begun,
            )
            self._attempts.end(
                number,
                broken.reason,
                0,
                broken.duration_s,
                now,
                wall,
                rest(broken, now, wall, is_robots),
            )
            raise
        finally:
            self.in_flight -= 1
            await self._addresses.release(request.address, clock.monotonic())
        self.has_answer = self.has_answer or fetched.status > 0
        now, wall = clock.monotonic(), clock.wall()
        delay_s = rest(fetched, now, wall, is_robots)
        self._attempts.end(
            number, fetched.reason, fetched.status, fetched.duration_s, now, wall, delay_s
        )
        return fetched, delay_s

    async def _sleep(self, delay_s: float) -> None:
        """At least ``delay_s``: a loop's timers may fire up to a millisecond early, which would
        be a pause too short.
        """
        until = self._clock.monotonic() + delay_s
        while (wait := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait)

    async def _on_time(self, address: str) -> float | None:
        """Now, which is when the slot was taken; ``None`` when the lease has run out, and then no
        slot is held.

        A process that was held up since then (another thread had the interpreter, the system ran
        others) takes its slot anew: another worker may have taken the next one, and its request
        would follow ours too closely.
        """
        while (now := self._clock.monotonic()) - self._taken.pop(address, now) > _LATE_S:
            await self.untake(address)
            while (wait := await self.take(address)) > 0:
                if not self._lease.holds(self._clock.monotonic()):
                    return None
                await self._clock.sleep(wait)
        if not self._lease.holds(now):
            await self.untake(address)
            return None
        return now

    def robots_request(self, url: str, address: str, max_bytes: int) -> FetchRequest:
        """A request for robots.txt: small, never spooled."""
        limits = msgspec.structs.replace(
            self.limits, body_bytes=max_bytes, spool_bytes=max_bytes + 1
        )
        return FetchRequest(url, address, FetchKind.ROBOTS, limits=limits)

    async def close(self) -> None:
        for task in self._looking_up:
            task.cancel()
        await self._fetcher.close()
        await self._resolver.close()
