"""Servers, names and networks that are away for a while, in virtual time: a fetcher and name
servers around those of a synthetic web, with a record of everything that was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.ports import Clock, Fetcher, ResolveError, Resolver
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of, name_of
from lycosa.stages.fetch.dns import Query

IsAway = Callable[[str, float], Reason | None]
"""The reason for which a host or a name fails at a time (monotonic), if it does."""


class Absence(msgspec.Struct, frozen=True):
    """Hosts that cannot be reached from ``start`` for ``lasts_s``; no hosts are all.

    ``names``: it is their names that cannot be looked up.
    """

    start: float
    lasts_s: float
    reason: Reason
    hosts: frozenset[str] = frozenset()
    names: bool = False

    def holds(self, host: str, now: float) -> bool:
        is_of_host = not self.hosts or host in self.hosts
        return is_of_host and self.start <= now < self.start + self.lasts_s


def away_by(absences: Iterable[Absence], *, names: bool) -> IsAway:
    """What fails by a list of absences: names, or connections."""
    held = [each for each in absences if each.names is names]
    return lambda host, now: next((each.reason for each in held if each.holds(host, now)), None)


class Attempt(msgspec.Struct, frozen=True):
    """A connection that was made or tried, as the server's side would see it."""

    host: str
    start: float
    end: float
    was_away: bool


class AwayFetcher:
    """Hosts that are away accept no connection, and break a transfer at which they leave."""

    def __init__(
        self, inner: Fetcher, clock: Clock, is_away: IsAway, attempts: list[Attempt] | None = None
    ) -> None:
        self._inner, self._clock, self._is_away = inner, clock, is_away
        self.attempts: list[Attempt] = attempts if attempts is not None else []

    @property
    def tried(self) -> list[tuple[str, float]]:
        """Host and start of the attempts at hosts that were away."""
        return [(each.host, each.start) for each in self.attempts if each.was_away]

    async def fetch(self, request: FetchRequest) -> Fetched:
        host, start = host_of(request.url), self._clock.monotonic()
        reason = self._is_away(host, start)
        if reason is None:
            fetched = await self._inner.fetch(request)
            if self._is_away(host, self._clock.monotonic()) is not None:
                fetched = self._failure(request, Reason.CONNECTION_LOST, start)
        else:
            # A refusal comes at once; nothing at all comes until the limit.
            is_slow = reason is Reason.CONNECT_TIMEOUT
            await self._clock.sleep(request.limits.connect_s if is_slow else 0.01)
            fetched = self._failure(request, reason, start)
        now = self._clock.monotonic()
        self.attempts.append(Attempt(host, start, now, reason is not None))
        return fetched

    def _failure(self, request: FetchRequest, reason: Reason, start: float) -> Fetched:
        now = self._clock.monotonic()
        return Fetched(
            request.url,
            reason,
            "away",
            address=request.address,
            started=self._clock.wall() - (now - start),
            duration_s=now - start,
        )

    async def close(self) -> None:
        await self._inner.close()


class AwayQuery(Query):
    """Name servers in front of a resolver: names that are away get no answer within the limit."""

    def __init__(self, inner: Resolver, clock: Clock, is_away: IsAway, ttl_s: float) -> None:
        self._inner, self._clock, self._is_away = inner, clock, is_away
        self._ttl_s = ttl_s

    async def query_name(self, name: str) -> Sequence[tuple[str, float]]:
        reason = self._is_away(name_of(name), self._clock.monotonic())
        if reason is not None:
            await self._clock.sleep(10.0 if reason is Reason.DNS_TIMEOUT else 0.05)
            raise ResolveError(name, reason, "no answer")
        return [(each, self._ttl_s) for each in await self._inner.resolve(name)]

    async def close(self) -> None:
        await self._inner.close()
