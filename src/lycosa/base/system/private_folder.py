"""Private folders for temporary files, deleted at the end of their process, however that comes.

A process that is killed leaves its folder behind. So the folder has a file that its process keeps
locked, and the next process of the user that makes such a folder deletes those whose lock no
process holds. A folder without the file is another program's, or one of a file system without
locks, and is left alone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER_PREFIX = "lycosa-"
"""The beginning of the names of all such folders."""
_OWNER = "owner.lock"


@contextmanager
def private_folder(use: str) -> Iterator[Path]:
    """A folder for temporary files that only the user can open. Raises ``OSError``."""
    base = Path(tempfile.gettempdir())
    delete_abandoned(base)
    lock = None
    while lock is None:
        path = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{use}-", dir=base))
        lock = lock_folder(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def lock_folder(path: Path) -> int | None:
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


def delete_abandoned(base: Path) -> None:
    """Delete the user's folders of crawls that are gone."""
    found: list[Path] = []
    with suppress(OSError):  # a base that may not be read has no folder of ours
        found += base.glob(f"{FOLDER_PREFIX}*/{_OWNER}")
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
