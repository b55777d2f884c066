"""Takes pages from the workers of a crawl, renders several at a time, and gives the results back.

    owners ── TakeRenders ──> pages ──> renderer, with an archive each ── GiveRender ──> owners

Nothing is kept here. A page whose result does not arrive in time is lent again by its owner, so the
process may be killed at any moment. A page that could not be rendered for a reason that is not its
own (an owner that died, no browser, the end of this process) is given back at once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable

import msgspec

from lycosa.base.calls import (
    MOST_RENDERS,
    CallRefusal,
    GiveRender,
    LentRender,
    RendersLent,
    RenderTaken,
    RenderVerdict,
    TakeRenders,
)
from lycosa.base.messages.renderer_messages import RendererReport
from lycosa.base.model.packed_render import pack_rendered
from lycosa.base.model.rendered_page import Rendered, RenderEnd
from lycosa.base.ports import Renderer
from lycosa.base.system.kept_tasks import KeptTasks, error_line
from lycosa.processes.rendering.called_archive import CalledArchive
from lycosa.processes.rendering.capture_caller import CaptureCaller
from lycosa.service.api.places import CallableCrawl
from lycosa.state.exchange.exchange_errors import CallRefused, NoAnswer

_TAKE_S, _SHORTEST_S, _LONGEST_S = 5.0, 0.1, 1.0
_SILENT_S = 2.0  # a worker that did not answer is not asked for that time
_AGAIN_S = 1.0
_RETURN_S = 2.0  # in which pages are given back at the end
_OWN_BYTES = 200_000_000  # of the process itself, and program code that is mapped
_LEAST_BYTES = 300_000_000  # of one browser; the whole Chromium takes 240 MB for a small page
_NO_BROWSER_S = 10.0  # between two tries to start a browser


async def _packed(rendered: Rendered) -> bytes:
    return await asyncio.to_thread(pack_rendered, rendered)  # up to 100 MB


def browser_bytes(memory_bytes: int, pages: int) -> int:
    """The memory of one browser of a renderer process that may have ``memory_bytes``.

    Each page has a browser. The parts are equal, so that one page cannot take that of the others.
    """
    return max((memory_bytes - _OWN_BYTES) // max(pages, 1), _LEAST_BYTES)


def process_bytes(memory_bytes: int, pages: int) -> int:
    """The memory of a renderer process with its browsers: more if a browser could not start."""
    return max(memory_bytes, _OWN_BYTES + pages * _LEAST_BYTES)


class RenderLoop:
    """One per renderer process. ``tell`` gets lines for the operator. ``pack`` compresses results.

    ``new_renderer`` makes a renderer of one page at a time. No pages are taken before ``set_most``.
    """

    def __init__(
        self,
        name: str,
        crawl: CallableCrawl,
        new_renderer: Callable[[], Renderer],
        captures: CaptureCaller,
        tell: Callable[[str], None],
        pack: Callable[[Rendered], Awaitable[bytes]] = _packed,
    ) -> None:
        self._pack = pack
        self._name, self._crawl, self._new_renderer = name, crawl, new_renderer
        self._captures, self._tell = captures, tell
        self._run = secrets.token_hex(8)
        self._idle: list[Renderer] = []  # the one that was used last at the end
        self._browser = ""
        self._most, self._first = 0, 0
        self._rest_until: dict[int, float] = {}  # by shard
        self._giving: dict[int, asyncio.Lock] = {}
        self._changed = asyncio.Event()
        self._tasks = KeptTasks(lambda error: tell(f"a page was lost ({error_line(error)})"))
        self._lent: set[tuple[int, bytes, int]] = set()
        self._no_browser_until = 0.0
        self._trouble = ""
        self._rendered = self._late = self._returned = 0
        self._here = self._there = self._missing = 0

    def __repr__(self) -> str:
        return f"<RenderLoop {self.report().line()}>"

    def set_most(self, most: int) -> None:
        """Render so many pages at the same time; those in work are finished. 0 is a pause."""
        self._most = min(most, MOST_RENDERS)
        self._changed.set()

    def report(self, memory_bytes: int = 0) -> RendererReport:
        """What was done so far."""
        return RendererReport(
            len(self._lent),
            self._most,
            self._rendered,
            self._late,
            self._returned,
            self._here,
            self._there,
            self._missing,
            memory_bytes,
            self._browser,
            self._trouble,
        )

    async def run(self) -> None:
        """Take and render until this is cancelled; then give back what is in work."""
        try:
            while True:
                pause_s = await self._take_pages()
                self._changed.clear()
                # what comes first: room for a page, another number of pages, or the time
                try:
                    async with asyncio.timeout(pause_s):
                        await self._changed.wait()
                except TimeoutError:
                    pass
        finally:
            await self._tasks.cancel()
            await asyncio.gather(*(each.close() for each in self._idle), return_exceptions=True)

    # -- taking

    async def _take_pages(self) -> float | None:
        """Take as many pages as there is room for; returns when to look again, in seconds."""
        now = asyncio.get_running_loop().time()
        if now < self._no_browser_until:
            return self._no_browser_until - now
        room, pause_s = self._most - len(self._lent), _LONGEST_S
        if room <= 0:
            return None
        shards = self._shards()
        for shard in shards[self._first :] + shards[: self._first]:
            if room <= 0:
                return None
            if asyncio.get_running_loop().time() < self._rest_until.get(shard[0], 0.0):
                continue
            lent = await self._take(*shard, room)
            room -= len(lent.renders)
            if lent.next_in_s >= 0:
                pause_s = min(pause_s, max(lent.next_in_s, _SHORTEST_S))
            for each in lent.renders:
                self._begin(shard[0], each)
        # the next look begins with another worker, so that none has all the room
        self._first = (self._first + 1) % max(len(shards), 1)
        return pause_s

    def _shards(self) -> list[tuple[int, int]]:
        """Each worker that can be called, with one of its partitions."""
        found: dict[int, int] = {}
        for partition in range(self._crawl.addressing.partitions):
            if (shard := self._crawl.shard_of(partition)) >= 0:
                found.setdefault(shard, partition)
        return list(found.items())

    async def _take(self, shard: int, partition: int, most: int) -> RendersLent:
        call = TakeRenders(self._name, most, self._browser, self._run, self._most, self._trouble)
        try:
            async with asyncio.timeout(_TAKE_S):
                reply = await self._crawl.call_owner(partition, call)
        except (NoAnswer, CallRefused, TimeoutError):
            # It starts, ends or moves. What it lent and we did not hear of, it lends again.
            reply = None
        if isinstance(reply, RendersLent):
            return reply
        self._rest_until[shard] = asyncio.get_running_loop().time() + _SILENT_S
        return RendersLent([])

    # -- rendering

    def _begin(self, shard: int, lent: LentRender) -> None:
        key = (lent.partition, lent.row, lent.lending)
        if key not in self._lent:
            self._lent.add(key)
            self._tasks.begin(self._render_lent(shard, lent, key))

    async def _render_lent(self, shard: int, lent: LentRender, key: tuple[int, bytes, int]) -> None:
        until = asyncio.get_running_loop().time() + lent.within_s
        try:
            result, archive = await self._render(lent)
            call = GiveRender(
                self._name,
                lent.row,
                lent.lending,
                result,
                archive.found_here,
                archive.found_there,
                archive.places,
            )
            await self._give(shard, lent.partition, call, until)
        except asyncio.CancelledError:
            back = GiveRender(self._name, lent.row, lent.lending, b"")
            ends = asyncio.get_running_loop().time() + _RETURN_S
            await asyncio.shield(self._give(shard, lent.partition, back, ends))
            raise
        finally:
            self._lent.discard(key)
            self._changed.set()

    async def _render(self, lent: LentRender) -> tuple[bytes, CalledArchive]:
        """The packed result, empty when the page is to be given back."""
        archive = CalledArchive(
            self._captures, self._crawl.addressing, lent.records, lent.task.site, lent.places
        )
        bound_s = min(2 * lent.task.bounds.whole_s, lent.within_s)
        bounds = lent.task.bounds
        memory_bytes = browser_bytes(bounds.memory_bytes, self._most)
        bounds = msgspec.structs.replace(bounds, memory_bytes=memory_bytes)
        task = msgspec.structs.replace(lent.task, bounds=bounds)
        renderer = self._idle.pop() if self._idle else self._new_renderer()
        try:
            async with asyncio.timeout(bound_s):
                rendered = await renderer.render(task, archive)
        except TimeoutError:
            rendered = Rendered(RenderEnd.HUNG, f"no result within {bound_s:.0f} s")
        except Exception as error:
            # A renderer promises not to raise. The page counts as failed, so that it is not tried
            # endlessly.
            self._tell(f"rendering {lent.task.url} failed: {error_line(error)}")
            rendered = Rendered(RenderEnd.CRASHED, error_line(error)[:500])
        finally:
            await self._put_back(renderer)
        self._here += archive.found_here
        self._there += archive.found_there
        self._missing += archive.missing
        self._note_browser(rendered)
        if archive.lost or rendered.end is RenderEnd.NO_BROWSER:
            return b"", archive
        return await self._pack(rendered), archive

    async def _put_back(self, renderer: Renderer) -> None:
        """Keep a renderer for the next page, or end it when there are enough."""
        self._browser = renderer.describe()
        self._idle.append(renderer)
        if len(self._idle) > max(self._most, 1):
            await self._idle.pop(0).close()

    def _note_browser(self, rendered: Rendered) -> None:
        is_away = rendered.end is RenderEnd.NO_BROWSER
        trouble = f"no browser: {rendered.detail}" if is_away else ""
        if trouble != self._trouble:
            self._tell(trouble or "the browser works again")
            self._trouble = trouble
        if is_away:
            self._no_browser_until = asyncio.get_running_loop().time() + _NO_BROWSER_S

    # -- giving

    async def _give(self, shard: int, partition: int, call: GiveRender, until: float) -> None:
        """Give a result until it is taken, or would be late."""
        loop = asyncio.get_running_loop()
        # one at a time to a worker: results may be large, and share a message
        lock = self._giving.setdefault(shard, asyncio.Lock())
        while loop.time() < until:
            try:
                async with asyncio.timeout_at(until), lock:
                    reply = await self._crawl.call_owner(partition, call)
            except (NoAnswer, CallRefused, TimeoutError):
                reply = None  # its worker may be started again, or be on another machine
            if isinstance(reply, RenderTaken):
                self._count(call, reply.verdict)
                return
            if reply is not None and not isinstance(reply, CallRefusal):
                break
            await asyncio.sleep(min(_AGAIN_S, max(until - loop.time(), 0.0)))
        self._late += bool(call.result)
        self._returned += not call.result

    def _count(self, call: GiveRender, verdict: RenderVerdict) -> None:
        self._returned += not call.result
        self._rendered += bool(call.result) and verdict is RenderVerdict.TAKEN
        self._late += bool(call.result) and verdict is not RenderVerdict.TAKEN
