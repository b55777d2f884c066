"""The private folder of a crawl's sockets, deleted at the crawl's end, however that comes.

A crawl that is killed leaves its folder behind. So the folder has a file that its process keeps
locked, and the next crawl of the user deletes the folders whose lock no process holds. A folder
without the file is another program's, or one of a file system without locks, and is left alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX, _OWNER = "lycosa-", "owner.lock"
_LONGEST_BASE = 70  # bytes; a socket's address has at most 100 on some systems


class SocketFolder:
    """A new folder for sockets at ``path``, which only the user can open.

    Raises ``OSError`` when no folder for temporary files can be used.
    """

    def __init__(self) -> None:
        bases = _bases()
        for base in bases:
            _delete_abandoned(base)
        self.path, self._lock = _new_folder(bases)

    def __repr__(self) -> str:
        return f"<SocketFolder {self.path}>"

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
                path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
                if (lock := _locked(path)) is not None:
                    return path, lock
        except OSError as error:
            # the next base may be shorter, or writable
            failure = error
    raise failure


def _locked(path: Path) -> int | None:
    """The descriptor of a new folder's lock; ``None`` when another crawl just deletes the folder.

    It may come between the creation of the file and the lock, and take the folder for abandoned.
    """
    file = path / _OWNER
    try:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if file.stat().st_ino == os.fstat(lock).st_ino:
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass  # another crawl deletes the folder at this moment
    except OSError:  # no locks here: without the file no process deletes the folder
        file.unlink(missing_ok=True)
        os.close(lock)
        return -1
    os.close(lock)
    return None


def _delete_abandoned(base: Path) -> None:
    """Delete the user's folders of crawls that are gone."""
    found: list[Path] = []
    with suppress(OSError):  # a base that may not be read has no folder of ours
        found += base.glob(f"{_PREFIX}*/{_OWNER}")
    for path in found:
        try:
            if path.parent.lstat().st_uid != os.getuid() or path.parent.is_symlink():
                continue
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it was deleted meanwhile, or is another user's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:
            pass  # its crawl runs, or there are no locks here
        finally:
            os.close(lock)
