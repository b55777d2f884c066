"""Keeps a renderer process running next to a crawl, which never waits for it.

The process leads a separate group, which has the browser too. When the process has ended, however
that came, the whole group is killed, so nothing of a browser is left behind. A process that is
silent for too long is killed; one that died is started again after a pause. What it had in work is
lent again by the owners of the pages.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress

from lycosa.base.config.live_settings import with_live
from lycosa.base.config.sections import Config
from lycosa.base.messages.renderer_messages import (
    RendererNote,
    RendererReport,
    decode_renderer_message,
)
from lycosa.base.system.child_start import start_module
from lycosa.base.system.environment import beside_crawl
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import UNREADABLE, FrameError
from lycosa.processes.kept_process import how_it_ended, keep_running
from lycosa.processes.rendering.renderer_job import RendererJob, encode_renderer_job
from lycosa.processes.worker_handle import WorkerSilence, reap

_MODULE = "lycosa.processes.rendering.renderer_process"
_LOOK_S = 1.0
_SILENT_LOOKS = 30  # in a row; it reports every second
_END_S = 5.0  # in which it gives pages back and ends its browser


class RendererKeeper:
    """Runs the process for ``job``; ``tell`` gets lines for the operator."""

    def __init__(self, job: RendererJob, tell: Callable[[str], None]) -> None:
        self._job, self._tell = job, tell
        self._keeping: asyncio.Task[None] | None = None
        self.is_wanted = False
        """Whether the process is to run."""
        self.pid = 0
        """The process that runs now, which is the number of its group (0 = none)."""
        self.report = RendererReport()
        """What it said last."""

    def __repr__(self) -> str:
        return f"<RendererKeeper {self._job.name} pid={self.pid} {self.report.line()}>"

    def start(self) -> None:
        """Start the process, and again whenever it ends."""
        self.is_wanted = True
        self._keeping = asyncio.get_running_loop().create_task(
            keep_running("the renderer", self._run_once, self._tell)
        )

    def follow(self, values: Mapping[str, str]) -> bool:
        """Keep the process if pages are rendered by these live settings, else end it.

        Returns whether they are. It is to be called again and again: a process that ends is waited
        for before another one is started.
        """
        self.is_wanted = with_live(Config(render=self._job.section), values).render.is_on
        if self.is_wanted and (self._keeping is None or self._keeping.done()):
            self.start()
        elif not self.is_wanted:
            self._end()
        return self.is_wanted

    def _end(self) -> None:
        # A second cancellation would break off the end of the process.
        if self._keeping is not None and not self._keeping.cancelling():
            self._keeping.cancel()

    async def close(self) -> None:
        """End the process: pages that it has in work are given back."""
        self.is_wanted = False
        if self._keeping is not None:
            self._end()
            await asyncio.gather(self._keeping, return_exceptions=True)

    @property
    def trouble(self) -> str:
        """Why nothing is rendered; empty when nothing is wrong."""
        if not self.is_wanted:
            return ""
        return self.report.trouble if self.pid else "the renderer process does not run"

    def line(self) -> str:
        """The state in one line, for people."""
        if not self.is_wanted:
            return "the crawl renders no pages"
        return self.trouble or self.report.line()

    async def _run_once(self) -> str:
        """Run one process to its end; how it ended. It is ended when this is cancelled."""
        is_on_cluster = bool(self._job.cluster_file)
        process, ours = start_module(_MODULE, beside_crawl(os.environ, is_on_cluster))
        stream = FrameStream(ours)
        self.pid, why = process.pid, ""
        try:
            await stream.send(encode_renderer_job(self._job))
            why = await self._listen(stream)
        except (ConnectionError, FrameError, *UNREADABLE) as error:
            # it died, or sent what is no message: the exit code or this error says why
            why = f"was lost ({error})"
        finally:
            stream.close()
            try:
                if not why:
                    await _await_end(process)
            finally:
                kill_group(process.pid)
                await reap(process)
                self.pid, self.report = 0, RendererReport()
        return why or how_it_ended(process.returncode or 0)

    async def _listen(self, stream: FrameStream) -> str:
        """Take its messages until it ends; empty text, or why it is killed."""
        silence = WorkerSilence(_SILENT_LOOKS)
        receiving = asyncio.ensure_future(stream.receive())
        try:
            while True:
                done, _ = await asyncio.wait([receiving], timeout=_LOOK_S)
                if done:
                    if (frame := receiving.result()) is None:
                        return ""
                    silence.note_heard()
                    self._take(decode_renderer_message(frame))
                    receiving = asyncio.ensure_future(stream.receive())
                elif silence.is_too_long():
                    return f"did not answer for {_SILENT_LOOKS * _LOOK_S:.0f} s and was killed"
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    def _take(self, message: RendererReport | RendererNote) -> None:
        if isinstance(message, RendererReport):
            self.report = message
        else:
            self._tell(f"renderer: {message.text}")


def kill_group(group: int) -> None:
    """Kill the processes of a group. It must be done before its leader is reaped: until then no
    other group has the number."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


async def _await_end(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has ended, for a few seconds, without reaping it."""
    for _ in range(int(_END_S / 0.02)):
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):  # noqa: ASYNC222 (WNOHANG: it does not wait)
            return
        await asyncio.sleep(0.02)
