"""Answers questions about a running worker's partitions, on a separate thread.

One thread reads the committed tables, one question at a time. Python runs either this thread or the
loop, so three things keep the crawl from noticing it. While a question is answered the two take
turns of a millisecond; Python's default of five would make each of the loop's waits for a socket
five milliseconds longer. A question ends when its budget is spent, and says so. And all questions
together get a share of a core: a caller that asks more waits, so callers slow each other down and
not the crawl. A question whose caller waits no longer is dropped, so it uses nothing of the share.

Each question sees its partition as it was after one commit. While it is read, a commit saves the
values that it replaces, in its own thread.

The text of a stored document is made by a separate parse child, because a hostile document may
take a child's memory and time, and the crawl's child has other work.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from math import inf
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lycosa.base.calls import (
    ActionsQuery,
    CallRefusal,
    CallReply,
    ChangesQuery,
    ContentFound,
    ContentQuery,
    DeadLettersQuery,
    HostsQuery,
    StateQuestion,
    UrlQuery,
)
from lycosa.base.model.parsed import Link, Parsed, ParseInput
from lycosa.base.preferences.preference_model import Preferences, combine
from lycosa.base.preferences.use_policy import UsePolicy, agent_policy
from lycosa.base.system.clock import SystemClock
from lycosa.base.system.meter import Meter
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.stages.parse.parser_pair import ParserPair
from lycosa.state.kv.kv_port import TableError
from lycosa.state.shard.view import CrawlView
from lycosa.state.store.damage import StoreDamaged
from lycosa.state.store.journal import JournalError
from lycosa.state.store.stored_data import RecordError

if TYPE_CHECKING:
    from lycosa.inspect.queries.answering import StateAnswers

OpenView = Callable[[int | None], AbstractContextManager[CrawlView]]
"""Opens a view that has this partition, or all of them. Blocks."""

SHARE = 0.03
"""The part of a core that questions may use in the long run."""

_MAX_SAVED_S = 1.5  # processor time that may be used at once after a rest
_TURN_S = 0.001
_BUDGET_S = 0.1
_LIST_BUDGET_S = 0.015  # of a question that is asked of all partitions
_PART_S = 0.01  # of reading hosts for orders, between questions
_LOOK_S = 1.0  # between looks whether the caller of a question that waits is still there
_REFRESH_S = 0.5  # between two parts while hosts are to be read
_TEXT_IDLE_S = 60.0  # after this the parse child for texts is ended
_ENDING = CallRefusal("the owner of this partition is ending: call again")
_LATE = CallRefusal("the time that the caller waits was over before the question had its turn")
_OF_ALL = (HostsQuery, DeadLettersQuery, ActionsQuery, ChangesQuery)
_UNREADABLE = (TableError, StoreDamaged, RecordError, JournalError, OSError)


class Allowance:
    """Processor time that may be used: ``share`` seconds a second, saved up to a bound."""

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share, self._clock = share, clock
        self._saved_s, self._at = _MAX_SAVED_S, clock()
        self.used_s = 0.0
        """Processor time that was used so far."""

    def wait_s(self) -> float:
        """Seconds until something may be used."""
        now = self._clock()
        self._saved_s = min(self._saved_s + (now - self._at) * self._share, _MAX_SAVED_S)
        self._at = now
        return 0.0 if self._saved_s > 0 else -self._saved_s / self._share + 0.001

    @property
    def is_ample(self) -> bool:
        """Whether there is enough for work that no caller waits for at this moment."""
        return self.wait_s() == 0.0 and self._saved_s > _MAX_SAVED_S / 2

    def use(self, seconds: float) -> None:
        """Note processor time that was used."""
        self._saved_s -= seconds
        self.used_s += seconds


class _Waiting(NamedTuple):
    """A question, the future of its answer, and until when (monotonic) its caller waits."""

    partition: int
    question: StateQuestion
    answer: asyncio.Future[CallReply]
    until: float

    @property
    def is_late(self) -> bool:
        """Whether no caller waits for the answer any more."""
        return self.answer.done() or time.monotonic() >= self.until


class StateReader:
    """Answers questions from views. ``close`` before what they read is closed."""

    def __init__(self, open_view: OpenView, share: float = SHARE) -> None:
        self._open_view = open_view
        self.allowance = Allowance(share)
        self.answered = 0
        """Number of questions that were answered."""
        self.dropped = 0
        """Number of questions that were dropped, because their callers waited no longer."""
        self._questions: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._is_ending = Event()
        self._answers: StateAnswers | None = None
        self._texts: ParserPair | None = None
        self._ending_texts: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def parser_pid(self) -> int | None:
        """The parse child for texts, ``None`` while there is none."""
        return self._texts.pids["parser"] if self._texts is not None else None

    async def answer(self, partition: int, question: StateQuestion) -> CallReply:
        """The answer to a question about a partition of the worker."""
        if self._is_ending.is_set():
            return _ENDING
        loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = Thread(target=self._run, args=(loop,), name="state-reader", daemon=True)
            self._thread.start()
        until = time.monotonic() + question.within_s if question.within_s else inf
        waiting = _Waiting(partition, question, loop.create_future(), until)
        self._questions.put(waiting)
        reply = await waiting.answer
        if isinstance(question, ContentQuery) and question.as_text:
            reply = await self._as_text(reply, question)
        return reply

    async def close(self) -> None:
        """End the thread after the question that it answers now; refuse the others."""
        self._is_ending.set()
        if self._thread is not None:
            # The thread may wait in `get`, where it does not see the event.
            self._questions.put(None)
            # On another thread: the loop must turn until the question in progress is answered.
            await asyncio.to_thread(self._thread.join)
        self._end_texts()
        await asyncio.gather(*self._closing)

    # -- on the thread

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer all questions that wait, one after the other, without the loop in between.

        The loop may take long for one turn, and a list takes a question for each partition.
        """
        while True:
            try:
                # The timeout gives idle time to the orders of hosts.
                waiting = self._questions.get(timeout=self._pause_s())
            except Empty:
                self._read_hosts()
                continue
            if waiting is None:
                break
            loop.call_soon_threadsafe(_settle, waiting.answer, self._in_turn(waiting))

    def _in_turn(self, waiting: _Waiting) -> CallReply:
        """The answer, as soon as the share allows the work; none for a caller that went away."""
        while not waiting.is_late and (wait_s := self.allowance.wait_s()) > 0:
            rest_s = max(waiting.until - time.monotonic(), 0.0)
            # A wait on the event, so that `close` does not wait until the share allows the
            # question.
            if self._is_ending.wait(min(wait_s, rest_s, _LOOK_S)):
                break
        if self._is_ending.is_set():
            return _ENDING
        if waiting.is_late:
            self.dropped += 1
            return _LATE
        return self._measured(waiting)

    def _measured(self, waiting: _Waiting) -> CallReply:
        began, usual_s = time.thread_time(), sys.getswitchinterval()
        # The loop must not wait the usual 5 ms of CPython for the lock each time it has work.
        sys.setswitchinterval(_TURN_S)
        try:
            return self._answer(waiting.partition, waiting.question)
        except _UNREADABLE as error:
            # Damage is for the audit to judge; a question must not end the crawl.
            return CallRefusal(f"the state cannot be read: {error}")
        except Exception as error:  # a program error must not end the thread, nor the crawl
            return CallRefusal(f"the question cannot be answered: {error!r}"[:500])
        finally:
            self.answered += 1
            sys.setswitchinterval(usual_s)
            # Also after an error: the time was used.
            self.allowance.use(time.thread_time() - began)

    def _answer(self, partition: int, question: StateQuestion) -> CallReply:
        # Most workers are never asked, so they do not load what answers.
        from lycosa.inspect.queries.answering import StateAnswers
        from lycosa.inspect.queries.time_budget import TimeBudget

        if self._answers is None:
            self._answers = StateAnswers(is_kept_ready=True)
        # An explanation follows redirects, and needs the places of the scope, which are anywhere.
        with self._open_view(None if isinstance(question, UrlQuery) else partition) as view:
            is_of_all = isinstance(question, _OF_ALL)
            budget = TimeBudget(_LIST_BUDGET_S if is_of_all else _BUDGET_S)
            return self._answers.answer(view, partition, _undecoded(question), budget)

    def _pause_s(self) -> float | None:
        """Seconds after which hosts are to be read for an order; ``None`` when none are."""
        unread = self._answers.unread() if self._answers is not None else []
        if self._answers is None or not unread:
            return None
        return _PART_S if self._answers.is_new(unread) else _REFRESH_S

    def _read_hosts(self) -> None:
        """Read some hosts for an order that is asked for, while no question waits."""
        assert self._answers is not None
        if not self.allowance.is_ample or not (unread := self._answers.unread()):
            return
        from lycosa.inspect.queries.time_budget import TimeBudget  # it is loaded already

        began = time.thread_time()
        # the next question tells about damage
        with suppress(*_UNREADABLE), self._open_view(unread[0]) as view:
            self._answers.read_orders(view, unread[0], TimeBudget(_PART_S))
        # Counted like a question, so both together keep within the share.
        self.allowance.use(time.thread_time() - began)

    # -- texts

    async def _as_text(self, reply: CallReply, question: ContentQuery) -> CallReply:
        """The visible text and the links of a stored body instead of the body."""
        if not isinstance(reply, ContentFound) or reply.total_bytes < 0:
            return reply
        assert self._answers is not None and self._answers.saved is not None, "it answered"
        if self._texts is None:
            config = self._answers.saved.config
            limits = ParserConfig(config.parse, config.canonical, config.agent.product)
            self._texts = ParserPair(limits, SystemClock())
        if self._ending_texts is not None:
            self._ending_texts.cancel()
        about = msgspec.json.decode(reply.about)
        headers = [("content-type", reply.media_type)] if reply.media_type else []
        document = ParseInput(about["url"], int(about["status"]), headers, reply.body)
        parsed = await self._texts.parse(document)
        if self._ending_texts is not None:
            self._ending_texts.cancel()  # of a question that was answered meanwhile
        loop = asyncio.get_running_loop()
        self._ending_texts = loop.call_later(_TEXT_IDLE_S, self._end_texts)
        about |= {
            "title": parsed.title,
            "language": parsed.language,
            "parse_reason": parsed.reason.meaning if parsed.reason else "",
            "links": _listed_links(parsed.links),
            "outlinks": len(parsed.links),
        }
        policy = agent_policy(self._answers.saved.config.agent)
        if policy.purpose:
            about["may_use"] = policy.allows(_with_markup(about["preferences"], parsed))
            if not about["may_use"]:
                return _withheld(about, policy)
        text = parsed.text.encode("utf-8", "replace")
        piece = text[question.offset : question.offset + question.most_bytes]
        return ContentFound(msgspec.json.encode(about), piece, len(text), "text/plain")

    def _end_texts(self) -> None:
        """End the parse child for texts."""
        texts, self._texts = self._texts, None
        if self._ending_texts is not None:
            self._ending_texts.cancel()
        if texts is not None:
            task = asyncio.get_running_loop().create_task(texts.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def measure_reader(meter: Meter, reader: StateReader) -> None:
    """Count questions, and what they cost, in a worker's meter."""

    def read() -> None:
        meter.set("lycosa_questions_total", reader.answered)
        meter.set("lycosa_questions_dropped_total", reader.dropped)
        meter.set("lycosa_question_seconds_total", reader.allowance.used_s)

    meter.watch(read)


def _settle(answer: asyncio.Future[CallReply], reply: CallReply) -> None:
    if not answer.done():
        answer.set_result(reply)


def _with_markup(answers: Mapping[str, bool], parsed: Parsed) -> Preferences:
    """The preferences of a stored capture.

    Those of the markup are among them, unless the document was not parsed when it was stored.
    """
    found = dict(answers)
    for use, allowed in combine(parsed.statements).items():
        found[use] = allowed and found.get(use, True)
    return Preferences(found)


def _withheld(about: dict[str, Any], policy: UsePolicy) -> ContentFound:
    """The answer without words of the page, and why."""
    purpose = ", ".join(policy.purpose)
    links = [each | {"anchor": ""} for each in about["links"]]
    about |= {"title": "", "links": links}
    about["reason"] = f"its site does not allow {purpose} to use it"
    return ContentFound(msgspec.json.encode(about), b"", 0, "text/plain")


_MAX_LINKS = 1000


def _listed_links(links: Sequence[Link]) -> list[dict[str, str]]:
    return [
        {"url": link.url, "kind": link.kind.name.lower(), "anchor": link.anchor}
        for link in links[:_MAX_LINKS]
    ]


def _undecoded(question: StateQuestion) -> StateQuestion:
    """The question to the table: a text needs the whole body."""
    if isinstance(question, ContentQuery) and question.as_text:
        return msgspec.structs.replace(question, offset=0, most_bytes=16 << 20)
    return question
