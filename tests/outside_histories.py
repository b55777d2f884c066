"""Histories with an outside fetcher: a program that outlives the workers, leases URLs and returns
what it fetched, often late, twice or never.

It is as careful as the documentation asks: it requests a URL once, before its lease ends. Whatever
happens to the workers, no host may get two requests closer than its delay, whoever sends them, and
the crawl comes to what the web's own survey says. ``plant`` puts a bug into the leases.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from histories import History, judge_end, judged
from judging import is_polite
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
from lycosa.inspect.audit.folder_audit import audit
from lycosa.synthetic import RequestLog, SyntheticFetcher
from lycosa.worker.assemble import Assembled
from planting import planted

PLANTS = {
    "free": "a host is not busy while an outside fetcher has one of its URLs",
    "told": "a lease is told before the commit that contains it",
    "eager": "a result ends the host's rest",
}
_LONGEST_REQUEST_S = 20.0  # a request is begun no later than this before its lease ends


class _Held:
    """A lease that the fetcher has, and the answer once it has one."""

    def __init__(self, leased: LeasedUrl, ends: float) -> None:
        self.leased, self.ends = leased, ends
        self.partition = int(leased.lease.split("-")[0])
        self.result: OutsideResult | None = None


class OutsideFetcher:
    """One fetcher over all runs of a crawl."""

    def __init__(self, history: History) -> None:
        self._history, self.log = history, RequestLog()
        self._chance = random.Random(f"outside {history.seed}")
        self._held: list[_Held] = []
        self._calls = 0
        self.verdicts: dict[ResultVerdict, int] = dict.fromkeys(ResultVerdict, 0)
        self._working: set[asyncio.Task[None]] = set()

    def attach(self, assembled: Assembled) -> None:
        """Work with the partitions of a worker of this run."""
        for partition in assembled.worker.frontier.partitions:
            task = asyncio.get_running_loop().create_task(self._work(assembled, partition))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def _work(self, assembled: Assembled, partition: int) -> None:
        fetcher = SyntheticFetcher(
            self._history.crawl.answers,
            self._history.crawl.clock,
            self.log,
            spool_dir=self._history.crawl.folder / "spool",
        )
        while True:
            await asyncio.sleep(self._chance.uniform(0.1, 4.0))
            for held in [each for each in self._held if each.partition == partition]:
                await self._settle(assembled, fetcher, held)
            await self._lease(assembled, partition)

    async def _lease(self, assembled: Assembled, partition: int) -> None:
        self._calls += 1
        lease_s = self._chance.choice((30.0, 60.0, 200.0))
        call = LeaseUrls(f"call {self._calls}", "outside", self._chance.choice((1, 3)), lease_s)
        now = asyncio.get_running_loop().time()
        reply = await self._ask(assembled, partition, call)
        if isinstance(reply, UrlsLeased):
            self._held += [_Held(each, now + lease_s) for each in reply.urls]

    async def _settle(self, assembled: Assembled, fetcher: SyntheticFetcher, held: _Held) -> None:
        if self._chance.random() < 0.1:
            self._held.remove(held)  # the fetcher forgets it
            return
        if held.result is None:
            now = asyncio.get_running_loop().time()
            ends = min(held.ends, now + held.leased.expires - self._history.crawl.clock.wall())
            if now + _LONGEST_REQUEST_S > ends:
                self._held.remove(held)
                return
            held.ends = 0.0  # requested once, whatever becomes of it
            held.result = await self._fetch(fetcher, held.leased)
            if self._chance.random() < 0.1:
                await asyncio.sleep(self._chance.uniform(10.0, 300.0))
        for _ in range(self._chance.choice((1, 1, 2))):
            reply = await self._ask(
                assembled, held.partition, GiveResults("outside", [held.result])
            )
            assert isinstance(reply, ResultsTaken), reply
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
    async def _ask(assembled: Assembled, partition: int, call: Any) -> CallReply:
        return decode_reply(await assembled.calls.answer_call(partition, encode_call(call)))


class OutsideHistory(History):
    """A history in which an outside fetcher takes part."""

    def __init__(self, seed: int, path: Path, plant: str = "") -> None:
        super().__init__(seed, path)
        self.lease_plant = plant
        self.fetcher = OutsideFetcher(self)

    def live(self, deaths: int = 4) -> None:
        bug = planted(*_bug(self.lease_plant)) if self.lease_plant else contextlib.nullcontext()
        with bug:
            super().live(deaths)

    def _check_start(self, assembled: Assembled) -> None:
        super()._check_start(assembled)
        self.fetcher.attach(assembled)

    def judge(self, with_audit: bool = True) -> None:
        """As in every history; the pauses of hosts are judged over both logs."""
        crawl, politeness = self.crawl, self.crawl.config.politeness
        is_polite(crawl.log, politeness)
        crawl.log.exchanges = sorted(
            [*crawl.log.exchanges, *self.fetcher.log.exchanges], key=lambda each: each.start
        )
        # An outside fetcher cannot know when other hosts of an address were requested.
        lax = msgspec.structs.replace(politeness, address_delay_s=0.0, address_slots=1000)
        before, crawl.config = crawl.config, msgspec.structs.replace(crawl.config, politeness=lax)
        judge_end(crawl, self.web, self._seeds)
        crawl.config = before
        if with_audit:
            report = audit(crawl.folder)
            assert report.is_clean, report.first_breaches()
        assert self.fetcher.verdicts[ResultVerdict.TAKEN] > 20, self.fetcher.verdicts


def live_with_fetcher(
    seed: int, path: Path, plant: str = "", with_audit: bool = True
) -> OutsideHistory:
    """One history to its end. Raises ``Breach``, whatever went wrong."""
    return judged(OutsideHistory(seed, path, plant), seed, with_audit)


def _bug(plant: str) -> tuple[object, str, Callable[..., Any]]:
    from lycosa.worker.calls.lease_service import LeaseService
    from lycosa.worker.visit.pacing import HostRest, Pacing
    from lycosa.worker.worker import Worker

    if plant == "free":
        return Pacing, "lend", lambda right: lambda self, host, seconds: self._clock.time()
    if plant == "told":

        async def at_once(self: Worker, is_called: bool = False) -> None:
            return None

        return Worker, "next_commit", lambda right: at_once
    assert plant == "eager"
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

    return LeaseService, "_store", lambda right: eager
