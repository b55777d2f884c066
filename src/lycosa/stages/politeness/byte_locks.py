"""Locks on single bytes of a file, which the kernel releases when their holder dies.

On Linux they are open-file-description locks, which belong to one opened file, so two tables in one
process exclude each other too. On other systems they are POSIX record locks, which belong to the
process: use only one table per process and file there. The bytes need not exist. Without a path
every lock is free.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path

_IS_LINUX = sys.platform == "linux"


class ByteLocks:
    """Exclusive locks on the bytes of one file."""

    __slots__ = ("_lock_words", "_unlock_words", "descriptor")

    def __init__(self, path: Path | None) -> None:
        self.descriptor = -1
        self._lock_words: dict[int, bytes] = {}
        self._unlock_words: dict[int, bytes] = {}
        if path is not None:
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def acquire(self, offset: int) -> bool:
        """Take the lock on byte ``offset`` if it is free; returns whether it was."""
        if self.descriptor < 0:
            return True
        try:
            self._set(offset, fcntl.F_WRLCK, wait=False)
        except (BlockingIOError, PermissionError):  # EAGAIN or, by POSIX, EACCES
            return False
        return True

    def wait_for(self, offset: int) -> None:
        """Take the lock, waiting until its holder releases it."""
        if self.descriptor >= 0:
            self._set(offset, fcntl.F_WRLCK, wait=True)

    def release(self, offset: int) -> None:
        """Release a lock; does nothing if it is not held."""
        if self.descriptor >= 0:
            self._set(offset, fcntl.F_UNLCK, wait=False)

    def is_held(self, offset: int) -> bool:
        """Whether another table holds the lock."""
        if not self.acquire(offset):
            return True
        self.release(offset)
        return False

    def close(self) -> None:
        """Release all locks and close the file."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _set(self, offset: int, kind: int, *, wait: bool) -> None:
        if not _IS_LINUX:
            operation = (
                fcntl.LOCK_UN
                if kind == fcntl.F_UNLCK
                else fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)
            )
            fcntl.lockf(self.descriptor, operation, 1, offset)
            return
        words = self._unlock_words if kind == fcntl.F_UNLCK else self._lock_words
        flock = words.get(offset)
        if flock is None:  # struct flock: type, ``whence``, start, length, pid (0 for these locks)
            flock = words[offset] = struct.pack("hhqqi4x", kind, os.SEEK_SET, offset, 1, 0)
        fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, flock)
