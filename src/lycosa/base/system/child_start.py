"""Starts a child process that talks to its parent over one socket, and has nothing else of it."""

from __future__ import annotations

import os
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
