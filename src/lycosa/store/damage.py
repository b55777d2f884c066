"""The error for bytes that were committed and are gone."""

from __future__ import annotations

from pathlib import Path


class StoreDamaged(Exception):
    """A file of the store is not as long as was committed. Nothing was changed; the message says
    what to do.
    """

    def __init__(self, path: Path, length: int | None, committed: int) -> None:
        has = "is missing" if length is None else f"has {length} bytes"
        super().__init__(
            f"{path} {has}, but {committed} were committed: restore it from a copy; the crawl's"
            " state counts on what it held"
        )
        self.path, self.length, self.committed = path, length, committed
