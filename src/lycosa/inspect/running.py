"""Whether a crawl runs, seen from outside and without disturbing it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

from lycosa.folder.lock import LockHolder
from lycosa.system.wire import UNREADABLE


def is_running(folder: Path) -> bool:
    """Whether some process holds the crawl's lock.

    The lock is tried shared and given back at once; a crawl that starts in that very moment is told
    that the folder is in use.
    """
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def lock_holder(folder: Path) -> LockHolder | None:
    """Who holds the lock or held it last, as the file says; ``None`` when it does not say."""
    try:
        return msgspec.json.decode((folder / "lock").read_bytes(), type=LockHolder)
    except (OSError, *UNREADABLE):
        return None
