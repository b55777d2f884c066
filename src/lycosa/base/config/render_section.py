"""The settings of rendering (docs/rendering.md)."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

from lycosa.base.config.setting import setting


class RenderMode(Enum):
    """Which pages are rendered."""

    NEVER = "never"
    AUTO = "auto"
    ALWAYS = "always"


class RenderSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Pages whose scripts run in a browser that has no network, on what the crawl has stored."""

    mode: Annotated[
        RenderMode,
        setting(
            "Which pages are rendered: never, auto (those that seem to be empty until their scripts"
            " run, as long as rendering adds something there), or always (all HTML pages)"
            " (--render)."
        ),
    ] = RenderMode.NEVER
    policies: Annotated[
        tuple[str, ...],
        setting(
            "Rules for some pages: MATCHER MODE, as `app.example auto`, `host:www.example.org"
            " /docs/* never` or `re:#!|/spa/ always`; the first that is for a URL counts, before"
            " render.mode."
        ),
    ] = ()
    pages: Annotated[
        int,
        setting(
            "Number of pages that a renderer process renders at the same time; 0 pauses rendering.",
            ge=0,
            le=64,
        ),
    ] = 2
    queue: Annotated[
        int,
        setting(
            "Number of pages of a worker that may wait to be rendered; beyond it those of low"
            " priority stay as they are, and say so.",
            ge=1,
        ),
    ] = 10_000
    wait_s: Annotated[
        float,
        setting("Longest time that a page waits for the requisites that it missed.", ge=0),
    ] = 600.0
    max_age_s: Annotated[
        float,
        setting("Time since the fetch of a page after which it is not rendered any more.", ge=60),
    ] = 86400.0
    page_s: Annotated[float, setting("Maximum time of one render of a page.", gt=0, le=120)] = 8.0
    processor_s: Annotated[
        float, setting("Maximum processor time of all renders of a page together.", gt=0)
    ] = 40.0
    max_rounds: Annotated[
        int,
        setting(
            "How often a page is rendered at most, each time with what it missed before.",
            ge=1,
            le=64,
        ),
    ] = 8
    max_wants: Annotated[
        int, setting("Maximum number of URLs that are fetched for one page.", ge=0, le=10_000)
    ] = 200
    max_foreign: Annotated[
        int,
        setting("Maximum number of them that belong to other sites than the page.", ge=0),
    ] = 50
    site_wants: Annotated[
        int,
        setting(
            "Maximum number of URLs of one host that are fetched for the pages of one other site"
            " in a day.",
            ge=0,
        ),
    ] = 500
    scroll: Annotated[
        bool, setting("Scroll a page to its end once, for what it loads only then.")
    ] = True
    screenshots: Annotated[bool, setting("Store a picture of each rendered page.")] = False
    browser: Annotated[
        str,
        setting("Path of Chromium or its headless shell; empty searches the usual places."),
    ] = ""
    container_sandbox: Annotated[
        bool,
        setting(
            "Run the browser without its own sandbox, where the kernel refuses it and a container"
            " is the sandbox."
        ),
    ] = False
    recycle_pages: Annotated[
        int, setting("Number of renders after which a browser is replaced.", ge=1)
    ] = 500
    memory_bytes: Annotated[
        int,
        setting(
            "Maximum memory of a renderer process with its browsers, one for each page at a time,"
            " which have equal parts; a browser that needs more is replaced.",
            ge=300_000_000,
        ),
    ] = 2_000_000_000
    cache_bytes: Annotated[
        int,
        setting("Disk space of a renderer process for bodies that pages need again.", ge=0),
    ] = 1_000_000_000

    @property
    def is_on(self) -> bool:
        """Whether any page may be rendered, so that a renderer process is needed."""
        return self.mode is not RenderMode.NEVER or any(
            each.lower().split()[-1:] != [RenderMode.NEVER.value] for each in self.policies
        )
