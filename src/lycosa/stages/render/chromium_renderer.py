"""Renders pages one after another in a browser that is replaced when it is used up or misbehaves.

A page cannot do more than end its browser: the memory and the time of all processes are watched
while it runs, and the result says what happened.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from lycosa.base.config.render_section import RenderSection
from lycosa.base.model.rendered_page import Rendered, RenderEnd, RenderTask
from lycosa.base.ports import Archive
from lycosa.stages.render.browser_process import (
    BrowserConfig,
    BrowserProcess,
    BrowserUse,
    NoBrowser,
    find_browser,
    start_browser,
)
from lycosa.stages.render.devtools import DevToolsError
from lycosa.stages.render.loaded_page import LoadedPage

_WATCH_S = 0.1
_LEAVE_S = 3.0
_FONTS = ("/usr/share/fonts", "/usr/local/share/fonts")
_NO_PAGES = ("browser", "browser_ui", "tab")
_ATTACH = {
    "autoAttach": True,
    "waitForDebuggerOnStart": True,
    "flatten": True,
    "filter": [*({"type": each, "exclude": True} for each in _NO_PAGES), {}],
}


class ChromiumRenderer:
    """The renderer of a crawl (``ports.Renderer``). It renders one page at a time."""

    def __init__(self, config: BrowserConfig) -> None:
        self._config = config
        self._browser: BrowserProcess | None = None
        self._page: LoadedPage | None = None
        self._turn = asyncio.Lock()
        self._version = ""

    async def render(self, task: RenderTask, archive: Archive) -> Rendered:
        if not task.url.startswith(("http://", "https://")):
            return Rendered(RenderEnd.REFUSED, task.url[:100])
        async with self._turn:
            loop = asyncio.get_running_loop()
            started = loop.time()
            try:
                browser = await self._ready_browser(task)
            except NoBrowser as error:
                return Rendered(RenderEnd.NO_BROWSER, str(error))
            watch = _Watch(browser, task)
            try:
                rendered = await self._render(browser, task, archive, watch)
            except asyncio.CancelledError:
                await self._drop()
                raise
            return msgspec.structs.replace(
                rendered,
                elapsed_s=loop.time() - started,
                processor_s=watch.processor_s,
                memory_bytes=watch.memory_bytes,
                browser=browser.version,
                fonts=fonts_digest(),
            )

    def describe(self) -> str:
        if self._browser is not None:
            where = "no network" if self._browser.is_apart else "no names and no proxy"
            return f"{self._browser.version}, {where}"
        try:
            return find_browser(self._config.program)
        except NoBrowser as error:
            return str(error)

    async def close(self) -> None:
        async with self._turn:
            await self._drop()

    async def _ready_browser(self, task: RenderTask) -> BrowserProcess:
        browser = self._browser
        if browser is not None and (browser.has_ended or browser.pages >= self._config.pages):
            await self._drop()
            browser = None
        if browser is None:
            bounds = task.bounds
            browser = await start_browser(self._config, self._take_event, bounds.memory_bytes)
            self._browser = browser
            browser.devtools.tell("Target.setAutoAttach", _ATTACH)
        browser.pages += 1
        return browser

    async def _render(
        self, browser: BrowserProcess, task: RenderTask, archive: Archive, watch: _Watch
    ) -> Rendered:
        """One round; the browser is replaced if anything went wrong with it."""
        page = self._page = LoadedPage(browser.devtools, self._config, task, archive)
        loading = asyncio.ensure_future(page.load())
        answering = asyncio.ensure_future(page.requests.answer_all())
        watching = asyncio.ensure_future(watch.wait_for_breach(page.crashed))
        tasks = {loading, answering, watching}
        try:
            await asyncio.wait(
                tasks, timeout=task.bounds.whole_s, return_when=asyncio.FIRST_COMPLETED
            )
            if answering.done():
                answering.result()  # the archive failed, which is not about the page
            problem = loading.exception() if loading.done() else None
            if loading.done() and problem is None:
                rendered = loading.result()
            else:
                rendered = page.result_without(*watch.verdict(browser, problem))
            if rendered.end in (RenderEnd.HUNG, RenderEnd.CRASHED, RenderEnd.MEMORY):
                await self._drop()
            else:
                await self._leave(page)
            watch.note()
            return rendered
        finally:
            self._page = None
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _leave(self, page: LoadedPage) -> None:
        try:
            async with asyncio.timeout(_LEAVE_S):
                await page.leave()
        except (TimeoutError, DevToolsError):
            await self._drop()

    async def _drop(self) -> None:
        browser, self._browser = self._browser, None
        if browser is not None:
            await browser.close()

    def _take_event(self, session: str, method: str, parameters: msgspec.Raw) -> None:
        if self._page is not None:
            self._page.take_event(session, method, parameters)


def chromium_of(section: RenderSection, folder: Path) -> ChromiumRenderer:
    """A renderer by the settings of a crawl; browsers have their files below ``folder``."""
    return ChromiumRenderer(
        BrowserConfig(
            section.browser,
            not section.container_sandbox,
            section.recycle_pages,
            folder=str(folder),
        )
    )


class _Watch:
    """What a browser uses for one page; kills it when that is too much."""

    def __init__(self, browser: BrowserProcess, task: RenderTask) -> None:
        self._browser, self._bounds = browser, task.bounds
        self._before = browser.measure()
        self._last = self._before
        self._verdict: tuple[RenderEnd, str] | None = None
        self.memory_bytes = self._before.memory_bytes

    @property
    def processor_s(self) -> float:
        return round(self._last.processor_s - self._before.processor_s, 3)

    def note(self) -> BrowserUse:
        """Measure now."""
        self._last = self._browser.measure()
        self.memory_bytes = max(self.memory_bytes, self._last.memory_bytes)
        return self._last

    async def wait_for_breach(self, crashed: asyncio.Event) -> None:
        """Wait until a bound is exceeded or the page crashed, and kill the browser then."""
        while self._verdict is None:
            used = self.note()
            if used.memory_bytes > self._bounds.memory_bytes:
                self._verdict = (RenderEnd.MEMORY, f"{used.memory_bytes >> 20:,} MB")
            elif self.processor_s > self._bounds.processor_s:
                self._verdict = (RenderEnd.HUNG, f"{self.processor_s:.0f} s of processor time")
            elif crashed.is_set():
                self._verdict = (RenderEnd.CRASHED, "the process of the page ended")
            elif self._browser.has_ended:
                self._verdict = (RenderEnd.CRASHED, "the browser ended")
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_WATCH_S):
                        await crashed.wait()
        self._browser.kill()

    def verdict(
        self, browser: BrowserProcess, problem: BaseException | None
    ) -> tuple[RenderEnd, str]:
        """Why there is no result of the page; ``problem`` is what went wrong with reading it."""
        if self._verdict is not None:
            return self._verdict
        if browser.has_ended:
            return RenderEnd.CRASHED, "the browser ended"
        if problem is not None:  # a page that closed itself, or an answer that is none
            return RenderEnd.CRASHED, f"{problem or type(problem).__name__}"[:300]
        return RenderEnd.HUNG, f"no end within {self._bounds.whole_s:g} s"


@cache
def fonts_digest() -> str:
    """A digest of the names and sizes of the installed fonts, eight hexadecimal digits."""
    found = []
    for folder in _FONTS:
        for path, _, names in os.walk(folder):
            found += [
                f"{name} {Path(path, name).stat().st_size}"
                for name in names
                if Path(path, name).exists()
            ]
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()[:8]
