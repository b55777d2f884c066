"""What a child process that reads foreign documents does to itself before the first one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def limit_memory(limit: int) -> None:
    """Limit the address space, so that a decompression bomb does no harm to the machine.

    Some 250 MB are used by the interpreter, its libraries and the language model. There is no core
    dump. 0: no limit.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit or hard, hard)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses limits below what is mapped
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def die_with_parent(parent: int) -> None:
    """Make Linux kill this process when its parent dies.

    Elsewhere the closing socket ends it, except while a document hangs.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the call
            sys.exit(0)


def limit_processor_time() -> None:
    """Let ``ITIMER_PROF`` end this process, whatever it inherited.

    The signal has its default action, so it ends the process even inside of C code, and its number
    tells the parent why. Time in which other processes had the processor does not count.
    """
    # A parent may have ignored or blocked it, and a child inherits that.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])


def adopt_orphans() -> None:
    """Become the parent of processes that a child of this process leaves behind (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
