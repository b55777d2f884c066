"""Objects that never change, kept as local files under their keys.

Sealed segments and closed attempt logs are such objects. A file is complete or absent, so several
programs may share the folder, and files may be deleted from it at any time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore, StoredObject

_PIECE = 8 << 20

OnPiece = Callable[[int], None]
"""Called with the number of bytes that were just downloaded."""


class CachedObjects:
    """Downloads objects of a store into ``folder``, once."""

    def __init__(
        self, store: ObjectStore, folder: Path, told: OnPiece = lambda number: None
    ) -> None:
        self._store, self._folder, self._told = store, folder, told

    def local_file(self, found: StoredObject) -> Path:
        """The file of an object. Raises ``ObjectError`` or ``OSError``."""
        path = self._folder / found.key
        if not path.exists() or path.stat().st_size != found.size:
            path.parent.mkdir(parents=True, exist_ok=True)
            download(self._store, found, path, self._told)
        return path


def download(
    store: ObjectStore, found: StoredObject, path: Path, told: OnPiece = lambda number: None
) -> None:
    """Write an object to a file, which appears complete. Raises ``ObjectError`` or ``OSError``."""
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        with temporary.open("xb") as target:
            at = 0
            while at < found.size:
                piece = store.get(found.key, at, min(_PIECE, found.size - at))
                if not piece:
                    raise ObjectMissing(f"{found.key} ends at byte {at} of {found.size}")
                target.write(piece)
                at += len(piece)
                told(len(piece))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
