"""One crawl folder, one crawl: a lock that the kernel gives back when its holders die.

``flock`` on the file ``lock``; what the file says (process, machine, since when) is for people. The lock lives as long as any process
has the descriptor open, so the supervisor hands it to its workers: after a ``kill -9`` of the supervisor the folder stays taken until
the last worker, which may still be writing, is gone as well.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from pathlib import Path
from types import TracebackType

import msgspec

from lycosa.durable import named
from lycosa.wire import UNREADABLE

_UNSUPPORTED = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class LockHolder(msgspec.Struct, frozen=True):
    """Who holds the lock, or held it last. ``started`` is seconds since 1970; ``released`` tells that it was given back in order."""

    pid: int
    host: str
    started: float
    released: bool = False


class CrawlInUse(Exception):
    """Another process works on the folder. ``holder`` is ``None`` when the file does not say who."""

    def __init__(self, folder: Path, holder: LockHolder | None) -> None:
        who = "another process"
        if holder is not None:
            where = "" if holder.host == socket.gethostname() else f" on {holder.host}"
            who = f"process {holder.pid}{where}, since {_when(holder.started)}"
        super().__init__(f"{folder} is in use by {who}; stop that crawl first, or give another folder")
        self.folder, self.holder = folder, holder


class LockUnsupported(Exception):
    """The file system has no locks, so two crawls could destroy each other's state."""


class CrawlLock:
    """The lock of one folder, which must exist. ``acquire`` and ``release``, or a ``with`` block after ``acquire``."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / "lock"
        self._fd = -1
        self._holder: LockHolder | None = None
        self.note = ""
        """After ``acquire``: a warning for the operator, or empty."""

    def acquire(self, wall: float) -> CrawlLock:
        """Takes the lock or raises ``CrawlInUse``, ``LockUnsupported`` or ``OSError``. Does not wait."""
        assert self._fd < 0, "acquired already"
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise named(error, self._path) from error
        try:
            self._take(fd)
            before = _read(fd)
            self._holder = LockHolder(os.getpid(), socket.gethostname(), wall)
            self._write(fd, self._holder)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        if before is not None and not before.released and before.host != self._holder.host:
            self.note = (
                f"{self._folder} was last used on {before.host} (process {before.pid}, since {_when(before.started)}), which did not give "
                "it back; on a network file system make sure that no crawl runs there any more"
            )
        return self

    def fileno(self) -> int:
        """The descriptor to hand to child processes, which then hold the lock too."""
        return self._fd

    def release(self) -> None:
        """Gives the lock back, unless a child still has the descriptor. Harmless when not held."""
        if self._fd >= 0 and self._holder is not None:
            self._write(self._fd, msgspec.structs.replace(self._holder, released=True))
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> CrawlLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"CrawlLock({str(self._folder)!r}, held={self._fd >= 0})"

    def _take(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CrawlInUse(self._folder, _read(fd)) from error
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise named(error, self._path) from error
            raise LockUnsupported(
                f"{self._path}: this file system has no file locks ({error.strerror}); put the folder on a local disk, or mount with locks"
            ) from error

    def _write(self, fd: int, holder: LockHolder) -> None:
        """Never empty in between for long, and not synced: nothing depends on it."""
        data = msgspec.json.encode(holder) + b"\n"
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, data, 0)
        except OSError as error:
            raise named(error, self._path) from error


def _read(fd: int) -> LockHolder | None:
    try:
        return msgspec.json.decode(os.pread(fd, 4096, 0), type=LockHolder)
    except UNREADABLE:
        return None


def _when(wall: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))
