"""Answers calls of the API and of commands: the values of ``lycosa.base.calls``, for all
partitions.

A call that changes something is executed on the loop, in steps of at most about ten milliseconds,
and answered when the commit that contains its effect is in the log. A question is answered by
``reader``, which works on another thread. Whatever bytes arrive, the worker continues: what is not
a call, or cannot be done, is answered by ``CallRefusal``. While a call is open the worker is not
idle, so the crawl does not end under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from lycosa.base.calls import (
    Call,
    CallRefusal,
    CallReply,
    LeaseUrls,
    StateQuestion,
    decode_call,
    encode_reply,
)
from lycosa.base.system.frames import UNREADABLE
from lycosa.stages.frontier.partition import Partition

CallHandler = Callable[[Partition, Any], Awaitable[CallReply]]
"""Executes the calls of one type on the loop; the next commit contains the effect."""

ReadState = Callable[[int, StateQuestion], Awaitable[CallReply]]
"""Answers a question about a partition from its last commit, without work on the loop."""

MOST_OPEN = 256
"""Calls that are open at a time; more are refused, because each may have a large message."""


class CallDesk:
    """One per worker. ``committed`` waits for the next commit that is cut."""

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        handlers: Mapping[type, CallHandler],
        committed: Callable[[], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        self._partitions, self._handlers = partitions, handlers
        self._committed, self._wake = committed, wake
        self.reader: ReadState | None = None
        self.open_calls = 0
        """Number of calls that change something and are not answered yet, apart from leases."""
        self._questions = self._asking = 0
        self.activity = 0
        """A number that grows with every call that changes something."""

    def __repr__(self) -> str:
        return f"<CallDesk open={self.open_calls} questions={self._questions}>"

    async def answer_call(self, partition: int, body: bytes) -> bytes:
        """The reply to a call that another process made; as ``answer`` otherwise."""
        try:
            call = decode_call(body)
        except UNREADABLE as error:
            return encode_reply(CallRefusal(f"not a call that this version knows: {error}"[:500]))
        return encode_reply(await self.answer(partition, call))

    async def answer(self, partition: int, call: Call) -> CallReply:
        """The reply to a call of that partition. Raises the errors of a commit."""
        if partition not in self._partitions:
            return CallRefusal(f"this worker does not own partition {partition}")
        if self.open_calls + self._questions + self._asking >= MOST_OPEN:
            return CallRefusal(f"{MOST_OPEN} calls are open at this worker: call again later")
        handler = self._handlers.get(type(call))
        if handler is None:
            return await self._read(partition, call)
        # A fetcher that asks again and again must not keep the crawl from its end; what it is lent
        # does.
        has_effect = not isinstance(call, LeaseUrls)
        self.open_calls += has_effect
        self._asking += not has_effect
        # after the handler's first step, which says what the call waits for
        asyncio.get_running_loop().call_soon(self._wake)
        try:
            reply = await handler(self._partitions[partition], call)
            self.activity += has_effect
            if not isinstance(reply, CallRefusal):
                await self._committed()
            return reply
        finally:
            self.open_calls -= has_effect
            self._asking -= not has_effect
            self._wake()

    async def _read(self, partition: int, question: Call) -> CallReply:
        if self.reader is None:
            return CallRefusal(f"this worker does not answer {type(question).__name__}")
        self._questions += 1
        try:
            return await self.reader(partition, question)  # type: ignore[arg-type]
        finally:
            self._questions -= 1
