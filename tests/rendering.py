"""Renderers without browsers beside a worker in virtual time, and the web that they need."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from crawling import QUICK
from lycosa.base.calls import AskedCapture, LentRender, RenderVerdict
from lycosa.base.config.sections import Config, RenderMode, RenderSection
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


class WorkerArchive:
    """What a worker that is alone has stored, as renderers get it."""

    def __init__(self, assembled: Assembled, lent: LentRender) -> None:
        self._assembled, self._records = assembled, lent.records

    async def find(self, requests: Sequence[ArchiveQuery]) -> list[StoredAnswer | MissingAnswer]:
        found: list[StoredAnswer | MissingAnswer] = []
        for request in requests:
            found.append(await self._find(request.url))
        return found

    async def _find(self, url: str) -> StoredAnswer | MissingAnswer:
        intake = self._assembled.intake
        number = intake.partition_of_host(host_of(url))
        partition = self._assembled.worker.frontier.partitions[number]
        asked = AskedCapture(url, self._records.get(url, ""))
        (capture,) = await self._assembled.captures.find_captures(partition, [asked])
        if not capture.record:
            return MissingAnswer(capture.reason)
        return StoredAnswer(capture.record, capture.status, capture.headers, capture.body)


class Renderers:
    """One renderer process that renders pages as long as the worker runs.

    Call it as ``meanwhile`` of ``crawl_folder``. ``verdicts`` has those of its results.
    """

    def __init__(self, seconds: float = 0.5) -> None:
        self.renderer = ScriptedRenderer(asyncio.sleep, seconds)
        self.verdicts: list[RenderVerdict] = []
        self.given: list[tuple[LentRender, Rendered]] = []
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, assembled: Assembled) -> None:
        self._task = asyncio.create_task(self._run(assembled))

    async def _run(self, assembled: Assembled) -> None:
        desk = assembled.renders
        assert desk is not None
        with suppress(asyncio.CancelledError):
            while True:
                for lent in desk.take(2):
                    await self.render(assembled, lent)
                await asyncio.sleep(0.25)

    async def render(self, assembled: Assembled, lent: LentRender) -> None:
        desk, partition = assembled.renders, assembled.worker.frontier.partitions[lent.partition]
        assert desk is not None
        rendered = await self.renderer.render(lent.task, WorkerArchive(assembled, lent))
        self.given.append((lent, rendered))
        self.verdicts.append(await desk.give(partition, lent.row, lent.lending, rendered))
        assembled.worker.wake()
