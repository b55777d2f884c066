"""Bytes that are on disk when a call returns, or an error that says why not.

Everything that promises to survive a power loss goes through here: appended bytes (``write_all``,
``sync_data``), names (``sync_folder``) and small files that are replaced whole (``replace_file``:
temporary name, fsync, rename, fsync of the folder). A full disk is told apart from other errors,
because the crawl then pauses instead of ending.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says when there is no room."""


class DiskFull(OSError):
    """The disk, the quota or the largest size of a file is reached. What was there before is
    unharmed.
    """


class FileTooShort(Exception):
    """A file ends before the length that was committed: bytes that were on disk are gone."""

    def __init__(self, path: Path, length: int, committed: int) -> None:
        super().__init__(
            f"{path} has {length} bytes, but {committed} were committed: the file was cut, or the"
            " disk lost what it had acknowledged"
        )
        self.path, self.length, self.committed = path, length, committed


def named(error: OSError, path: Path) -> OSError:
    """The same error as ``DiskFull`` when it is one, and with the file's name in any case."""
    if error.errno in FULL:
        return DiskFull(
            error.errno, f"no room left to write: {os.strerror(error.errno)}", str(path)
        )
    return error if error.filename else OSError(error.errno, error.strerror, str(path))


def write_all(fd: int, data: bytes | bytearray) -> None:
    """Writes all of it: the kernel may take less than asked. Raises ``OSError``, maybe after a
    part was written.
    """
    written = os.write(fd, data)
    if written == len(data):
        return
    view = memoryview(data)[written:]
    while view:
        view = view[os.write(fd, view) :]


def sync_data(fd: int) -> None:
    """Bytes and length of an open file are on disk after this (its times need not be)."""
    if sys.platform == "darwin":  # fsync there does not empty the drive's own cache
        fcntl.fcntl(fd, fcntl.FFULLFSYNC)
    else:
        os.fdatasync(fd)


def sync_folder(folder: Path) -> None:
    """Names created, renamed and removed in a folder are on disk after this."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def publish(temporary: Path, path: Path) -> None:
    """A file that was written whole gets its name, after its bytes are on disk. What had the name
    before is gone only then.

    Raises ``DiskFull`` or ``OSError``; the temporary file then goes, and the old one stays.
    """
    try:
        fd = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_data(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        _discard(temporary)
        raise named(error, path) from error


def replace_file(path: Path, data: bytes) -> None:
    """The file holds ``data`` after this; a crash at any instant leaves the old content or the new
    one, whole.

    Raises ``DiskFull`` or ``OSError``; the old content then stays.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
    except OSError as error:
        _discard(temporary)
        raise named(error, path) from error
    publish(temporary, path)


def _discard(temporary: Path) -> None:
    with suppress(
        OSError
    ):  # the first error is the one to tell; a leftover is overwritten next time
        temporary.unlink(missing_ok=True)


def cut_back(path: Path, committed: int) -> int:
    """Cuts a file to its committed length and gives the number of bytes dropped.

    A file that was never committed (``committed`` is 0) may be absent. Raises ``FileTooShort`` when
    bytes are missing.
    """
    try:
        length = path.stat().st_size
    except FileNotFoundError:
        length = 0
    if length < committed:
        raise FileTooShort(path, length, committed)
    if length > committed:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(fd, committed)
            sync_data(fd)
        finally:
            os.close(fd)
    return length - committed
