"""A file with the rows of a feed, each once, whenever its writer was killed.

``FILE.position`` has the length of the file and the position of the feed at that length. It is
replaced after the rows are on disk. A start cuts the file to that length and continues there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from lycosa.base.system.durable import replace_file
from lycosa.base.system.frames import UNREADABLE


class FeedFileError(Exception):
    """A file cannot be continued."""


class FeedFileBusy(FeedFileError):
    """Another process writes the file."""


class _Saved(msgspec.Struct, frozen=True):
    bytes: int
    position: str
    format: int = 1


class FeedFile:
    """A file to which the rows of one feed are appended. Enter it before use.

    Raises ``FeedFileError`` or ``OSError``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._noted = path.with_name(path.name + ".position")
        self._fd = -1
        self._bytes = 0
        self.position = ""
        """The position of the rows in the file; empty for a new file."""

    def __enter__(self) -> FeedFile:
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            self._continue(fd)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def _continue(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FeedFileBusy(f"{self.path} is being written by another process") from None
        size = os.fstat(fd).st_size
        try:
            saved = msgspec.json.decode(self._noted.read_bytes(), type=_Saved)
        except FileNotFoundError:
            saved = _Saved(0, "")
            if size:
                raise FeedFileError(
                    f"{self.path} has content, and {self._noted} is missing, so it is not known"
                    " which rows it has; give the name of a new file"
                ) from None
        except UNREADABLE as error:
            raise FeedFileError(f"{self._noted} cannot be read ({error})") from error
        if size < saved.bytes:
            raise FeedFileError(
                f"{self.path} has {size} bytes, and {saved.bytes} were written: rows are missing;"
                " restore it, or give the name of a new file"
            )
        os.ftruncate(fd, saved.bytes)
        self._bytes, self.position = saved.bytes, saved.position

    def append(self, rows: Sequence[bytes], position: str) -> None:
        """Append rows; returns when they and ``position`` are on disk."""
        data = memoryview(b"".join(row + b"\n" for row in rows))
        self._bytes += len(data)
        if not self._noted.exists():  # else a kill now would leave rows of which nothing is known
            self._note(_Saved(0, ""))
        while data:
            data = data[os.write(self._fd, data) :]
        os.fsync(self._fd)
        self._note(_Saved(self._bytes, position))
        self.position = position

    def _note(self, saved: _Saved) -> None:
        replace_file(self._noted, msgspec.json.encode(saved) + b"\n")
