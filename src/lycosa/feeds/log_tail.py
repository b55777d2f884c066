"""The commits of one worker's log file by file, while the worker appends to it and trims it.

**Settled.** A complete record at the end of the log may still be taken back, if its sync fails.
Whatever was copied elsewhere could not be taken back with it. So the last record is given only
when another one follows, when its worker has noted it in ``last-commit-wNNN``, or when it has been
there for some seconds: a worker that could not sync it has removed it or ended by then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from lycosa.state.commit import Commit, LogDamaged, last_mark
from lycosa.state.commit.commit_log_files import (
    FRAME,
    HEAD,
    decode_commit,
    first_of,
    log_files_of,
    read_log_frames,
)

SETTLED_S = 5.0
_TRIES = 20


class TailReader:
    """The end of a worker's log. ``noted`` is the path of its ``last-commit`` file."""

    def __init__(self, folder: Path, worker: int, noted: Path) -> None:
        self._folder, self.worker, self._noted = folder, worker, noted
        self._path: Path | None = None
        self._offset = HEAD.size
        self._unsettled = (0, 0.0)  # a sequence, and when it was met (monotonic)
        self._withholds = False
        self.next_sequence = 0
        """The sequence of the next record to give; 0 = the oldest one that is kept."""

    @property
    def waiting(self) -> int:
        """The number of records that were not given, as far as the worker has noted them.

        One that is not settled counts too.
        """
        mark = last_mark(self._noted)
        noted = mark.sequence + 1 - max(self.next_sequence, 1) if mark else 0
        return max(noted, int(self._withholds))

    def commits(self) -> Iterator[Commit]:
        """The records that were not given yet. Raises ``LogDamaged`` or ``OSError``."""
        for _ in range(_TRIES - 1):
            try:
                yield from self._read()
            except FileNotFoundError:  # trimmed between the listing and the opening
                continue
            return
        yield from self._read()

    def _read(self) -> Iterator[Commit]:
        while (found := self._current()) is not None:
            path, following = found
            if path != self._path:
                self._path, self._offset = path, HEAD.size
            yield from self._records(path, following is None)
            if following is None:
                return
            if self.next_sequence < first_of(following):
                raise LogDamaged(path, self._offset, f"record {self.next_sequence} is missing")

    def _current(self) -> tuple[Path, Path | None] | None:
        """The file with the next record, and the file after it."""
        files = log_files_of(self._folder).get(self.worker, [])
        if not files:
            return None
        begun = [at for at, each in enumerate(files) if first_of(each) <= self.next_sequence]
        at = max(begun, default=0)
        if first_of(files[at]) > self.next_sequence:
            self.next_sequence = 0  # new, or trimmed beyond what was given
        return files[at], files[at + 1] if at + 1 < len(files) else None

    def _records(self, path: Path, is_last: bool) -> Iterator[Commit]:
        mark, self._withholds = last_mark(self._noted), False
        frames = read_log_frames(path, is_last, self._offset)
        current = next(frames, None)
        while current is not None:
            following = next(frames, None)
            offset, payload = current
            record = decode_commit(path, offset, payload)
            if self.next_sequence and record.sequence > self.next_sequence:
                raise LogDamaged(path, offset, f"record {self.next_sequence} is missing")
            is_noted = mark is not None and record.sequence <= mark.sequence
            is_end = is_last and following is None
            if is_end and not is_noted and not self._is_settled(path, record):
                self._withholds = True
                return
            self._offset = offset + FRAME.size + len(payload)
            if record.sequence >= self.next_sequence:
                self.next_sequence = record.sequence + 1
                yield record
            current = following

    def _is_settled(self, path: Path, record: Commit) -> bool:
        now = time.monotonic()
        if self._unsettled[0] != record.sequence:
            self._unsettled = record.sequence, now
        if now - self._unsettled[1] < SETTLED_S and abs(time.time() - record.wall) < SETTLED_S:
            return False
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)  # its worker may have been killed before it did
        finally:
            os.close(fd)
        return True
