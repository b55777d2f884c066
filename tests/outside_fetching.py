"""An outside fetcher in virtual time: a program that outlives the workers, leases URLs from whoever
owns a partition and returns what it fetched, often late, twice or never.

It is as careful as the documentation asks: it requests a URL once, before its lease ends. Whatever
happens to the workers, no host may get two requests closer than its delay, whoever sends them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from lycosa.base.calls import (
    CallReply,
    GiveResults,
    LeasedUrl,
    LeaseUrls,
    OutsideResult,
    ResultsTaken,
    ResultVerdict,
    UrlsLeased,
    decode_reply,
    encode_call,
)
from lycosa.base.model.fetched import FetchRequest
from lycosa.base.reasons import Reason
from lycosa.state.exchange.exchange_errors import ExchangeError
from lycosa.synthetic import SyntheticFetcher
from planting import Change, Plant

Ask = Callable[[int, bytes], Awaitable[bytes]]
"""Calls the owner of a partition. Raises ``ExchangeError`` when there is no answer."""


class _Held:
    """A lease that the fetcher has, and the answer once it has one."""

    def __init__(self, leased: LeasedUrl, partition: int, ends: float) -> None:
        self.leased, self.partition, self.ends = leased, partition, ends
        self.result: OutsideResult | None = None


class OutsideFetcher:
    """One fetcher over all runs of a crawl and all owners of its partitions. ``wall`` is its clock;
    a request is begun no later than ``longest_request_s`` before its lease ends.
    """

    def __init__(
        self, chance: random.Random, wall: Callable[[], float], longest_request_s: float
    ) -> None:
        self._chance, self._wall = chance, wall
        self._longest_request_s = longest_request_s
        self._held: list[_Held] = []
        self._calls = 0
        self.verdicts: dict[ResultVerdict, int] = dict.fromkeys(ResultVerdict, 0)

    async def work(self, partition: int, ask: Ask, fetcher: SyntheticFetcher) -> None:
        """Lease, fetch and give results of one partition, without end."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.1, 4.0))
            for held in [each for each in self._held if each.partition == partition]:
                await self._settle(ask, fetcher, held)
            await self._lease(ask, partition)

    async def _lease(self, ask: Ask, partition: int) -> None:
        self._calls += 1
        lease_s = self._chance.choice((30.0, 60.0, 200.0))
        call = LeaseUrls(f"call {self._calls}", "outside", self._chance.choice((1, 3)), lease_s)
        asked_at = asyncio.get_running_loop().time()
        reply = await self._reply(ask, partition, call)
        if isinstance(reply, UrlsLeased):
            self._held += [_Held(each, partition, asked_at + lease_s) for each in reply.urls]

    async def _settle(self, ask: Ask, fetcher: SyntheticFetcher, held: _Held) -> None:
        if self._chance.random() < 0.1:
            self._held.remove(held)  # the fetcher forgets it
            return
        if held.result is None:
            now = asyncio.get_running_loop().time()
            ends = min(held.ends, now + held.leased.expires - self._wall())
            if now + self._longest_request_s > ends:
                self._held.remove(held)
                return
            held.ends = 0.0  # requested once, whatever becomes of it
            held.result = await self._fetch(fetcher, held.leased)
            if self._chance.random() < 0.1:
                await asyncio.sleep(self._chance.uniform(10.0, 300.0))
        for _ in range(self._chance.choice((1, 1, 2))):
            reply = await self._reply(ask, held.partition, GiveResults("outside", [held.result]))
            if not isinstance(reply, ResultsTaken):
                return  # the owner is away: given again later
            verdict = reply.verdicts[0].verdict
            assert verdict is not ResultVerdict.REFUSED or "again" in reply.verdicts[0].reason
            self.verdicts[verdict] += 1
        if verdict is not ResultVerdict.REFUSED and held in self._held:
            self._held.remove(held)

    async def _fetch(self, fetcher: SyntheticFetcher, leased: LeasedUrl) -> OutsideResult:
        fetched = await fetcher.fetch(FetchRequest(leased.url, leased.address))
        assert not fetched.spool, "pages here are small"
        if fetched.reason is not Reason.NONE:
            return OutsideResult(leased.lease, error=fetched.reason.label)
        return OutsideResult(leased.lease, fetched.status, fetched.headers(), fetched.body)

    @staticmethod
    async def _reply(ask: Ask, partition: int, call: Any) -> CallReply | None:
        try:
            return decode_reply(await ask(partition, encode_call(call)))
        except ExchangeError:
            return None


# -- planted bugs


def _free() -> Iterable[Change]:
    from lycosa.worker.visit.pacing import Pacing

    return [Change(Pacing, "lend", lambda self, host, seconds: self._clock.time())]


def _told() -> Iterable[Change]:
    from lycosa.worker.worker import Worker

    async def at_once(self: Worker, is_called: bool = False) -> None:
        return None

    return [Change(Worker, "next_commit", at_once)]


def _eager() -> Iterable[Change]:
    from lycosa.worker.calls.lease_service import LeaseService
    from lycosa.worker.visit.pacing import HostRest

    store = LeaseService._store

    async def eager(self: LeaseService, visit: Any, row: Any, fetched: Any, after: float) -> None:
        rest = HostRest.__call__
        HostRest.__call__ = lambda self, *given: 0.0  # type: ignore[method-assign]
        until = HostRest.__exit__

        def none(self: HostRest, *given: Any) -> None:
            self._visit.rest(*self._ended, self._clock.monotonic())

        HostRest.__exit__ = none  # type: ignore[method-assign,assignment]
        try:
            await store(self, visit, row, fetched, after)
        finally:
            HostRest.__call__, HostRest.__exit__ = rest, until  # type: ignore[method-assign]

    return [Change(LeaseService, "_store", eager)]


FREE = Plant("a host is not busy while an outside fetcher has one of its URLs", _free)
EAGER = Plant("a result ends the host's rest", _eager)
TOLD = Plant("a lease is told before the commit that contains it", _told)
