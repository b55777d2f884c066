"""The parts of a cluster on one machine, as an operator has them: brokers, an object store, a
coordinator and nodes, each an ordinary process that is ended by its id.

Each node is a machine of its own as far as that is possible without rights: a folder, a loopback
address and a table of addresses of its own, and a network (``relay.Network``) through which alone
it reaches brokers, object store and coordinator. So it can be cut off. Brokers have a listener for
each node, because clients connect to the addresses that brokers advertise.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from free_ports import free_port
from kafka_broker import Broker, lacks_kafka
from lycosa.cluster.kafka.topics import Topics
from proofs.cluster_web import Size, Web
from proofs.crawls import LYCOSA, Done, children, command_of, lycosa
from proofs.programs import Program
from relay import Network
from s3_server import BUCKET, CREDENTIALS, FaultyProxy, S3Server, s3_program

CRAWL = "proof"
_WRONG_CLOCK = Path(__file__).with_name("wrong_clock.py")
_ANSWERS = {503: "refused", 409: "in conflict with another request", -1: "done without an answer"}


class Node(Program):
    """``lycosa node`` on a machine of its own."""

    def __init__(
        self, number: int, work: Path, file: Path, network: Network, endpoint: str
    ) -> None:
        self.network, self.folder, self.file = network, work / f"node{number}", file
        name = f"n{number}"
        runtime = work / f"runtime{number}"
        runtime.mkdir()
        command = [*LYCOSA, "node", "--cluster", str(file), "--work", str(self.folder)]
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


class Coordinator(Program):
    """``lycosa serve`` on a machine whose clock may be wrong."""

    def __init__(self, work: Path, file: Path, env: dict[str, str]) -> None:
        self._arguments = ["serve", "--cluster", str(file)]
        super().__init__("coordinator", [], work / "serve.log", env)

    def start(self, ahead_s: float = 0.0) -> None:
        """``ahead_s``: how far its wall clock is ahead of the right one."""
        wrong = [sys.executable, "-P", str(_WRONG_CLOCK), str(ahead_s)]
        self._command = [*(wrong if ahead_s else LYCOSA), *self._arguments]
        super().start()


class Cluster:
    """All parts; a context manager that starts the services and ends everything."""

    def __init__(self, work: Path, size: Size, seed: int) -> None:
        self.work, self.size = work, size
        self.file = work / "cluster.toml"
        self.nodes: list[Node] = []
        self.chance = random.Random(seed)
        self.failed_puts: Counter[str] = Counter()
        """How many puts failed, by what became of them."""
        self.all_conflict = False
        """Whether every put meets another request for the same key now."""
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
        self.coordinator_port = free_port()
        self._write_file(self.file, self.broker.addresses, self.coordinator_port)
        for number, (network, addresses) in enumerate(zip(networks, seen, strict=True), 1):
            file = work / f"cluster{number}.toml"
            self._write_file(file, addresses, network.lead_to(self.coordinator_port))
            endpoint = f"http://127.0.0.1:{network.lead_to(_port_of(self.proxy.endpoint))}"
            node = Node(number, work, file, network, endpoint)
            self._stack.callback(node.end)
            self.nodes.append(node)
        self.coordinator = Coordinator(work, self.file, self.env)
        self._stack.callback(self.coordinator.end)

    @property
    def env(self) -> dict[str, str]:
        """Of an operator's commands: past the proxy that fails."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": self.s3.endpoint}

    @property
    def topics(self) -> Topics:
        replication = min(self.size.brokers, 3)
        return Topics(CRAWL, self.size.shards, replication, (replication + 1) // 2)

    @property
    def bucket(self) -> Path:
        """The crawl's folder of the object store."""
        return self.s3.bucket / CRAWL

    def run(self, *arguments: str, timeout: float = 300) -> Done:
        """An operator's command, to its end."""
        return lycosa(*arguments, env=self.env, timeout=timeout)

    def init(self, config: Path, *settings: str) -> None:
        given = [word for each in settings for word in ("--set", each)]
        done = self.run("cluster", "init", str(self.file), "--config", str(config), *given)
        assert done.code == 0, done

    def start_programs(self) -> None:
        """Starts the coordinator and all nodes."""
        self.coordinator.start()
        self.coordinator.await_port("127.0.0.1", self.coordinator_port)
        for node in self.nodes:
            node.start()

    def _listeners(self, kafka: Path, network: Network) -> tuple[str, ...]:
        """A listener for this network at each broker; gives the addresses as the network has
        them.
        """
        found = []
        with (kafka / "listeners").open("a") as out:
            for number in range(1, self.size.brokers + 1):
                port = free_port()
                relay = network.lead_to(port)
                out.write(f"{number} {network.name.upper()} {port} {relay}\n")
                found.append(f"127.0.0.1:{relay}")
        return tuple(found)

    def _write_file(self, file: Path, addresses: Sequence[str], coordinator: int) -> None:
        listed = ", ".join(f'"{address}"' for address in addresses)
        topics = self.topics
        file.write_text(f"""name = "{CRAWL}"
shards = {self.size.shards}
nodes = {self.size.nodes}
token_file = "token"
[kafka]
addresses = [{listed}]
replication = {topics.replication}
min_insync = {topics.min_insync}
[objects]
url = "s3://{BUCKET}/{CRAWL}"
[coordinator]
addresses = ["127.0.0.1:{coordinator}"]
""")
        file.chmod(0o600)

    def _verdict(self, number: int, method: str, path: str) -> int:
        """One put in ten fails, in one of three ways; or all are in conflict."""
        if method != "PUT" or not (self.all_conflict or self.chance.random() < 0.1):
            return 0
        verdict = 409 if self.all_conflict else self.chance.choice(list(_ANSWERS))
        self.failed_puts[_ANSWERS[verdict]] += 1
        return verdict


def _port_of(endpoint: str) -> int:
    return int(endpoint.rsplit(":", 1)[1])


def missing_service() -> str:
    """What a cluster cannot be started without here; empty when there is nothing."""
    if lacks := lacks_kafka():
        return f"Kafka: {lacks} (script/services kafka)"
    return "" if s3_program() else "the S3 server versitygw (script/services s3)"


@contextmanager
def running_cluster(
    work: Path, web: Web, size: Size, seed: int, *settings: str
) -> Iterator[Cluster]:
    """A crawl that was made, with coordinator and nodes running, and no seed yet."""
    with Cluster(work, size, seed) as cluster:
        cluster.init(web.config, *settings)
        cluster.start_programs()
        yield cluster
