"""Bodies that pages needed, on disk, so that owners send the scripts of a site once.

A body is found by its payload digest and the encoding in which it was sent: equal bytes on the wire
are another body under another ``Content-Encoding``. The files are of one process and are deleted
with its folder, so nothing is synced or checked. The body whose last use is the oldest goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

BodyKey = tuple[str, str]
"""Payload digest and content encoding."""

_LARGEST_SHARE = 4  # a body may take that part of the space


class BodyCache:
    """At most ``most_bytes`` in files of a new folder, which only the user can open."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        folder.mkdir(mode=0o700)
        self._folder, self._most = folder, most_bytes
        self._sizes: OrderedDict[BodyKey, tuple[int, int]] = OrderedDict()  # size, number of file
        self._number = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, key: BodyKey) -> bool:
        return key in self._sizes

    def __repr__(self) -> str:
        return f"<BodyCache {len(self)} bodies, {self.size_bytes:,} of {self._most:,} bytes>"

    def find(self, key: BodyKey) -> bytes | None:
        """The body; ``None`` when it is not here."""
        if (entry := self._sizes.get(key)) is None:
            return None
        self._sizes.move_to_end(key)
        try:
            return self._file(entry[1]).read_bytes()
        except OSError:
            # a cleaner of temporary files, or the disk: the owner sends it again
            self._drop(key)
            return None

    def add(self, key: BodyKey, body: bytes) -> None:
        """Keep a body, if there is room for it."""
        if key in self._sizes or not body or len(body) * _LARGEST_SHARE > self._most:
            return
        while self.size_bytes + len(body) > self._most:
            self._drop(next(iter(self._sizes)))
        self._number += 1
        file = self._file(self._number)
        try:
            file.write_bytes(body)
        except OSError:
            # a full disk: pages are rendered without the cache
            file.unlink(missing_ok=True)
            return
        self._sizes[key] = len(body), self._number
        self.size_bytes += len(body)

    def _drop(self, key: BodyKey) -> None:
        size, number = self._sizes.pop(key)
        self.size_bytes -= size
        self._file(number).unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:x}"
