"""The CPU time of a command with everything it starts: no process escapes, whatever parents wait
for.

The command runs under a small process of its own (``python -m bench.measure``) that is the reaper
of all orphans below it (prctl(2), PR_SET_CHILD_SUBREAPER) and waits for each: what wait4(2) gives
for a process is its own time and that of all it waited for. A descendant whose parent ignores
SIGCHLD would still be missing, so the reaper also looks at ``/proc`` four times a second and adds
up the largest times it saw of each process: ``seen_s`` must not be above ``cpu_s``.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_LOOK_S = 0.25
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Seconds of user and system time of all processes, seconds from start to end, exit code,
    the most that ``/proc`` showed, and the most memory that all had together (PSS, so that pages
    shared between processes count once).
    """

    user_s: float
    system_s: float
    wall_s: float
    code: int
    seen_s: float
    processes: int
    memory_bytes: int = 0

    @property
    def cpu_s(self) -> float:
        """User and system time."""
        return self.user_s + self.system_s


def measure(command: Sequence[str], log: Path, env: dict[str, str] | None = None) -> Cost:
    """Runs a command to its end, ``env`` added to its environment, output to the file ``log``.
    The code is the caller's to judge.
    """
    with TemporaryDirectory() as folder, log.open("wb") as output:
        report = Path(folder) / "report"
        reaper = [
            sys.executable,
            "-m",
            "bench.measure",
            str(report),
            json.dumps(env or {}),
            *command,
        ]
        subprocess.run(reaper, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=True)
        return Cost(**json.loads(report.read_text()))


def _main(report: str, env: dict[str, str], command: list[str]) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watch = _Watch()
    began = time.monotonic()
    first = os.posix_spawnp(command[0], command, {**os.environ, **env}, setsigdef=[signal.SIGINT])
    watch.start()
    user = system = 0.0
    code = 0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        user, system = user + usage.ru_utime, system + usage.ru_stime
        if pid == first:
            code = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    Path(report).write_text(
        json.dumps(
            {
                "user_s": user,
                "system_s": system,
                "wall_s": wall,
                "code": code,
                "seen_s": watch.seen_s,
                "processes": watch.processes,
                "memory_bytes": watch.memory_bytes,
            }
        )
    )


class _Watch(threading.Thread):
    """Remembers the largest CPU time of every descendant, and the most memory of all together."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._times: dict[tuple[int, int], int] = {}  # by process id and start time
        self.memory_bytes = 0

    def run(self) -> None:
        while True:
            self._look()
            time.sleep(_LOOK_S)

    @property
    def seen_s(self) -> float:
        return sum(self._times.values()) / _TICK

    @property
    def processes(self) -> int:
        return len(self._times)

    def _look(self) -> None:
        parents: dict[int, tuple[int, int, int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents[int(entry.name)] = (
                    int(fields[1]),
                    int(fields[19]),
                    int(fields[11]) + int(fields[12]),
                )
        memory = 0
        for pid, (_, started, ticks) in parents.items():
            if self._is_ours(pid, parents):
                self._times[pid, started] = max(ticks, self._times.get((pid, started), 0))
                memory += _memory_bytes(pid)
        self.memory_bytes = max(memory, self.memory_bytes)

    @staticmethod
    def _is_ours(pid: int, parents: dict[int, tuple[int, int, int]]) -> bool:
        me = os.getpid()
        while pid in parents:
            pid = parents[pid][0]
            if pid == me:
                return True
        return False


def _memory_bytes(pid: int) -> int:
    """The proportional set size (proc_pid_smaps_rollup(5)); 0 for a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(each.split()[1]) * 1024 for each in lines if each.startswith("Pss:"))


if __name__ == "__main__":
    _main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:])
