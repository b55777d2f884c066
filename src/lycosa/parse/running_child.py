"""One parse child as its parent sees it: the process, the documents that it was sent, and since
when it has worked on the first of them.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from lycosa.model.parsed import Document, Parsed
from lycosa.system.frame_stream import FrameProtocol


@dataclass(slots=True)
class Job:
    """A document and the future of its answer. ``is_suspect``: a child ended while it worked on
    this document, so it is tried once more, alone.
    """

    document: Document
    answer: asyncio.Future[Parsed]
    is_suspect: bool = False


class RunningChild:
    """Answers come in the order of ``sent``, so the child always works on the first of these."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket, now: float) -> None:
        self.process, self.sock = process, sock
        self.frames: FrameProtocol | None = None
        self.sent: deque[Job] = deque()
        self.documents = 0
        self.head_since = now
        self.is_ready = False
        self.is_late = False
        # the document that was over its deadline when the child was killed
        self.late: Job | None = None
        # it gave an answer that a fresh child may better: none of what it still holds is to blame
        self.is_dismissed = False
        self._ended = asyncio.Event()

    async def connect(self, on_frame: Callable[[RunningChild, bytes], None]) -> None:
        """Passes on what the child says from now on."""
        make = partial(FrameProtocol, partial(on_frame, self), self.end)
        _, self.frames = await asyncio.get_running_loop().create_connection(make, sock=self.sock)

    def end(self, _: Exception | None = None) -> None:
        """Nothing more is expected of it."""
        self._ended.set()

    @property
    def is_over(self) -> bool:
        return self._ended.is_set()

    @property
    def takes_documents(self) -> bool:
        """Whether a document that is sent now can reach it."""
        return (
            self.is_ready and not self.is_over and self.frames is not None and self.frames.is_open
        )

    async def ended(self) -> None:
        await self._ended.wait()

    @property
    def works_alone(self) -> bool:
        """Whether it was sent a suspect, which gets no company."""
        return bool(self.sent) and self.sent[0].is_suspect

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        """Its socket. Harmless when repeated."""
        if self.frames is not None:
            self.frames.close()
        else:
            self.sock.close()

    def how_it_ended(self) -> str:
        """For people; after ``process.wait``."""
        code = self.process.returncode
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def start_child(now: float) -> RunningChild:
    """Spawns a child. Raises ``OSError`` when the system has no process, memory or descriptor to
    give.

    Never forked without an exec: the worker has threads and open files that a child must not
    inherit.
    """
    ours, theirs = socket.socketpair()
    with theirs, ExitStack() as undo:
        undo.callback(ours.close)
        # -P: the current folder is the user's, nothing is imported from it.
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "lycosa.parse.child",
                str(theirs.fileno()),
                str(os.getpid()),
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # Ctrl-C on the terminal is for the parent
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        undo.pop_all()
    return RunningChild(process, ours, now)
