"""Keeps the C library from hoarding memory.

Tables on their way to disk and the batches of commits come and go in megabytes, on a dozen threads, and glibc keeps what it once had,
for each thread apart: after a million URLs were queued that were 90 MB of which nothing was in use. So the process gets few
arenas, and gives back what is free now and then, which takes some milliseconds. With another C library nothing is done.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_M_ARENA_MAX = -8  # malloc.h
_ARENAS = 2


def use_few_arenas() -> None:
    """Makes all threads share few arenas (mallopt(3)). For a process of our own, before it has threads."""
    if _libc is not None:
        _libc.mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Returns free pages to the system (malloc_trim(3)). May be called from any thread."""
    if _libc is not None:
        _libc.malloc_trim(0)


def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt") else None


_libc = _glibc()
