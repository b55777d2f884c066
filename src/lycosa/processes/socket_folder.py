"""The private folder of a crawl's sockets, deleted at the crawl's end, however that comes.

See ``private_folder`` for a crawl that is killed.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

from lycosa.base.system.private_folder import FOLDER_PREFIX, delete_abandoned, lock_folder

_LONGEST_BASE = 70  # bytes; a socket's address has at most 100 on some systems


class SocketFolder:
    """A new folder for sockets at ``path``, which only the user can open.

    Raises ``OSError`` when no folder for temporary files can be used.
    """

    def __init__(self) -> None:
        bases = _bases()
        for base in bases:
            delete_abandoned(base)
        self.path, self._lock = _new_folder(bases)

    def close(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> SocketFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bases() -> list[Path]:
    """Folders in which the address of a socket is short enough, the wanted one first."""
    named = [tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp", "/var/tmp"]
    return [Path(each) for each in named if each and len(os.fsencode(each)) <= _LONGEST_BASE]


def _new_folder(bases: list[Path]) -> tuple[Path, int]:
    """A folder, and the descriptor of its lock (-1 = the file system has no locks)."""
    failure = OSError(errno.ENAMETOOLONG, "no short path for sockets", tempfile.gettempdir())
    for base in bases:
        try:
            while True:
                path = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=base))
                if (lock := lock_folder(path)) is not None:
                    return path, lock
        except OSError as error:
            # the next base may be shorter, or writable
            failure = error
    raise failure
