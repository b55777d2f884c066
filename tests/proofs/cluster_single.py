"""Two proofs of their own, by one fault each.

woken     a machine is stopped until its shards run elsewhere and its leases have ended, and is
          woken. Its workers must send no request (the kernel is the witness, by ``strace``) and
          write no record (the topics are), and end with the reason.
anew      all processes of the cluster are killed and the folders of all nodes deleted, in the
          middle of the crawl. New nodes on empty disks continue it, from Kafka and object storage
          alone, and it ends like an undisturbed one.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from lycosa.cluster.kafka.parcel_records import PostedParcels
from lycosa.state.commit import LEASE_S
from proofs.cluster_parts import Cluster, Node
from proofs.cluster_web import Web
from proofs.crawls import command_of
from proofs.programs import Program, send

_LONGEST_S = 180.0
_TO_WEB = re.compile(r"->127\.0\.1\.\d+:\d+\]")
_REASON = re.compile(r"later owner|lease|fenced|assigned to|another node|leaves this node")


def await_progress(web: Web, before: int, requests: int, crawl: Program) -> None:
    """Until there were so many requests more."""
    wait_until(lambda: web.requests() - before >= requests, "no progress", crawl)


def wait_until(holds: Callable[[], object], what: str, crawl: Program) -> None:
    """While the crawl goes on. Raises ``AssertionError`` when it takes too long."""
    deadline = time.monotonic() + _LONGEST_S
    while not holds():
        assert time.monotonic() < deadline, f"{what} within {_LONGEST_S:.0f} s"
        assert not crawl.wait(0.2), f"{what} before the crawl ended: {crawl.said()}"


def shards_of(cluster: Cluster) -> dict[int, dict[str, Any]]:
    """What the coordinator says of each shard."""
    done = cluster.run("cluster", "status", str(cluster.file), "--json", timeout=30)
    return {each["shard"]: each for each in json.loads(done.out)["shards"]} if not done.code else {}


# -- woken


def wake_after_move(cluster: Cluster, crawl: Program) -> list[str]:
    """Stops the first node that runs shards, and wakes it when others run them. Gives a report and
    raises ``AssertionError``.
    """
    node, owned = _owner(cluster, crawl)
    workers, everything = node.workers(), node.everything()
    for pid in everything:
        send(pid, signal.SIGSTOP)

    def has_moved() -> bool:
        now = shards_of(cluster)
        return all(
            now.get(shard, {}).get("node") not in ("", None, node.name)
            and now[shard]["term"] > term
            for shard, term in owned.items()
        )

    stopped = time.monotonic()
    wait_until(has_moved, f"the shards of {node.name} did not move", crawl)
    took = time.monotonic() - stopped
    # Until its lease ends an owner may send requests: the new owner holds all hosts meanwhile.
    wait_until(lambda: time.monotonic() - stopped > LEASE_S, "no lease ended", crawl)
    said = len(node.log.read_bytes())
    with _traced(workers, cluster.work) as traces:
        woken, slept = time.time(), time.monotonic() - stopped
        for pid in everything:
            send(pid, signal.SIGCONT)
        wait_until(
            lambda: not any("worker_process" in command_of(pid) for pid in workers),
            f"workers of {node.name} did not end",
            crawl,
        )
        lasted = time.time() - woken
    told = node.log.read_bytes()[said:].decode(errors="replace")
    requests = [line for trace in traces for line in _requests(trace)]
    records = _records_after(cluster, owned, woken)
    assert not requests, f"{len(requests)} requests of an owner that woke:\n" + "\n".join(requests)
    assert not records, f"{len(records)} records of an owner that woke: {records[:5]}"
    assert _REASON.search(told), f"{node.name} does not say why its workers ended: {told}"
    reasons = sorted({line[20:] for line in told.splitlines() if _REASON.search(line)})
    return [
        f"a machine with {len(owned)} shards stopped; others ran them after {took:.0f} s; woken"
        f" after {slept:.0f} s, its workers ended {lasted:.1f} s later with 0 requests and 0 records",
        *(f"  it said: {reason}" for reason in reasons[:4]),
    ]


def _owner(cluster: Cluster, crawl: Program) -> tuple[Node, dict[int, int]]:
    """A node and its shards, with their terms."""
    found: list[tuple[Node, dict[int, int]]] = []

    def is_found() -> bool:
        shards = shards_of(cluster)
        for node in cluster.nodes:
            owned = {
                number: shard["term"]
                for number, shard in shards.items()
                if shard["node"] == node.name and shard["state"] == "running"
            }
            if owned:
                found.append((node, owned))
        return bool(found)

    wait_until(is_found, "no node runs a shard", crawl)
    return found[0]


@contextmanager
def _traced(processes: list[int], work: Path) -> Iterator[list[Path]]:
    """What stopped processes write to sockets from now on, one file for each."""
    program = shutil.which("strace")
    assert program is not None, "strace is not installed"
    calls = "trace=connect,sendto,sendmsg,sendmmsg,write,writev"
    traces, running = [], []
    for pid in processes:
        traces.append(work / f"woken-{pid}.trace")
        command = [program, "-f", "-yy", "-ttt", "-s", "40", "-e", calls, "-p", str(pid)]
        running.append(
            subprocess.Popen(
                [*command, "-o", str(traces[-1])],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        line = running[-1].stderr
        assert line is not None
        while "attached" not in (said := line.readline()):
            assert said, "strace could not attach"
    try:
        yield traces
    finally:
        for each in running:
            with suppress(subprocess.TimeoutExpired):
                each.wait(10)  # it ends with what it watches
            each.kill()
            each.wait(20)
            assert each.stderr is not None
            each.stderr.close()


def _requests(trace: Path) -> list[str]:
    """Calls that wrote something to a server of the web, or connected to it."""
    return [
        line
        for line in trace.read_text(errors="replace").splitlines()
        if _TO_WEB.search(line) or ("connect(" in line and '"127.0.1.' in line)
    ]


def _records_after(cluster: Cluster, owned: dict[int, int], wall: float) -> list[str]:
    """Records of these shards' terms, or older ones, that brokers got after a wall time."""
    topics, found = cluster.topics, list[str]()
    for topic in (topics.changelog, topics.inbox):
        for partition in range(topics.shards):
            for offset, stamp, value in _raw_records(cluster, topic, partition):
                if stamp < wall or not value:
                    continue
                shard, term = _author(topic == topics.changelog, partition, value)
                if term <= owned.get(shard, -1):
                    found.append(f"{topic}/{partition} at {offset}: shard {shard}, term {term}")
    return found


def _author(is_changelog: bool, partition: int, value: bytes) -> tuple[int, int]:
    """The shard and term that wrote a record; a claim has no term yet, and is of a new owner."""
    if not is_changelog:
        posted = msgspec.msgpack.decode(value, type=PostedParcels)
        return posted.parcels[0].source, posted.term
    fields = msgspec.msgpack.decode(value)
    return partition, (1 << 60) if fields[0] == "claim" else fields[2]


def _raw_records(
    cluster: Cluster, topic: str, partition: int
) -> Iterator[tuple[int, float, bytes | None]]:
    """Everything in a partition, of open and aborted transactions too."""
    consumer = Consumer(
        {
            "bootstrap.servers": ",".join(cluster.broker.addresses),
            "group.id": "proof",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            yield message.offset() or 0, message.timestamp()[1] / 1000, message.value()
        assert message is not None, f"{topic}/{partition} cannot be read to its end"
    finally:
        consumer.close()


# -- anew


def begin_anew(cluster: Cluster) -> str:
    """Kills everything of the cluster but its services, and starts it on empty disks."""
    for node in cluster.nodes:
        node.kill_everything()
    cluster.coordinator.kill()
    lost = sum(1 for node in cluster.nodes for _ in node.folder.rglob("*"))
    for node in cluster.nodes:
        node.lose_disk()
    cluster.start_programs()
    return f"{len(cluster.nodes)} nodes and the coordinator killed, {lost} local files deleted"
