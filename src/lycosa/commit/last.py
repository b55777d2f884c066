"""What a worker's log ends with, said in a small file apart from the log, so that a log that was
cut or deleted is noticed.

An unfinished record at the end of a log is what a crash leaves; the same bytes are left when
somebody cuts a record that was acknowledged. The log alone cannot tell the two apart. So after each
record is on disk, its mark is written here, without a sync: the file may be behind the log after a
power loss, and is never ahead of it. A log that ends before this mark has lost what was committed.

Layout: magic with the version (8 bytes), term (4), sequence (8), XXH3-64 of these 20 bytes (8). A
file that does not verify says nothing.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

from xxhash import xxh3_64_intdigest

from lycosa.commit.record import Mark

_BODY = struct.Struct(">8sIQ")
_CHECKSUM = struct.Struct(">Q")
_MAGIC = b"LYCLAST\x01"


class LastCommit:
    """The file of one worker. It is made by the first ``say``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def say(self, mark: Mark) -> None:
        """The log holds this commit. A disk that refuses leaves an older mark, which does no
        harm: the log itself is synced.
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

    def __repr__(self) -> str:
        return f"LastCommit({self._path.name!r})"


def last_said(path: Path) -> Mark | None:
    """The mark in the file; ``None`` when there is none, or none that verifies."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    body = data[: _BODY.size]
    if data[_BODY.size :] != _CHECKSUM.pack(xxh3_64_intdigest(body)):
        return None
    magic, term, sequence = _BODY.unpack(body)
    return Mark(term, sequence) if magic == _MAGIC else None
