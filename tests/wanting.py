"""Sites whose pages need scripts of each other's, and renderers for the workers that crawl them."""

from __future__ import annotations

import asyncio

from judging import quick_config
from lycosa.base.calls import Call, CallReply
from lycosa.base.config.sections import (
    Config,
    FrontierSection,
    PolitenessSection,
    RenderMode,
    RenderSection,
    ScopeRule,
    ScopeSection,
)
from lycosa.synthetic import Response
from lycosa.worker.assemble import Assembled
from rendering import Renderers, script, shell
from scripted import Answer, moved, page, robots

CDN = "http://cdn.test/"
DELAY_S = 2.0


def settings(**sections: object) -> Config:
    """All pages are rendered, and only pages of the seeds' hosts are crawled."""
    found: dict[str, object] = {
        "frontier": FrontierSection(partitions=8, bands=4, head=6),
        "politeness": PolitenessSection(delay_s=DELAY_S, jitter=0.0, adaptive_factor=0.0),
        "scope": ScopeSection(rule=ScopeRule.HOST),
        "render": RenderSection(mode=RenderMode.ALWAYS),
        **sections,
    }
    return quick_config(**found)


def sites(number: int) -> list[str]:
    return [f"http://s{n}.example/" for n in range(number)]


def data(text: str) -> Response:
    return Response(200, [("Content-Type", "application/json")], text.encode(), 0.05)


def web_of(number: int) -> dict[str, Answer]:
    """Pages that load a script of another site, which asks for more, and scripts of their own."""
    web: dict[str, Answer] = {
        f"{CDN}robots.txt": robots("User-agent: *\nDisallow: /no"),
        f"{CDN}lib.js": moved("/lib-2.js"),
        f"{CDN}lib-2.js": script("import ./more.js", "import ./no.js", "text lib"),
        f"{CDN}more.js": script("load /data.json", "text more"),
        f"{CDN}no.js": script("text forbidden"),
        f"{CDN}data.json": data("data of another site"),
    }
    for n, site in enumerate(sites(number)):
        web |= {
            site: shell(f"{CDN}lib.js", "/own.js"),
            f"{site}own.js": script(f"load /own{n}.json", "load /gone.json", "link /found"),
            f"{site}own{n}.json": data(f"data of {n}"),
            f"{site}found": page(text="found by a script"),
        }
    return web


class Everywhere(Renderers):
    """A renderer for each worker of a run. It finds captures at all workers."""

    def __init__(self) -> None:
        super().__init__(0.3)
        self.workers: list[Assembled] = []
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, assembled: Assembled) -> None:
        """As ``meanwhile`` of ``run_workers``."""
        self.workers.append(assembled)
        owner_of, first = assembled.intake.partition_of_host, _partitions(assembled)[0]
        self._tasks.append(asyncio.ensure_future(self.run(self._call, owner_of, first)))

    async def _call(self, partition: int, call: Call) -> CallReply:
        owner = next(each for each in self.workers if partition in _partitions(each))
        return await owner.calls.answer(partition, call)

    def document(self, url: str) -> str:
        """What the last round of a page gave."""
        return [rendered.html for lent, rendered in self.given if lent.task.url == url][-1]


def _partitions(assembled: Assembled) -> list[int]:
    return list(assembled.worker.frontier.partitions)
