"""The URL whose page a worker is storing, recorded so that a kill cannot erase it.

After its attempt has ended, a page can still kill its worker, while its record is made or its links
are judged. Hundreds of pages may be waiting for that, and one of them is the cause; this file names
it. The URL is written to a memory-mapped file, so writing costs a copy in memory and survives
``kill -9``. It does not survive a power loss, which no page causes.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

_BYTES = 4096
_HEAD = 2


class StoringMark:
    """The file of one worker.

    Opening it erases what an earlier run left, so read that before. Raises ``OSError``.
    """

    def __init__(self, folder: Path, worker: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(
            folder / f"settling-w{worker:03d}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        try:
            # written in full, so that a full disk is an error here and not a SIGBUS later
            os.pwrite(fd, bytes(_BYTES), 0)
            self._memory = mmap.mmap(fd, _BYTES)
        finally:
            os.close(fd)

    def begin_storing(self, url: str) -> None:
        """Record that the page of this URL is being stored."""
        data = url.encode("utf-8", "backslashreplace")[: _BYTES - _HEAD]
        self._memory[_HEAD : _HEAD + len(data)] = data
        self._memory[:_HEAD] = len(data).to_bytes(_HEAD, "big")

    def end_storing(self) -> None:
        """Record that no page is being stored."""
        self._memory[:_HEAD] = bytes(_HEAD)

    def close(self) -> None:
        self._memory.close()


def left_storing(folder: Path) -> dict[int, str]:
    """The URL that each worker was storing when it ended, by the worker's number.

    A worker that was not storing a page is absent.
    """
    found = {
        int(path.name[10:]): _url(path.read_bytes())
        for path in folder.glob("settling-w*")
        if path.name[10:].isdigit()
    }
    return {worker: url for worker, url in found.items() if url}


def _url(data: bytes) -> str:
    length = int.from_bytes(data[:_HEAD], "big")
    return data[_HEAD : _HEAD + length].decode("utf-8", "replace")
