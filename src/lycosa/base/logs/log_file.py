"""The file of the log, to which all processes of a crawl append, rotated by size and number.

Each batch of lines is one ``write`` at the end of the file (``O_APPEND``), so lines of several
processes do not mix. A process that finds the file full renames it to ``FILE.1`` (and ``FILE.1`` to
``FILE.2``) under a lock; the others see that the path leads to another file and open that one. So
an external program may rotate it too. A disk that takes nothing loses records, never the crawl:
they are counted.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

STDERR = "-"
"""The path that stands for standard error."""
_PIPE_BYTES = 4096  # what one write to a pipe keeps together


class LogFile:
    """The end of the log of one process. ``path`` may be ``STDERR``; that one is never rotated."""

    def __init__(self, path: str, most_bytes: int, most_files: int) -> None:
        self._path, self._max_bytes, self._max_files = path, most_bytes, most_files
        self._fd = 2 if path == STDERR else -1
        self._is_torn = False  # the last line is incomplete
        self.lost = 0
        """Lines that could not be written."""

    def append(self, lines: list[str], is_counted: bool = True) -> bool:
        """Write lines, and return whether they could be written.

        Otherwise they are counted in ``lost``, if they are ``is_counted``.
        """
        data = [f"{line}\n".encode("utf-8", "backslashreplace") for line in lines]
        try:
            if self._path == STDERR:
                self._write_lines(data)
            else:
                whole = b"".join(data)
                self._open(len(whole))
                self._write(b"\n" + whole if self._is_torn else whole)
        except OSError:
            # A full disk must not stop the crawl. The number of lost lines is logged when there is
            # room.
            self.lost += len(lines) if is_counted else 0
            return False
        return True

    def close(self) -> None:
        if self._fd > 2:
            os.close(self._fd)
            self._fd = -1

    def _write_lines(self, lines: list[bytes]) -> None:
        """Write to standard error, which may be a pipe of several processes."""
        gathered = b""
        for line in lines:
            if gathered and len(gathered) + len(line) > _PIPE_BYTES:
                self._write(gathered)
                gathered = b""
            gathered += line
        self._write(gathered)

    def _write(self, data: bytes) -> None:
        while data:
            self._is_torn = True
            data = data[os.write(self._fd, data) :]
        self._is_torn = False

    def _open(self, more: int) -> None:
        """Open the file at the path, and rotate it before it gets too large."""
        if self._fd >= 0 and not self._is_at_path():
            self.close()
        if self._fd < 0:
            self._fd = os.open(
                self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640
            )
        size = os.fstat(self._fd).st_size
        if size and size + more > self._max_bytes:
            self._rotate()

    def _is_at_path(self) -> bool:
        try:
            there, here = Path(self._path).stat(), os.fstat(self._fd)
        except OSError:
            # Rotated by another process, or deleted by an operator: a new file is opened.
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def _rotate(self) -> None:
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._is_at_path():  # no other process has rotated it meanwhile
                for number in range(self._max_files - 1, 0, -1):
                    newer = Path(f"{self._path}.{number - 1}" if number > 1 else self._path)
                    # Fewer files than that number exist so far.
                    with suppress(FileNotFoundError):
                        newer.replace(f"{self._path}.{number}")
                if self._max_files == 1:
                    Path(self._path).unlink(missing_ok=True)
        finally:
            os.close(lock)
        self.close()
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
