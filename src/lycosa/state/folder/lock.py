"""One crawl folder, one crawl: a lock that the kernel releases when its holders die.

It is ``flock`` on the folder itself and on the file ``lock`` in it. The folder cannot be replaced
while its content is in use. The file could be deleted as a leftover, but it works where a file
system has no locks on folders (NFS), and it names the holder of the lock (process, machine, since
when). A lock lives as long as any process has its descriptor open, so the supervisor passes both to
its workers: after a ``kill -9`` of the supervisor the folder stays locked until the last worker,
which may still be writing, is gone.
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

from lycosa.base.system.durable import named
from lycosa.base.system.frames import UNREADABLE

_UNSUPPORTED = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
# NFS implements them with locks that need a file open for writing
_NOT_ON_FOLDERS = _UNSUPPORTED | {
    errno.EBADF,
    errno.EINVAL,
    errno.EISDIR,
}


class LockHolder(msgspec.Struct, frozen=True):
    """The present or last holder of the lock.

    ``started`` is seconds since 1970; ``released`` says that it was released in order.
    """

    pid: int
    host: str
    started: float
    released: bool = False


class CrawlInUse(Exception):
    """Another process works on the folder.

    ``holder`` is ``None`` when the lock file does not name it.
    """

    def __init__(self, folder: Path, holder: LockHolder | None) -> None:
        who = "another process"
        if holder is not None:
            where = "" if holder.host == socket.gethostname() else f" on {holder.host}"
            who = f"process {holder.pid}{where}, since {_when(holder.started)}"
        super().__init__(
            f"{folder} is in use by {who}; stop that crawl first, or use another folder"
        )
        self.folder, self.holder = folder, holder


class LockUnsupported(Exception):
    """The file system has no locks, so two crawls could destroy each other's state."""


class CrawlLock:
    """The lock of one folder, which must exist.

    Use ``take_lock``, ``sign_lock`` and ``release``, or a ``with`` block after ``acquire``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / "lock"
        self._fds: list[int] = []
        self._file = -1
        self._holder: LockHolder | None = None
        self.note = ""
        """A warning for the operator after ``sign_lock``, or empty."""

    def acquire(self, wall: float) -> CrawlLock:
        """Do ``take_lock`` and ``sign_lock``."""
        self.take_lock()
        try:
            self.sign_lock(wall)
        except BaseException:
            self.release()
            raise
        return self

    def take_lock(self) -> None:
        """Take the lock without waiting, and change no file.

        Raises ``CrawlInUse``, ``LockUnsupported`` or ``OSError``.
        """
        assert not self._fds, "taken already"
        try:
            self._take(os.O_RDONLY | os.O_DIRECTORY, self._folder, _NOT_ON_FOLDERS)
            if self._path.exists():
                self._file = self._take(os.O_RDWR, self._path)
        except BaseException:
            self.release()
            raise

    def sign_lock(self, wall: float) -> None:
        """Write the holder of the lock into the file.

        ``wall`` is seconds since 1970. Raises like ``take_lock``.
        """
        if self._file < 0:
            self._file = self._take(os.O_RDWR | os.O_CREAT, self._path)
        before = _read(self._file)
        holder = LockHolder(os.getpid(), socket.gethostname(), wall)
        self._write(self._file, holder)
        self._holder = holder
        if before is not None and not before.released and before.host != holder.host:
            self.note = (
                f"{self._folder} was last used on {before.host} (process {before.pid}, since"
                f" {_when(before.started)}), which did not release it; on a network file system"
                " make sure that no crawl runs there any more"
            )

    def filenos(self) -> tuple[int, ...]:
        """The descriptors to pass to child processes, which then hold the lock too."""
        return tuple(self._fds)

    def release(self) -> None:
        """Release the lock, unless a child still has the descriptors. Harmless when not held."""
        try:
            if self._holder is not None:
                self._write(self._file, msgspec.structs.replace(self._holder, released=True))
        finally:
            for fd in self._fds:
                os.close(fd)
            self._fds, self._file, self._holder = [], -1, None

    def __enter__(self) -> CrawlLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _take(self, flags: int, path: Path, unsupported: frozenset[int] = frozenset()) -> int:
        """Open and lock a path; returns -1 when a lock on it is ``unsupported``."""
        try:
            fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise named(error, self._path) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in unsupported:
                return -1
            raise self._refusal(error) from error
        self._fds.append(fd)
        return fd

    def _refusal(self, error: OSError) -> Exception:
        if isinstance(error, BlockingIOError):
            try:
                return CrawlInUse(self._folder, _decoded(self._path.read_bytes()))
            except OSError:
                return CrawlInUse(self._folder, None)
        if error.errno not in _UNSUPPORTED:
            return named(error, self._path)
        return LockUnsupported(
            f"{self._path}: this file system has no file locks ({error.strerror}); put the folder"
            " on a local disk, or mount the file system with locks"
        )

    def _write(self, fd: int, holder: LockHolder) -> None:
        """Write the file, empty only for an instant, and unsynced: nothing depends on it."""
        data = msgspec.json.encode(holder) + b"\n"
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, data, 0)
        except OSError as error:
            raise named(error, self._path) from error


def _read(fd: int) -> LockHolder | None:
    return _decoded(os.pread(fd, 4096, 0))


def _decoded(data: bytes) -> LockHolder | None:
    try:
        return msgspec.json.decode(data, type=LockHolder)
    except UNREADABLE:
        return None


def _when(wall: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))
