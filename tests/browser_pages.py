"""Chromium for tests, and axe-core, which finds obstacles in a page; ``script/services`` gets both.

With ``SAVE_PICTURES=DIR`` the tests also save pictures of the pages, for the documents.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright._impl._driver import compute_driver_executable
from playwright.sync_api import Browser, Page, expect, sync_playwright

from lycosa.stages.render.browser_process import NoBrowser, find_browser

_CACHE = os.environ.get("SERVICES_CACHE") or (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lycosa-services"
)
AXE = Path(_CACHE) / "axe-core-4.14.1" / "axe.min.js"
expect.set_options(timeout=60_000)
_TRIES = 60  # each waits until the crawl or its deadline answers
PICTURES = os.environ.get("SAVE_PICTURES", "")


def chromium() -> str:
    """The program with all that a window shows. Skips the test where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("Chromium is not installed; script/services installs it")
    return found


def _check_driver() -> None:
    """Skip the test where Playwright's own Node.js cannot run, as on a system without libatomic."""
    node, _ = compute_driver_executable()
    tried = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"Node.js, which drives the browser, cannot run: {tried.stderr.strip()[:200]}")


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """A browser without a window. Containers forbid its sandbox and have little shared memory."""
    try:
        program = find_browser("")  # the headless shell, if there is one: it takes half the time
    except NoBrowser as error:
        pytest.skip(str(error))
    _check_driver()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()


def obstacles(page: Page) -> list[str]:
    """The serious findings of axe-core in a page. Skips the test where it is missing."""
    if not AXE.exists():
        pytest.skip("axe-core is missing; script/services fetches it")
    page.evaluate(AXE.read_text("utf-8"))  # beside the page's own policy, as an extension would
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def save_picture(page: Page, name: str, is_whole: bool = False) -> None:
    """Save what the page looks like, if pictures are wanted: what fits the window, or all of it."""
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"), full_page=is_whole)


def go_to(page: Page, address: str) -> None:
    """Open a page of the crawl, again while the crawl says that it cannot answer yet."""
    for _ in range(_TRIES):
        answer = page.goto(address)
        if answer is None or answer.status != 503:
            return
    raise AssertionError(f"{address} is not answered")
