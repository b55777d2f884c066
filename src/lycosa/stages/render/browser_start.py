"""Becomes the browser: a separate program, which needs nothing but the standard library.

    python -I -S browser_start.py SOCKET PARENT UID PROGRAM [ARGUMENT...]

Between fork and exec of the crawler's process with its threads none of this could run. It leaves
the network (a namespace without any interface but a loopback that is down), the user and the
parent's limits, and ends with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000  # sched.h
_PARENT_DEATH_SIGNAL = 1  # sys/prctl.h
_FILES = 4096  # descriptors of each process
_SPARE = 100  # a descriptor that is none of 3 and 4
_FILE_BYTES = 512 << 20  # of a file that the browser writes


def leave_network(libc: ctypes.CDLL) -> bool:
    """Enter a network namespace in which nothing can be reached; whether that is permitted.

    Without privileges it needs a user namespace, in which this user keeps its number, because
    Chromium's own sandbox makes further ones.
    """
    if libc.unshare(_NEW_NET) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_USER | _NEW_NET) != 0:
        return False
    with contextlib.suppress(OSError):
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    return True


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _limit(kind: int, most: int) -> None:
    # One may always lower a limit, and only lower it.
    _, hard = resource.getrlimit(kind)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (bound, bound))


def main(arguments: list[str]) -> None:
    """Restrict this process and become the program."""
    sock, parent, uid = map(int, arguments[:3])
    libc = ctypes.CDLL(None, use_errno=True)
    leave_network(libc)
    with contextlib.suppress(OSError):  # the first to be ended when the machine has no memory
        _write("/proc/self/oom_score_adj", "900")
    if uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
    ):
        _limit(kind, most)
    # A change of the user clears it, so it comes last; the parent may be gone by now.
    libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    # Chromium reads its commands from descriptor 3 and writes to 4.
    spare = os.dup2(sock, _SPARE)
    for number in (3, 4):
        os.dup2(spare, number)
    os.closerange(5, _FILES)
    os.execve(arguments[3], arguments[3:], dict(os.environ))


if __name__ == "__main__":
    main(sys.argv[1:])
