"""A cluster as an operator runs it: ``lycosa serve``, nodes and commands as processes of their own,
over a real broker and a folder of objects.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from free_ports import free_port
from kafka_broker import Broker
from killing import kill_machine
from lycosa.base.config.sections import PolitenessSection
from lycosa.cli.main import main
from lycosa.synthetic import RequestLog, SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.request_log import LoggedRequest
from lycosa.synthetic.synthetic_hosts import host_name
from serving import served_with_log

LYCOSA = [sys.executable, "-P", "-c", "import sys; from lycosa.cli import main; sys.exit(main())"]
LONGEST_S = 240.0
"""How long a test waits for anything."""
LATE_S = 0.02
"""See ``is_polite``."""
SETTINGS = {
    "scope.rule": "any",
    "dns.pins": '["*=127.0.0.1"]',
    "fetch.allow_addresses": '["127.0.0.0/8"]',
    "fetch.total_s": "5",  # an owner after an unclean end waits 30 s more than that
    "parse.language": "false",
    "politeness.delay_s": "0.1",
    "politeness.address_delay_s": "0",
    "politeness.address_slots": "60",
    "agent.contact": "test@example.org",
}


class Program:
    """One running command, with the lines that it has printed."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        command: Sequence[str] = LYCOSA,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.arguments = arguments
        self.lines: list[str] = []
        self._news: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._news.put(line.rstrip("\n"))
        self._news.put(None)

    def await_line(self, pattern: str, longest_s: float = LONGEST_S) -> re.Match[str]:
        """The next line that matches, from the first one after the last match on."""
        deadline = time.monotonic() + longest_s
        while True:
            try:
                line = self._news.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                raise AssertionError(f"no {pattern!r} within {longest_s} s: {self}") from None
            assert line is not None, f"ended before {pattern!r}: {self}"
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found

    def wait(self, longest_s: float = LONGEST_S) -> int:
        """Its exit code."""
        try:
            code = self.process.wait(longest_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {longest_s} s: {self}") from None
        self._reader.join(10)
        self._drain()
        return code

    def end(self) -> None:
        """Kill it, if it still runs, and all that it has started."""
        self.wake()
        if self.process.poll() is None:
            kill_machine(self.process.pid)
        self.process.wait(30)
        self._reader.join(30)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def children(self) -> list[int]:
        """The processes that it has started, such as the workers of a node."""
        found: list[int] = []
        with suppress(OSError):  # it has ended
            for task in Path(f"/proc/{self.process.pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        return found

    def freeze(self) -> None:
        """Stop it and its children, as a machine that is suspended."""
        for pid in (self.process.pid, *self.children()):
            os.kill(pid, signal.SIGSTOP)

    def wake(self) -> None:
        for pid in (self.process.pid, *self.children()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _drain(self) -> None:
        while not self._news.empty():
            if (line := self._news.get()) is not None:
                self.lines.append(line)

    def __str__(self) -> str:
        self._drain()
        return "\n".join([f"lycosa {' '.join(self.arguments)}:", *self.lines])


class RealCluster:
    """One crawl. Everything that it starts has ended when ``close`` returns."""

    def __init__(
        self,
        folder: Path,
        broker: Broker,
        settings: Mapping[str, str],
        shards: int = 3,
        toml: tuple[str, str] = ("", ""),
        is_made: bool = True,
    ) -> None:
        self.folder = folder
        self.name = f"c-{uuid.uuid4().hex[:10]}"
        self.file = folder / "cluster.toml"
        self.programs: list[Program] = []
        (folder / "objects").mkdir()
        self._broker, self._toml, self._port = broker.addresses[0], toml, free_port()
        self.set_shards(shards)
        if not is_made:
            return
        pairs = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        # In this process: most of the processor time of a new one is its start.
        assert main(["cluster", "init", str(self.file), *pairs]) == 0

    def set_shards(self, shards: int) -> None:
        """Write ``cluster.toml``."""
        self.file.write_text(
            f'name = "{self.name}"\nshards = {shards}\nnodes = 3\n{self._toml[0]}\n'
            f'[kafka]\naddresses = ["{self._broker}"]\nreplication = 1\n'
            f'[objects]\nurl = "file://{self.folder}/objects"\n'
            f'[coordinator]\naddresses = ["127.0.0.1:{self._port}"]\n{self._toml[1]}\n'
        )

    def run(
        self,
        *arguments: str,
        command: Sequence[str] = LYCOSA,
        environment: Mapping[str, str] | None = None,
    ) -> Program:
        program = Program(self.folder, *arguments, command=command, environment=environment)
        self.programs.append(program)
        return program

    def serve(self) -> Program:
        program = self.run("serve", "--cluster", "cluster.toml")
        program.await_line("coordinator [0-9]+ of the crawl")
        return program

    def node(self, name: str, *options: str) -> Program:
        program = self.run("node", "--cluster", "cluster.toml", "--name", name, *options)
        program.await_line(f"node of {self.name}")
        return program

    def machine(self, name: str) -> Program:
        """A node with an address table of its own, as one on a machine of its own."""
        runtime = self.folder / f"runtime-{name}"
        runtime.mkdir(mode=0o700, exist_ok=True)
        program = self.run(
            *("node", "--cluster", "cluster.toml", "--name", name),
            environment={"LYCOSA_RUNTIME_DIR": str(runtime)},
        )
        program.await_line(f"node of {self.name}")
        return program

    def crawl(self, *seeds: str) -> Program:
        return self.run("crawl", *seeds, "--cluster", "cluster.toml")

    def status(self) -> dict[str, Any]:
        done = subprocess.run(
            [*LYCOSA, "cluster", "status", "cluster.toml", "--json"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            check=True,
            timeout=LONGEST_S,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def close(self) -> None:
        for program in reversed(self.programs):
            program.end()

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.programs))


@contextmanager
def real_cluster(
    folder: Path,
    broker: Broker,
    settings: Mapping[str, str],
    shards: int = 3,
    toml: tuple[str, str] = ("", ""),
    is_made: bool = True,
) -> Iterator[RealCluster]:
    """``toml``: more keys at the top of ``cluster.toml``, and more sections. Without ``is_made``
    there is no crawl yet.
    """
    cluster = RealCluster(folder, broker, settings, shards, toml, is_made)
    try:
        yield cluster
    except BaseException:
        print(cluster)
        raise
    finally:
        cluster.close()


class WatchedLog(RequestLog):
    """A web's record that can be waited for; the web fills it on a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._news = threading.Condition()

    def finish_request(self, exchange: LoggedRequest, end: float) -> None:
        with self._news:
            super().finish_request(exchange, end)
            self._news.notify_all()

    def await_that(self, is_so: Callable[[], bool], longest_s: float = LONGEST_S) -> None:
        """Wait until something holds that requests can change."""
        with self._news:
            assert self._news.wait_for(is_so, longest_s), f"{len(self)} requests"

    def await_more(self, number: int) -> None:
        """Wait for so many more requests."""
        before = len(self)
        self.await_that(lambda: len(self) >= before + number)


def await_death(pids: list[int], longest_s: float = 30.0) -> None:
    """Wait until processes that are not children of this one are gone."""
    import select

    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except (ProcessLookupError, FileNotFoundError):
            continue  # it is gone; a thread may have its number now
        try:
            waiting = select.poll()
            waiting.register(fd, select.POLLIN)
            assert waiting.poll(longest_s * 1000), f"process {pid} is still there"
        finally:
            os.close(fd)


# -- the web


def seed_at(port: int) -> str:
    return f"http://{host_name(0)}:{port}/"


def pages_of(log: RequestLog) -> set[str]:
    """What was answered with a page; the port is another one in each test."""
    return {
        each.host.partition(":")[0] + each.path
        for each in log.exchanges
        if each.status == 200 and each.path != "/robots.txt"
    }


class Expected(NamedTuple):
    """What a crawl comes to on one machine: pages, and numbers of URLs by state."""

    pages: set[str]
    states: dict[str, int]


def crawled_by_one_machine(plan: WebPlan, folder: Path) -> Expected:
    """What ``lycosa crawl`` makes of a web on one machine, without delays."""
    settings = {**SETTINGS, "politeness.delay_s": "0", "politeness.max_crawl_delay_s": "0"}
    pairs = [part for each in settings.items() for part in ("--set", "=".join(each))]
    log = RequestLog()
    with served_with_log(SyntheticWeb(plan), log=log) as (port, _):
        command = [*LYCOSA, "crawl", seed_at(port), "--dir", str(folder), "--json", *pairs]
        done = subprocess.run(command, check=True, timeout=LONGEST_S, capture_output=True)
    return Expected(pages_of(log), _without_zeros(json.loads(done.stdout)["states"]))


def politeness(settings: Mapping[str, str]) -> PolitenessSection:
    """What ``is_polite`` judges by."""
    return PolitenessSection(
        delay_s=float(settings["politeness.delay_s"]),
        address_delay_s=0.0,
        address_slots=int(settings["politeness.address_slots"]),
    )


def states_of(cluster: RealCluster) -> dict[str, int]:
    """How many URLs are in each state; each one is in one."""
    progress = cluster.status()["progress"]
    assert sum(progress["states"].values()) == progress["discovered"], progress
    return _without_zeros(progress["states"])


def _without_zeros(states: Mapping[str, int]) -> dict[str, int]:
    return {state: count for state, count in states.items() if count}
