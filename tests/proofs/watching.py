"""What the processes of a crawl hold, read from ``/proc`` (Linux), and how far a server is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from proofs.crawls import children, command_of

_MB = 1e6


class Sample(NamedTuple):
    """One process: memory of its own, mapped files that are resident, open descriptors, threads."""

    own_mb: float
    mapped_mb: float
    descriptors: int
    threads: int


def look(supervisor: int) -> dict[str, Sample]:
    """All processes of a crawl by their part: ``supervisor``, ``worker 0``, ``worker 0's
    child``; workers in the order of their start.
    """
    found = {"supervisor": _sample(supervisor)}
    workers = sorted(
        pid for pid in children(supervisor) if "lycosa.processes.worker_process" in command_of(pid)
    )
    for number, worker in enumerate(workers):
        found[f"worker {number}"] = _sample(worker)
        for child in children(worker):
            if "resource_tracker" not in command_of(child):
                found[f"worker {number}'s child"] = _sample(child)
    return {part: sample for part, sample in found.items() if sample is not None}


def _sample(pid: int) -> Sample | None:
    folder = Path(f"/proc/{pid}")
    try:
        fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        descriptors = sum(1 for _ in (folder / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return None
    if "RssAnon" not in fields:
        return None  # it has ended and waits for its parent
    own, mapped, shared = (
        int(fields[name].split()[0]) * 1024 / _MB for name in ("RssAnon", "RssFile", "RssShmem")
    )
    return Sample(round(own, 2), round(mapped + shared, 2), descriptors, int(fields["Threads"]))


class Lines:
    """Counts the lines of a file that grows; each byte is read once."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self._number = 0

    def __del__(self) -> None:
        os.close(self._file)

    def number(self) -> int:
        """Lines so far."""
        while data := os.read(self._file, 1 << 20):
            self._number += data.count(b"\n")
        return self._number
