"""Runs ``lycosa`` as an operator does, as processes, and kills parts of them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

LYCOSA = [sys.executable, "-P", "-c", "import sys; from lycosa.cli import main; sys.exit(main())"]
LOOPBACK = ["--allow-address", "127.0.0.0/8", "--contact", "proof@example.org"]
FAST = [
    *(
        "--delay",
        "0s",
        "--set",
        "politeness.address_delay_s=0",
        "--set",
        "politeness.adaptive_factor=0",
    ),
    *("--set", "politeness.max_crawl_delay_s=0", "--set", "politeness.max_adaptive_delay_s=0"),
]
"""No politeness at all: for proofs that are not about it, on servers of our own."""

_KEPT = ("LYCOSA_RUNTIME_DIR", "LYCOSA_COPIES__PROBE_TURNS")  # what ``conftest`` sets


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Whom(Enum):
    """What a kill hits."""

    WORKER = "worker"
    SUPERVISOR = "supervisor"
    ALL = "all"


def lycosa(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    timeout: float = 600,
    cwd: Path | None = None,
) -> Done:
    """Runs a command to its end."""
    command = [*LYCOSA, *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            cwd=cwd,
        )
    except subprocess.TimeoutExpired as late:
        return Done(124, _text(late.stdout), _text(late.stderr) + f"\nkilled after {timeout} s")
    return Done(done.returncode, done.stdout, done.stderr)


def _text(data: bytes | str | None) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data or ""


def crawl(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 3600
) -> Done:
    """One ``lycosa crawl`` to its end, on loopback addresses."""
    return lycosa("crawl", "--dir", str(folder), *LOOPBACK, *arguments, env=env, timeout=timeout)


class RunningCrawl:
    """A crawl under way. ``log`` gets what it says."""

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log.open("ab")
        self.process = subprocess.Popen(
            [*LYCOSA, "crawl", "--dir", str(folder), *LOOPBACK, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=environment(env),
        )

    def runs_for(self, seconds: float) -> bool:
        """Waits so long; whether it is still running then."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def runs_until(self, is_reached: Callable[[], object], most_s: float = 60.0) -> bool:
        """Waits until a condition holds; whether the crawl is still running then."""
        for _ in range(int(most_s / 0.02)):
            if is_reached() or not self.runs_for(0.02):
                break
        return self.process.poll() is None

    def workers(self) -> list[int]:
        """The process ids of the workers that there are, in the order of their start."""
        return [
            pid
            for pid in sorted(children(self.process.pid))
            if "lycosa.processes.worker_process" in command_of(pid)
        ]

    def kill(self, whom: Whom, which: int = 0) -> None:
        """Kills that part at once, by id; of the workers that there are the one at place ``which``,
        counted round. When the supervisor is hit, waits until nothing of the crawl is left.
        """
        everybody = [self.process.pid, *_descendants(self.process.pid)]
        if whom is Whom.WORKER:
            if workers := self.workers():
                os.kill(workers[which % len(workers)], signal.SIGKILL)
            return
        handles = [handle for pid in everybody[1:] if (handle := _handle(pid)) is not None]
        for pid in everybody if whom is Whom.ALL else everybody[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended by itself
        self.process.wait()
        _wait_for_end(handles, 30.0)
        self._log.close()

    def finish(self, timeout: float = 600) -> int:
        """Waits for the end; gives the exit code."""
        try:
            return self.process.wait(timeout)
        finally:
            self._log.close()


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without settings of the crawler, and with the changes."""
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LYCOSA_") or name in _KEPT
    }
    return {**plain, "COLUMNS": "200", **(changes or {})}


def children(pid: int) -> list[int]:
    """Processes whose parent this is (Linux)."""
    try:
        return [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _descendants(pid: int) -> list[int]:
    found = []
    for child in children(pid):
        found += [child, *_descendants(child)]
    return found


def command_of(pid: int) -> str:
    """Its command line; empty when it has ended."""
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _wait_for_end(handles: Iterable[int], most_s: float) -> None:
    """Waits for processes that are not our children."""
    for handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        ended = poll.poll(most_s * 1000)
        os.close(handle)
        assert ended, f"a process of a killed crawl was still there after {most_s} s"
