"""The parser port in a child process.

It promises that every document gets exactly one answer, whatever it does to the child. A document that takes
too long or kills the child is answered with the reason; the ones queued behind it go to a fresh child. Several documents
are on their way at once, so the child always has its next one, and answers come in order, so the document that it works
on is always the oldest unanswered: that one has the deadline, and that one is blamed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec

from lycosa.model.parsed import Document, Parsed
from lycosa.parse.parser_config import ParserConfig
from lycosa.ports import Clock
from lycosa.reasons import Reason
from lycosa.wire import UNREADABLE, FrameProtocol

WINDOW = 16
"""Documents sent ahead: enough that the child never waits for the loop, few enough to send again when it dies."""

_START_S = 60.0
_RETRY_S = 0.5
_MAX_FAILED_STARTS = 3


class ParserSnapshot(NamedTuple):
    """Counts since the start, and what is under way."""

    waiting: int
    sent: int
    answered: int
    children: int
    timeouts: int
    deaths: int


@dataclass(slots=True)
class _Job:
    document: Document
    answer: asyncio.Future[Parsed]


class _Child:
    """One process, the documents it was sent, and since when it has worked on the first of them."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket, now: float) -> None:
        self.process, self.sock = process, sock
        self.frames: FrameProtocol | None = None
        self.sent: deque[_Job] = deque()
        self.documents = 0
        self.head_since = now
        self.is_ready = False
        self.is_late = False
        self._ended = asyncio.Event()

    async def connect(self, on_frame: Callable[[_Child, bytes], None]) -> None:
        """Hears what it says from now on."""
        make = partial(FrameProtocol, partial(on_frame, self), self.end)
        _, self.frames = await asyncio.get_running_loop().create_connection(make, sock=self.sock)

    def end(self, _: Exception | None = None) -> None:
        """No more is expected of it, whyever."""
        self._ended.set()

    @property
    def is_over(self) -> bool:
        return self._ended.is_set()

    async def ended(self) -> None:
        await self._ended.wait()

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        """Its socket. Harmless when repeated."""
        if self.frames is not None:
            self.frames.close()
        else:
            self.sock.close()


class ChildParser:
    """Parses in a child process that may die of a document. Starts it with the first document; ``close`` ends it."""

    def __init__(self, config: ParserConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._waiting: deque[_Job] = deque()
        self._more = asyncio.Event()
        self._child: _Child | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_closing = False
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Parsed).decode
        self._counts = dict.fromkeys(("answered", "children", "timeouts", "deaths", "failed_starts"), 0)

    async def parse(self, document: Document) -> Parsed:
        """Everything the document says; ``PARSE_TIMEOUT`` or ``PARSE_KILLED`` when the child did not survive it."""
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="parse-child")
        elif self._running.done():
            raise RuntimeError("the parser is closed")
        job = _Job(document, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if self._child is None:
            self._more.set()
        else:
            self._send(self._child)
        return await job.answer

    async def close(self) -> None:
        """Kills the child and cancels what is still unanswered. Harmless when repeated."""
        if self._running is None:
            self._running = asyncio.create_task(asyncio.sleep(0))
        self._is_closing = True
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        while self._waiting:
            self._waiting.popleft().answer.cancel()

    @property
    def pid(self) -> int | None:
        """The child's process, when there is one."""
        return self._child.process.pid if self._child else None

    def recycle(self) -> None:
        """A fresh child takes over: it gives back what the old one hoards. What the old one was sent, it answers."""
        child = self._child
        if child is not None and child.sent:
            child.documents = max(child.documents, self._config.section.recycle_documents)
        elif child is not None and child.is_ready:
            child.kill()

    def snapshot(self) -> ParserSnapshot:
        """How it stands."""
        counts = self._counts
        sent = len(self._child.sent) if self._child else 0
        return ParserSnapshot(len(self._waiting), sent, counts["answered"], counts["children"], counts["timeouts"], counts["deaths"])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.snapshot()}>"

    async def _run(self) -> None:
        """One child after the other, as long as there are documents."""
        while True:
            await self._more.wait()
            self._more.clear()
            if not self._waiting:
                continue
            try:
                child = self._child = self._start()
            except OSError:  # no memory, no process or no descriptor left; that may pass
                self._give_up_after_failed_starts()
                await self._clock.sleep(_RETRY_S)
                self._more.set()
                continue
            try:
                await self._converse(child)
            finally:
                child.kill()
                child.close()
                self._take_back(child)
                self._child = None
                await self._reap(child)

    async def _reap(self, child: _Child) -> None:
        """Waits until the system has taken a killed process apart, which takes milliseconds, and more when it held much memory."""
        try:
            while child.process.poll() is None:
                await self._clock.sleep(0.005)
        finally:
            child.process.wait()  # cancelled meanwhile: closing leaves no zombie

    def _start(self) -> _Child:
        """Spawned, never forked: the worker has threads and open files that a child must not inherit."""
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)
            # -P: the current folder is the user's, nothing is imported from it.
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lycosa.parse.child", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C on the terminal is for the parent
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
            undo.pop_all()
        self._counts["children"] += 1
        return _Child(process, ours, self._clock.monotonic())

    async def _converse(self, child: _Child) -> None:
        """Sends and receives until the child has died, is late, or has had its number of documents."""
        await child.connect(self._receive)
        assert child.frames is not None
        child.frames.send(self._encode(self._config))
        watching = asyncio.create_task(self._watch(child))
        try:
            await child.ended()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def _send(self, child: _Child) -> None:
        """As many documents as may be on their way."""
        most = self._config.section.recycle_documents
        while self._waiting and child.is_ready and not child.is_over and len(child.sent) < WINDOW and child.documents < most:
            job = self._waiting.popleft()
            if job.answer.done():
                continue  # nobody wants it any more
            try:
                frame = self._encode(job.document)
            except ValueError as error:  # a string that is no Unicode
                self._answer(job, Parsed(reason=Reason.INTERNAL, detail=str(error)[:500]))
                continue
            if not child.sent:
                child.head_since = self._clock.monotonic()
            child.sent.append(job)
            child.documents += 1
            assert child.frames is not None
            child.frames.send(frame)

    def _receive(self, child: _Child, frame: bytes) -> None:
        """The child's word that it is ready, then an answer for each document."""
        if not child.is_ready:
            child.is_ready = True
            self._counts["failed_starts"] = 0
        elif child.sent:
            child.head_since = self._clock.monotonic()
            try:
                self._answer(child.sent[0], self._decode(frame))
            except UNREADABLE:  # it went wrong in some way: that is its end
                child.end()
                return
            child.sent.popleft()
        if child.documents >= self._config.section.recycle_documents and not child.sent:
            child.end()
        else:
            self._send(child)

    async def _watch(self, child: _Child) -> None:
        """Kills the child when its first document is over the deadline, or when it does not start."""
        while True:
            limit = self._config.section.deadline_s if child.is_ready else _START_S
            asleep_since = self._clock.monotonic()
            due = child.head_since + limit if child.sent or not child.is_ready else asleep_since + limit
            # Never longer than a deadline, because what it waits for may change meanwhile.
            await self._clock.sleep(max(0.0, min(due - asleep_since, self._config.section.deadline_s)))
            now = self._clock.monotonic()
            if now - asleep_since > 2 * limit + 1:
                child.head_since = now  # the machine was suspended; that is not the document's fault
            elif (child.sent or not child.is_ready) and now - child.head_since >= limit:
                child.is_late = True
                child.kill()
                return

    def _take_back(self, child: _Child) -> None:
        """After a child's end: blames the first of its documents, unless we ended it, and queues the others again in their order."""
        if child.sent and not self._is_closing:
            reason = Reason.PARSE_TIMEOUT if child.is_late else Reason.PARSE_KILLED
            self._counts["timeouts" if child.is_late else "deaths"] += 1
            self._answer(child.sent.popleft(), Parsed(reason=reason, detail=reason.meaning))
        elif not child.is_ready and not self._is_closing:
            self._give_up_after_failed_starts()
        self._waiting.extendleft(reversed(child.sent))
        child.sent.clear()
        if self._waiting:
            self._more.set()

    def _give_up_after_failed_starts(self) -> None:
        self._counts["failed_starts"] += 1
        if self._counts["failed_starts"] >= _MAX_FAILED_STARTS:
            self._counts["failed_starts"] = 0
            while self._waiting:
                self._answer(self._waiting.popleft(), Parsed(reason=Reason.INTERNAL, detail="the parse child does not start"))

    def _answer(self, job: _Job, parsed: Parsed) -> None:
        self._counts["answered"] += 1
        if not job.answer.done():
            job.answer.set_result(parsed)
