"""The attempt log: one line before and one after every request.

It proves politeness and shows what was in flight at a crash. Each line is passed to the kernel by
one ``write`` before the call returns, so it survives ``kill -9`` without fsync. Nothing in a file
is ever changed. Each start of a worker begins a new file, so a line that a kill cut in two is the
last of its file. Lines are text, with fields separated by tabs and times in whole microseconds:

    R  version  boot  run  wall  monotonic  term  place
        head of each file
    B  number  monotonic  wall  kind  address  host  url  [slot  [at_once]]
        a request begins; ``slot`` (``PoolTime``) says how its address's slot was given, with Redis,
        and is empty without; ``at_once`` is how many requests a proved own host may have then
    E  number  monotonic  wall  outcome  status  duration  delay  [own]
        the request ended; the host then rests for this delay, decided for a proved own host
    S  monotonic  wall
        the worker ended on purpose: its unfinished requests are not crashes

``run`` distinguishes the starts of one worker, ``boot`` those of the machine: monotonic times of
two boots cannot be compared. ``term`` is the number of the crawl's run: when one begins, every
worker of earlier ones is dead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import NamedTuple

from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.base.system.durable import named, write_all
from lycosa.state.attempts.attempt_files import (
    ATTEMPT_LOG_FORMAT,
    attempt_file_number,
    attempt_files_of,
    boot_id,
    tidy,
)

_ESCAPES = str.maketrans({"\t": "%09", "\n": "%0A", "\r": "%0D"})


class Keeping(NamedTuple):
    """The size at which a file is full, the number of closed files to keep, and the age in seconds
    at which a file is closed.
    """

    file_bytes: int = 64_000_000
    files: int = 64
    age_s: float = inf


DEFAULT_KEEPING = Keeping()


class LogOwner(NamedTuple):
    """``term`` is the number of the crawl's run or of the shard's owner, 0 when unknown. ``place``
    names the machine and its table of addresses, in a cluster.
    """

    term: int = 0
    place: str = ""


OWN_MARK = "\town"


class AttemptLog:
    """The log of one worker, open for writing.

    The worker's loop calls it; a call costs a few microseconds. ``wall`` and ``monotonic`` are the
    times of the start. ``boot`` is ``boot_id()`` unless a test sets it. Read the logs of earlier
    runs (``unfinished``, ``last_contacts``) *before* opening this one, because it begins a new run.
    """

    def __init__(
        self,
        folder: Path,
        worker: int,
        wall: float,
        monotonic: float,
        *,
        owner: LogOwner = LogOwner(),  # noqa: B008 (immutable)
        boot: str | None = None,
        keeping: Keeping = DEFAULT_KEEPING,
    ) -> None:
        self._folder, self.worker, self._keeping = folder, worker, keeping
        self._owner, self._began = owner, monotonic
        folder.mkdir(parents=True, exist_ok=True)
        self.boot = boot_id() if boot is None else boot
        # unique even if the clock and the process ids start again
        self.run = f"{_us(wall)}-{os.getpid()}-{self._next_file()}"
        self._number = 0
        self._fd, self._size, self._path = -1, 0, folder
        self._start_file(wall, monotonic)

    @property
    def path(self) -> Path:
        """The open file, or the last one."""
        return self._path

    def is_full(self, monotonic: float) -> bool:
        """Whether ``rotate_file`` should be called."""
        is_old = monotonic - self._began >= self._keeping.age_s
        return self._size >= self._keeping.file_bytes or is_old

    def begin_attempt(
        self,
        host: str,
        address: str,
        url: str,
        kind: FetchKind,
        monotonic: float,
        wall: float,
        slot: str = "",
        at_once: int = 1,
    ) -> int:
        """Record that a request is about to be sent; returns the attempt's number.

        ``slot`` is the text of the ``SlotNote`` of the address's slot, ``at_once`` how many open
        requests the host may have, this one included.
        Raises ``DiskFull`` or ``OSError``; the request must then not be sent.
        """
        number = self._number = self._number + 1
        more = f"\t{slot}\t{at_once}" if at_once > 1 else slot and f"\t{slot}"
        # int() and f-strings of ints: half the cost of formatting floats
        self._write(
            f"B\t{number}\t{int(monotonic * 1e6)}\t{int(wall * 1e6)}\t{int(kind)}"
            f"\t{address}\t{_clean(host)}\t{_clean(url)}{more}\n"
        )
        return number

    def end_attempt(
        self,
        attempt: int,
        outcome: Reason,
        status: int,
        duration_s: float,
        monotonic: float,
        wall: float,
        delay_s: float,
        is_own: bool = False,
    ) -> None:
        """Record that the request has ended, successfully or not.

        ``delay_s`` is how long the host now rests; ``is_own`` says that it was decided for a host
        that is proved to be the operator's. Raises the same errors as ``begin_attempt``.
        """
        times = f"{int(monotonic * 1e6)}\t{int(wall * 1e6)}"
        self._write(
            f"E\t{attempt}\t{times}\t{int(outcome)}\t{status}"
            f"\t{int(duration_s * 1e6)}\t{int(delay_s * 1e6)}{OWN_MARK if is_own else ''}\n"
        )

    def rotate_file(self, wall: float, monotonic: float) -> Callable[[], None]:
        """Continue in a new file; returns the blocking remainder, to be run in an executor.

        The remainder compresses the closed files and deletes those beyond ``keeping.files``.
        """
        self._start_file(wall, monotonic)
        self._began = monotonic
        current, folder, worker, kept = self._path, self._folder, self.worker, self._keeping.files
        return lambda: tidy(folder, worker, kept, current)

    def compress_closed(self) -> None:
        """Compress the last file as well, after ``close``. Blocks."""
        tidy(self._folder, self.worker, self._keeping.files, None)

    def close(self, wall: float, monotonic: float) -> None:
        """Record that the worker ends on purpose: its unfinished requests are not crashes."""
        if self._fd >= 0:
            try:
                self._write(f"S\t{_us(monotonic)}\t{_us(wall)}\n")
            finally:
                os.close(self._fd)
                self._fd = -1

    def _next_file(self) -> int:
        return (
            max(
                (
                    attempt_file_number(path)
                    for path in attempt_files_of(self._folder).get(self.worker, [])
                ),
                default=0,
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
        place = f"\t{_clean(self._owner.place)}" if self._owner.place else ""
        self._write(
            f"R\t{ATTEMPT_LOG_FORMAT}\t{self.boot}\t{self.run}\t{_us(wall)}\t{_us(monotonic)}\t{self._owner.term}"
            f"{place}\n"
        )

    def _write(self, line: str) -> None:
        data = line.encode("utf-8", "backslashreplace")
        try:
            write_all(self._fd, data)
        except OSError as error:
            # remove a partial line, which would be damage in the middle of a file
            os.ftruncate(self._fd, self._size)
            raise named(error, self._path) from error
        self._size += len(data)


def _clean(text: str) -> str:
    """Escape tabs and line ends. Canonical URLs and names have none; other text may."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def _us(seconds: float) -> int:
    return int(seconds * 1e6)
