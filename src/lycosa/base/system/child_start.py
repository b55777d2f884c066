"""Starts a child process that talks to its parent over one socket, and has nothing else of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack


def start_module(
    module: str, environment: Mapping[str, str], *, is_silent: bool = False
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start ``python -m MODULE FD PARENT``; returns the process and our end of the socket.

    It leads a new process group. With ``is_silent`` it cannot write to our output. It is never
    forked without an exec, because the worker has threads and open files that a child must not
    inherit. Raises ``OSError`` when there is no process, memory or descriptor for it.
    """
    output = subprocess.DEVNULL if is_silent else None
    ours, theirs = socket.socketpair()
    with theirs, ExitStack() as undo:
        undo.callback(ours.close)
        # -P: nothing is imported from the current folder, which is the user's.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # only the parent reacts to Ctrl-C in the terminal
            env=dict(environment),
        )
        undo.pop_all()
    return process, ours


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
