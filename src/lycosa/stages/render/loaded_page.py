"""One page in a browser: prepared, loaded, waited for, scrolled once, read."""

from __future__ import annotations

import asyncio
import zlib
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.model.rendered_page import (
    FrameDocument,
    MissingAnswer,
    Rendered,
    RenderEnd,
    RenderTask,
)
from lycosa.base.ports import Archive
from lycosa.base.urls.url_parts import host_of
from lycosa.stages.render.browser_process import BrowserConfig
from lycosa.stages.render.browser_requests import PageRequests, Paused
from lycosa.stages.render.devtools import DevTools, DevToolsError

_DAY_S = 86_400
_LOOK_S = 0.05  # between looks whether a page is quiet
_READ_S = 4.0  # for reading a document, after its scripts were stopped if need be
_CLAMP_MS, _CLAMPS = 100, 2000
_FRAMES = 20
_WORLD = "reader"
_HERE = Path(__file__).parent
_FIRST = _HERE.joinpath("first_script.js").read_text("utf-8")
_READ = _HERE.joinpath("read_document.js").read_text("utf-8")
# Steps of a window's height, so that what watches its own visibility sees itself: observers are
# called when a frame is drawn. Returns whether there was anything to scroll.
_SCROLL = """(async () => {
  const drawn = () => new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done, 5)); setTimeout(done, 200);
  });
  const end = () => (document.scrollingElement || document.documentElement).scrollHeight;
  for (let step = 1; step <= 20 && step * innerHeight < end(); step++) {
    scrollTo(0, step * innerHeight); await drawn();
  }
  scrollTo(0, end()); await drawn();
  return scrollY > 0;
})()"""


class _State(msgspec.Struct):
    """What the first script says of the page."""

    quiet_s: float = 0.0
    state: str = ""
    refused: dict[str, int] = {}
    console: list[str] = []
    errors: list[str] = []


class _Text(msgspec.Struct):
    """What was read of the page; ``length`` in characters, also of what is too long to be given."""

    url: str = ""
    title: str = ""
    length: int = 0
    html: str = ""
    frames: list[tuple[str, str]] = []


class _Value(msgspec.Struct, frozen=True):
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Evaluated(msgspec.Struct):
    result: _Value = _Value()


class _Target(msgspec.Struct):
    targetId: str
    type: str
    browserContextId: str = ""


class _Attached(msgspec.Struct):
    sessionId: str
    targetInfo: _Target


class LoadedPage:
    """One page, in a browser context that holds nothing of other pages."""

    def __init__(
        self, devtools: DevTools, config: BrowserConfig, task: RenderTask, archive: Archive
    ) -> None:
        self._devtools, self._config, self._task = devtools, config, task
        self._loop = asyncio.get_running_loop()
        self._context = self._target = self._session = ""
        self._attached = asyncio.Event()
        self._state = _State()
        self._refused: Counter[str] = Counter()
        self.crashed = asyncio.Event()
        self.requests = PageRequests(devtools, task, archive)

    # -- events of the browser

    def take_event(self, session: str, method: str, parameters: msgspec.Raw) -> None:
        """An event of the browser; one that is not as expected is left out."""
        handler = _HANDLERS.get(method)
        if handler is not None:
            with suppress(msgspec.MsgspecError):
                handler(self, session, parameters)

    def _take_paused(self, session: str, parameters: msgspec.Raw) -> None:
        self.requests.take(session, msgspec.json.decode(parameters, type=Paused))

    def _take_attached(self, parent: str, parameters: msgspec.Raw) -> None:
        attached = msgspec.json.decode(parameters, type=_Attached)
        session, target = attached.sessionId, attached.targetInfo
        if target.type == "page" and not self._session:
            self._session, self._target = session, target.targetId
            self._attached.set()
        elif target.type in ("iframe", "worker"):
            for method, given in self._preparations(target.type):
                self._devtools.tell(method, given, session)
            self._devtools.tell("Runtime.runIfWaitingForDebugger", None, session)
        else:
            self._refused["popup" if target.type == "page" else target.type] += 1
            self._devtools.tell("Target.closeTarget", {"targetId": target.targetId})

    def _take_dialog(self, session: str, parameters: msgspec.Raw) -> None:
        self._refused["dialog"] += 1
        kind = msgspec.json.decode(parameters).get("type")
        given = {"accept": kind == "beforeunload"}
        self._devtools.tell("Page.handleJavaScriptDialog", given, session)

    def _take_download(self, _session: str, _parameters: msgspec.Raw) -> None:
        self._refused["download"] += 1

    def _take_crash(self, session: str, _parameters: msgspec.Raw) -> None:
        if session == self._session:
            self.crashed.set()

    # -- the page

    async def load(self) -> Rendered:
        """Load the page, and read it when it is quiet or its time is over."""
        bounds = self._task.bounds
        await self._prepare()
        deadline = self._loop.time() + bounds.round_s
        went = asyncio.ensure_future(self._go())
        try:
            await asyncio.wait([went], timeout=bounds.round_s)
            if problem := self._without_page(went):
                return problem
            is_quiet = await self._wait_quiet(deadline)
            if is_quiet and self._task.is_scrolled:
                if await self._evaluate(_SCROLL, deadline, is_apart=True) == b"true":
                    # What it loads now is asked for in a moment: the quiet before does not count.
                    self.requests.last_at = self._loop.time()
                is_quiet = await self._wait_quiet(deadline)
            return await self._read(is_quiet)
        finally:
            went.cancel()
            with suppress(asyncio.CancelledError, DevToolsError):
                await went

    async def leave(self) -> None:
        """Close the page with all that it opened. Raises ``DevToolsError``."""
        if self._context:
            await self._devtools.call(
                "Target.disposeBrowserContext", {"browserContextId": self._context}
            )

    async def _prepare(self) -> None:
        call = self._devtools.call
        answer = await call("Target.createBrowserContext", {"disposeOnDetach": True})
        self._context = msgspec.json.decode(answer)["browserContextId"]
        denied = {
            "behavior": "deny",
            "browserContextId": self._context,
            "eventsEnabled": True,
        }
        await call("Browser.setDownloadBehavior", denied)
        blank = {"url": "about:blank", "browserContextId": self._context}
        await call("Target.createTarget", blank)
        await self._attached.wait()
        self.requests.begin(self._target)
        for method, given in self._preparations("page"):
            self._devtools.tell(method, given, self._session)
        await call("Runtime.runIfWaitingForDebugger", None, self._session)

    def _preparations(self, kind: str) -> Iterable[tuple[str, Any]]:
        """Commands for a new page, frame or worker, before it runs anything."""
        yield "Fetch.enable", {"patterns": [{"urlPattern": "*"}]}
        attach = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        yield "Target.setAutoAttach", attach
        if kind == "worker":
            return
        yield "Page.enable", None
        yield "Page.addScriptToEvaluateOnNewDocument", {"source": self._first_script()}
        if kind == "iframe":
            return
        yield "Inspector.enable", None
        yield "Network.setBypassServiceWorker", {"bypass": True}
        yield "Emulation.setTimezoneOverride", {"timezoneId": "UTC"}
        yield "Emulation.setFocusEmulationEnabled", {"enabled": True}
        size = {"width": self._config.width, "height": self._config.height}
        yield (
            "Emulation.setDeviceMetricsOverride",
            {**size, "deviceScaleFactor": 1, "mobile": False},
        )

    def _first_script(self) -> str:
        seed = zlib.crc32(host_of(self._task.url).encode()) or 1
        now = int(self._task.captured // _DAY_S) * _DAY_S * 1000
        values = {
            "SEED": seed,
            "NOW": now,
            "LINES": self._task.bounds.lines,
            "CLAMP_MS": _CLAMP_MS,
            "CLAMPS": _CLAMPS,
        }
        given = "".join(f"const {name} = {value};" for name, value in values.items())
        return f"{{{given}{_FIRST}}}"

    async def _go(self) -> dict[str, Any]:
        answer = await self._devtools.call("Page.navigate", {"url": self._task.url}, self._session)
        return dict(msgspec.json.decode(answer))

    def _without_page(self, went: asyncio.Future[dict[str, Any]]) -> Rendered | None:
        """The result where nothing was loaded that could be read."""
        found = self.requests.document
        if isinstance(found, MissingAnswer):
            return self._result(RenderEnd.NO_PAGE, found.reason.label)
        if not went.done():
            return None  # its scripts run since before the browser said that it has the page
        answer = went.result()
        if answer.get("isDownload"):
            return self._result(RenderEnd.NO_PAGE, "it is downloaded, not shown")
        if error := answer.get("errorText"):
            return self._result(RenderEnd.NO_PAGE, str(error)[:300])
        return None

    async def _wait_quiet(self, deadline: float) -> bool:
        """Wait until there was no request and no change for a while; false when time is over."""
        quiet_s = self._task.bounds.quiet_s
        while (now := self._loop.time()) < deadline:
            if self.requests.open or now - self.requests.last_at < quiet_s:
                await asyncio.sleep(_LOOK_S)
                continue
            state = await self._look(deadline)
            if state is None:
                return False
            if state.state == "complete" and state.quiet_s >= quiet_s:
                return True
            # If it is only a matter of time, look again when it may be over.
            await asyncio.sleep(max(_LOOK_S, min(quiet_s - state.quiet_s, deadline - now)))
        return False

    async def _look(self, deadline: float) -> _State | None:
        """Ask the first script; ``None`` when the page does not answer in time."""
        value = await self._evaluate("__rendering()", deadline)
        if value is None:
            return None
        with suppress(msgspec.MsgspecError):
            self._state = msgspec.json.decode(msgspec.json.decode(value, type=str), type=_State)
            return self._state
        return _State(quiet_s=self._task.bounds.quiet_s, state="complete")  # not our script's page

    async def _evaluate(
        self, script: str, deadline: float, *, is_apart: bool = False
    ) -> bytes | None:
        """The JSON text of a script's value; ``None`` when there is none in time."""
        given: dict[str, Any] = {
            "expression": script,
            "returnByValue": True,
            "awaitPromise": is_apart,
        }
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                if is_apart:
                    world = {"frameId": self._target, "worldName": _WORLD}
                    made = await self._devtools.call(
                        "Page.createIsolatedWorld", world, self._session
                    )
                    given["contextId"] = msgspec.json.decode(made)["executionContextId"]
                answer = await self._devtools.call("Runtime.evaluate", given, self._session)
                return bytes(msgspec.json.decode(answer, type=_Evaluated).result.value)
        return None

    async def _read(self, is_quiet: bool) -> Rendered:
        """The document as it is now, after its scripts were stopped if they do not stop."""
        bounds = self._task.bounds
        if not is_quiet:
            self._devtools.tell("Runtime.terminateExecution", None, self._session)
            stopped = {"value": True}
            self._devtools.tell("Emulation.setScriptExecutionDisabled", stopped, self._session)
        deadline = self._loop.time() + _READ_S
        if is_quiet and await self._look(deadline) is None:
            return self._result(RenderEnd.HUNG)
        self.requests.end()
        script = f"{{const MOST = {bounds.document_bytes}, FRAMES = {_FRAMES};\n{_READ}}}"
        value = await self._evaluate(script, deadline, is_apart=True)
        if value is None:
            return self._result(RenderEnd.HUNG)
        try:
            text = msgspec.json.decode(value, type=_Text)
        except msgspec.MsgspecError:
            return self._result(RenderEnd.NO_PAGE, "no document can be read")
        if not text.html and text.length > bounds.document_bytes:
            return self._result(RenderEnd.TOO_LARGE, f"{text.length:,} characters")
        if not text.url.startswith(("http://", "https://")):
            self._refused["navigation"] += 1
            return self._result(RenderEnd.NO_PAGE, f"the page left for {text.url[:100]}")
        picture = await self._picture(deadline) if self._task.has_screenshot else b""
        end = RenderEnd.QUIET if is_quiet else RenderEnd.BUSY
        return self._result(end, text=text, screenshot=picture)

    async def _picture(self, deadline: float) -> bytes:
        """A PNG of the window; empty when it is too large or takes too long."""
        with suppress(TimeoutError, DevToolsError):
            async with asyncio.timeout_at(deadline):
                self._devtools.tell(
                    "Runtime.evaluate", {"expression": "scrollTo(0, 0)"}, self._session
                )
                given = {"format": "png", "optimizeForSpeed": True}
                answer = await self._devtools.call("Page.captureScreenshot", given, self._session)
                data = b64decode(msgspec.json.decode(answer)["data"])
                return data if len(data) <= self._task.bounds.screenshot_bytes else b""
        return b""

    def _result(
        self,
        end: RenderEnd,
        detail: str = "",
        text: _Text | None = None,
        screenshot: bytes = b"",
    ) -> Rendered:
        text = text or _Text()
        wants, more = self.requests.wants()
        most, state = self._task.bounds.lines, self._state
        refused = self._refused + self.requests.refused
        for name, count in list(state.refused.items())[:20]:
            refused[name[:40]] += min(max(count, 0), 1 << 31)
        return Rendered(
            end,
            detail,
            url=text.url,
            title=text.title,
            html=text.html,
            frames=tuple(FrameDocument(*each) for each in text.frames[:_FRAMES]),
            wants=wants,
            more_wants=more,
            requests=self.requests.outcomes(),
            refused=dict(refused),
            changed=dict(+self.requests.changed),
            console=tuple(line[:500] for line in state.console[:most]),
            errors=tuple(line[:500] for line in state.errors[:most]),
            screenshot=screenshot,
        )

    def result_without(self, end: RenderEnd, detail: str = "") -> Rendered:
        """The result of a page that could not be read, with what it asked for until then."""
        return self._result(end, detail)


_HANDLERS = {
    "Fetch.requestPaused": LoadedPage._take_paused,
    "Target.attachedToTarget": LoadedPage._take_attached,
    "Page.javascriptDialogOpening": LoadedPage._take_dialog,
    "Browser.downloadWillBegin": LoadedPage._take_download,
    "Inspector.targetCrashed": LoadedPage._take_crash,
}
