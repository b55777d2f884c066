"""One parse child as its parent sees it.

That is the process, the documents that it was sent, and since when it has worked on the first of
them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.system.child_start import start_module
from lycosa.base.system.environment import for_parser
from lycosa.base.system.frame_stream import FrameStream


@dataclass(slots=True)
class ParseJob:
    """A document and the future of its answer.

    ``is_suspect`` says that a child ended while it worked on this document, so that it is tried
    once more, alone.
    """

    document: ParseInput
    answer: asyncio.Future[Parsed]
    is_suspect: bool = False


class RunningChild:
    """A child process and the documents in flight.

    Answers come in the order of ``sent``, so the child always works on the first of these.
    """

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket, now: float) -> None:
        self.process, self.sock = process, sock
        self.frames: FrameStream | None = None
        self.sent: deque[ParseJob] = deque()
        self.documents = 0
        self.head_since = now
        self.is_ready = False
        self.is_late = False
        # the document without an answer at the wall-time bound, when the child was killed for it
        self.late: ParseJob | None = None
        # it gave an answer that a fresh child may improve; no document that it still has is a
        # suspect
        self.is_dismissed = False
        self._ended = asyncio.Event()

    async def start_reading(self, on_frame: Callable[[RunningChild, bytes], None]) -> None:
        """Pass on each frame that the child sends from now on."""
        frames = FrameStream(self.sock, on_frame=partial(on_frame, self), on_end=self.stop_reading)
        await frames.open()
        self.frames = frames

    def stop_reading(self, _: Exception | None = None) -> None:
        """Mark the conversation with the child as over, for whatever reason."""
        self._ended.set()

    @property
    def is_over(self) -> bool:
        return self._ended.is_set()

    @property
    def takes_documents(self) -> bool:
        """Whether a document can be sent to the child now."""
        return (
            self.is_ready and not self.is_over and self.frames is not None and self.frames.is_open
        )

    async def ended(self) -> None:
        await self._ended.wait()

    @property
    def works_alone(self) -> bool:
        """Whether it was sent a suspect, which must be its only document."""
        return bool(self.sent) and self.sent[0].is_suspect

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        """Close the socket. Further calls do nothing."""
        if self.frames is not None:
            self.frames.close()
        else:
            self.sock.close()

    @property
    def used_its_time(self) -> bool:
        """Whether it ended because a document used its processor time; known after the wait."""
        return self.process.returncode == -signal.SIGPROF

    def how_it_ended(self) -> str:
        """A phrase for messages; call it after ``process.wait``."""
        code = self.process.returncode
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def start_child(now: float) -> RunningChild:
    """Start a child. Raises ``OSError`` when there is no process, memory or descriptor for it."""
    process, ours = start_module("lycosa.stages.parse.parser_process", for_parser(os.environ))
    return RunningChild(process, ours, now)
