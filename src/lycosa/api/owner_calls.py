"""Calls to the owners of partitions, bounded in number and in time.

A worker crawls first. So only some calls to one worker are under way at the same time, a bounded
number waits, and one more is refused. After a call that was not answered in time the next questions
to that worker fail at once, for a moment: a worker that hangs must not hold all callers.
"""

from __future__ import annotations

import asyncio

import msgspec

from lycosa.api.answers import OwnerSilent, ServiceBusy, ServiceRefusal
from lycosa.api.places import ReachedCrawl
from lycosa.calls import (
    Call,
    CallRefusal,
    CallReply,
    LeaseUrls,
    StateQuestion,
    decode_reply,
    encode_call,
)
from lycosa.exchange import CallRefused, NoAnswer
from lycosa.serve.api_job import ApiLimits
from lycosa.system.wire import UNREADABLE

_REST_S = 2.0
_LEASES = 4  # so many times more calls for URLs than others
READ_S = 3.0
"""The deadline of a question about stored state."""
WRITE_S = 20.0
"""The deadline of a call that is answered after a commit."""


class OwnerCalls:
    """The calls of this process."""

    def __init__(self, place: ReachedCrawl, limits: ApiLimits) -> None:
        self._place, self._limits = place, limits
        self._turns: dict[tuple[int, bool], asyncio.Semaphore] = {}
        self._silent_until: dict[int, float] = {}
        self._waiting = 0

    def __repr__(self) -> str:
        return f"<OwnerCalls waiting={self._waiting} of {self._limits.waiting_calls}>"

    async def call(self, partition: int, call: Call, deadline_s: float = READ_S) -> CallReply:
        """The reply of the partition's owner.

        Raises ``OwnerSilent``, ``ServiceBusy`` and ``ServiceRefusal``.
        """
        shard = self._place.shard_of(partition)
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
                    body = await self._place.call_owner(partition, encode_call(call))
                    reply: CallReply = decode_reply(body)
        except TimeoutError:
            self._silent_until[shard] = loop.time() + _REST_S
            raise OwnerSilent(partition, f"no answer within {deadline_s:.0f} s") from None
        except NoAnswer as error:
            raise OwnerSilent(partition, str(error)) from error
        except CallRefused as error:
            raise ServiceRefusal(str(error)) from error
        except UNREADABLE as error:
            raise ServiceRefusal(f"the owner's answer cannot be read: {error}") from error
        finally:
            self._waiting -= 1
        if isinstance(reply, CallRefusal):
            raise ServiceRefusal(reply.reason)
        return reply
