"""The way of a call to a server of the address pool, and back: calls and answers are lost and late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from lycosa.stages.politeness.address_pool import (
    ANSWER_S,
    PoolAnswer,
    PoolAway,
    PoolCall,
    PoolClock,
)
from memory_pool import PoolServer

Gate = Callable[[], Awaitable[object]]
"""Waits while the caller's machine stands still."""


class PoolLink:
    """The pool as one worker reaches it."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._known, self._times = "", PoolClock()

    async def call(
        self,
        server: PoolServer | None,
        call: PoolCall,
        latency_s: tuple[float, float],
        lost: tuple[float, ...] | None = None,
    ) -> PoolAnswer:
        """The answer of ``server`` (none is reached) after ``latency_s``, there and back.

        ``lost`` means that there is no answer; the call arrives after each of these seconds. Raises
        ``PoolAway``.
        """
        loop = asyncio.get_running_loop()
        if server is None:
            await asyncio.sleep(0.01)
            await self._gate()
            raise PoolAway("unreachable")
        if server.name != self._known:
            self._known, self._times = server.name, PoolClock()
            self._times.note_answer(server.clock_us(), loop.time(), loop.time())
        sent = loop.time()
        deadline = self._times.deadline_us(sent)
        if lost is not None:
            for late_s in lost:
                loop.call_later(late_s, server.answer, call, deadline)
            await asyncio.sleep(ANSWER_S)
            await self._gate()
            raise PoolAway("no answer", server.name)
        await asyncio.sleep(latency_s[0])
        answer = server.answer(call, deadline)
        await asyncio.sleep(latency_s[1])
        await self._gate()
        if loop.time() - sent > ANSWER_S:
            raise PoolAway("no answer in time", server.name)
        self._times.note_answer(answer.now_us, sent, loop.time())
        return answer
