"""A small file with the end of a worker's log, so that a truncated or deleted log is noticed.

An unfinished record at the end of a log is normal after a crash. The same bytes remain when an
acknowledged record is truncated, and the log alone cannot tell the two apart. So after each record
is on disk, its mark is written to this file, without a sync: after a power loss the file may be
behind the log, but it is never ahead. A log that ends before this mark has lost committed data.

Layout: magic with the version (8 bytes), term (4), sequence (8), XXH3-64 of these 20 bytes (8). A
file with a wrong checksum is ignored.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

from xxhash import xxh3_64_intdigest

from lycosa.state.commit.record import Mark

_BODY = struct.Struct(">8sIQ")
_CHECKSUM = struct.Struct(">Q")
_MAGIC = b"LYCLAST\x01"


class LastCommit:
    """The file of one worker. The first ``write_mark`` creates it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def write_mark(self, mark: Mark) -> None:
        """Write the mark of a commit that is in the log.

        If the disk refuses, an older mark stays. That is harmless, because the log is synced.
        """
        body = _BODY.pack(_MAGIC, *mark)
        with suppress(OSError):
            if self._fd < 0:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.pwrite(self._fd, body + _CHECKSUM.pack(xxh3_64_intdigest(body)), 0)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def last_mark(path: Path) -> Mark | None:
    """The mark in the file; ``None`` when there is none, or its checksum is wrong."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    body = data[: _BODY.size]
    if data[_BODY.size :] != _CHECKSUM.pack(xxh3_64_intdigest(body)):
        return None
    magic, term, sequence = _BODY.unpack(body)
    return Mark(term, sequence) if magic == _MAGIC else None
