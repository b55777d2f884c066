"""An archive in memory for pages that are rendered, and a renderer with short bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from browser_sandbox import permits_sandbox
from lycosa.base.model.rendered_page import (
    ArchiveQuery,
    MissingAnswer,
    RenderBounds,
    Rendered,
    RenderTask,
    StoredAnswer,
)
from lycosa.stages.render.browser_process import BrowserConfig, NoBrowser, find_browser
from lycosa.stages.render.chromium_renderer import ChromiumRenderer

PAGE = "https://a.test/"
CAPTURED = 1_700_000_000.0
BOUNDS = RenderBounds(round_s=4.0, whole_s=12.0)
_KINDS = {
    "js": "text/javascript",
    "json": "application/json",
    "css": "text/css",
    "png": "image/png",
}


def stored(
    body: str | bytes, kind: str = "text/html", status: int = 200, **fields: str
) -> StoredAnswer:
    """A stored response; header names with underscores."""
    headers = (("content-type", kind), *((name.replace("_", "-"), fields[name]) for name in fields))
    data = body.encode() if isinstance(body, str) else body
    return StoredAnswer(f"urn:sha1:{hash(data) & 0xFFFF}", status, headers, data)


class BodyArchive:
    """Answers from a mapping of URL to body or response, and keeps what was asked."""

    def __init__(self, bodies: Mapping[str, str | StoredAnswer]) -> None:
        self._stored = {
            url: body if isinstance(body, StoredAnswer) else stored(body, _kind(url))
            for url, body in bodies.items()
        }
        self.asked: list[ArchiveQuery] = []

    async def find(self, requests: Sequence[ArchiveQuery]) -> list[StoredAnswer | MissingAnswer]:
        self.asked += requests
        return [self._find(each) for each in requests]

    def _find(self, query: ArchiveQuery) -> StoredAnswer | MissingAnswer:
        if query.url in self._stored:
            return self._stored[query.url]
        if query.also in self._stored:
            return msgspec.structs.replace(self._stored[query.also], is_other=True)
        return MissingAnswer()


def _kind(url: str) -> str:
    return _KINDS.get(url.partition("?")[0].rpartition(".")[2], "text/html")


@asynccontextmanager
async def open_renderer(config: BrowserConfig | None = None) -> AsyncIterator[ChromiumRenderer]:
    """A renderer. Skips the test where there is no Chromium."""
    config = config or BrowserConfig(has_sandbox=permits_sandbox())
    try:
        find_browser(config.program)
    except NoBrowser as error:
        pytest.skip(str(error))
    renderer = ChromiumRenderer(config)
    try:
        yield renderer
    finally:
        await renderer.close()


async def render(
    renderer: ChromiumRenderer,
    page: str | BodyArchive,
    bounds: RenderBounds = BOUNDS,
    url: str = PAGE,
    *,
    has_screenshot: bool = False,
) -> Rendered:
    """One round of a page, given by its body or with an archive."""
    archive = page if isinstance(page, BodyArchive) else BodyArchive({url: page})
    task = RenderTask(url, CAPTURED, "a.test", has_screenshot=has_screenshot, bounds=bounds)
    return await renderer.render(task, archive)
