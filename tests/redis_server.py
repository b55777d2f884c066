"""Real Redis servers for tests, without persistence, by ``script/services``."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lycosa.base.config.cluster_file import RedisSection

_SERVICES = Path(__file__).parents[1] / "script" / "services"


class RedisServers:
    """One server or several; ``pids`` and ``addresses`` by number."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder, self._count = folder, count
        self.start()

    def start(self) -> None:
        """Starts what does not run, on the same ports and empty."""
        run = subprocess.run(
            [_SERVICES, "start", "redis", self._folder, str(self._count)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        values = dict(line.split("=", 1) for line in run.stdout.split())
        self.addresses = tuple(values[f"REDIS_{number}"] for number in range(self._count))
        self.pids = [int(values[f"REDIS_PID_{number}"]) for number in range(self._count)]

    @property
    def section(self) -> RedisSection:
        return RedisSection(self.addresses)

    def ask(self, *words: str, number: int = 0) -> str:
        """The answer to one command, as it stands on the wire."""
        host, port = self.addresses[number].split(":")
        command = f"*{len(words)}\r\n" + "".join(
            f"${len(word.encode())}\r\n{word}\r\n" for word in words
        )
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(command.encode())
            with connection.makefile("rb") as answer:
                line = answer.readline().decode()
                if line[0] == "$" and int(line[1:]) >= 0:
                    return answer.read(int(line[1:])).decode()
        assert line[0] != "-", (words, line)
        return line[1:].strip()

    def empty(self, number: int = 0) -> None:
        self.ask("FLUSHALL", number=number)

    def follow(self, number: int, primary: int) -> None:
        """Makes a server a replica of another; returns when it has its data."""
        host, port = self.addresses[primary].split(":")
        self.ask("REPLICAOF", host, port, number=number)
        for _ in range(2000):
            if "master_link_status:up" in self.ask("INFO", "replication", number=number):
                return
            self.ask("WAIT", "0", "10", number=primary)
        raise AssertionError("the replica did not connect")

    def promote(self, number: int) -> None:
        self.ask("REPLICAOF", "NO", "ONE", number=number)

    def kill(self, number: int = 0) -> None:
        os.kill(self.pids[number], signal.SIGKILL)

    def freeze(self, number: int = 0) -> None:
        os.kill(self.pids[number], signal.SIGSTOP)

    def wake(self, number: int = 0) -> None:
        os.kill(self.pids[number], signal.SIGCONT)

    def stop(self) -> None:
        subprocess.run([_SERVICES, "stop", "redis", self._folder], check=True)


def lacks_redis() -> str:
    """What is missing here to start one; empty when nothing is."""
    run = subprocess.run(
        [_SERVICES, "lacks", "redis"], stdout=subprocess.PIPE, text=True, check=True
    )
    return run.stdout.strip()


@contextmanager
def started(count: int = 1) -> Iterator[RedisServers]:
    """Servers of its own; skips the test when none can be started here."""
    if lacks := lacks_redis():
        pytest.skip(f"Redis cannot be started, missing: {lacks} (script/services)")
    with TemporaryDirectory(prefix="lycosa-redis-") as folder:
        servers = RedisServers(Path(folder), count)
        try:
            yield servers
        finally:
            servers.stop()
