"""Answers questions about a running worker's partitions, beside its loop.

One thread reads the committed tables, one question at a time. Python runs either this thread or the
loop, so three things keep the crawl from noticing it. While a question is answered the two take
turns of a millisecond; Python's default of five would make each of the loop's waits for a socket
five milliseconds longer. A question ends when its budget is spent, and says so. And all questions
together get a share of a core: whoever asks more waits, so callers slow each other down and not the
crawl.

Each question sees its partition as it was after one commit. While it is read, a commit saves the
values that it replaces, in its own thread.

The text of a stored document is made by a parse child of its own, because a hostile document may
take a child's memory and time, and the crawl's child has other work.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from lycosa.calls import CallRefusal, CallReply, ContentFound, ContentQuery, StateQuestion
from lycosa.kv.port import TableError
from lycosa.model.parsed import Document, Link
from lycosa.ports import Parser
from lycosa.shard.view import CrawlView
from lycosa.store import JournalError, RecordError
from lycosa.store.damage import StoreDamaged

if TYPE_CHECKING:
    from lycosa.inspect.queries.answering import StateAnswers
    from lycosa.inspect.queries.time_budget import TimeBudget
    from lycosa.inspect.saved_settings import SavedSettings

SHARE = 0.03
"""The part of a core that questions may use in the long run."""

_MOST_SAVED_S = 1.5  # processor time that may be used at once after a rest
_TURN_S = 0.001
_BUDGET_S = 0.1
_PART_S = 0.01  # of reading hosts for orders, between questions
_TEND_S = 0.5  # between two parts while hosts are to be read
_TEXT_IDLE_S = 60.0  # after this the parse child for texts is ended
_UNREADABLE = (TableError, StoreDamaged, RecordError, JournalError, OSError)


class StateSource(Protocol):
    """Where the questions are answered from."""

    def open_view(self, partition: int) -> CrawlView:
        """A view of one partition. Blocks; close it after use."""
        ...

    def saved_settings(self) -> SavedSettings:
        """The settings that apply now."""
        ...

    def make_parser(self) -> Parser:
        """A parser in a child process, for stored documents."""
        ...


class Allowance:
    """Processor time that may be used: ``share`` seconds a second, saved up to a bound."""

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share, self._clock = share, clock
        self._saved_s, self._at = _MOST_SAVED_S, clock()

    def wait_s(self) -> float:
        """Seconds until something may be used."""
        now = self._clock()
        self._saved_s = min(self._saved_s + (now - self._at) * self._share, _MOST_SAVED_S)
        self._at = now
        return 0.0 if self._saved_s > 0 else -self._saved_s / self._share + 0.001

    @property
    def is_ample(self) -> bool:
        """Whether there is enough for work that nobody waits for at this moment."""
        return self.wait_s() == 0.0 and self._saved_s > _MOST_SAVED_S / 2

    def use(self, seconds: float) -> None:
        """Note processor time that was used."""
        self._saved_s -= seconds

    def __repr__(self) -> str:
        return f"<Allowance {self._saved_s:.3f} s>"


class StateReader:
    """Answers questions from ``source``. ``close`` before what it reads is closed."""

    def __init__(self, source: StateSource, share: float = SHARE) -> None:
        self._source = source
        self.allowance = Allowance(share)
        self._thread = ThreadPoolExecutor(1, "state-reader")
        self._turn = asyncio.Lock()
        self._answers: StateAnswers | None = None
        self._tending: asyncio.Task[None] | None = None
        self._texts: Parser | None = None
        self._last_text_at = 0.0
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<StateReader {self.allowance!r} {self._answers!r}>"

    async def answer(self, partition: int, question: StateQuestion) -> CallReply:
        """The answer to a question about a partition of the worker."""
        if self._is_closed:
            return CallRefusal("the owner of this partition is ending: call again")
        try:
            reply = await self._run(lambda: self._answer(partition, question))
            if isinstance(question, ContentQuery) and question.as_text:
                reply = await self._as_text(reply, question)
        except _UNREADABLE as error:
            return CallRefusal(f"the state cannot be read: {error}")
        self._tend()
        return reply

    async def close(self) -> None:
        """End the thread after the question that it answers now."""
        self._is_closed = True
        if self._tending is not None:
            self._tending.cancel()
            with suppress(asyncio.CancelledError):
                await self._tending
        async with self._turn:
            await asyncio.to_thread(self._thread.shutdown)
        if self._texts is not None:
            await self._texts.close()

    async def _run(self, work: Callable[[], CallReply]) -> CallReply:
        async with self._turn:  # in the order in which they came
            # Nothing else uses the allowance meanwhile.
            await asyncio.sleep(self.allowance.wait_s())
            if self._is_closed:
                return CallRefusal("the owner of this partition is ending: call again")
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._measured, work
            )

    # -- on the thread

    def _measured(self, work: Callable[[], CallReply]) -> CallReply:
        began, usual_s = time.thread_time(), sys.getswitchinterval()
        sys.setswitchinterval(_TURN_S)
        try:
            return work()
        finally:
            sys.setswitchinterval(usual_s)
            self.allowance.use(time.thread_time() - began)

    def _answer(self, partition: int, question: StateQuestion) -> CallReply:
        view = self._source.open_view(partition)
        try:
            return self._state_answers().answer(
                view, partition, _undecoded(question), self._budget(_BUDGET_S)
            )
        finally:
            view.close()

    def _state_answers(self) -> StateAnswers:
        if self._answers is None:
            # Most workers are never asked, so they do not load what answers.
            from lycosa.inspect.queries.answering import StateAnswers

            self._answers = StateAnswers(self._source.saved_settings, is_tended=True)
        return self._answers

    def _budget(self, seconds: float) -> TimeBudget:
        from lycosa.inspect.queries.time_budget import TimeBudget  # as above

        return TimeBudget(seconds)

    # -- between questions

    def _tend(self) -> None:
        """Read hosts for the orders that are asked for, and end an idle parser."""
        if (self._tending is None or self._tending.done()) and self._answers is not None:
            has_work = self._answers.unread() or self._texts is not None
            if has_work and not self._is_closed:
                self._tending = asyncio.get_running_loop().create_task(self._keep_tending())

    async def _keep_tending(self) -> None:
        assert self._answers is not None
        while (unread := self._answers.unread()) or self._texts is not None:
            if unread and self.allowance.is_ample:
                with suppress(*_UNREADABLE):  # the next question tells about it
                    await self._run(partial(self._read_hosts, unread[0]))
            if self._texts is not None and time.monotonic() > self._last_text_at + _TEXT_IDLE_S:
                texts, self._texts = self._texts, None
                await texts.close()
            await asyncio.sleep(_PART_S if self._answers.is_new(unread) else _TEND_S)

    def _read_hosts(self, partition: int) -> CallReply:
        view = self._source.open_view(partition)
        try:
            self._state_answers().read_orders(view, partition, self._budget(_PART_S))
        finally:
            view.close()
        return CallRefusal("")

    # -- texts

    async def _as_text(self, reply: CallReply, question: ContentQuery) -> CallReply:
        """The visible text and the links of a stored body instead of the body."""
        if not isinstance(reply, ContentFound) or reply.total_bytes < 0:
            return reply
        if self._texts is None:
            self._texts = self._source.make_parser()
        self._last_text_at = time.monotonic()
        about = msgspec.json.decode(reply.about)
        headers = [("content-type", reply.media_type)] if reply.media_type else []
        document = Document(about["url"], int(about["status"]), headers, reply.body)
        parsed = await self._texts.parse(document)
        self._last_text_at = time.monotonic()
        about |= {
            "title": parsed.title,
            "language": parsed.language,
            "parseReason": parsed.reason.meaning if parsed.reason else "",
            "links": _listed_links(parsed.links),
            "outlinks": len(parsed.links),
        }
        text = parsed.text.encode("utf-8", "replace")
        piece = text[question.offset : question.offset + question.most_bytes]
        return ContentFound(msgspec.json.encode(about), piece, len(text), "text/plain")


_MOST_LINKS = 1000


def _listed_links(links: Sequence[Link]) -> list[dict[str, str]]:
    return [
        {"url": link.url, "kind": link.kind.name.lower(), "anchor": link.anchor}
        for link in links[:_MOST_LINKS]
    ]


def _undecoded(question: StateQuestion) -> StateQuestion:
    """The question to the table: a text needs the whole body."""
    if isinstance(question, ContentQuery) and question.as_text:
        return msgspec.structs.replace(question, offset=0, most_bytes=16 << 20)
    return question
