"""A renderer: ``python -m lycosa.processes.rendering.renderer_process FD PARENT``.

It calls the owners of a crawl as any other program can, and runs a browser that has no network. The
socket ``FD`` is to the process that keeps it: the job arrives there, reports go back every second,
and this process ends when the other end closes. Linux kills it when its parent dies, and the
browser ends when the pipe to it closes. Browser and process are one process group, which its keeper
kills when the process has ended. Its files are in a folder for temporary files, which the next such
process deletes if this one is killed. Tests name another renderer in ``LYCOSA_TEST_RENDERER``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import cast

from lycosa.base.config.live_settings import with_live
from lycosa.base.config.render_section import RenderSection
from lycosa.base.config.sections import Config
from lycosa.base.logs.log_records import LogLevel
from lycosa.base.logs.log_writer import EventLog, opened_log
from lycosa.base.messages.coordinator_messages import ClusterStatus
from lycosa.base.messages.renderer_messages import (
    RendererNote,
    RendererReport,
    encode_renderer_message,
)
from lycosa.base.ports import Renderer
from lycosa.base.system.child_start import die_with_parent
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import FrameError
from lycosa.base.system.kept_tasks import error_line
from lycosa.base.system.private_folder import private_folder
from lycosa.base.system.process_memory import group_bytes
from lycosa.processes.rendering.body_cache import BodyCache
from lycosa.processes.rendering.capture_caller import CaptureCaller
from lycosa.processes.rendering.render_loop import RenderLoop, process_bytes
from lycosa.processes.rendering.renderer_job import RendererJob, decode_renderer_job
from lycosa.service.api.api_job import ApiJob, ApiSettings
from lycosa.service.api.places import CoordinatedCrawl, reach_crawl
from lycosa.service.api.watching import CoordinatorCaller

_REPORT_S = 1.0
_MEMORY_LOOKS = 5  # in a row above the bound: the renderer itself should have replaced the browser
_BROWSER = "lycosa.stages.render.chromium_renderer:chromium_of"
_BUILD_VARIABLE = "LYCOSA_TEST_RENDERER"


class TooMuchMemory(Exception):
    """Process and browser use more than they may, and replacing the browser did not help."""


class RendererProcess:
    """One run of the process, for one job."""

    def __init__(self, stream: FrameStream, log: EventLog) -> None:
        self._stream, self._log = stream, log
        self._over_bound = 0

    async def run(self, job: RendererJob) -> None:
        """Render until the other end of the socket closes, or SIGTERM comes."""
        place = await asyncio.to_thread(reach_crawl, _place_of(job), self._tell)
        with private_folder("render") as folder:
            if os.geteuid() == 0:
                folder.chmod(0o711)  # its browsers have folders in it, and run as another user
            new_renderer = await asyncio.to_thread(_builder, job, folder)
            bodies = BodyCache(folder / "bodies", job.section.cache_bytes)
            captures = CaptureCaller(place, bodies, time.monotonic)
            pages = RenderLoop(job.name, place, new_renderer, captures, self._tell)
            try:
                await self._run_tasks(job, place, pages)
            finally:
                await place.close()

    async def _run_tasks(
        self, job: RendererJob, place: CoordinatedCrawl, pages: RenderLoop
    ) -> None:
        def heard(status: ClusterStatus) -> None:
            if status.is_over:
                pages.set_most(0)  # its workers have ended; it may continue
                return
            place.follow(status)
            pages.set_most(most_pages(job, status.settings))

        watch = CoordinatorCaller(place, heard, self._note_wait)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        tasks = [
            asyncio.create_task(watch.run()),
            asyncio.create_task(pages.run()),
            asyncio.create_task(self.report(job.section, pages, _held_bytes)),
            asyncio.create_task(self._listen()),
            asyncio.create_task(_wait(ended)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            # Pages first: they are given back over connections that ``watch`` keeps right.
            for task in (tasks[1], *tasks):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _listen(self) -> None:
        """Wait for the end of the process that keeps this one."""
        with suppress(OSError, FrameError):
            while await self._stream.receive() is not None:
                pass

    async def report(
        self, section: RenderSection, pages: RenderLoop, held: Callable[[], int]
    ) -> None:
        """Send the state every second. Raises ``TooMuchMemory``; ``held`` gives bytes in use."""
        while True:
            memory = held()
            report = pages.report(memory)
            self._send(report)
            most = process_bytes(section.memory_bytes, report.most)
            self._over_bound = self._over_bound + 1 if memory > most else 0
            if self._over_bound >= _MEMORY_LOOKS:
                raise TooMuchMemory(
                    f"{memory / 1e6:,.0f} MB in use, and {most / 1e6:,.0f} MB"
                    " are allowed (render.memory_bytes)"
                )
            await asyncio.sleep(_REPORT_S)

    def _note_wait(self, why: str) -> None:
        self._tell(f"the coordinator does not answer: {why}" if why else "it answers again")

    def _tell(self, text: str) -> None:
        self._log.note(LogLevel.WARNING, "note", text)
        self._send(RendererNote(text))

    def _send(self, message: RendererReport | RendererNote) -> None:
        self._stream.write(encode_renderer_message(message))


def most_pages(job: RendererJob, values: Mapping[str, str]) -> int:
    """How many pages the process renders at the same time by these live settings."""
    section = with_live(Config(render=job.section), values).render
    if not section.is_on or not section.pages:
        return 0  # it waits: both may change again
    return job.pages if job.pages >= 0 else section.pages


def _place_of(job: RendererJob) -> ApiJob:
    return ApiJob(
        ApiSettings(""), -1, folder=job.folder, sockets=job.sockets, cluster_file=job.cluster_file
    )


def _builder(job: RendererJob, folder: Path) -> Callable[[], Renderer]:
    """What makes a renderer of one page at a time."""
    module, _, name = os.environ.get(_BUILD_VARIABLE, _BROWSER).partition(":")
    build = cast(Callable[[RenderSection, Path], Renderer], getattr(import_module(module), name))
    return partial(build, job.section, folder)


def _held_bytes() -> int:
    return group_bytes(os.getpid())


async def _wait(ended: asyncio.Event) -> None:
    await ended.wait()


async def _run(sock: socket.socket, log: EventLog) -> int:
    stream = FrameStream(sock)
    try:
        if (first := await stream.receive()) is None:
            return 0
        process = RendererProcess(stream, log)
        log.note(LogLevel.INFO, "renderer_started", values={"pid": os.getpid()})
        await process.run(decode_renderer_job(first))
    except (ConnectionError, FrameError):
        return 0  # the process that keeps this one is gone
    except Exception as error:
        text = f"cannot continue: {error_line(error)}"
        log.note(LogLevel.ERROR, "renderer_failed", text)
        with suppress(ConnectionError):
            await stream.send(encode_renderer_message(RendererNote(text)))
        return 1
    log.note(LogLevel.INFO, "renderer_ended")
    return 0


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor handles Ctrl-C
    die_with_parent(int(sys.argv[2]))
    os.nice(5)  # the crawl has the processor first
    log = opened_log("renderer")
    code = asyncio.run(_run(socket.socket(fileno=int(sys.argv[1])), log))
    log.close()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
