"""Bytes that are on disk when a call returns, or an error that says why they are not.

It offers appended bytes (``write_all``, ``sync_data``), names in a folder (``sync_folder``),
finished files (``publish``: sync, rename, sync of the folder) and small files that are replaced as
a whole (``replace_file``: written under a temporary name, then published). A full disk has its own
error, ``DiskFull``, because the crawl then pauses and does not end.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The error numbers that the system gives when there is no room."""


class DiskFull(OSError):
    """The disk is full, or a quota or the maximum file size is reached.

    Data that was written before is unharmed.
    """


class FileTooShort(Exception):
    """A file ends before its committed length: bytes that were on disk are lost."""

    def __init__(self, path: Path, length: int, committed: int) -> None:
        super().__init__(
            f"{path} has {length} bytes, but {committed} were committed: the file was truncated, or"
            " the disk lost data that it had acknowledged"
        )
        self.path, self.length, self.committed = path, length, committed


def named(error: OSError, path: Path) -> OSError:
    """The error with the file's name, as ``DiskFull`` if there is no room."""
    if error.errno in FULL:
        return DiskFull(
            error.errno, f"no room left to write: {os.strerror(error.errno)}", str(path)
        )
    return error if error.filename else OSError(error.errno, error.strerror, str(path))


def write_all(fd: int, data: bytes | bytearray) -> None:
    """Write all of ``data``; the kernel may accept less than asked in one call.

    Raises ``OSError``, perhaps after a part was written.
    """
    written = os.write(fd, data)
    if written == len(data):
        return
    view = memoryview(data)[written:]
    while view:
        view = view[os.write(fd, view) :]


def sync_data(fd: int) -> None:
    """Put the bytes and the length of an open file on disk; its times are not synced."""
    if sys.platform == "darwin":  # fsync on macOS does not flush the drive's cache
        fcntl.fcntl(fd, fcntl.FFULLFSYNC)
    else:
        os.fdatasync(fd)


def sync_folder(folder: Path) -> None:
    """Put names that were created, renamed or removed in a folder on disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def publish(temporary: Path, path: Path) -> None:
    """Sync a finished temporary file and rename it to ``path``, replacing an old file.

    Raises ``DiskFull`` or ``OSError``; then the temporary file is removed and the old one stays.
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
        # The old file stays as it was. The temporary one would be left in the folder for good.
        _discard(temporary)
        raise named(error, path) from error


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content with ``data``, atomically and durably.

    A crash at any instant leaves either the old content or the new one, complete. Raises
    ``DiskFull`` or ``OSError``; the old content then stays.
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
    # the caller reports its error; a leftover temporary file is overwritten next time
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


def cut_back(path: Path, committed: int) -> int:
    """Truncate a file to its committed length and return the number of bytes dropped.

    A file that was never committed (``committed`` is 0) may be absent. Raises ``FileTooShort`` when
    bytes are missing.
    """
    try:
        length = path.stat().st_size
    except FileNotFoundError:
        # Never committed, or lost: the committed length below tells which.
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
