"""The parent's side of the process of user code: every page gets exactly one answer.

Several pages are sent ahead, so the child always has a next one. Answers come in order, so the
child works on the oldest page without an answer, and that page is blamed when the child ends. With
several codes on it, each is tried alone, so that one with faults takes no rows from the others. A
code that is alone with its page and uses up the time gets a failure. If the child ended otherwise,
the page is tried once more, because the system may have ended it for lack of memory, or an
operator. The pages behind are sent to the next child.

A code that ends its child too often is suspended (``MOST_OVERRUNS`` of the last ``OF_PAGES`` pages
that it got): it is not called any more, and its pages get that as their failure, so that they can
be extracted later.

Nothing that the child answers is trusted: rows are checked against the columns that are known from
the start of the crawl, links are made canonical again by the caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from lycosa.base.config.sections import CanonicalSection, ExtensionSection
from lycosa.base.model.known_code import KnownCode
from lycosa.base.ports import Clock
from lycosa.base.system.frames import UNREADABLE
from lycosa.stages.extract.called_code import (
    CalledCode,
    ExtensionCounts,
    checked_answer,
    failed_answer,
    joined_answer,
)
from lycosa.stages.extract.code_messages import (
    ChildAnswer,
    ChildOrders,
    ChildReport,
    ChildTask,
    ExtensionAnswer,
    GivenDocument,
)
from lycosa.stages.extract.code_process import (
    LOAD_S,
    WALL_FACTOR,
    CodeProcess,
    start_code_process,
)

PAGES_SENT = 4
"""Maximum number of pages sent to the child."""
_STARTS = 5  # attempts to start a child, before its pages get a failure
_RETRY_S = 0.5

TellOutput = Callable[[str], object]
"""Gets the beginning of what user code printed for a page."""


class _Task:
    """A page for some codes, and who waits for the answer."""

    __slots__ = ("answer", "codes", "is_suspect", "page")

    def __init__(self, codes: tuple[int, ...], page: GivenDocument) -> None:
        self.codes, self.page, self.is_suspect = codes, page, False
        self.answer: asyncio.Future[ExtensionAnswer] = asyncio.get_running_loop().create_future()

    def settle(self, answer: ExtensionAnswer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class ExtensionChild:
    """Runs user code in a child process. The first page starts it; ``close`` ends it.

    ``codes`` have the parts that ``code_check.described`` found. ``path`` are folders in which the
    child finds modules.
    """

    def __init__(
        self,
        codes: Sequence[KnownCode],
        section: ExtensionSection,
        canonical: CanonicalSection,
        clock: Clock,
        path: Sequence[str] = (),
        tell_output: TellOutput = lambda text: None,
    ) -> None:
        self._section, self._canonical, self._clock = section, canonical, clock
        self._path, self._tell_output = tuple(path), tell_output
        self._waiting: deque[_Task] = deque()
        self._more = asyncio.Event()
        self._child: CodeProcess[_Task] | None = None
        self._running: asyncio.Task[None] | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(ChildAnswer).decode
        self.counts = ExtensionCounts()
        self.generation = 0
        """Grows with each ``use_code``: an answer of an earlier one is of other code."""
        self.use_code(codes)

    def __repr__(self) -> str:
        return f"<ExtensionChild waiting={len(self._waiting)} {self.counts}>"

    @property
    def suspended(self) -> list[str]:
        """The names of codes that are not called any more."""
        return [each.known.name for each in self._codes if each.is_suspended]

    @property
    def pid(self) -> int | None:
        """The process id of the child, or ``None``."""
        return self._child.process.pid if self._child else None

    def use_code(self, codes: Sequence[KnownCode]) -> None:
        """Call other code from now on. Pages that wait get the answer of the new code."""
        self.codes = tuple(codes)  # an attribute, because a worker looks at it for each page
        self._codes = [CalledCode(each) for each in codes]
        self._bad_starts, self._load_error = 0, ""
        self.generation += 1
        for task in (*self._waiting, *(self._child.sent if self._child else ())):
            task.codes = self.wanted(task.page.url)
        if self._child is not None:
            self._child.dismiss()  # what it still answers is not taken

    def wanted(self, url: str) -> tuple[int, ...]:
        """The codes that want the page with this URL, by their numbers; empty for most pages."""
        text = url.encode()
        return tuple(number for number, each in enumerate(self._codes) if each.is_for(text))

    async def answer(self, page: GivenDocument, codes: tuple[int, ...] = ()) -> ExtensionAnswer:
        """What the codes say of a page: those that want it, if none are named.

        Never raises for what user code does.
        """
        parts: list[ExtensionAnswer] = []
        chosen = []
        for number in codes or self.wanted(page.url):
            code = self._codes[number]
            code.pages += 1
            if self._load_error:
                parts.append(failed_answer(code, "CodeError", self._load_error))
            elif code.is_suspended:
                said = "it ended its process too often, and is not called in this run"
                parts.append(failed_answer(code, "Suspended", said))
            else:
                chosen.append(number)
        self.counts.pages += 1
        if chosen:
            parts.append(await self._asked(tuple(chosen), page))
        return joined_answer(parts)

    async def _asked(self, codes: tuple[int, ...], page: GivenDocument) -> ExtensionAnswer:
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="extension-child")
        task = _Task(codes, page)
        self._waiting.append(task)
        self._more.set()
        if self._child is not None:
            self._send(self._child)
        return await task.answer

    def kill(self) -> None:
        """As ``close``, without waiting for more than the end of the process."""
        if self._running is not None:
            self._running.cancel()
        if self._child is not None:
            self._child.kill()
        while self._waiting:
            self._waiting.popleft().answer.cancel()

    async def close(self) -> None:
        """Kill the child and cancel all pages without an answer. Further calls do nothing."""
        if self._running is None:
            self._running = asyncio.create_task(asyncio.sleep(0))
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        while self._waiting:
            self._waiting.popleft().answer.cancel()

    # -- one child after the other

    async def _run(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            if not self._waiting:
                continue
            try:
                process, sock = start_code_process(self._section.environment)
            except (OSError, MemoryError) as error:  # such a shortage passes
                await self._note_bad_start(f"no process can be started: {error}", is_final=False)
                continue
            await self._use(CodeProcess[_Task](process, sock))

    async def _note_load(self, child: CodeProcess[_Task]) -> None:
        """The code could not be loaded, which it could at the start of the crawl."""
        said = child.report.error if child.report is not None else ""
        why = said or child.why(self._section.page_s) or "its process ended while loading it"
        await self._note_bad_start(why, is_final=bool(said))

    async def _note_bad_start(self, why: str, *, is_final: bool) -> None:
        """Try again some times: the machine may lack memory. Then all pages get the failure."""
        self._bad_starts += 1
        if is_final or self._bad_starts >= _STARTS:
            self._load_error = why
            self._fail_all("CodeError", why)
        else:
            self._more.set()
            await self._clock.sleep(_RETRY_S * self._bad_starts)

    def _fail_all(self, error: str, message: str) -> None:
        while self._waiting:
            task = self._waiting.popleft()
            parts = [failed_answer(self._codes[each], error, message) for each in task.codes]
            task.settle(joined_answer(parts))

    async def _use(self, child: CodeProcess[_Task]) -> None:
        """Run one child from its start to its end."""
        self._child, codes = child, self._codes
        self.counts.children += 1
        child.head_since = self._clock.monotonic()
        try:
            await child.open(lambda frame: self._receive(child, frame))
            assert child.frames is not None
            orders = ChildOrders(
                self.codes,
                self._canonical,
                self._section.page_s,
                self._section.memory_bytes,
                self._section.max_links,
                self._path,
            )
            child.frames.write(self._encode(orders))
            watching = asyncio.create_task(self._watch(child))
            try:
                await child.ended.wait()
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        finally:
            try:
                await child.end(self._clock)
            finally:
                self._child = None
                self._take_back(child)
        if self._codes is codes and (child.report is None or child.report.error):
            await self._note_load(child)

    def _send(self, child: CodeProcess[_Task]) -> None:
        while self._waiting and child.takes_pages and len(child.sent) < PAGES_SENT:
            task = self._waiting[0]
            # A suspect has a child alone, so that its end names the page that caused it.
            if child.sent and (task.is_suspect or child.sent[0].is_suspect):
                return
            self._waiting.popleft()
            if task.answer.done():
                continue  # the caller was cancelled
            if not task.codes:  # the code that wanted it is not in use any more
                task.settle(ExtensionAnswer())
                continue
            try:
                frame = self._encode(ChildTask(task.codes, task.page))
            except ValueError as error:  # text that is not valid Unicode
                parts = [
                    failed_answer(self._codes[each], "ValueError", str(error))
                    for each in task.codes
                ]
                task.settle(joined_answer(parts))
                continue
            if not child.sent:
                child.head_since = self._clock.monotonic()
            child.sent.append(task)
            assert child.frames is not None
            child.frames.write(frame)

    def _receive(self, child: CodeProcess[_Task], frame: bytes) -> None:
        child.head_since = self._clock.monotonic()
        if child.ended.is_set():
            return
        try:
            if child.report is None:
                child.report = msgspec.msgpack.decode(frame, type=ChildReport)
                if child.report.error:
                    child.ended.set()
                self._bad_starts = 0
            elif child.sent:
                self._take(child, self._decode(frame))
        except UNREADABLE:  # user code wrote to our socket, or spoiled the encoder
            child.ended.set()
        self._send(child)

    def _take(self, child: CodeProcess[_Task], found: ChildAnswer) -> None:
        task = child.sent[0]
        if found.left:
            child.dismiss()
            if len(task.codes) > 1:
                child.sent.popleft()
                self._divide(task)  # each alone, to find the one that left it
                return
            found = msgspec.structs.replace(
                found,
                answer=self._overrun(task.codes[0], f"it left {found.left} behind"),
            )
        child.sent.popleft()
        if found.output:
            self._tell_output(found.output)
        self.counts.elapsed_s += max(found.elapsed_s, 0.0)
        answer = checked_answer(
            [self._codes[number] for number in task.codes],
            found.answer,
            self._section.max_links,
        )
        self.counts.rows += sum(len(rows) for rows in answer.items.values())
        task.settle(answer)

    async def _watch(self, child: CodeProcess[_Task]) -> None:
        """Kill the child when it does not answer for its first page, or does not start."""
        while True:
            longest_s = WALL_FACTOR * self._section.page_s
            limit_s = longest_s if child.report is not None else max(LOAD_S, longest_s)
            waited_s = self._clock.monotonic() - child.head_since
            is_busy = bool(child.sent) or child.report is None
            if is_busy and waited_s >= limit_s:
                child.is_late = True
                child.ended.set()
                return
            # Not longer, because the page that is watched may change meanwhile.
            pause_s = min(limit_s - waited_s, longest_s) if is_busy else longest_s
            await self._clock.sleep(max(pause_s, 0.001))

    def _take_back(self, child: CodeProcess[_Task]) -> None:
        """Handle the pages of a child that has ended: the first one is blamed."""
        if child.sent and not child.is_dismissed:
            task, why = child.sent[0], child.why(self._section.page_s)
            if len(task.codes) > 1:
                child.sent.popleft()
                self._divide(task)
            elif why or task.is_suspect:
                child.sent.popleft()
                task.settle(self._overrun(task.codes[0], why or child.how_it_ended()))
            else:
                task.is_suspect = True
        self._waiting.extendleft(reversed(child.sent))
        child.sent.clear()
        if self._waiting:
            self._more.set()

    def _divide(self, task: _Task) -> None:
        """Give the page to each of its codes alone, before all other pages."""
        parts = [_Task((number,), task.page) for number in task.codes]
        self._waiting.extendleft(reversed(parts))
        left = len(parts)

        def note_end(_: object) -> None:
            nonlocal left
            left -= 1
            if not left and not task.answer.done():
                if any(part.answer.cancelled() for part in parts):
                    task.answer.cancel()
                else:
                    task.settle(joined_answer([part.answer.result() for part in parts]))

        for part in parts:
            part.answer.add_done_callback(note_end)

    def _overrun(self, number: int, why: str) -> ExtensionAnswer:
        code = self._codes[number]
        code.note_overrun()
        self.counts.overruns += 1
        return failed_answer(code, "Ended", why)
