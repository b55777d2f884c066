"""Runs the parts of a sample in parallel, each in its own process, and reports their progress.

Each is a fresh interpreter: what this one has open, threads above all, must not be copied, and the
memory of a part is released when it is done.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

_SPAWN = multiprocessing.get_context("spawn")

_Work = TypeVar("_Work")
_Done = TypeVar("_Done")
PartJob = Callable[[_Work, Callable[[float], None]], _Done]
"""Does a piece of work and reports the share that is done.

It is a function of a module, so that another process can import it.
"""


class PartLostError(Exception):
    """A process ended without an answer, as when memory ran out."""


def run_all(
    job: PartJob[_Work, _Done], pieces: Sequence[_Work], jobs: int, tell: Callable[[float], None]
) -> list[_Done]:
    """The answers in the order of the pieces, ``jobs`` at a time.

    ``tell`` gets the share of all pieces that is done. An error of a piece is raised here, and the
    other processes are ended. Raises ``PartLostError``.
    """
    if jobs <= 1 or len(pieces) == 1:
        return [
            job(piece, lambda share, before=number: tell((before + share) / len(pieces)))  # type: ignore[misc]
            for number, piece in enumerate(pieces)
        ]
    return _Parts(job, pieces, tell).run(min(jobs, len(pieces)))


class _Parts(Generic[_Work, _Done]):
    """The running processes, by the connection to each."""

    def __init__(
        self, job: PartJob[_Work, _Done], pieces: Sequence[_Work], tell: Callable[[float], None]
    ) -> None:
        self._job, self._pieces, self._tell = job, pieces, tell
        self._shares = [0.0] * len(pieces)
        self._done: dict[int, _Done] = {}
        self._running: dict[Connection, tuple[int, BaseProcess]] = {}

    def run(self, jobs: int) -> list[_Done]:
        waiting = list(reversed(range(len(self._pieces))))
        try:
            while waiting or self._running:
                while waiting and len(self._running) < jobs:
                    self._start(waiting.pop())
                for connection in wait(list(self._running)):
                    assert isinstance(connection, Connection)
                    self._receive(connection)
        finally:
            for process in (process for _, process in self._running.values()):
                process.terminate()
                process.join()
        return [self._done[number] for number in range(len(self._pieces))]

    def _start(self, number: int) -> None:
        ours, theirs = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(
            target=_work, args=(self._job, self._pieces[number], theirs), daemon=True
        )
        process.start()
        theirs.close()
        self._running[ours] = (number, process)

    def _receive(self, connection: Connection) -> None:
        number, process = self._running[connection]
        try:
            said = connection.recv()
        except EOFError:
            process.join()
            raise PartLostError(
                f"part {number + 1} of the simulation ended with exit code {process.exitcode}"
                " and without an answer"
            ) from None
        if isinstance(said, float):
            self._shares[number] = said
            self._tell(sum(self._shares) / len(self._shares))
            return
        del self._running[connection]
        process.join()
        connection.close()
        answer, error = said
        if error is not None:
            raise error
        self._done[number] = answer


def _work(job: PartJob[_Work, _Done], piece: _Work, connection: Connection) -> None:
    """The main function of a process."""
    # Ctrl-C is handled by the parent, which ends this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        answer = job(piece, connection.send)
    except Exception as error:
        connection.send((None, error))
    else:
        connection.send((answer, None))
