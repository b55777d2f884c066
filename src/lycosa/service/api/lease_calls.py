"""Leases for outside fetchers: which owner is asked next, and which owner gets a result.

The call ids are made here. A fetcher that did not get an answer asks again and may get other URLs;
the leases that it never saw expire, and their URLs return to the queue.
"""

from __future__ import annotations

import asyncio
import re
import uuid

from lycosa.base.calls import (
    MOST_LENT,
    GiveResults,
    LeasedUrl,
    LeaseUrls,
    OutsideResult,
    ResultsTaken,
    ResultTaken,
    ResultVerdict,
    UrlsLeased,
)
from lycosa.service.api.answers import OwnerSilent, ServiceRefusal
from lycosa.service.api.owner_calls import WRITE_S, OwnerCalls

_LEASE = re.compile(r"(\d{1,6})[-.:].{1,200}")
_LOOK_S = 1.0  # an owner that had nothing is asked again after this, or when it said
_NOTHING_S = 2.0
_ROUNDS = 4  # in progress, of all fetchers together: an owner waits a second for hosts that are due


class LeaseCalls:
    """Leases of one crawl with that many partitions."""

    def __init__(self, calls: OwnerCalls, partitions: int) -> None:
        self._calls, self._partitions = calls, partitions
        self._next = 0  # where the last round stopped, so that all partitions have their turn
        self._empty_until: dict[int, float] = {}
        self._rounds = asyncio.Semaphore(_ROUNDS)

    async def lease(
        self, holder: str, most: int, lease_s: float, wait_s: float
    ) -> tuple[str, list[LeasedUrl]]:
        """URLs for an outside fetcher, and the id of the calls that lent them.

        Waits at most ``wait_s`` for the first. Raises ``OwnerSilent`` when no owner answered.
        """
        loop, batch = asyncio.get_running_loop(), uuid.uuid4().hex
        deadline = loop.time() + wait_s
        while True:
            async with self._rounds:
                leased, silent = await self._one_round(batch, holder, most, lease_s)
            if leased:
                return batch, leased
            if silent is not None and len(self._empty_until) == 0:
                raise silent
            now = loop.time()
            if now >= deadline:
                return batch, []
            soonest = min(self._empty_until.values(), default=now + _LOOK_S)
            # Until the first owner that had nothing may be asked again, and at least as often as
            # new URLs may come.
            await asyncio.sleep(min(max(soonest - now, 0.05), deadline - now, _LOOK_S))

    async def _one_round(
        self, batch: str, holder: str, most: int, lease_s: float
    ) -> tuple[list[LeasedUrl], OwnerSilent | None]:
        """Ask owners at the same time, each for its share: an owner waits for hosts that are due.

        When there are more partitions than URLs are wanted, other ones are asked the next time.
        """
        loop, silent = asyncio.get_running_loop(), list[OwnerSilent]()
        order = [(self._next + step) % self._partitions for step in range(self._partitions)]
        asked = [each for each in order if loop.time() >= self._empty_until.get(each, 0.0)][:most]
        if not asked:
            return [], None
        self._next = (asked[-1] + 1) % self._partitions
        share, more = divmod(most, len(asked))

        async def ask(number: int, partition: int) -> list[LeasedUrl]:
            wanted = min(share + (number < more), MOST_LENT)
            call = LeaseUrls(batch, holder, wanted, lease_s)
            try:
                reply = await self._calls.call(partition, call, WRITE_S)
            except OwnerSilent as error:
                # The other owners may have URLs; only if all are silent does the caller get an
                # error.
                silent.append(error)
                return []
            if not isinstance(reply, UrlsLeased):
                raise ServiceRefusal(f"the owner answered with a {type(reply).__name__}")
            if reply.urls:
                self._empty_until.pop(partition, None)
            else:
                wait = reply.next_in_s if reply.next_in_s >= 0 else _NOTHING_S
                self._empty_until[partition] = loop.time() + min(wait, _NOTHING_S)
            return reply.urls

        replies = await asyncio.gather(*(ask(*each) for each in enumerate(asked)))
        return [url for urls in replies for url in urls], next(iter(silent), None)

    async def give_results(self, holder: str, results: list[OutsideResult]) -> list[ResultTaken]:
        """The verdicts, in the order of the results."""
        taken: list[ResultTaken | None] = [None] * len(results)
        grouped: dict[int, list[int]] = {}
        for number, result in enumerate(results):
            partition = self._partition_of(result.lease)
            if partition < 0:
                why = "this is not the id of a lease"
                taken[number] = ResultTaken(result.lease, ResultVerdict.UNKNOWN, why)
            else:
                grouped.setdefault(partition, []).append(number)

        async def give(partition: int) -> None:
            numbers = grouped[partition]
            for start in range(0, len(numbers), MOST_LENT):
                piece = numbers[start : start + MOST_LENT]
                call = GiveResults(holder, [results[number] for number in piece])
                try:
                    reply = await self._calls.call(partition, call, WRITE_S)
                    assert isinstance(reply, ResultsTaken)
                except (OwnerSilent, ServiceRefusal) as error:
                    # Those of earlier pieces are stored. The same call again gives the same
                    # verdicts for them.
                    for number in numbers[start:]:
                        lease, why = results[number].lease, f"call again: {error}"
                        taken[number] = ResultTaken(lease, ResultVerdict.UNKNOWN, why)
                    return
                for number, each in zip(piece, reply.verdicts, strict=True):
                    taken[number] = each

        await asyncio.gather(*map(give, grouped))
        return [each for each in taken if each is not None]

    def _partition_of(self, lease: str) -> int:
        found = _LEASE.fullmatch(lease)
        return int(found[1]) if found and int(found[1]) < self._partitions else -1
