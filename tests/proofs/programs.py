"""Programs as an operator runs them: processes that are signalled and ended by their ids."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from proofs.crawls import children, environment


class Program:
    """One command, started and ended again and again; ``log`` gets what it says."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.log = name, log
        self._command, self._env = list(command), environment(env)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert not self.is_running, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                # a signal for this proof is not one for them: they are ended by id
                process_group=0,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int | None:
        """How it ended."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def await_port(self, host: str, port: int, most_s: float = 60.0) -> None:
        for _ in range(int(most_s / 0.05)):
            assert self.is_running, f"{self.name} ended: {self.said()}"
            with socket.socket() as trial:
                if trial.connect_ex((host, port)) == 0:
                    return
            self.wait(0.05)
        raise AssertionError(f"{self.name} does not listen: {self.said()}")

    def wait(self, seconds: float) -> bool:
        """Waits for its end; whether it has ended."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        if self.is_running:
            os.kill(self.pid, number)

    def everything(self) -> list[int]:
        """The ids of this process and all below it, itself first."""
        return [self.pid, *_below(self.pid)] if self.is_running else []

    def kill(self) -> None:
        """At once, this process alone; returns when it has ended."""
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)
            assert self.wait(20), f"{self.name} is still there"

    def kill_everything(self) -> None:
        """At once, with all processes below it, as when the machine is lost."""
        for pid in self.everything():
            send(pid, signal.SIGKILL)
        if self._process is not None:
            assert self.wait(20), f"{self.name} is still there"

    def end(self) -> None:
        """In any case."""
        for pid in self.everything():
            send(pid, signal.SIGCONT)
        self.kill_everything()

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


def send(pid: int, number: signal.Signals) -> None:
    """A signal to a process that may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _below(pid: int) -> list[int]:
    found = []
    for child in children(pid):
        found += [child, *_below(child)]
    return found
