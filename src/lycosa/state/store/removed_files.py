"""``log/removed``: files of closed segments that were removed here after their upload.

They are removed only after the store was seen to contain them. A line is written and synced before
its file is deleted. So a file without a line is missing, and a file with a line is where the line
says. Readers take it from there (``layout.open_segment_file``).
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import msgspec

from lycosa.base.system.durable import named, sync_data, write_all

_NAME = "log/removed"
_CHUNK = 256 * 1024


class RemovedFile(msgspec.Struct, frozen=True):
    """A removed file.

    ``file`` is its path relative to the crawl folder, and below ``url`` in the store, which is
    opened with ``options`` (no secrets). ``sha256`` is that of the content.
    """

    file: str
    bytes: int
    sha256: str
    url: str
    options: tuple[str, ...] = ()


_cache: dict[Path, tuple[tuple[int, int], dict[str, RemovedFile]]] = {}


def removed_files(folder: Path) -> dict[str, RemovedFile]:
    """The removed files by name. Raises ``OSError``."""
    path = folder / _NAME
    try:
        state = path.stat()
    except FileNotFoundError:
        return {}
    stamp = state.st_mtime_ns, state.st_size
    known = _cache.get(path)
    if known is None or known[0] != stamp:
        found = {}
        for line in path.read_bytes().splitlines():
            try:
                each = msgspec.json.decode(line, type=RemovedFile)
            except msgspec.DecodeError:
                continue  # a line that a crash cut off; its file was not deleted
            found[each.file] = each
        known = _cache[path] = stamp, found
    return known[1]


def note_removed(folder: Path, files: Iterable[RemovedFile]) -> None:
    """Record files as removed. Call it before they are deleted.

    Raises ``DiskFull`` or ``OSError``.
    """
    path = folder / _NAME
    # A line end comes first too: see ``closed_lengths``.
    lines = b"".join(b"\n" + msgspec.json.encode(each) + b"\n" for each in files)
    try:
        path.parent.mkdir(exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            write_all(fd, lines)
            sync_data(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise named(error, path) from error


class ElsewhereError(OSError):
    """A file was removed here after its upload, and its store cannot be read now."""


def open_removed(removed: RemovedFile) -> BinaryIO:
    """Open a removed file in its store. Opening and reading raise ``ElsewhereError``."""
    # Imported here, because most crawls never remove a file.
    from lycosa.state.objects.object_errors import ObjectError
    from lycosa.state.objects.store_opening import open_store

    def get(key: str, start: int, length: int) -> bytes:
        try:
            return store.get(key, start, length)
        except ObjectError as error:
            raise ElsewhereError(f"{_elsewhere(removed)}, and cannot be read: {error}") from error

    try:
        store = open_store(removed.url, removed.options)
    except ObjectError as error:
        raise ElsewhereError(f"{_elsewhere(removed)}, and cannot be read: {error}") from error
    return io.BufferedReader(RemoteFile(removed, get), _CHUNK)


def _elsewhere(removed: RemovedFile) -> str:
    return f"{removed.file} was removed here after its upload to {removed.url}"


class RemoteFile(io.RawIOBase):
    """A removed file, read from its store in pieces."""

    def __init__(self, removed: RemovedFile, get: Callable[[str, int, int], bytes]) -> None:
        super().__init__()
        self._removed, self._get, self._at = removed, get, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._removed.bytes}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        length = min(len(buffer), self._removed.bytes - self._at)
        if length <= 0:
            return 0
        data = self._get(self._removed.file, self._at, length)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
