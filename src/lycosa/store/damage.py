"""The error for committed bytes that are missing."""

from __future__ import annotations

from pathlib import Path


class StoreDamaged(Exception):
    """A file of the store does not have its committed length.

    Nothing was changed; the message says what to do.
    """

    def __init__(self, path: Path, length: int | None, committed: int) -> None:
        has = "is missing" if length is None else f"has {length} bytes"
        super().__init__(
            f"{path} {has}, but {committed} were committed: restore it from a copy, because the"
            " crawl's state depends on its content"
        )
        self.path, self.length, self.committed = path, length, committed
