"""A crawl folder as a store that also has the files which were removed there after their upload.

Otherwise an extraction would take tables that are in another store alone for missing, and make them
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.object_errors import ObjectExists, ObjectMissing, StoreFailed
from lycosa.state.objects.objects_port import StoredObject
from lycosa.state.store.removed_files import RemovedFile, open_removed, removed_files


class FolderWithUploads:
    """The files of a crawl folder as an ``ObjectStore``. What was removed is read where it is."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._here = folder, FolderStore(str(folder), folder)

    def create(self, key: str, data: bytes) -> None:
        if (removed := self._removed(key)) is not None:
            raise ObjectExists(f"{key} was removed here after its upload to {removed.url}")
        self._here.create(key, data)

    def put(self, key: str, content: bytes | Path) -> None:
        self._here.put(key, content)

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        try:
            return self._here.get(key, start, length)
        except ObjectMissing:
            if (removed := self._removed(key)) is None:
                raise
        try:
            with open_removed(removed) as file:
                file.seek(start)
                return file.read(-1 if length is None else max(length, 0))
        except OSError as error:
            raise StoreFailed(str(error)) from error

    def find(self, key: str) -> StoredObject | None:
        if (found := self._here.find(key)) is not None:
            return found
        removed = self._removed(key)
        return StoredObject(key, removed.bytes) if removed is not None else None

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        for name, each in self.removed(prefix).items():
            yield StoredObject(name, each.bytes)
        yield from self._here.list(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete files of the folder; copies in other stores stay."""
        self._here.delete(keys)

    def removed(self, prefix: str) -> dict[str, RemovedFile]:
        """The files with this beginning that are elsewhere alone."""
        found = removed_files(self._folder)
        return {
            name: each
            for name, each in found.items()
            if name.startswith(prefix) and not (self._folder / name).exists()
        }

    def _removed(self, key: str) -> RemovedFile | None:
        return None if (self._folder / key).exists() else removed_files(self._folder).get(key)

    def __repr__(self) -> str:
        return f"FolderWithUploads({str(self._folder)!r})"
