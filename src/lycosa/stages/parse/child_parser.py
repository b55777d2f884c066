"""The parser port in a child process.

Every document gets exactly one answer, whatever it does to the child, and no document suffers from
the faults of another. Several documents are sent ahead, so the child always has a next one. Answers
come in order, so the child always works on the oldest unanswered document, which is the suspect
when the child ends.

A document has a limit of processor time, which the system enforces (``child``). So a busy machine
fails none. A child that does not answer for long, although it used little of that time, is killed
too. Its document is answered with ``PARSE_STALLED`` at once: the documents behind it wait, and it
is parsed again when the machine is less busy.

A suspect is tried once more, alone in a fresh child. The system's OOM killer, an operator or a
suspended machine can end a child just as a hostile page does, but not twice in a row at the same
page. A page that ends a second child is answered with the reason.

When no child can be started (no process, memory or descriptor is available, or children end before
they are ready), documents wait. The start is retried until it succeeds, and ``health`` reports
since when and why there is no child.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import NamedTuple

import msgspec

from lycosa.base.model.parsed import Parsed, ParseInput, ParserHealth
from lycosa.base.ports import Clock
from lycosa.base.reasons import Reason
from lycosa.base.system.frames import UNREADABLE
from lycosa.stages.parse.answer_parts import put_together
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.stages.parse.running_child import ParseJob, RunningChild, start_child

WINDOW = 16
"""Maximum number of documents sent to the child.

With that many the child never waits for the loop, and few have to be sent again when it dies.
"""

_START_S = 60.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 5.0  # between two attempts to start a child
_DOUBTFUL = frozenset({Reason.PARSE_KILLED, Reason.INTERNAL})
"""Reasons in an answer that may be due to earlier documents, such as fragmented memory."""


class ParserSnapshot(NamedTuple):
    """Counts since the start, and documents in flight."""

    waiting: int
    sent: int
    answered: int
    children: int
    timeouts: int
    deaths: int


class ChildParser:
    """Parses in a child process that a document may kill.

    The first document starts the child; ``close`` ends it.
    """

    def __init__(self, config: ParserConfig, clock: Clock) -> None:
        self._config = self._told = config
        self._clock = clock
        self._waiting: deque[ParseJob] = deque()
        self._more = asyncio.Event()
        self._child: RunningChild | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_closing = False
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Parsed).decode
        self._counts = dict.fromkeys(
            ("answered", "children", "timeouts", "deaths", "tried_again"), 0
        )
        self._retry_s = _FIRST_RETRY_S
        # while no child can be started
        self._away_since, self._away_why, self._away_total_s = 0.0, "", 0.0

    async def parse(self, document: ParseInput) -> Parsed:
        """The content of the document.

        ``PARSE_TIMEOUT`` or ``PARSE_KILLED`` when it ended two children in a row,
        ``PARSE_STALLED`` when a child did not answer. Waits while no child can be started.
        """
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="parse-child")
        elif self._running.done():
            raise RuntimeError("the parser is closed")
        job = ParseJob(document, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if self._child is None:
            self._more.set()
        else:
            self._send(self._child)
        return await put_together(await job.answer, self._give_way)

    async def _give_way(self) -> None:
        await self._clock.sleep(0)

    async def close(self) -> None:
        """Kill the child and cancel all unanswered documents. Further calls do nothing."""
        if self._running is None:
            self._running = asyncio.create_task(asyncio.sleep(0))
        self._is_closing = True
        self._running.cancel()
        # The cancellation is ours, of the line before.
        with suppress(asyncio.CancelledError):
            await self._running
        while self._waiting:
            self._waiting.popleft().answer.cancel()

    @property
    def pid(self) -> int | None:
        """The process id of the child, or ``None``."""
        return self._child.process.pid if self._child else None

    def recycle(self) -> None:
        """Replace the child by a fresh one, which frees the memory that the old one retains.

        The old one still answers the documents that it was sent.
        """
        child = self._child
        if child is not None and child.sent:
            child.documents = max(child.documents, self._config.section.recycle_documents)
        elif child is not None and child.is_ready:
            child.stop_reading()  # it gets no more documents, so its end makes none a suspect

    def judge_scripts(self, is_wanted: bool) -> None:
        """See ``Parser``. A child has one configuration, so another one begins."""
        if is_wanted is not self._config.judges_scripts:
            self._config = msgspec.structs.replace(self._config, judges_scripts=is_wanted)
            self.recycle()

    def snapshot(self) -> ParserSnapshot:
        counts = self._counts
        sent = len(self._child.sent) if self._child else 0
        return ParserSnapshot(
            len(self._waiting),
            sent,
            counts["answered"],
            counts["children"],
            counts["timeouts"],
            counts["deaths"],
        )

    def health(self) -> ParserHealth:
        """Whether there is a child, why there is none, and how often one ended."""
        away_s = max(self._clock.monotonic() - self._away_since, 0.001) if self._away_why else 0.0
        counts = self._counts
        return ParserHealth(
            waiting=len(self._waiting),
            away_s=away_s,
            away_why=self._away_why,
            away_total_s=self._away_total_s + away_s,
            deaths=counts["deaths"] + counts["timeouts"],
            tried_again=counts["tried_again"],
        )

    async def _run(self) -> None:
        """Run one child after the other.

        If this fails, which only a program error can cause, all waiting callers get the error.
        """
        try:
            while True:
                await self._more.wait()
                self._more.clear()
                # After a failed start, try again even without a document: callers may send none to
                # a parser that reports that it is away.
                if self._waiting or self._away_why:
                    await self._use_child()
        except Exception as error:
            # Nothing else would answer the waiting documents, and their visits would never end.
            for job in self._waiting:
                if not job.answer.done():
                    job.answer.set_exception(RuntimeError(f"the parser failed: {error!r}"))
            raise

    async def _use_child(self) -> None:
        """Run one child from its start to its end, or pause when none can be started."""
        try:
            child = self._child = start_child(self._clock.monotonic())
        # no memory, process or descriptor is available; such a shortage passes
        except (OSError, MemoryError) as error:
            await self._stay_away(
                getattr(error, "strerror", None) or str(error) or type(error).__name__
            )
            return
        self._counts["children"] += 1
        try:
            await self._converse(child)
        finally:
            child.kill()
            child.close()
            try:
                await self._reap(child)
            finally:  # the documents after the reaping, because their reasons depend on it
                self._take_back(child)
                self._child = None
        if not child.is_ready:
            why = f"no answer within {_START_S:g} s" if child.is_late else child.how_it_ended()
            await self._stay_away(f"it ended before it was ready: {why}")

    async def _stay_away(self, why: str) -> None:
        """Pause after a failed start. The pauses grow, because each try costs scarce resources."""
        self._away_since = self._away_since if self._away_why else self._clock.monotonic()
        self._away_why = why
        await self._clock.sleep(self._retry_s)
        # A machine that lacks memory gets worse by many tries to start a process.
        self._retry_s = min(2 * self._retry_s, _LONGEST_RETRY_S)
        self._more.set()

    def _come_back(self) -> None:
        """Record that a child is ready."""
        if self._away_why:
            self._away_total_s += self._clock.monotonic() - self._away_since
        self._away_why, self._retry_s = "", _FIRST_RETRY_S

    async def _reap(self, child: RunningChild) -> None:
        """Wait until the system has removed a killed process.

        That takes milliseconds, and longer if it held much memory.
        """
        try:
            while child.process.poll() is None:
                await self._clock.sleep(0.005)
        finally:
            child.process.wait()  # if cancelled meanwhile, so that no zombie is left

    async def _converse(self, child: RunningChild) -> None:
        """Exchange frames until the child has died, is late, or has had its number of documents."""
        await child.start_reading(self._receive)
        assert child.frames is not None
        self._told = self._config
        child.frames.write(self._encode(self._told))
        watching = asyncio.create_task(self._watch(child))
        try:
            await child.ended()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def _send(self, child: RunningChild) -> None:
        """Send the child as many documents as may be in flight."""
        most = self._config.section.recycle_documents
        while (
            self._waiting
            and child.takes_documents
            and len(child.sent) < WINDOW
            and child.documents < most
        ):
            # A suspect has a child alone, so that its death names the document that caused it.
            if child.sent and (child.works_alone or self._waiting[0].is_suspect):
                return
            job = self._waiting.popleft()
            if job.answer.done():
                continue  # the caller was cancelled
            try:
                # A suspect is not tried a third time, so its last try may cut it to fit the memory.
                document = (
                    msgspec.structs.replace(job.document, is_last_try=True)
                    if job.is_suspect
                    else job.document
                )
                frame = self._encode(document)
            except ValueError as error:  # a string that is not valid Unicode
                self._answer(job, Parsed(reason=Reason.INTERNAL, detail=str(error)[:500]))
                continue
            if not child.sent:
                child.head_since = self._clock.monotonic()
            child.sent.append(job)
            child.documents += 1
            assert child.frames is not None
            child.frames.write(frame)

    def _receive(self, child: RunningChild, frame: bytes) -> None:
        """Handle a frame of the child: first that it is ready, then one answer per document."""
        if not child.is_ready:
            child.is_ready = True
            child.head_since = self._clock.monotonic()
            self._come_back()
            if self._told is not self._config:
                child.stop_reading()
        elif child.sent and not child.is_over:
            child.head_since = self._clock.monotonic()
            try:
                parsed = self._decode(frame)
            except UNREADABLE:  # the child is faulty, so it is replaced
                child.stop_reading()
                return
            # The child's own failures are not final: a fresh child parses the document again,
            # alone.
            if parsed.reason in _DOUBTFUL and not child.works_alone:
                child.is_dismissed = True
                child.stop_reading()
                return
            self._answer(child.sent.popleft(), parsed)
        if child.documents >= self._config.section.recycle_documents and not child.sent:
            child.stop_reading()
        else:
            self._send(child)

    async def _watch(self, child: RunningChild) -> None:
        """Kill the child when it does not answer for its first document, or does not start."""
        longest_s = self._config.longest_wait_s()
        while True:
            limit = self._limit_of(child)
            asleep_since = self._clock.monotonic()
            since = child.head_since if child.sent or not child.is_ready else asleep_since
            # Not longer, because the document that is watched may change meanwhile.
            pause_s = max(0.0, min(since + limit - asleep_since, longest_s))
            await self._clock.sleep(pause_s)
            now = self._clock.monotonic()
            if now - asleep_since - pause_s > self._config.section.deadline_s:
                child.head_since = now  # the machine was suspended; the child did not run either
            limit = self._limit_of(child)
            if (child.sent or not child.is_ready) and now - child.head_since >= limit:
                child.is_late = True
                child.late = child.sent[0] if child.sent else None
                child.kill()
                return

    def _limit_of(self, child: RunningChild) -> float:
        """Seconds that the child has for its first document, or for its start."""
        if not child.is_ready:
            return _START_S
        return self._config.longest_wait_s(child.sent[0].document.tries if child.sent else 0)

    def _take_back(self, child: RunningChild) -> None:
        """Handle the documents of a child that has ended, after all its answers were read.

        The first one becomes a suspect; if it was one already, or if the child did not answer, it
        is answered with the reason. The others are queued again in their order.
        """
        if child.sent and not self._is_closing:
            has_used_time = child.is_late or child.used_its_time
            if not child.is_dismissed:
                self._counts["timeouts" if has_used_time else "deaths"] += 1
            job = child.sent[0]
            reason = Reason.PARSE_TIMEOUT if child.used_its_time else Reason.PARSE_KILLED
            if child.is_late:
                # The child may have answered the late document just before the kill. Then it had
                # no time for the next one, and no document is blamed.
                if job is child.late:
                    self._answer_with(child.sent.popleft(), Reason.PARSE_STALLED)
            elif job.is_suspect:
                self._answer_with(child.sent.popleft(), reason)
            else:
                job.is_suspect = True
                self._counts["tried_again"] += 1
        self._waiting.extendleft(reversed(child.sent))
        child.sent.clear()
        if self._waiting:
            self._more.set()

    def _answer_with(self, job: ParseJob, reason: Reason) -> None:
        self._answer(job, Parsed(reason=reason, detail=reason.meaning))

    def _answer(self, job: ParseJob, parsed: Parsed) -> None:
        self._counts["answered"] += 1
        if not job.answer.done():
            job.answer.set_result(parsed)
