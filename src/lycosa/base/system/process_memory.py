"""What memory and processor time a process uses, and keeping glibc from retaining free memory.

Write buffers of tables and batches of commits come and go in megabytes, on a dozen threads, and
glibc retains freed memory for each thread separately: after a million URLs were queued, it held 90
MB that were not in use. So the process gets few arenas, and returns free memory now and then, which
takes some milliseconds. With another C library these functions do nothing.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path
from typing import Any, NamedTuple

_M_ARENA_MAX = -8  # malloc.h
_ARENAS = 2
_TICKS_S = 1.0 / os.sysconf("SC_CLK_TCK")


def use_few_arenas() -> None:
    """Make all threads share few arenas (mallopt(3)).

    Call it before the process has started threads, and not in a process that embeds the crawler.
    """
    if _libc is not None:
        _libc.mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Return free pages to the system (malloc_trim(3)). Any thread may call it."""
    if _libc is not None:
        _libc.malloc_trim(0)


class Held(NamedTuple):
    """Resident memory of one process.

    ``own_bytes`` only the process can free. ``mapped_bytes`` are pages of files (program code,
    URL-seen), which the system shares between processes and reclaims when it needs memory.
    """

    own_bytes: int
    mapped_bytes: int


def held_by(pid: int | None = None) -> Held:
    """The resident memory of a process, by default this one; zeros when it does not exist.

    Costs some 50 us. Where the system does not report it, the maximum resident size of this process
    so far is given as its own memory.
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


def group_bytes(group: int) -> int:
    """The memory that the processes of a group hold together, in bytes; 0 where it is unknown.

    Pages of files count once, as those of the process that maps most. Costs some 30 us for each
    process of the machine.
    """
    own = mapped = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[2]) == group:
            held = held_by(int(entry.name))
            own, mapped = own + held.own_bytes, max(mapped, held.mapped_bytes)
    return own + mapped


def cpu_s(pid: int | None = None) -> float:
    """Processor seconds that a process has used, by default this one; 0 where unknown."""
    if pid is None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * _TICKS_S


def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt") else None


_libc = _glibc()
