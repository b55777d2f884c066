"""What a process holds, and keeping the C library from hoarding it.

Tables on their way to disk and the batches of commits come and go in megabytes, on a dozen threads,
and glibc keeps what it once had, for each thread apart: after a million URLs were queued that were
90 MB of which nothing was in use. So the process gets few arenas, and gives back what is free now
and then, which takes some milliseconds. With another C library nothing is done.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from typing import Any, NamedTuple

_M_ARENA_MAX = -8  # malloc.h
_ARENAS = 2


def use_few_arenas() -> None:
    """Makes all threads share few arenas (mallopt(3)). For a process of our own, before it has
    threads.
    """
    if _libc is not None:
        _libc.mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Returns free pages to the system (malloc_trim(3)). May be called from any thread."""
    if _libc is not None:
        _libc.malloc_trim(0)


class Held(NamedTuple):
    """Resident memory of one process: its own, which only it can give back, and that of mapped
    files (program code, URL-seen), which the system shares between processes and takes back when it
    needs it.
    """

    own_bytes: int
    mapped_bytes: int


def held_by(pid: int | None = None) -> Held:
    """What a process holds now (0 and 0 when there is no such process), by default this one. Costs
    some 50 us.

    Where the system does not tell, this process's greatest resident size so far stands for its own
    memory.
    """
    try:
        with open(f"/proc/{pid or 'self'}/status", "rb") as file:  # noqa: PTH123 (a pseudo-file)
            lines = dict(
                line.split(b":", 1) for line in file.read().splitlines() if line.startswith(b"Rss")
            )
    except OSError:
        if sys.platform.startswith("linux") or pid is not None:
            return Held(0, 0)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return Held(peak if sys.platform == "darwin" else peak * 1024, 0)
    own, mapped, shared = (
        int(lines.get(name, b"0 kB").split()[0]) * 1024
        for name in (b"RssAnon", b"RssFile", b"RssShmem")
    )
    return Held(own + shared, mapped)


def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt") else None


_libc = _glibc()
