"""Sinks in a separate thread: the loop continues, and a sink that never returns stops nothing.

Pages are given one after another, so a sink needs no lock. Each page waits for its sinks before it
is stored, because their failures are remarks in its row. So no more pages wait than the crawl has
in flight, and slow sinks slow the crawl down instead of filling the memory.

A thread cannot be ended from outside. When a call takes longer than the limit, the pages that wait
are stored without it, with a remark, and so are all that follow until it returns. Then the thread
is used again. An endless loop in Python code still takes half of the process's time.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence

from lycosa.base.model.code_failure import CodeFailure, failure_in, name_of_code
from lycosa.stages.parse.page import Page
from lycosa.worker.extensions import PageSink

_CLOSE_S = 1.0


class _Call:
    """A page for the thread, and who waits for it."""

    __slots__ = ("done", "is_dropped", "loop", "page")

    def __init__(self, page: Page) -> None:
        self.page, self.is_dropped = page, False
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[list[CodeFailure]] = self.loop.create_future()

    def settle(self, failed: list[CodeFailure]) -> None:
        if not self.done.done():
            self.done.set_result(failed)


class SinkThread:
    """Implements ``PageSinks``. A call may take ``longest_s`` seconds."""

    def __init__(
        self,
        sinks: Sequence[PageSink],
        longest_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sinks, self._longest_s, self._monotonic = tuple(sinks), longest_s, monotonic
        self._queue: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._calling = ("", 0.0)  # the sink that runs, and since when (monotonic)
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<SinkThread waiting={self._queue.qsize()} calling={self._calling[0]!r}>"

    async def give_page(self, page: Page) -> list[CodeFailure]:
        """See ``PageSinks``."""
        if (late := self._late()) is not None:
            return [late]
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sinks", daemon=True)
            self._thread.start()
        call = _Call(page)
        self._queue.put(call)
        try:
            while not (await asyncio.wait([call.done], timeout=self._longest_s))[0]:
                if (late := self._late()) is not None:
                    return [late]
            return call.done.result()
        finally:
            call.is_dropped = True

    def _late(self) -> CodeFailure | None:
        """The failure of a sink that has not returned within its time."""
        name, began = self._calling
        if not name or self._monotonic() - began < self._longest_s:
            return None
        said = f"it has not returned within {self._longest_s:g} s; pages are stored without it"
        return CodeFailure("sink", name, "TooSlow", said)

    def close(self) -> None:
        """See ``PageSinks``. A call that runs may end first, within a second."""
        if self._thread is not None and not self._is_closed:
            self._is_closed = True
            self._queue.put(None)
            self._thread.join(_CLOSE_S)

    # -- on the thread

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            if call.is_dropped:
                continue
            failed = [each for sink in self._sinks if (each := self._call(sink, call.page))]
            try:
                call.loop.call_soon_threadsafe(call.settle, failed)
            except RuntimeError:
                return  # the loop is closed: the crawl has ended without waiting

    def _call(self, sink: PageSink, page: Page) -> CodeFailure | None:
        name = name_of_code(sink)
        self._calling = name, self._monotonic()
        try:
            sink(page)
        except BaseException as error:  # also sys.exit: it would end the thread without a word
            return failure_in("sink", name, error)
        finally:
            self._calling = "", 0.0
        return None
