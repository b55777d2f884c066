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

LOCK_PATIENCE_S = 30.0
"""How long a start waits for the workers of a run that was killed: one that is just starting
notices the end of its parent when its modules are imported, which takes seconds on a busy machine.
"""
_LOOK_S = 0.2


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
            # One of the two locks may be held already.
            self.release()
            raise
        return self

    def take_lock(self, patience_s: float = 0.0) -> None:
        """Take the lock, and change no file.

        Waits up to ``patience_s`` for the workers of a process that was killed, and for nothing
        else. Raises ``CrawlInUse``, ``LockUnsupported`` or ``OSError``.
        """
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self._take_both()
                return
            except CrawlInUse as error:
                if time.monotonic() >= deadline or not _is_gone(error.holder):
                    raise
                time.sleep(_LOOK_S)

    def _take_both(self) -> None:
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
            # NFS locks files and not folders; the lock of the file is enough there.
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
                # The holder writes its name after it has the lock, so the file may be empty or
                # gone.
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


def _is_gone(holder: LockHolder | None) -> bool:
    """Whether the holder of a lock was a process of this machine that runs no more.

    Then its workers have the lock, and end when they notice.
    """
    if holder is None or holder.host != socket.gethostname():
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # a process of another user
    return False


def _decoded(data: bytes) -> LockHolder | None:
    try:
        return msgspec.json.decode(data, type=LockHolder)
    except UNREADABLE:
        return None


def _when(wall: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))
