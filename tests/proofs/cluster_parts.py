"""The parts of a cluster on one machine, as an operator has them: brokers, an object store, a web,
a coordinator and nodes, each an ordinary process that is ended by its id.

Each node is a machine of its own as far as that is possible without rights: a folder, a loopback
address and a table of addresses of its own, and a network (``relay.Network``) through which alone
it reaches brokers, object store and coordinator. So it can be cut off. Brokers have a listener for
each node, because clients connect to the addresses that brokers advertise.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from kafka_broker import Broker, lacks_kafka
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.synthetic.hosts import host_name
from nginx_site import NginxSite, free_port, write_tree
from proofs.crawls import LYCOSA, Done, children, command_of, environment, lycosa
from relay import Network
from s3_server import BUCKET, CREDENTIALS, FaultyProxy, S3Server, s3_program

CRAWL = "proof"
_NAMES = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "flint",
    "grove",
    "heath",
    "iris",
    "jasper",
    "krill",
    "larch",
]
_PORTS = random.Random()


class Size(NamedTuple):
    """How large the proof is. ``stop_s`` is how long a process is stopped, or a node cut off."""

    brokers: int
    nodes: int
    shards: int
    static_hosts: int
    static_pages: int
    synthetic_hosts: int
    synthetic_pages: int
    faults: int
    stop_s: float

    @property
    def pages(self) -> int:
        """Roughly, how many there are."""
        return self.static_hosts * self.static_pages + self.synthetic_hosts * self.synthetic_pages


WHOLE = Size(3, 3, 6, 12, 1000, 80, 100, 40, 60.0)
SHORT = Size(1, 3, 6, 6, 30, 12, 10, 8, 45.0)


# -- the web

DELAY_S, ADDRESS_SLOTS = 0.1, 12


class Web:
    """nginx over a folder under several host names, and the synthetic server; the front pages of
    one link to the hosts of both. ``config`` is a settings file for crawls of it. A context manager.
    """

    STATIC = tuple(f"127.0.1.{number}" for number in range(1, 5))
    SYNTHETIC = tuple(f"127.0.1.{number}" for number in range(11, 15))

    def __init__(self, work: Path, size: Size) -> None:
        self.folder, self._size = work / "web", size
        self.hosts = [f"{name}.test" for name in _NAMES[: size.static_hosts]]
        self.plan = WebPlan(
            seed=5,
            hosts=size.synthetic_hosts,
            pages=size.synthetic_pages,
            latency_s=0.01,
            page_bytes=4000,
            redirects=0.02,
            gone=0.02,
        )
        self.folder.mkdir(parents=True)
        self.log = self.folder / "synthetic.log"
        self.config = self.folder / "crawl.toml"
        self.port = free_port(self.SYNTHETIC)
        self._stack = ExitStack()

    def __enter__(self) -> Web:
        root = self.folder / "root"
        write_tree(root, self._size.static_pages, seed=5)
        self.site = self._stack.enter_context(
            NginxSite(
                self.folder / "nginx",
                root,
                self.STATIC,
                # hosts at one address have the same bodies, others have not
                extra='sub_filter "@PORT@" "$server_port"; sub_filter_once off;'
                ' sub_filter "<title>" "<title>$server_addr: ";',
            )
        )
        front = root / "index.html"
        there = f"http://{host_name(0)}:{self.port}/"
        links = "".join(f'<a href="http://{host}:@PORT@/">{host}</a> ' for host in self.hosts)
        links += f'<a href="{there}">computed</a>'
        front.write_text(front.read_text().replace("</ul>", f"</ul>{links}"))
        self._serve()
        self.config.write_text(self._settings())
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    @property
    def seeds(self) -> list[str]:
        """The first of the static hosts, and the first page of the computed web."""
        computed = SyntheticWeb(self.plan).seed_url(port=self.port)
        return [f"http://{self.hosts[0]}:{self.site.port}/", computed]

    def requests(self) -> int:
        """How many there were so far, roughly."""
        return sum(_lines(path) for path in (self.site.folder / "access.log", self.log))

    def _serve(self) -> None:
        plan = {"latency_s": 0.01, "page_bytes": 4000, "redirects": 0.02, "gone": 0.02}
        command = [
            sys.executable,
            "-m",
            "lycosa.synthetic",
            "--port",
            str(self.port),
            "--seed",
            "5",
        ]
        command += ["--hosts", str(self.plan.hosts), "--pages", str(self.plan.pages)]
        command += [word for key, value in plan.items() for word in ("--plan", f"{key}={value}")]
        command += [word for each in self.SYNTHETIC for word in ("--address", each)]
        command += ["--log", str(self.log)]
        process = Program("synthetic", command, self.folder / "synthetic.out")
        self._stack.callback(process.end)
        process.start()
        process.await_port(self.SYNTHETIC[-1], self.port)

    def _settings(self) -> str:
        pins = [
            *(f"{host}={self.STATIC[n % 4]}" for n, host in enumerate(self.hosts)),
            *(f"{host_name(n)}={self.SYNTHETIC[n % 4]}" for n in range(self.plan.hosts)),
        ]
        listed = ", ".join(f'"{pin}"' for pin in pins)
        return f"""
[agent]
contact = "proof@example.org"
[scope]
rule = "any"
[politeness]
delay_s = {DELAY_S}
address_delay_s = 0.005
address_slots = {ADDRESS_SLOTS}
adaptive_factor = 0
jitter = 0
max_crawl_delay_s = 1
max_adaptive_delay_s = 1
[dns]
pins = [{listed}]
[fetch]
allow_addresses = ["127.0.0.0/8"]
total_s = 10
[parse]
language = false
[store]
segment_bytes = 2000000
segment_age_s = 60
[frontier]
finish_wait_s = 5
"""


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


# -- processes


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


# -- the cluster


class Node(Program):
    """``lycosa node`` on a machine of its own."""

    def __init__(
        self, number: int, work: Path, file: Path, network: Network, endpoint: str
    ) -> None:
        self.network, self.folder, self.file = network, work / f"node{number}", file
        name = f"n{number}"
        runtime = work / f"runtime{number}"
        runtime.mkdir()
        command = [*LYCOSA, "node", "--cluster", str(file), "--folder", str(self.folder)]
        command += ["--name", name, "--listen", f"127.0.2.{number}"]
        env = {
            **CREDENTIALS,
            "AWS_ENDPOINT_URL_S3": endpoint,
            "LYCOSA_RUNTIME_DIR": str(runtime),
        }
        super().__init__(name, command, work / f"{name}.log", env)

    def workers(self) -> list[int]:
        """The process ids of its workers, in the order of their start."""
        return [
            pid
            for pid in sorted(children(self.pid) if self.is_running else [])
            if "lycosa.processes.worker_process" in command_of(pid)
        ]

    def lose_disk(self) -> None:
        """What is in its folder is gone."""
        assert not self.is_running
        shutil.rmtree(self.folder, ignore_errors=True)


class Cluster:
    """All parts; a context manager that starts the services and ends everything."""

    def __init__(self, work: Path, size: Size, seed: int) -> None:
        self.work, self.size = work, size
        self.file = work / "cluster.toml"
        self.nodes: list[Node] = []
        self.chance = random.Random(seed)
        self.refused_puts = 0
        self._stack = ExitStack()

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        work, size, enter = self.work, self.size, self._stack.enter_context
        work.mkdir(parents=True, exist_ok=True)
        self.token = work / "token"
        self.token.write_text("a token that only these machines have\n")
        self.token.chmod(0o600)
        self.s3 = enter(S3Server(work / "s3"))
        self.proxy = enter(FaultyProxy(self.s3, self._verdict))
        networks = [enter(Network(f"n{number}")) for number in range(1, size.nodes + 1)]
        kafka = work / "kafka"
        kafka.mkdir()
        seen = [self._listeners(kafka, network) for network in networks]
        self.broker = Broker(kafka, size.brokers, session_s=6.0)
        self._stack.callback(self.broker.stop)
        self.coordinator_port = _port()
        self._write_file(self.file, self.broker.addresses, self.coordinator_port)
        for number, (network, addresses) in enumerate(zip(networks, seen, strict=True), 1):
            file = work / f"cluster{number}.toml"
            self._write_file(file, addresses, network.lead_to(self.coordinator_port))
            endpoint = f"http://127.0.0.1:{network.lead_to(_port_of(self.proxy.endpoint))}"
            node = Node(number, work, file, network, endpoint)
            self._stack.callback(node.end)
            self.nodes.append(node)
        command = [*LYCOSA, "serve", "--cluster", str(self.file)]
        self.coordinator = Program("coordinator", command, work / "serve.log", self.env)
        self._stack.callback(self.coordinator.end)

    @property
    def env(self) -> dict[str, str]:
        """Of an operator's commands: past the proxy that fails."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": self.s3.endpoint}

    @property
    def bucket(self) -> Path:
        """The crawl's folder of the object store."""
        return self.s3.bucket / CRAWL

    def run(self, *arguments: str, timeout: float = 300) -> Done:
        """An operator's command, to its end."""
        return lycosa(*arguments, env=self.env, timeout=timeout)

    def init(self, config: Path) -> None:
        done = self.run("cluster", "init", str(self.file), "--config", str(config))
        assert done.code == 0, done

    def _listeners(self, kafka: Path, network: Network) -> tuple[str, ...]:
        """A listener for this network at each broker; gives the addresses as the network has
        them.
        """
        found = []
        with (kafka / "listeners").open("a") as out:
            for number in range(1, self.size.brokers + 1):
                port = _port()
                relay = network.lead_to(port)
                out.write(f"{number} {network.name.upper()} {port} {relay}\n")
                found.append(f"127.0.0.1:{relay}")
        return tuple(found)

    def _write_file(self, file: Path, addresses: Sequence[str], coordinator: int) -> None:
        listed = ", ".join(f'"{address}"' for address in addresses)
        replication = min(self.size.brokers, 3)
        file.write_text(f"""name = "{CRAWL}"
shards = {self.size.shards}
nodes = {self.size.nodes}
token_file = "token"
[kafka]
addresses = [{listed}]
replication = {replication}
min_insync = {(replication + 1) // 2}
[objects]
url = "s3://{BUCKET}/{CRAWL}"
[coordinator]
addresses = ["127.0.0.1:{coordinator}"]
""")
        file.chmod(0o600)

    def _verdict(self, number: int, method: str, path: str) -> int:
        """One put in ten fails: half of them are refused, half lose their answer."""
        if method != "PUT" or self.chance.random() >= 0.1:
            return 0
        self.refused_puts += 1
        return 503 if self.chance.random() < 0.5 else -1


def _port() -> int:
    """A free one below the range of outgoing connections, which may take it from a broker that is
    down.
    """
    while True:
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port := _PORTS.randrange(20000, 32000)))
            except OSError:
                continue
            return port


def _port_of(endpoint: str) -> int:
    return int(endpoint.rsplit(":", 1)[1])


def missing_service() -> str:
    """What a cluster cannot be started without here; empty when there is nothing."""
    if lacks := lacks_kafka():
        return f"Kafka: {lacks} (script/services kafka)"
    return "" if s3_program() else "the S3 server versitygw (script/services s3)"


@contextmanager
def running_cluster(work: Path, web: Web, size: Size, seed: int) -> Iterator[Cluster]:
    """A crawl that was made, with coordinator and nodes running, and no seed yet."""
    with Cluster(work, size, seed) as cluster:
        cluster.init(web.config)
        cluster.coordinator.start()
        cluster.coordinator.await_port("127.0.0.1", cluster.coordinator_port)
        for node in cluster.nodes:
            node.start()
        yield cluster
