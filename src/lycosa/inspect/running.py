"""Whether a crawl runs, found without disturbing it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

from lycosa.base.system.frames import UNREADABLE
from lycosa.state.folder.lock import LockHolder


def is_running(folder: Path) -> bool:
    """Whether a process holds the crawl's lock.

    A shared lock is tried and released at once. A crawl that starts at that moment is told that the
    folder is in use.
    """
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # Without the file no crawl ever ran here, or the folder is not ours to read.
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        # A shared lock fails only while a crawl holds the exclusive one: readers do not exclude
        # each other.
        return True
    finally:
        os.close(fd)
    return False


def lock_holder(folder: Path) -> LockHolder | None:
    """The present or last holder of the lock, by the lock file; ``None`` when it does not say."""
    try:
        return msgspec.json.decode((folder / "lock").read_bytes(), type=LockHolder)
    except (OSError, *UNREADABLE):
        # The file may be empty for a moment, between its truncation and the writing of the new
        # holder.
        return None
