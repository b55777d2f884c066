"""Histories of many nodes in which an outside fetcher takes part, while shards move and owners die.

It leases URLs from whoever owns a shard, requests each once before its lease ends, and returns the
answers to the shard's owner at that time. Its requests are in the web's own log with all others, so
the judge of every history judges the pauses between its requests and those of the owners.
"""

from __future__ import annotations

import asyncio

from lycosa.base.calls import (
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
from lycosa.state.exchange import ExchangeError
from lycosa.synthetic import SyntheticFetcher, VirtualClock
from nodes.history import NodesHistory

_LONGEST_REQUEST_S = 25.0  # a request is begun no later than this before its lease ends
_LEAST_TAKEN = 10


class OutsideHistory(NodesHistory):
    """An outside fetcher works with all shards until the crawl is over."""

    taken = 0

    async def _seed(self) -> None:
        fetcher = SyntheticFetcher(
            self.world.answers, VirtualClock(), self.world.log, spool_dir=self._folder
        )
        for shard in range(self._shards):
            self.world.spawn(self._work(fetcher, shard))
        await super()._seed()

    async def _work(self, fetcher: SyntheticFetcher, shard: int) -> None:
        loop, calls = asyncio.get_running_loop(), 0
        while True:
            await asyncio.sleep(self.chance.uniform(1.0, 8.0))
            calls += 1
            began, lease_s = loop.time(), self.chance.choice((40.0, 90.0))
            call = LeaseUrls(f"{shard}/{calls}", "outside", 2, lease_s)
            try:
                reply = decode_reply(await self.world.call_owner(shard, encode_call(call)))
            except ExchangeError:
                continue
            for leased in reply.urls if isinstance(reply, UrlsLeased) else ():
                if self.chance.random() < 0.9 and loop.time() + _LONGEST_REQUEST_S < (
                    began + lease_s
                ):
                    await self._return(shard, await self._fetch(fetcher, leased))

    async def _fetch(self, fetcher: SyntheticFetcher, leased: LeasedUrl) -> OutsideResult:
        fetched = await fetcher.fetch(FetchRequest(leased.url, leased.address))
        if fetched.reason is not Reason.NONE:
            return OutsideResult(leased.lease, error=fetched.reason.label)
        return OutsideResult(leased.lease, fetched.status, fetched.headers(), fetched.body)

    async def _return(self, shard: int, result: OutsideResult) -> None:
        """Give the result until it is answered, as long as the crawl runs."""
        while not self.world.newest.coordinator.is_over:
            try:
                call = encode_call(GiveResults("outside", [result]))
                reply = decode_reply(await self.world.call_owner(shard, call))
            except ExchangeError:
                reply = None
            if isinstance(reply, ResultsTaken):
                verdict = reply.verdicts[0].verdict
                self.taken += verdict is ResultVerdict.TAKEN
                if verdict in (ResultVerdict.TAKEN, ResultVerdict.LATE):
                    return
            await asyncio.sleep(2.0)

    def judge(self) -> None:
        """Raises ``AssertionError`` for the first promise that does not hold."""
        super().judge()
        assert self.taken >= _LEAST_TAKEN, f"only {self.taken} results were taken"
