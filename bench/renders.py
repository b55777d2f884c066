"""Many renders one after another, each of a stored page: whether any hangs, crashes or leaves
something behind, and what one takes.

    python -m bench.renders SITES [--renders 1000] [--time real|advance|pause] [--budget-s 5]
                            [--browser PATH] [--most-s S] [--output FILE]
                            [--against FILE]

SITES has a folder for each built site (``tests/built_sites.py``). Every page is complete in its
first round, because everything is stored. ``--time`` chooses between quiescence in real time, as
the program waits, and the virtual time of Chromium: ``advance`` lets it run by ``--budget-s``,
``pause`` stops it while fetches are pending (``Emulation.setVirtualTimePolicy``). A page is complete
if it has the text and the number of links that it had in real time; ``--output`` of a run in real
time is what ``--against`` of another one compares with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from built_sites import BuiltSite, built_sites
from killing import children_of
from lycosa.base.model.rendered_page import (
    ArchiveQuery,
    MissingAnswer,
    RenderBounds,
    Rendered,
    RenderTask,
    StoredAnswer,
)
from lycosa.base.system.process_memory import held_by
from lycosa.stages.render import chromium_renderer
from lycosa.stages.render.browser_process import BrowserConfig
from lycosa.stages.render.chromium_renderer import ChromiumRenderer
from lycosa.stages.render.loaded_page import _HANDLERS, LoadedPage

_CAPTURED = 1_700_000_000.0
_LINK = re.compile(r"<a [^>]*href=")
_NO_TEXT = re.compile(r"<script.*?</script>|<style.*?</style>|<[^>]+>", re.S)
_ROUND_S = 8.0


class SiteArchive:
    """Every file of the sites is stored: ``https://NAME.test/PATH``."""

    def __init__(self, sites: Iterable[BuiltSite]) -> None:
        self._sites = {f"{site.name}.test": site for site in sites}

    async def find(self, requests: Sequence[ArchiveQuery]) -> list[StoredAnswer | MissingAnswer]:
        """See ``Archive``."""
        return [self._find(each) for each in requests]

    def _find(self, query: ArchiveQuery) -> StoredAnswer | MissingAnswer:
        for url in filter(None, (query.url, query.also)):
            host, _, path = url.partition("://")[2].partition("/")
            found = self._sites[host].find(f"/{path}") if host in self._sites else None
            if found is not None:
                fields = (("content-type", found.kind),)
                return StoredAnswer(url, 200, fields, found.body, url != query.url)
        return MissingAnswer()


class VirtualTimePage(LoadedPage):
    """A page whose clock is Chromium's virtual time, instead of waiting for quiet."""

    policy, budget_s, is_early = "", 0.0, False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.expired = asyncio.Event()

    def _preparations(self, kind: str) -> Iterable[tuple[str, Any]]:
        yield from super()._preparations(kind)
        if kind == "page":
            # Before anything runs: else what the page waits for first waits in real time.
            yield (
                "Emulation.setVirtualTimePolicy",
                self._granted() if self.is_early else {"policy": "pause"},
            )

    def _granted(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "budget": self.budget_s * 1000,
            "maxVirtualTimeTaskStarvationCount": 100_000,
        }

    async def _wait_quiet(self, deadline: float) -> bool:
        if not self.is_early or self.expired.is_set():
            self.expired.clear()
            self._devtools.tell("Emulation.setVirtualTimePolicy", self._granted(), self._session)
        try:
            async with asyncio.timeout_at(deadline):
                await self.expired.wait()
        except TimeoutError:
            return False
        # Else its clock would stand still, and scrolling would wait for a frame in vain.
        self._devtools.tell("Emulation.setVirtualTimePolicy", {"policy": "advance"}, self._session)
        return await self._look(deadline) is not None


def _use_virtual_time(policy: str, budget_s: float, is_early: bool) -> None:
    VirtualTimePage.policy, VirtualTimePage.budget_s = policy, budget_s
    VirtualTimePage.is_early = is_early
    chromium_renderer.LoadedPage = VirtualTimePage  # type: ignore[misc]
    _HANDLERS["Emulation.virtualTimeBudgetExpired"] = lambda page, _session, _given: (
        page.expired.set()
    )


class Shown(msgspec.Struct):
    """What a render gave."""

    url: str
    end: str
    elapsed_s: float
    processor_s: float
    memory_mb: float
    requests: int
    links: int
    characters: int
    own_mb: float


def _shown(task: RenderTask, rendered: Rendered) -> Shown:
    text = _NO_TEXT.sub("", rendered.html)
    return Shown(
        task.url,
        rendered.end.value,
        rendered.elapsed_s,
        rendered.processor_s,
        rendered.memory_bytes / 1e6,
        len(rendered.requests),
        len(_LINK.findall(rendered.html)),
        len(text),
        held_by(os.getpid()).own_bytes / 1e6,
    )


async def _render_all(
    sites: list[BuiltSite], renders: int, most_s: float, config: BrowserConfig
) -> list[Shown]:
    urls = [f"https://{site.name}.test{path}" for site in sites for path in site.paths]
    archive, renderer = SiteArchive(sites), ChromiumRenderer(config)
    bounds = RenderBounds(round_s=_ROUND_S, whole_s=_ROUND_S + 12.0)
    shown: list[Shown] = []
    try:
        ends = time.monotonic() + most_s
        for number in range(renders):
            if time.monotonic() > ends:
                break
            url = urls[number % len(urls)]
            site = url.partition("://")[2].partition("/")[0]
            task = RenderTask(url, _CAPTURED, site, bounds=bounds)
            shown.append(_shown(task, await renderer.render(task, archive)))
            if number % 500 == 499:
                print(f"{number + 1} renders: {_ends(shown)}", file=sys.stderr, flush=True)
    finally:
        await renderer.close()
    return shown


def _ends(shown: list[Shown]) -> dict[str, int]:
    return dict(Counter(each.end for each in shown))


def _quantile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


def _report(shown: list[Shown], wall_s: float, known: dict[str, Shown]) -> dict[str, Any]:
    judged = [(each, known[each.url]) for each in shown if each.url in known]
    complete = sum(
        one.links >= other.links and one.characters >= 0.98 * other.characters
        for one, other in judged
    )
    first, last = shown[: len(shown) // 10 or 1], shown[-(len(shown) // 10 or 1) :]
    return {
        "renders": len(shown),
        "ends": _ends(shown),
        "judged": len(judged),
        "complete": complete,
        "seconds": {
            "median": _quantile([s.elapsed_s for s in shown], 0.5),
            "p95": _quantile([s.elapsed_s for s in shown], 0.95),
            "max": _quantile([s.elapsed_s for s in shown], 1.0),
        },
        "processor_s": round(statistics.mean(each.processor_s for each in shown), 3),
        "memory_mb": {
            "median": _quantile([s.memory_mb for s in shown], 0.5),
            "max": _quantile([s.memory_mb for s in shown], 1.0),
        },
        "first_tenth": _memory(first),
        "last_tenth": _memory(last),
        "left_processes": len(children_of(os.getpid())),
        "wall_s": round(wall_s, 1),
    }


def _memory(shown: list[Shown]) -> dict[str, float]:
    return {
        "browser_mb": round(statistics.median(each.memory_mb for each in shown), 1),
        "own_mb": round(statistics.median(each.own_mb for each in shown), 1),
        "seconds": round(statistics.median(each.elapsed_s for each in shown), 3),
    }


def main() -> int:
    """Run the renders and print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("sites", type=Path)
    parser.add_argument("--renders", type=int, default=1000)
    parser.add_argument("--time", choices=("real", "advance", "pause"), default="real")
    parser.add_argument(
        "--early", action="store_true", help="grant virtual time before the page is loaded"
    )
    parser.add_argument("--most-s", type=float, default=86_400.0, help="stop after so long")
    parser.add_argument("--budget-s", type=float, default=5.0)
    parser.add_argument("--browser", default="")
    parser.add_argument("--pages", type=int, default=200, help="renders of one browser")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--against", type=Path)
    asked = parser.parse_args()
    if asked.time != "real":
        policy = "advance" if asked.time == "advance" else "pauseIfNetworkFetchesPending"
        _use_virtual_time(policy, asked.budget_s, asked.early)
    known = {}
    if asked.against is not None:
        lines = msgspec.json.decode(asked.against.read_bytes(), type=list[Shown])
        known = {each.url: each for each in lines}
    config = BrowserConfig(asked.browser, pages=asked.pages)
    began = time.monotonic()
    shown = asyncio.run(_render_all(built_sites(asked.sites), asked.renders, asked.most_s, config))
    print(json.dumps(_report(shown, time.monotonic() - began, known), indent=2))
    if asked.output is not None:
        asked.output.write_bytes(msgspec.json.encode(shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
