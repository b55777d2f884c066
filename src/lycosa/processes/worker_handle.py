"""One worker process as its node handles it: started, written to, read from.

It is killed when it is silent for too long.
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

from lycosa.base.messages.progress import ContinuedProgress, Progress
from lycosa.base.messages.worker_messages import (
    Ended,
    Failed,
    FromWorker,
    ToWorker,
    decode_from_worker,
    encode_worker_message,
)
from lycosa.base.system.environment import for_worker
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import FrameError
from lycosa.base.system.shortage import is_shortage
from lycosa.state.store.removed_files import removed_files
from lycosa.worker.job import WorkerJob, encode_job

_LOOK_S = 1.0
_SILENT_LOOKS = 60  # in a row; a worker reports twice a second while its loop runs
_REAP_S, _REAP_LOOK_S = 10.0, 0.01


class WorkerFailed(Exception):
    """A worker cannot continue.

    ``kind`` is the full name of its error's class and ``trace`` its traceback. ``errno`` (0 = none)
    and ``filename`` are those of an ``OSError``. ``is_passing``: it lacked a thread or memory, so
    another process may succeed.
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
    """The system has no process or memory available at the moment; a retry may succeed."""


class WorkerSilence:
    """How long a worker has sent nothing, counted in checks and not by the clock.

    A supervisor that was stopped itself (Ctrl-Z, a debugger) must not count that time as the
    worker's silence. What the worker sent meanwhile is read before the next check.
    """

    def __init__(self, looks: int = _SILENT_LOOKS) -> None:
        self._looks, self._max_looks = 0, looks

    def note_heard(self) -> None:
        self._looks = 0

    def is_too_long(self) -> bool:
        """Count a check; return whether the silence is too long."""
        self._looks += 1
        return self._looks >= self._max_looks


def _uses_services(job: WorkerJob) -> bool:
    """Whether the worker needs credentials: files that were removed after their upload are read
    from their store."""
    return job.cluster is not None or job.config.upload.remove or bool(removed_files(job.folder))


class WorkerHandle:
    """The process that does one worker's job; after a death ``run`` starts another."""

    def __init__(
        self,
        number: int,
        owned: tuple[int, ...],
        lock_filenos: tuple[int, ...],
        on_message: Callable[[WorkerHandle, FromWorker], None],
    ) -> None:
        self.number = number
        self.owned = owned
        self._heard = ContinuedProgress()
        self.last_commit = 0.0  # of this worker, after a death (wall seconds)
        self._lock_filenos = lock_filenos
        self._on_message = on_message
        self._stream: FrameStream | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._silence = WorkerSilence()

    @property
    def progress(self) -> Progress:
        """The worker's last report, with what its earlier processes counted."""
        return self._heard.latest

    async def run(
        self, job: WorkerJob, greeting: tuple[ToWorker, ...] = ()
    ) -> Ended | Failed | None:
        """Run one process from start to end; return its last message, or ``None`` when it died.

        Raises ``WorkerNotStarted``.
        """
        process, ours = self._spawn(_uses_services(job))
        self._process, self._stream = process, FrameStream(ours)
        self._silence = WorkerSilence()
        self._heard.begin_process()
        watch = asyncio.create_task(self._watch(process))
        try:
            await self._send(encode_job(job))
            for message in greeting:
                await self.send_message(message)
            return await self._listen()
        except (ConnectionError, FrameError):
            # the process died; its exit status says how
            return None
        finally:
            watch.cancel()
            self._stream.close()
            self._stream = None
            await reap(process)

    def _spawn(self, uses_services: bool = False) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """A new process, and our end of the socket to it."""
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)
            try:
                # The process inherits the lock. So while a worker lives, even after its supervisor
                # was killed, no other run can lock the folder.
                # -P: nothing is imported from the current folder, which is the user's.
                module = "lycosa.processes.worker_process"
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                    pass_fds=[theirs.fileno(), *self._lock_filenos],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    env=for_worker(os.environ, uses_services),
                )
            except OSError as error:
                # any other error is a defect here, not a shortage that passes
                if is_shortage(error):
                    raise WorkerNotStarted(error.strerror) from error
                raise
            undo.pop_all()
        return process, ours

    async def send_message(self, message: ToWorker) -> None:
        """Send a message. A message to a dead worker is dropped; reading from it fails too."""
        await self._send(encode_worker_message(message))

    async def _send(self, frame: bytes) -> None:
        if self._stream is not None:
            # the loop that reads from the process notices its end
            with suppress(ConnectionError):
                await self._stream.send(frame)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    @property
    def was_killed(self) -> bool:
        """Whether the last process was ended by a signal."""
        return (
            self._process is not None
            and self._process.returncode is not None
            and self._process.returncode < 0
        )

    def how_it_died(self) -> str:
        """The signal or the exit code, for people."""
        code = self._process.returncode if self._process else 0
        return _signal_name(-code) if code < 0 else f"exit code {code}"

    async def _listen(self) -> Ended | Failed | None:
        assert self._stream is not None
        while (frame := await self._stream.receive()) is not None:
            self._silence.note_heard()
            message = decode_from_worker(frame)
            if isinstance(message, Progress):
                self._heard.receive(message)
            elif isinstance(message, Ended):
                self._heard.receive(message.progress)
            self._on_message(self, message)
            if isinstance(message, Ended | Failed):
                return message
        return None

    async def _watch(self, process: subprocess.Popen[bytes]) -> None:
        while not self._silence.is_too_long():  # noqa: ASYNC110 (what it waits for is that nothing happens)
            await asyncio.sleep(_LOOK_S)
        process.kill()


def _signal_name(number: int) -> str:
    """The name of a signal; those for real-time programs have only numbers."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def reap(process: subprocess.Popen[bytes]) -> None:
    """Wait some time for the process, then kill it.

    This needs no thread, because the system may have none available.
    """
    for look in itertools.count():
        if process.poll() is not None:
            return
        if look == int(_REAP_S / _REAP_LOOK_S):
            process.kill()
        await asyncio.sleep(_REAP_LOOK_S)
