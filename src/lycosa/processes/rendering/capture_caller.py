"""Finds stored captures at the owners of their hosts, for all pages of a renderer process.

Questions about one partition that come while another one is in flight go in one call, so the
requests of a page take a few calls. A capture that was found once is known by the id of its record:
record ids are never used again, so it needs no further call. Which capture of a URL is the newest
is asked again after a minute.

The owners put all answers that are ready into one message of at most 64 MB. So only some calls to
one worker are open at a time, each with a bounded answer.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from lycosa.base.calls import (
    MOST_CAPTURES,
    AskedCapture,
    CapturesFound,
    FindCaptures,
    FoundCapture,
)
from lycosa.base.reasons import Reason
from lycosa.processes.rendering.body_cache import BodyCache, BodyKey
from lycosa.service.api.places import CallableCrawl
from lycosa.state.exchange.exchange_errors import CallRefused, NoAnswer

_FRESH_S = 60.0
_REMEMBERED = 5000  # captures; their headers take about a kilobyte each
_CALL_S = 5.0
_TRIES, _AGAIN_S = 3, 0.5
_AT_ONCE = 3  # calls to one worker, each with at most 16 MB of answer


class OwnerLost(Exception):
    """The owner of a partition does not answer. What it would say must not be guessed."""


class CaptureAnswer(NamedTuple):
    """A capture with its body; ``was_here``: no owner had to send the body."""

    capture: FoundCapture
    was_here: bool


class CaptureCaller:
    """One per renderer process. ``now`` is monotonic time in seconds."""

    def __init__(self, crawl: CallableCrawl, bodies: BodyCache, now: Callable[[], float]) -> None:
        self._crawl, self._bodies, self._now = crawl, bodies, now
        self._captures: OrderedDict[str, FoundCapture] = OrderedDict()  # by record id, no bodies
        self._newest: OrderedDict[str, tuple[str, bool, float]] = OrderedDict()
        self._waiting: dict[int, list[tuple[AskedCapture, asyncio.Future[FoundCapture]]]] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._turns: dict[int, asyncio.Semaphore] = {}

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting.values()))
        return f"<CaptureCaller {len(self._captures)} captures, {waiting} waiting, {self._bodies}>"

    async def find(self, partition: int, asked: AskedCapture) -> CaptureAnswer:
        """What is stored, from here or from the owner. Raises ``OwnerLost``."""
        if (here := self._find_here(asked)) is not None:
            return CaptureAnswer(here, True)
        known = self._captures.get(asked.record or self._newest.get(asked.url, ("",))[0])
        if known is not None and _key_of(known) in self._bodies:
            asked = msgspec.structs.replace(asked, digest=known.digest)
        found = await self._ask(partition, asked)
        if found.record and asked.digest and found.digest == asked.digest:
            if (body := self._bodies.find(_key_of(found))) is not None:
                found = msgspec.structs.replace(found, body=body)
                self._remember(asked, found)
                return CaptureAnswer(found, True)
            # the same bytes in another encoding, or the file is gone
            found = await self._ask(partition, msgspec.structs.replace(asked, digest=""))
        if found.is_cut:
            found = FoundCapture(reason=Reason.BODY_TRUNCATED)
        self._remember(asked, found)
        return CaptureAnswer(found, False)

    # -- what is here

    def _find_here(self, asked: AskedCapture) -> FoundCapture | None:
        record, is_other = asked.record, False
        if not record:
            record, is_other, at = self._newest.get(asked.url, ("", False, 0.0))
            if not record or self._now() - at > _FRESH_S:
                return None
        known = self._captures.get(record)
        if known is None or (known.digest and _key_of(known) not in self._bodies):
            return None
        body = self._bodies.find(_key_of(known)) if known.digest else b""
        if body is None:
            return None
        self._captures.move_to_end(record)
        return msgspec.structs.replace(known, body=body, is_other=is_other)

    def _remember(self, asked: AskedCapture, found: FoundCapture) -> None:
        if not found.record:
            return
        self._bodies.add(_key_of(found), found.body)
        digest = found.digest if found.body else ""  # nothing is to be kept of an empty body
        self._captures[found.record] = msgspec.structs.replace(found, body=b"", digest=digest)
        self._captures.move_to_end(found.record)
        if not asked.record:
            self._newest[asked.url] = found.record, found.is_other, self._now()
            self._newest.move_to_end(asked.url)
        for remembered in (self._captures, self._newest):
            while len(remembered) > _REMEMBERED:
                remembered.popitem(last=False)

    # -- calls

    async def _ask(self, partition: int, asked: AskedCapture) -> FoundCapture:
        answer: asyncio.Future[FoundCapture] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(partition, []).append((asked, answer))
        if partition not in self._asking:
            self._asking[partition] = asyncio.create_task(self._send(partition))
        return await answer

    async def _send(self, partition: int) -> None:
        """Make calls until no question about the partition waits."""
        try:
            while waiting := self._waiting.pop(partition, None):
                batch, rest = waiting[:MOST_CAPTURES], waiting[MOST_CAPTURES:]
                if rest:
                    self._waiting[partition] = rest
                batch = [each for each in batch if not each[1].done()]
                if batch:
                    await self._send_batch(partition, batch)
        finally:
            del self._asking[partition]

    async def _send_batch(
        self, partition: int, batch: list[tuple[AskedCapture, asyncio.Future[FoundCapture]]]
    ) -> None:
        try:
            found = await self._called(partition, [asked for asked, _ in batch])
        except Exception as error:
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (asked, answer), each in zip(batch, found, strict=True):
            if each.is_cut and len(batch) > 1:  # alone it has all the room
                try:
                    (each,) = await self._called(partition, [asked])
                except Exception as error:
                    if not answer.done():
                        answer.set_exception(error)
                    continue
            if not answer.done():
                answer.set_result(each)

    async def _called(self, partition: int, captures: list[AskedCapture]) -> list[FoundCapture]:
        """The owner's answer. Raises ``OwnerLost``."""
        turns = self._turns.setdefault(self._crawl.shard_of(partition), asyncio.Semaphore(_AT_ONCE))
        why = ""
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_AGAIN_S)
            try:
                async with turns, asyncio.timeout(_CALL_S):
                    reply = await self._crawl.call_owner(partition, FindCaptures(captures))
            except (NoAnswer, CallRefused, TimeoutError) as error:
                why = str(error) or "no answer in time"
                continue
            if isinstance(reply, CapturesFound) and len(reply.captures) == len(captures):
                return reply.captures
            why = getattr(reply, "reason", "") or f"it answered with a {type(reply).__name__}"
        raise OwnerLost(f"the owner of partition {partition} does not say what is stored: {why}")


def _key_of(found: FoundCapture) -> BodyKey:
    """Under which key the body is kept."""
    encoding = next((value for name, value in found.headers if name == "content-encoding"), "")
    return found.digest, encoding
