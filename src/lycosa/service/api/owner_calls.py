"""Calls to the owners of partitions, bounded in number and in time.

A worker crawls first. So only some calls to one worker are in progress at the same time, a bounded
number waits, and one more is refused. After a call that was not answered in time the next questions
to that worker fail at once, for a moment: a worker that hangs must not hold all callers. A command
has no other callers, so it has patience: it makes a call again while the owner does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from lycosa.base.calls import (
    Call,
    CallRefusal,
    CallReply,
    ChangesQuery,
    ContentFound,
    ContentQuery,
    Found,
    FoundChanges,
    LeaseUrls,
    StateQuestion,
)
from lycosa.service.api.answers import OwnerSilent, ServiceBusy, ServiceRefusal
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.places import CallableCrawl
from lycosa.state.exchange.exchange_errors import CallRefused, NoAnswer

_Reply = TypeVar("_Reply")
_REST_S = 2.0
_LEASES = 4  # so many times more calls for URLs than others
READ_S = 3.0
"""The deadline of a question about stored state."""
WRITE_S = 20.0
"""The deadline of a call that is answered after a commit."""


_AGAIN_S = 1.0


class OwnerCalls:
    """The calls of this process.

    A call is repeated for ``patience_s`` while its owner does not answer. ``tell`` gets a line
    about it.
    """

    def __init__(
        self,
        crawl: CallableCrawl,
        limits: ApiLimits,
        patience_s: float = 0.0,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._crawl, self._limits = crawl, limits
        self._patience_s, self._tell = patience_s, tell
        self._turns: dict[tuple[int, bool], asyncio.Semaphore] = {}
        self._silent_until: dict[int, float] = {}
        self._waiting = 0

    async def call(self, partition: int, call: Call, deadline_s: float = READ_S) -> CallReply:
        """The reply of the partition's owner.

        Raises ``OwnerSilent``, ``ServiceBusy`` and ``ServiceRefusal``.
        """
        until, told = asyncio.get_running_loop().time() + self._patience_s, ""
        while True:
            try:
                return await self._call_once(partition, call, deadline_s)
            except OwnerSilent as error:
                if asyncio.get_running_loop().time() >= until:
                    raise
                if str(error) != told:
                    told = str(error)
                    self._tell(f"{told}; trying again")
            await asyncio.sleep(_AGAIN_S)

    async def _call_once(self, partition: int, call: Call, deadline_s: float) -> CallReply:
        shard = self._crawl.shard_of(partition)
        if shard < 0:
            raise OwnerSilent(partition, "it has no owner now")
        loop = asyncio.get_running_loop()
        if deadline_s <= READ_S and loop.time() < self._silent_until.get(shard, 0.0):
            raise OwnerSilent(partition, "its worker did not answer the call before", _REST_S)
        if self._waiting >= self._limits.waiting_calls:
            raise ServiceBusy()
        # Calls for URLs wait at the owner, for about a second; others must not wait for them.
        kind = shard, isinstance(call, LeaseUrls)
        most = self._limits.calls * (_LEASES if kind[1] else 1)
        turns = self._turns.setdefault(kind, asyncio.Semaphore(most))
        self._waiting += 1
        try:
            async with asyncio.timeout(deadline_s) as limit:
                async with turns:
                    if isinstance(call, StateQuestion):  # an owner drops it when it is too late
                        within_s = max((limit.when() or 0.0) - loop.time(), 0.001)
                        call = msgspec.structs.replace(call, within_s=within_s)
                    reply = await self._crawl.call_owner(partition, call)
        except TimeoutError:
            # The call may still take effect. Its id makes a repetition harmless.
            self._silent_until[shard] = loop.time() + _REST_S
            raise OwnerSilent(partition, f"no answer within {deadline_s:.0f} s") from None
        except NoAnswer as error:
            raise OwnerSilent(partition, str(error)) from error
        except CallRefused as error:
            raise ServiceRefusal(str(error)) from error
        finally:
            self._waiting -= 1
        if isinstance(reply, CallRefusal):
            raise ServiceRefusal(reply.reason)
        return reply

    async def ask(self, partition: int, question: StateQuestion) -> Found:
        """The answer to a question about stored state."""
        return await self._reply(partition, question, Found, READ_S)

    async def content(self, partition: int, query: ContentQuery) -> ContentFound:
        """A piece of a stored body."""
        return await self._reply(partition, query, ContentFound, READ_S)

    async def changes(self, partition: int, query: ChangesQuery) -> FoundChanges:
        """What changed in a partition."""
        return await self._reply(partition, query, FoundChanges, READ_S)

    async def call_for(self, partition: int, call: Call, kind: type[_Reply]) -> _Reply:
        """The reply to a call that is answered after a commit."""
        return await self._reply(partition, call, kind, WRITE_S)

    async def answers(
        self, question: StateQuestion, partitions: Iterable[int]
    ) -> tuple[dict[int, Found], list[int]]:
        """The answers by partition, and the partitions of owners that gave none."""
        asked = list(partitions)
        replies = await gathered(lambda partition: self.ask(partition, question), asked)
        found = {
            partition: reply
            for partition, reply in zip(asked, replies, strict=True)
            if isinstance(reply, Found)
        }
        silent = [partition for partition in asked if partition not in found]
        if silent and not found:
            raise next(reply for reply in replies if isinstance(reply, OwnerSilent))
        return found, silent

    async def _reply(
        self, partition: int, call: Call, kind: type[_Reply], deadline_s: float
    ) -> _Reply:
        reply: CallReply = await self.call(partition, call, deadline_s)
        if not isinstance(reply, kind):
            raise ServiceRefusal(f"the owner answered with a {type(reply).__name__}")
        return reply


async def gathered(call: Callable[[int], Any], partitions: Iterable[int]) -> Sequence[object]:
    """The results for all partitions, with ``OwnerSilent`` as a value."""

    async def one(partition: int) -> object:
        try:
            return await call(partition)
        except OwnerSilent as error:
            return error

    return await asyncio.gather(*map(one, partitions))
