"""A local folder as a store: a separate disk, or a network file system.

Written with the same care as a crawl folder: an object is synced before its name appears, and its
name before the call returns. ``obstore`` has such a store, which syncs nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from lycosa.state.objects import object_errors
from lycosa.state.objects.objects_port import StoredObject

_TEMPORARY = ".lycosa-"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}


class FolderStore:
    """The files below a folder as an ``ObjectStore``.

    The folder must exist: one that is not there may be a disk that is not mounted.
    """

    def __init__(self, url: str, root: Path) -> None:
        self._url, self._root = url, root

    def create(self, key: str, data: bytes) -> None:
        self._called(f"creating {key}", lambda: self._write(key, data, is_new=True))

    def put(self, key: str, content: bytes | Path) -> None:
        self._called(f"writing {key}", lambda: self._write(key, content, is_new=False))

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        def read() -> bytes:
            with self._path(key).open("rb") as file:
                file.seek(start)
                return file.read(-1 if length is None else max(length, 0))

        found: bytes = self._called(f"reading {key}", read)
        return found

    def find(self, key: str) -> StoredObject | None:
        try:
            found = self._called(f"looking at {key}", lambda: self._path(key).stat())
        except object_errors.ObjectMissing:
            return None
        return StoredObject(key, found.st_size, modified=found.st_mtime)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        self._called("listing", self._check)
        for folder, _, names in os.walk(self._root / prefix):
            for name in names:
                path = Path(folder, name)
                if not name.startswith(_TEMPORARY):
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        key = path.relative_to(self._root).as_posix()
                        found = path.stat()
                        yield StoredObject(key, found.st_size, modified=found.st_mtime)

    def delete(self, keys: Iterable[str]) -> None:
        self._called("deleting", self._check)
        for key in keys:
            self._called(f"deleting {key}", partial(self._path(key).unlink, missing_ok=True))

    def _path(self, key: str) -> Path:
        return self._root.joinpath(*key.split("/"))

    def _check(self) -> None:
        if not self._root.is_dir():
            raise self._unusable()

    def _unusable(self) -> object_errors.StoreUnusable:
        return object_errors.StoreUnusable(
            f"{self._url}: there is no such folder; create it, or mount the disk that has it"
        )

    def _write(self, key: str, content: bytes | Path, is_new: bool) -> None:
        self._check()
        path = self._path(key)
        self._make_folders(path.parent)
        temporary = path.with_name(f"{_TEMPORARY}{uuid.uuid4()}")
        try:
            with temporary.open("xb") as file:
                if isinstance(content, Path):
                    with content.open("rb") as source:
                        shutil.copyfileobj(source, file, 1 << 20)
                else:
                    file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                os.link(temporary, path)
            else:
                temporary.replace(path)
            _sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)

    def _make_folders(self, folder: Path) -> None:
        if folder != self._root and not folder.is_dir():
            self._make_folders(folder.parent)
            folder.mkdir(exist_ok=True)
            _sync_folder(folder.parent)

    def _called(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except OSError as error:
            raise self._error(what, error) from error

    def _error(self, what: str, error: OSError) -> object_errors.ObjectError:
        said = f"{self._url}: {what}: {error.strerror}"
        if error.errno == errno.EEXIST:
            return object_errors.ObjectExists(f"{self._url}: there is an object already: {what}")
        if error.errno == errno.ENOENT:
            # On a disk that is not mounted every object would look deleted.
            if not self._root.is_dir():
                return self._unusable()
            return object_errors.ObjectMissing(f"{self._url}: there is no such object: {what}")
        if error.errno in _FULL:
            return object_errors.StoreFull(f"{said}; make room there")
        if error.errno in _REFUSED:
            return object_errors.StoreRefused(f"{said}; give a folder that can be written to")
        return object_errors.StoreFailed(f"{said}; it is tried again")

    def __repr__(self) -> str:
        return f"FolderStore({self._url!r})"


def _sync_folder(folder: Path) -> None:
    """Names in it are on disk after this. This package imports no other one."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
