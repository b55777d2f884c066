"""What Chromium alone makes of a page, with a network: its visible text and its links."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from playwright.async_api import Browser, Error, Frame, async_playwright

from browser_pages import chromium

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
_AT_ONCE = 4
_TRIES = 4
_QUIET_S, _LONGEST_S = 3.0, 25.0
# Scrolled in steps like a reader does, and quiet when for so long nothing was changed or requested.
_SETTLE = """async ([quiet, longest]) => {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  let at = performance.now(); const began = at;
  const seen = new MutationObserver(() => { at = performance.now(); });
  const watch = (root) => seen.observe(root,
    { childList: true, subtree: true, characterData: true });
  watch(document);
  for (const each of document.querySelectorAll('*')) if (each.shadowRoot) watch(each.shadowRoot);
  new PerformanceObserver(() => { at = performance.now(); }).observe({ type: 'resource' });
  const end = () => (document.scrollingElement || document.documentElement).scrollHeight;
  for (let y = 0; y <= end() && y < 40000; y += 800) { scrollTo(0, y); await wait(20); }
  scrollTo(0, end());
  while (performance.now() - at < quiet * 1000 && performance.now() - began < longest * 1000)
    await wait(50);
}"""
# Of the flat tree, with shadow roots instead of their hosts' children; slots show what is assigned.
_READ = """() => {
  const texts = [], links = new Set();
  const hidden = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD', 'TITLE', 'SVG', 'svg',
    'IFRAME', 'TEXTAREA', 'SELECT', 'VIDEO', 'AUDIO', 'OBJECT', 'CANVAS']);
  const visit = (node) => {
    if (node.nodeType === Node.TEXT_NODE) { texts.push(node.data); return; }
    if (node.nodeType === Node.ELEMENT_NODE) {
      if (hidden.has(node.tagName)) return;
      if (!node.checkVisibility() && getComputedStyle(node).display !== 'contents') return;
      if (node.tagName === 'SLOT') { node.assignedNodes({ flatten: true }).forEach(visit); return; }
    }
    (node.shadowRoot || node).childNodes.forEach(visit);
  };
  visit(document.body);
  const find = (root) => {
    for (const each of root.querySelectorAll('*')) {
      if (each.matches('a[href], area[href]') && each.href.baseVal === undefined)
        links.add(each.href);
      if (each.shadowRoot) find(each.shadowRoot);
    }
  };
  find(document);
  return [texts.join(' '), [...links]];
}"""


class LivePage(NamedTuple):
    """Visible text without white space, and absolute links as the browser resolves them."""

    text: str
    links: frozenset[str]


def squeezed(text: str) -> str:
    """The text without white space, of which every reader of HTML makes something else."""
    return "".join(text.split())


def see_live(urls: Sequence[str], *, has_scripts: bool = True) -> dict[str, LivePage]:
    """Load each URL in a fresh context."""
    return asyncio.run(_see_all(urls, has_scripts))


async def _see_all(urls: Sequence[str], has_scripts: bool) -> dict[str, LivePage]:
    seen: dict[str, LivePage] = {}
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        left = list(reversed(urls))

        async def work() -> None:
            while left:
                url = left.pop()
                seen[url] = await _see(browser, url, has_scripts)

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
        await browser.close()
    return seen


async def _see(browser: Browser, url: str, has_scripts: bool) -> LivePage:
    context = await browser.new_context(
        viewport={"width": 1280, "height": 1024}, java_script_enabled=has_scripts
    )
    try:
        page = await context.new_page()
        await page.goto(url, wait_until="load")
        for left in range(_TRIES, 0, -1):
            try:
                if has_scripts:
                    await page.main_frame.evaluate(_SETTLE, [_QUIET_S, _LONGEST_S])
                return await _read(page.main_frame)
            except Error:
                if left == 1:
                    raise
                await page.wait_for_load_state("load")  # it went to another page
        raise AssertionError
    finally:
        await context.close()


async def read_settled(frame: Frame) -> LivePage:
    """What a frame shows when it is quiet."""
    await frame.evaluate(_SETTLE, [_QUIET_S, _LONGEST_S])
    return await _read(frame)


async def _read(frame: Frame) -> LivePage:
    text, links = await frame.evaluate(_READ)
    return LivePage(squeezed(text), frozenset(_of_web(links)))


def _of_web(links: Iterable[str]) -> Iterable[str]:
    return (link.partition("#")[0] for link in links if link.startswith(("http://", "https://")))
