"""The process of user code as its parent sees it, and its end with all that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Generic, TypeVar

from lycosa.base.ports import Clock
from lycosa.base.system.child_start import start_module
from lycosa.base.system.environment import for_user_code
from lycosa.base.system.frame_stream import FrameStream
from lycosa.stages.extract.code_messages import ChildReport

START_S = 60.0
"""Seconds of wall time in which a process has to load its code."""
WALL_FACTOR = 10
"""Wall time of a page, in units of its processor time: for code that sleeps, or a busy machine."""
_MAX_ANSWER_BYTES = 16 << 20
TaskT = TypeVar("TaskT")


def start_code_process(names: Iterable[str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process with the environment variables ``names``. Raises ``OSError``."""
    environment = for_user_code(os.environ, names)
    return start_module("lycosa.stages.extract.extension_process", environment, is_silent=True)


class CodeProcess(Generic[TaskT]):
    """A running process, and the pages that it was sent."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self.process, self.sent = process, deque[TaskT]()
        self.report: ChildReport | None = None
        self.head_since, self.is_late, self.is_dismissed = 0.0, False, False
        self.ended = asyncio.Event()
        self._sock = sock
        self.frames: FrameStream | None = None

    async def open(self, on_frame: Callable[[bytes], None]) -> None:
        """Pass on each frame that the process sends from now on."""
        self.frames = FrameStream(
            self._sock, _MAX_ANSWER_BYTES, on_frame, on_end=lambda error: self.ended.set()
        )
        await self.frames.open()

    @property
    def takes_pages(self) -> bool:
        """Whether a page can be sent now."""
        return self.report is not None and not self.ended.is_set()

    def kill(self) -> None:
        """Kill the process with all that it started, and block until it has ended."""
        self._kill_group()
        self.process.wait()

    def _kill_group(self) -> None:
        # The group exists as long as the process is not waited for.
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    async def end(self, clock: Clock) -> None:
        """Kill the process with all that it started, and wait for its end."""
        self._kill_group()
        if self.frames is not None:
            self.frames.close()
        else:
            self._sock.close()
        try:
            while self.process.poll() is None:
                await clock.sleep(0.005)
        finally:
            self.process.wait()

    def why(self, page_s: float) -> str:
        """Why it ended, after ``end``; empty for a reason that may pass."""
        if self.process.returncode == -signal.SIGPROF:
            return f"it used more than {page_s:g} s of processor time"
        if self.is_late:
            return f"it did not return within {WALL_FACTOR * page_s:g} s"
        return ""

    def how_it_ended(self) -> str:
        """A phrase for messages, after ``end``."""
        code = self.process.returncode
        return f"it ended its process ({f'signal {-code}' if code < 0 else f'exit code {code}'})"

    def dismiss(self) -> None:
        """End the process, and blame no page that it still has."""
        self.is_dismissed = True
        self.ended.set()
