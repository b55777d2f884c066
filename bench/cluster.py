"""What a cluster costs: ``python -m bench.cluster`` (or ``bench/cluster``); see README.md beside this
file.

A crawl on one machine (``lycosa crawl --workers N``) and one by a cluster of one node with as many
shards take turns over the same web; with the cluster are counted the coordinator, the node, its
workers, with the threads of the client libraries, and the command that gives the seeds. The broker
is printed by itself. Another crawl by the cluster then tells how long commits take, and what is put
into the object store. ``--takeover`` instead kills a node (``kill -9``, with its workers) and tells
how long it takes until its hosts are requested again, by phase.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.interpreter import described
from bench.kafka import cpu_s, own_s
from bench.many_hosts import ManyHosts, make_hosts
from bench.measure import measure

ROOT = Path(__file__).parents[1]
LYCOSA = str(Path(sys.executable).with_name("lycosa"))
SETTINGS = (
    "politeness.delay_s=0",
    "politeness.adaptive_factor=0",
    "politeness.address_delay_s=0",
    'fetch.allow_addresses=["127.0.0.0/8"]',
    "agent.contact=bench@example.org",
)
_TIMES = Path(__file__).with_name("commit_times")


class Broker(NamedTuple):
    """One Kafka broker: its address and process."""

    address: str
    pid: int

    def cpu_s(self) -> float:
        return cpu_s([self.pid])


@contextmanager
def broker() -> Iterator[Broker]:
    """A broker of its own, by ``script/services``."""
    services = ROOT / "script" / "services"
    with TemporaryDirectory(prefix="lycosa-bench-kafka-") as folder:
        run = subprocess.run(
            [services, "start", "kafka", folder],
            env={**os.environ, "KAFKA_HEAP": "256m"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        values = dict(line.split("=", 1) for line in run.stdout.split())
        address = values.pop("KAFKA")
        try:
            yield Broker(address, int(next(iter(values.values()))))
        finally:
            subprocess.run([services, "stop", "kafka", folder], check=True)


def make_crawl(folder: Path, kafka: Broker, shards: int, nodes: int, more: Sequence[str]) -> Path:
    """``cluster.toml`` of a new crawl, in a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "objects").mkdir(parents=True)
    file = folder / "cluster.toml"
    file.write_text(
        f'name = "bench-{random.randrange(1 << 32):x}"\nshards = {shards}\nnodes = {nodes}\n'
        f'[kafka]\naddresses = ["{kafka.address}"]\nreplication = 1\n'
        f'[objects]\nurl = "file://{folder}/objects"\n'
        f'[coordinator]\naddresses = ["127.0.0.1:{_free_port()}"]\n'
    )
    pairs = [word for setting in (*SETTINGS, *more) for word in ("--set", setting)]
    command = [LYCOSA, "cluster", "init", str(file), *pairs]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return file


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


class Running:
    """A program whose output is a file."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [LYCOSA, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_text(self, text: str) -> None:
        while text not in self._log.read_text():
            if self.process.poll() is not None:
                raise SystemExit(self._log.read_text())
            time.sleep(0.05)

    def workers(self) -> list[int]:
        """The processes that it has started."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(60)


def drive(file: Path, seeds: Sequence[str]) -> None:
    """A crawl by a coordinator and one node, from their start to their end."""
    folder = file.parent
    serve = Running(folder, "serve", "serve", "--cluster", str(file))
    serve.await_text("coordinator ")
    node = Running(folder, "node", "node", "--cluster", str(file), "--folder", str(folder / "node"))
    done = subprocess.run([LYCOSA, "crawl", *seeds, "--cluster", str(file)], check=False)
    node.end()
    serve.end()
    (folder / "driver").write_text(str(own_s()))  # no part of the crawl
    sys.exit(done.returncode)


class Turn(NamedTuple):
    """One crawl: pages, CPU seconds of all its processes and of the broker, wall seconds."""

    pages: int
    cpu_s: float
    broker_s: float
    wall_s: float

    @property
    def page_ms(self) -> float:
        return self.cpu_s * 1000 / self.pages


class Bench:
    """One web and one broker for all crawls."""

    def __init__(
        self, folder: Path, server: ManyHosts, hosts: Sequence[str], kafka: Broker
    ) -> None:
        self._folder, self._server, self._kafka = folder, server, kafka
        self._seeds = [f"{server.base.format(host)}/index.html" for host in hosts]

    def embedded(self, workers: int) -> Turn:
        own = self._folder / "crawl"
        shutil.rmtree(own, ignore_errors=True)
        pairs = [word for setting in SETTINGS for word in ("--set", setting)]
        command = [LYCOSA, "crawl", *self._seeds, "--dir", str(own), *pairs]
        return self._turn([*command, "--workers", str(workers)])

    def cluster(self, workers: int, times: Path | None = None) -> Turn:
        file = make_crawl(self._folder / "cluster", self._kafka, workers, 1, ())
        env = {"COMMIT_TIMES": str(times), "PYTHONPATH": str(_TIMES)} if times else None
        command = [sys.executable, "-m", "bench.cluster", "--drive", str(file), *self._seeds]
        turn = self._turn(command, env)
        return turn._replace(cpu_s=turn.cpu_s - float((file.parent / "driver").read_text()))

    def _turn(self, command: list[str], env: dict[str, str] | None = None) -> Turn:
        self._server.pages_since_last_call()
        before, log = self._kafka.cpu_s(), self._folder / "turn.log"
        cost = measure(command, log, env)
        used = self._kafka.cpu_s() - before
        pages, _ = self._server.pages_since_last_call()
        if cost.code != 0 or len(pages) < len(self._seeds):
            raise SystemExit(f"{command[:3]} ended with {cost.code}:\n{log.read_text()[-3000:]}")
        return Turn(len(pages), cost.cpu_s, used, cost.wall_s)


def compare(bench: Bench, workers: int, rounds: int) -> None:
    """Crawls in turns, and the ratio of each round."""
    ratios = []
    for number in range(rounds):
        turns = {"embedded": bench.embedded(workers), "cluster": bench.cluster(workers)}
        for name, turn in turns.items():
            print(
                f"  {name}: {turn.pages} pages, {turn.cpu_s:.2f} s CPU, {turn.page_ms:.3f} ms a"
                f" page, broker {turn.broker_s:.2f} s, {turn.wall_s:.1f} s",
                flush=True,
            )
        ratios.append(turns["cluster"].page_ms / turns["embedded"].page_ms)
        print(f"  round {number + 1}: {ratios[-1]:.3f} times", flush=True)
    print(f"median of {rounds} rounds: {statistics.median(ratios):.3f} times")


def commit_times(bench: Bench, workers: int, folder: Path) -> None:
    """How long commits take, and what is put into the object store, in one more crawl."""
    times = folder / "times"
    times.mkdir()
    turn = bench.cluster(workers, times)
    commits: list[float] = []
    puts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for line in "".join(path.read_text() for path in times.iterdir()).splitlines():
        kind, *rest = line.split()
        if kind == "commit":
            commits.append(float(rest[0]))
        else:
            place = rest[0].partition("/")[0]
            puts[place] += 1
            sizes[place] += int(rest[1])
    commits.sort()
    median, slow = statistics.median(commits), commits[int(len(commits) * 0.99)]
    print(
        f"{len(commits)} commits of {workers} workers in {turn.wall_s:.0f} s: {median * 1000:.0f} ms"
        f" in the median, {slow * 1000:.0f} ms at the 99th percentile"
    )
    for place, count in puts.most_common():
        print(f"  {place}: {count} puts, {sizes[place] / 1e6:.2f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench/cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=32)
    parser.add_argument("--pages", type=int, default=300, help="of each host")
    parser.add_argument("--drive", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.drive:
        drive(Path(asked.drive[0]), asked.drive[1:])
    print(described())
    with TemporaryDirectory(prefix="lycosa-bench-") as name, broker() as kafka:
        folder = Path(name)
        folder.chmod(0o755)
        hosts = [f"127.0.1.{1 + number}" for number in range(asked.hosts)]
        server = ManyHosts(folder / "site", folder / "nginx", hosts, tls=False)
        make_hosts(folder / "site", hosts, asked.pages, server.base)
        with server:
            bench = Bench(folder, server, hosts, kafka)
            compare(bench, asked.workers, asked.rounds)
            commit_times(bench, asked.workers, folder)


if __name__ == "__main__":
    main()
