"""Answers calls of the API and of commands: the values of ``lycosa.base.calls``, for all
partitions.

A call that changes something is executed on the loop, in steps of at most about ten milliseconds,
and answered when the commit that contains its effect is in the log. A question is answered by
a reader, which works on another thread. Whatever bytes arrive, the worker continues: what is not
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
    FindCaptures,
    LeaseUrls,
    SiteNotice,
    StateQuestion,
    TakeRenders,
    decode_call,
    encode_reply,
)
from lycosa.base.system.frames import UNREADABLE
from lycosa.stages.frontier.partition import Partition
from lycosa.worker.worker import Worker

CallHandler = Callable[[Partition, Any], Awaitable[CallReply]]
"""Executes the calls of one type on the loop; the next commit contains the effect."""

ReadState = Callable[[int, StateQuestion], Awaitable[CallReply]]
"""Answers a question about a partition from its last commit, without work on the loop."""

_READING = (TakeRenders, FindCaptures)
"""Calls of renderers that change nothing that lasts, so they need no commit."""

_IDLE = (LeaseUrls, SiteNotice, *_READING)
"""Calls that do not keep a crawl from its end. A fetcher or a renderer that asks again and again
must not; what it is lent does. Neither must strangers that send notices."""

MAX_OPEN = 256
"""Calls that are open at a time; more are refused, because each may have a large message."""


class CallRouter:
    """Gives each call to the handler of its type; one per worker."""

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        handlers: Mapping[type, CallHandler],
        worker: Worker,
    ) -> None:
        self._partitions, self._handlers, self._worker = partitions, handlers, worker
        self._questions = self._asking = 0
        self.activity = 0
        """A number that grows with every call that changes something."""

    async def answer_call(
        self, partition: int, body: bytes, read: ReadState | None = None
    ) -> bytes:
        """The reply to a call that another process made; as ``answer`` otherwise."""
        try:
            call = decode_call(body)
        except UNREADABLE as error:
            # Bytes of another version or a stranger: the caller gets an answer, and the worker
            # continues.
            return encode_reply(CallRefusal(f"not a call that this version knows: {error}"[:500]))
        return encode_reply(await self.answer(partition, call, read))

    async def answer(self, partition: int, call: Call, read: ReadState | None = None) -> CallReply:
        """The reply to a call of that partition; ``read`` answers questions.

        Raises the errors of a commit.
        """
        if partition not in self._partitions:
            return CallRefusal(f"this worker does not own partition {partition}")
        if self._worker.open_calls + self._questions + self._asking >= MAX_OPEN:
            return CallRefusal(f"{MAX_OPEN} calls are open at this worker: call again later")
        handler = self._handlers.get(type(call))
        if handler is None:
            return await self._answer_question(partition, call, read)
        has_effect = not isinstance(call, _IDLE)
        self._worker.open_calls += has_effect
        self._asking += not has_effect
        if not isinstance(call, _READING):
            # after the handler's first step, which says what the call waits for
            asyncio.get_running_loop().call_soon(self._worker.wake)
        try:
            reply = await handler(self._partitions[partition], call)
            self.activity += has_effect
            # A refusal changed nothing, so it needs no commit.
            if not isinstance(reply, CallRefusal) and not isinstance(call, _READING):
                await self._worker.next_commit(is_called=True)
            return reply
        finally:
            # Only after the commit: with an open call the worker is not idle, so the crawl cannot
            # end before.
            self._worker.open_calls -= has_effect
            self._asking -= not has_effect
            if not isinstance(call, _READING):
                self._worker.wake()

    async def _answer_question(
        self, partition: int, question: Call, read: ReadState | None
    ) -> CallReply:
        if read is None:
            return CallRefusal(f"this worker does not answer {type(question).__name__}")
        # A question keeps no crawl from its end, but it counts for the bound of open calls.
        self._questions += 1
        try:
            return await read(partition, question)  # type: ignore[arg-type]
        finally:
            self._questions -= 1
