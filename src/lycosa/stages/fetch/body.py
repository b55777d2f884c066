"""One response body while it arrives: in memory if small and there is room, otherwise in a file.

The bytes that all open transfers hold in memory share one budget, so memory does not depend on what
servers send. A body that exceeds its share, or arrives when the budget is used up, moves to a
separate file; no body is refused for lack of memory. A chunk of a few bytes costs ten times its
size to store separately and as much time to receive as a large one. So small chunks are joined, and
a body that consists of nothing else is cut. Writes go to the page cache and are not synced, because
a spool file is useless after a crash.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from lycosa.base.system.durable import write_all

SPOOL_PREFIX = "body-"
FREE_CHUNKS = 50_000  # 0.1 s of processor time
# Beyond these, a server that sends less at a time costs us more time than a page is worth.
MEAN_CHUNK = 64
_SMALL = 1024


class MemoryBudget:
    """The bytes that open transfers hold in memory together, and the number of bodies on disk."""

    __slots__ = ("held", "limit", "spooled")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.spooled = 0

    def __repr__(self) -> str:
        return f"MemoryBudget({self.held} of {self.limit} bytes, {self.spooled} spooled)"


class IncomingBody:
    """Collects at most ``max_bytes``, and a bounded number of small chunks.

    Further bytes are dropped and set ``is_cut``.
    """

    __slots__ = (
        "_budget",
        "_chunks",
        "_file",
        "_folder",
        "_held",
        "_max",
        "_number",
        "_spool_at",
        "is_cut",
        "path",
        "size",
    )

    def __init__(self, max_bytes: int, spool_at: int, budget: MemoryBudget, folder: Path) -> None:
        self._max, self._spool_at, self._budget, self._folder = max_bytes, spool_at, budget, folder
        self._chunks: list[bytes | bytearray] = []
        self._number = 0
        self._held = 0
        self._file = -1
        self.path = ""
        self.size = 0
        self.is_cut = False

    @property
    def max_bytes(self) -> int:
        return self._max

    def bound(self, max_bytes: int) -> None:
        """Set another maximum, before the first byte."""
        self._max = max_bytes

    def add_chunk(self, chunk: bytes) -> None:
        """Add the next bytes. Raises ``OSError`` when the file cannot be written."""
        room = self._max - self.size
        self._number += 1
        if len(chunk) > room or self._number > FREE_CHUNKS + self.size // MEAN_CHUNK:
            self.is_cut = True
            chunk = chunk[:room]
        size = len(chunk)
        if self._file < 0 and (
            self.size + size > self._spool_at or self._budget.held + size > self._budget.limit
        ):
            self._move_to_disk()
        self.size += size
        if self._file >= 0:
            write_all(self._file, chunk)
            return
        if size >= _SMALL:
            self._chunks.append(chunk)
        elif self._chunks and isinstance(self._chunks[-1], bytearray):
            self._chunks[-1] += chunk
        else:
            self._chunks.append(bytearray(chunk))
        self._held += size
        self._budget.held += size

    def take_body(self) -> tuple[bytes, str]:
        """The body and an empty string, or empty bytes and the path of its file.

        From then on the caller has to delete that file.
        """
        body = bytes(self._chunks[0]) if len(self._chunks) == 1 else b"".join(self._chunks)
        self._release()
        path, self.path = self.path, ""
        return body, path

    def discard(self) -> None:
        """Drop the body and delete its file."""
        self._release()
        if self.path:
            with contextlib.suppress(FileNotFoundError):
                Path(self.path).unlink()
            self.path = ""

    def _move_to_disk(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file, self.path = tempfile.mkstemp(prefix=SPOOL_PREFIX, dir=self._folder)
        self._budget.spooled += 1
        for chunk in self._chunks:
            write_all(self._file, chunk)
        self._drop_memory()

    def _drop_memory(self) -> None:
        self._chunks.clear()
        self._budget.held -= self._held
        self._held = 0

    def _release(self) -> None:
        self._drop_memory()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._budget.spooled -= 1
