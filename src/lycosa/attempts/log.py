"""The attempt log: one line before and one after every request, so that politeness can be proven
and a crash understood.

A line is handed to the kernel by one ``write`` before the call returns: it survives ``kill -9``
without fsync. Nothing is ever changed in a file; a worker's every start begins a new one, so a line
that a kill cut in two is the last of its file. Lines are text, fields divided by tabs, times in
whole microseconds:

    R  version  boot  run  wall  monotonic  session               head of each file B  number
    monotonic  wall  kind  address  host  url          a request begins E  number  monotonic  wall
    outcome  status  duration  delay  it ended; the host then rests for this delay S  monotonic
    wall                                            the worker ended on purpose: what is unfinished
    did not crash

``run`` tells the starts of one worker apart, ``boot`` the starts of the machine: monotonic times of
two boots do not compare. ``session`` is the number of the crawl's run: when one begins, every
worker of those before is dead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lycosa.attempts.files import FORMAT, boot_id, files_of, number_of, tidy
from lycosa.model.fetched import FetchKind
from lycosa.reasons import Reason
from lycosa.system.durable import named, write_all

_ESCAPES = str.maketrans({"\t": "%09", "\n": "%0A", "\r": "%0D"})


class Keeping(NamedTuple):
    """At which size a file is full, and how many closed ones stay."""

    file_bytes: int = 64_000_000
    files: int = 64


DEFAULT_KEEPING = Keeping()


class AttemptLog:
    """The log of one worker, open for writing: calls come from its loop and cost a few microseconds
    each.

    ``wall`` and ``monotonic`` are the times of the start, ``session`` the number of the crawl's
    run, 0 when unknown. ``boot`` is ``boot_id()`` unless a test says otherwise. Read what earlier
    runs left (``unfinished``, ``last_contacts``) *before* opening: opening begins a new run.
    """

    def __init__(
        self,
        folder: Path,
        worker: int,
        wall: float,
        monotonic: float,
        *,
        session: int = 0,
        boot: str | None = None,
        keeping: Keeping = DEFAULT_KEEPING,
    ) -> None:
        self._folder, self.worker, self._session, self._keeping = folder, worker, session, keeping
        folder.mkdir(parents=True, exist_ok=True)
        self.boot = boot_id() if boot is None else boot
        # unique even if the clock and the process ids begin anew
        self.run = f"{_us(wall)}-{os.getpid()}-{self._next_file()}"
        self._number = 0
        self._fd, self._size, self._path = -1, 0, folder
        self._start_file(wall, monotonic)

    @property
    def is_full(self) -> bool:
        """Whether ``rotate`` should be called."""
        return self._size >= self._keeping.file_bytes

    def begin(
        self, host: str, address: str, url: str, kind: FetchKind, monotonic: float, wall: float
    ) -> int:
        """A request is about to be sent; gives the attempt's number. Raises ``DiskFull`` or
        ``OSError``: then do not send it.
        """
        number = self._number = self._number + 1
        # int() and f-strings of ints: half the cost of formatting floats
        self._write(
            f"B\t{number}\t{int(monotonic * 1e6)}\t{int(wall * 1e6)}\t{int(kind)}"
            f"\t{address}\t{_clean(host)}\t{_clean(url)}\n"
        )
        return number

    def end(
        self,
        attempt: int,
        outcome: Reason,
        status: int,
        duration_s: float,
        monotonic: float,
        wall: float,
        delay_s: float,
    ) -> None:
        """The exchange is over, well or not; ``delay_s`` is how long the host now rests. Raises
        like ``begin``.
        """
        times = f"{int(monotonic * 1e6)}\t{int(wall * 1e6)}"
        self._write(
            f"E\t{attempt}\t{times}\t{int(outcome)}\t{status}"
            f"\t{int(duration_s * 1e6)}\t{int(delay_s * 1e6)}\n"
        )

    def rotate(self, wall: float, monotonic: float) -> Callable[[], None]:
        """Goes on in a new file; gives the blocking rest, for an executor: compressing, deleting
        what is beyond ``keeping.files``.
        """
        self._start_file(wall, monotonic)
        current, folder, worker, kept = self._path, self._folder, self.worker, self._keeping.files
        return lambda: tidy(folder, worker, kept, current)

    def close(self, wall: float, monotonic: float) -> None:
        """The worker ends on purpose: what has not finished is not a crash."""
        if self._fd >= 0:
            try:
                self._write(f"S\t{_us(monotonic)}\t{_us(wall)}\n")
            finally:
                os.close(self._fd)
                self._fd = -1

    def __repr__(self) -> str:
        return f"AttemptLog({self._path.name}, attempts={self._number}, bytes={self._size})"

    def _next_file(self) -> int:
        return (
            max(
                (number_of(path) for path in files_of(self._folder).get(self.worker, [])), default=0
            )
            + 1
        )

    def _start_file(self, wall: float, monotonic: float) -> None:
        path = self._folder / f"attempts-w{self.worker:03d}-{self._next_file():06d}.log"
        try:
            fd = os.open(
                path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            raise named(error, path) from error
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._path, self._size = fd, path, 0
        self._write(
            f"R\t{FORMAT}\t{self.boot}\t{self.run}\t{_us(wall)}\t{_us(monotonic)}\t{self._session}\n"
        )

    def _write(self, line: str) -> None:
        data = line.encode("utf-8", "backslashreplace")
        try:
            write_all(self._fd, data)
        except OSError as error:
            # half a line in the middle of a file would be damage
            os.ftruncate(self._fd, self._size)
            raise named(error, self._path) from error
        self._size += len(data)


def _clean(text: str) -> str:
    """Canonical URLs and names have neither tabs nor line ends; whatever has is not allowed to
    break a line.
    """
    return text if text.isprintable() else text.translate(_ESCAPES)


def _us(seconds: float) -> int:
    return int(seconds * 1e6)
