"""The sudden end of a service that a test started."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path


def kill_server(pid: int, longest_s: float = 20.0) -> None:
    """``kill -9`` of a process; it is gone when this returns."""
    ended = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(ended, signal.SIGKILL)
        waiting = select.poll()  # select() takes no descriptor above 1023
        waiting.register(ended, select.POLLIN)
        assert waiting.poll(longest_s * 1000), f"process {pid} is still there"
    finally:
        os.close(ended)


def children_of(pid: int) -> list[int]:
    """The processes whose parent it is, on Linux."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            parent = place.read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                found.append(int(place.parent.name))
    return found


def kill_machine(pid: int) -> list[int]:
    """``kill -9`` of a process and all its descendants, as when their machine is lost.

    They are suspended first, so that none starts another one meanwhile. Gives their ids.
    """
    found, at = [pid], 0
    while at < len(found):
        with suppress(ProcessLookupError):
            os.kill(found[at], signal.SIGSTOP)
        found += children_of(found[at])
        at += 1
    for each in found:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    return found


def command_of(pid: int) -> str:
    """The command line of a process; empty when it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
    return ""


def child_of_module(pid: int, module: str) -> int:
    """The child of a process that runs a module of ours; 0 when there is none."""
    return next((each for each in children_of(pid) if module in command_of(each)), 0)


def group_of(pid: int) -> list[int]:
    """The living processes of the process group."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            if int(fields[2]) == pid and fields[0] != "Z":
                found.append(int(place.parent.name))
    return found
