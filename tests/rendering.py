"""Renderers without browsers beside a worker in virtual time, and the web that they need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from crawling import QUICK
from lycosa.base.calls import (
    AskedCapture,
    Call,
    CallReply,
    CapturesFound,
    FindCaptures,
    GiveRender,
    LentRender,
    RendersLent,
    RenderTaken,
    RenderVerdict,
    TakeRenders,
)
from lycosa.base.config.sections import Config, RenderMode, RenderSection
from lycosa.base.model.packed_render import pack_rendered
from lycosa.base.model.rendered_page import ArchiveQuery, MissingAnswer, Rendered, StoredAnswer
from lycosa.base.urls.identity import host_of
from lycosa.synthetic import Response
from lycosa.synthetic.scripted_renderer import ScriptedRenderer
from lycosa.worker.assemble import Assembled

RENDERING = msgspec.structs.replace(QUICK, render=RenderSection(mode=RenderMode.ALWAYS))


def rendering(config: Config = QUICK, **section: object) -> Config:
    """A configuration in which every page is rendered, with other settings of rendering."""
    section = {"mode": RenderMode.ALWAYS, **section}
    return msgspec.structs.replace(config, render=RenderSection(**section))  # type: ignore[arg-type]


def script(*lines: str) -> Response:
    """A script in the language of ``ScriptedRenderer``."""
    return Response(200, [("Content-Type", "text/javascript")], "\n".join([*lines, ""]).encode())


def shell(*scripts: str, text: str = "", links: str = "") -> Response:
    """A page that is empty until its scripts have run."""
    loads = "".join(f'<script src="{each}"></script>' for each in scripts)
    body = f"<!DOCTYPE html><title>App</title><div id=root></div>{loads}<p>{text}</p>{links}"
    return Response(200, [("Content-Type", "text/html; charset=utf-8")], body.encode())


Ask = Callable[[int, Call], Awaitable[CallReply]]
"""Calls the owner of a partition."""


class CalledArchive:
    """What owners have stored, asked by calls, as a renderer process does."""

    def __init__(self, ask: Ask, owner_of: Callable[[str], int], lent: LentRender) -> None:
        self._ask, self._owner_of, self._lent = ask, owner_of, lent
        self.places: dict[str, str] = {}

    async def find(self, requests: Sequence[ArchiveQuery]) -> list[StoredAnswer | MissingAnswer]:
        return [await self._find(request.url) for request in requests]

    async def _find(self, url: str) -> StoredAnswer | MissingAnswer:
        record, place = self._lent.records.get(url, ""), self._lent.places.get(url, "")
        asked = AskedCapture(url, record, place=place)
        reply = await self._ask(self._owner_of(host_of(url)), FindCaptures([asked]))
        assert isinstance(reply, CapturesFound), reply
        (capture,) = reply.captures
        if not capture.record:
            return MissingAnswer(capture.reason)
        self.places[url] = capture.place
        return StoredAnswer(capture.record, capture.status, capture.headers, capture.body)


class Renderers:
    """One renderer process that renders pages as long as the worker runs.

    Call it as ``meanwhile`` of ``crawl_folder``. ``verdicts`` has those of its results, ``given``
    the results.
    """

    def __init__(self, seconds: float = 0.5) -> None:
        self.renderer = ScriptedRenderer(asyncio.sleep, seconds)
        self.verdicts: list[RenderVerdict] = []
        self.given: list[tuple[LentRender, Rendered]] = []
        self._task: asyncio.Task[None] | None = None
        self.beginning: asyncio.Task[None] | None = None
        self.most = 1_000_000
        """Rounds that it does; then it is gone."""

    async def __call__(self, assembled: Assembled) -> None:
        partitions = assembled.worker.frontier.partitions

        async def ask(partition: int, call: Call) -> CallReply:
            return await assembled.calls.answer(partition, call)

        owner_of = assembled.intake.partition_of_host
        self._task = asyncio.create_task(self.run(ask, owner_of, next(iter(partitions))))

    async def run(self, ask: Ask, owner_of: Callable[[str], int], worker: int) -> None:
        """Take pages of the worker that owns a partition, without end."""
        with suppress(asyncio.CancelledError):
            while len(self.given) < self.most:
                reply = await ask(worker, TakeRenders("scripted", 2))
                for lent in reply.renders if isinstance(reply, RendersLent) else ():
                    await self.render(ask, owner_of, lent)
                await asyncio.sleep(0.25)

    async def render(self, ask: Ask, owner_of: Callable[[str], int], lent: LentRender) -> None:
        """Render a page and give the result."""
        archive = CalledArchive(ask, owner_of, lent)
        rendered = await self.renderer.render(lent.task, archive)
        self.given.append((lent, rendered))
        result, places = pack_rendered(rendered), archive.places
        call = GiveRender("scripted", lent.row, lent.lending, result, places=places)
        taken = await ask(lent.partition, call)
        if isinstance(taken, RenderTaken):
            self.verdicts.append(taken.verdict)
