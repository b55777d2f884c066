"""One worker process as its node sees it: started, spoken to, listened to, killed when it is
silent for too long.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress

from lycosa.cluster.worker_messages import (
    Ended,
    Failed,
    FromWorker,
    Progress,
    ToWorker,
    decode_from_worker,
    encode_worker_message,
)
from lycosa.system.frame_stream import FrameStream
from lycosa.system.shortage import is_shortage
from lycosa.system.wire import FrameError
from lycosa.worker.job import WorkerJob, encode_job

_LOOK_S = 1.0
_SILENT_LOOKS = 60  # in a row; it reports twice a second as long as its loop turns
_REAP_S, _REAP_LOOK_S = 10.0, 0.01


class WorkerFailed(Exception):
    """A worker cannot go on; ``kind`` is the full name of its error's class and ``trace`` its
    traceback. ``errno`` (0 = none) and ``filename`` are those of a system's error. ``is_passing``:
    it lacked a thread or memory, so another process may do better.
    """

    def __init__(
        self,
        kind: str,
        text: str,
        trace: str = "",
        errno: int = 0,
        filename: str = "",
        is_passing: bool = False,
    ) -> None:
        super().__init__(text)
        self.kind, self.trace, self.errno, self.filename, self.is_passing = (
            kind,
            trace,
            errno,
            filename,
            is_passing,
        )


class WorkerNotStarted(Exception):
    """The system has no process or memory to give just now; it is worth another attempt."""


class WorkerSilence:
    """How long nothing was heard, in looks and not by the clock: a supervisor that was stopped
    itself (Ctrl-Z, a debugger) must not take the time in which it heard nothing for the worker's
    silence. What came meanwhile is read before the next look.
    """

    def __init__(self) -> None:
        self._looks = 0

    def note_heard(self) -> None:
        self._looks = 0

    def is_too_long(self) -> bool:
        """Whether it is too long by now."""
        self._looks += 1
        return self._looks >= _SILENT_LOOKS


class WorkerHandle:
    """The process that does one worker's job; after a death ``run`` starts another one."""

    def __init__(
        self,
        number: int,
        owned: tuple[int, ...],
        lock_filenos: tuple[int, ...],
        on_message: Callable[[WorkerHandle, FromWorker], None],
    ) -> None:
        self.number = number
        self.owned = owned
        self.progress = Progress()
        self.last_commit = 0.0  # of this worker, after a death (wall seconds)
        self._lock_filenos = lock_filenos
        self._on_message = on_message
        self._stream: FrameStream | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._silence = WorkerSilence()

    def __repr__(self) -> str:
        return f"<WorkerHandle {self.number} pid={self._process.pid if self._process else None}>"

    async def run(
        self, job: WorkerJob, greeting: tuple[ToWorker, ...] = ()
    ) -> Ended | Failed | None:
        """One process from start to end: the last that it said, or ``None`` when it died. Raises
        ``WorkerNotStarted``.
        """
        process, ours = self._spawn()
        self._process, self._stream = process, FrameStream(ours)
        self._silence = WorkerSilence()
        watch = asyncio.create_task(self._watch(process))
        try:
            await self._send(encode_job(job))
            for message in greeting:
                await self.send_message(message)
            return await self._listen()
        except (ConnectionError, FrameError):
            return None
        finally:
            watch.cancel()
            self._stream.close()
            self._stream = None
            await _reap(process)

    def _spawn(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """A new process, and our end of the socket to it."""
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)
            try:
                # The lock goes with it: while a worker lives, even one whose supervisor was killed,
                # nobody else gets the folder.
                process = subprocess.Popen(
                    [sys.executable, "-m", "lycosa.processes.worker_process", str(theirs.fileno())],
                    pass_fds=[theirs.fileno(), *self._lock_filenos],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    # numpy would start a thread for each core, in each worker, for nothing
                    env={
                        **os.environ,
                        "OPENBLAS_NUM_THREADS": "1",
                    },
                )
            except OSError as error:
                if is_shortage(error):
                    raise WorkerNotStarted(error.strerror) from error
                raise
            undo.pop_all()
        return process, ours

    async def send_message(self, message: ToWorker) -> None:
        """Sends a message; to one that is dead, nothing: whoever listens finds out."""
        await self._send(encode_worker_message(message))

    async def _send(self, frame: bytes) -> None:
        if self._stream is not None:
            with suppress(ConnectionError):
                await self._stream.send(frame)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def how_it_died(self) -> str:
        """For people: the signal or the exit code."""
        code = self._process.returncode if self._process else 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    async def _listen(self) -> Ended | Failed | None:
        assert self._stream is not None
        while (frame := await self._stream.receive()) is not None:
            self._silence.note_heard()
            message = decode_from_worker(frame)
            if isinstance(message, Progress | Ended):
                self.progress = message if isinstance(message, Progress) else message.progress
            self._on_message(self, message)
            if isinstance(message, Ended | Failed):
                return message
        return None

    async def _watch(self, process: subprocess.Popen[bytes]) -> None:
        while not self._silence.is_too_long():  # noqa: ASYNC110 (what it waits for is that nothing happens)
            await asyncio.sleep(_LOOK_S)
        process.kill()


async def _reap(process: subprocess.Popen[bytes]) -> None:
    """Waits for the process a while, then ends it. Without a thread, which the system may not
    have to give just now.
    """
    for look in itertools.count():
        if process.poll() is not None:
            return
        if look == int(_REAP_S / _REAP_LOOK_S):
            process.kill()
        await asyncio.sleep(_REAP_LOOK_S)
