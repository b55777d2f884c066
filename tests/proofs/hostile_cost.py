"""What a crawl's processes cost while it runs: the most memory that its workers and its parse
children ever had (Linux).
"""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

_SAMPLE_S = 0.02


class Peak(NamedTuple):
    """Most resident memory of any worker and of any parse child, in megabytes."""

    worker_mb: float
    child_mb: float


class Watcher:
    """Samples the peaks of all descendants of a process on a thread of its own: a peak is the
    kernel's, so that nothing short is missed but the last moments of a process that is killed.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._pid = process.pid
        self._most: dict[str, float] = {"worker": 0.0, "child": 0.0}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def finish(self) -> Peak:
        """The peaks so far; ends the watching."""
        self._is_over.set()
        self._thread.join()
        return Peak(self._most["worker"], self._most["child"])

    def _watch(self) -> None:
        while not self._is_over.wait(_SAMPLE_S):
            for pid in _descendants(self._pid):
                command = _read(pid, "cmdline")
                kind = (
                    "child"
                    if "lycosa.stages.parse.parser_process" in command
                    else "worker"
                    if "lycosa.processes.worker_process" in command
                    else ""
                )
                if kind:
                    self._most[kind] = max(self._most[kind], _peak_mb(_read(pid, "status")))


def _peak_mb(status: str) -> float:
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "")
    return int(line.split()[1]) / 1024 if line else 0.0


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it ended


def _descendants(pid: int) -> list[int]:
    found = []
    for child in _read(pid, f"task/{pid}/children").split():
        found += [int(child), *_descendants(int(child))]
    return found
