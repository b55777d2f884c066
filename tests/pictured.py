"""What a page looks like in Chromium, from a server and from an archive, and how two looks differ.

A page is shown in a window of fixed size, scrolled to its end so that lazy parts load, and pictured
at its top and at its end. Two pictures are compared pixel by pixel in the browser itself.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from playwright.sync_api import Browser, BrowserContext, Frame, sync_playwright

from browser_pages import chromium

WIDTH, HEIGHT = 1000, 800
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
_WHOLE = "position:fixed;top:0;left:0;width:100%;height:100%;border:0;z-index:9999"
_SETTLE = """async () => {
  const wait = ms => new Promise(done => setTimeout(done, ms));
  const rested = async () => {
    await document.fonts.ready;
    for (let n = 0; n < 400; n++) {
      const open = [...document.images].filter(i => !i.complete && (i.loading !== 'lazy' ||
        i.getBoundingClientRect().top < innerHeight + 100));
      if (!open.length && document.readyState === 'complete') return;
      await wait(25);
    }
    throw new Error('images do not load: ' + document.images.length);
  };
  await rested();
  for (let y = 0; y <= document.documentElement.scrollHeight; y += 400) {
    scrollTo(0, y); await wait(15);
  }
  await rested(); await wait(120); await rested();
}"""
_DIFFERENT = """async ([a, b]) => {
  const draw = async data => {
    const image = new Image(); image.src = 'data:image/png;base64,' + data; await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = image.width; canvas.height = image.height;
    const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, canvas.width, canvas.height);
  };
  const [x, y] = [await draw(a), await draw(b)];
  if (x.width !== y.width || x.height !== y.height) return 1;
  let count = 0;
  for (let i = 0; i < x.data.length; i += 4)
    if (Math.max(Math.abs(x.data[i] - y.data[i]), Math.abs(x.data[i + 1] - y.data[i + 1]),
                 Math.abs(x.data[i + 2] - y.data[i + 2])) > 8) count++;
  return count / (x.width * x.height);
}"""


class Look(NamedTuple):
    """Pictures (PNG) of a page at its top and at its end."""

    top: bytes
    end: bytes


@dataclass
class Requests:
    """What the browser asked for: URL, status, and requests that failed."""

    answered: list[tuple[str, int]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Viewer:
    """A browser window, with everything that it asks for noted in ``requests``."""

    def __init__(self, context: BrowserContext) -> None:
        self._page, self.requests = context.new_page(), Requests()
        self._judge = context.browser.new_page()  # type: ignore[union-attr]
        answered, failed = self.requests.answered, self.requests.failed
        context.on("response", lambda answer: answered.append((answer.url, answer.status)))
        context.on("requestfailed", lambda request: failed.append(request.url))

    def look(self, address: str) -> Look:
        """A page as its server sends it."""
        self._page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        self._page.goto(address, wait_until="load")
        return self._look(self._page.main_frame)

    def look_at_replay(self, address: str) -> Look:
        """A page in the frame of pywb, which fills the window without pywb's banner."""
        self._page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        self._page.goto(address, wait_until="load")
        handle = self._page.wait_for_selector("#replay_iframe")
        assert handle is not None
        # The banner's height is no whole number of pixels, so the frame would begin inside of one.
        handle.evaluate("frame => frame.style.cssText = " + json.dumps(_WHOLE))
        frame = handle.content_frame()
        assert frame is not None
        frame.wait_for_load_state("load")
        return self._look(frame)

    def block(self, part: str) -> None:
        """Let requests fail whose URL contains this text."""
        self._page.route(f"**/*{part}*", lambda route: route.abort())

    def unblock(self) -> None:
        self._page.unroute_all()

    def difference(self, one: Look, other: Look) -> float:
        """The larger share of pixels that differ, of both pictures."""
        shares = [0.0]
        for a, b in zip(one, other, strict=True):
            if a != b:
                texts = [base64.b64encode(each).decode() for each in (a, b)]
                shares.append(float(self._judge.evaluate(_DIFFERENT, texts)))
        return max(shares)

    def _look(self, frame: Frame) -> Look:
        frame.evaluate(_SETTLE)
        pictures = []
        for place in ("0", "document.documentElement.scrollHeight"):
            frame.evaluate(
                f"() => new Promise(done => {{ scrollTo(0, {place});"
                " requestAnimationFrame(() => requestAnimationFrame(done)); })"
            )
            pictures.append(self._page.screenshot())
        return Look(*pictures)


@contextmanager
def viewer(browser: Browser) -> Iterator[Viewer]:
    """A window with an empty profile."""
    with browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}) as context:
        yield Viewer(context)


@contextmanager
def picturing_browser() -> Iterator[Browser]:
    """Chromium with nothing that asks the network by itself."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()
