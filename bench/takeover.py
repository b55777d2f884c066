"""How long the hosts of a node wait after its death, by phase: ``python -m bench.takeover``.

Two nodes crawl a synthetic web that is served here, whose log tells when a host is requested. One
of them is killed with its workers (``kill -9``), as if its machine were gone. Printed are, for each
of its shards, the seconds until the coordinator has given it to the other node, until its new owner
has opened it, and until one of its hosts is requested again. Between the last two lies the hold:
30 s + ``fetch.total_s`` from the claim.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.cluster import Broker, Running, broker, make_crawl
from bench.interpreter import described

from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.base.messages.coordinator_messages import ClusterStatus
from lycosa.base.urls.identity import Sites, partition_of
from lycosa.cluster.network.credentials import credentials_of
from lycosa.cluster.serve.caller import call_coordinator
from lycosa.synthetic import RequestLog, SyntheticServer, SyntheticWeb, WebPlan

SHARDS, HOSTS = 4, 32
_LONGEST_S = 300.0


class Phases(NamedTuple):
    """Seconds from the death of the node, for one shard."""

    assigned: float
    opened: float
    requested: float


@contextmanager
def served(web: SyntheticWeb) -> Iterator[SyntheticServer]:
    """The web on a loop of its own."""
    loop = asyncio.new_event_loop()
    server = SyntheticServer(web, pace=0.0, log=RequestLog())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def status_of(file: Path) -> ClusterStatus:
    """What the coordinator knows now."""
    given = read_cluster_file(file)
    return asyncio.run(call_coordinator(given, credentials_of(given), [], print, 20.0))


def measure_death(file: Path, node: Running, name: str, server: SyntheticServer) -> list[Phases]:
    """Kills the node of this name, and watches its shards."""
    before = {each.shard: each for each in status_of(file).shards if each.node == name}
    hosts = hosts_by_shard(server)
    pids = [*node.workers(), node.process.pid]
    for pid in reversed(pids):
        os.kill(pid, signal.SIGKILL)
    died = time.monotonic()
    assigned: dict[int, float] = {}
    opened: dict[int, float] = {}

    def is_open() -> bool:
        now = time.monotonic() - died
        for each in status_of(file).shards:
            if each.shard in before and name not in (each.wanted, each.node):
                assigned.setdefault(each.shard, now)
                if each.term > before[each.shard].term:
                    opened.setdefault(each.shard, now)
        return opened.keys() == before.keys()

    def first_request(shard: int) -> float:
        starts = [
            each.start - died
            for each in server.log.exchanges
            if each.host in hosts[shard] and each.start - died > 1.0
        ]
        return min(starts, default=0.0)

    _await(is_open)
    _await(lambda: all(first_request(shard) for shard in before))
    return [Phases(assigned[each], opened[each], first_request(each)) for each in sorted(before)]


def hosts_by_shard(server: SyntheticServer) -> dict[int, set[str]]:
    """The hosts of the web, by the shard that owns them."""
    sites, found = Sites(), dict[int, set[str]]()
    for host in {each.host for each in server.log.exchanges}:
        found.setdefault(partition_of(sites.site_of(host), SHARDS), set()).add(host)
    return found


def _await(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing within {_LONGEST_S} s")
        time.sleep(0.2)


def run(folder: Path, kafka: Broker, total_s: float) -> list[Phases]:
    """One crawl whose node ``a`` dies."""
    web = SyntheticWeb(WebPlan(hosts=HOSTS, pages=400, page_bytes=2000, cross_links=0.2))
    more = (
        f"fetch.total_s={total_s}",
        "politeness.delay_s=1",
        "scope.rule=any",
        'dns.pins=["*=127.0.0.1"]',
        "politeness.address_slots=60",
        "parse.language=false",
    )
    file = make_crawl(folder / "cluster", kafka, SHARDS, 2, more)
    with served(web) as server:
        serve = Running(folder, "serve", "serve", "--cluster", str(file))
        serve.await_text("coordinator ")
        nodes = [_node(folder, file, name) for name in ("a", "b")]
        seeds = [web.seed_url(number, server.port) for number in range(HOSTS)]
        crawl = Running(folder, "crawl", "crawl", *seeds, "--cluster", str(file))
        try:
            _await(lambda: len(hosts_by_shard(server)) == SHARDS and len(server.log) > 10 * HOSTS)
            return measure_death(file, nodes[0], "a", server)
        finally:
            for each in (crawl, *nodes, serve):
                each.end(signal.SIGKILL)


def _node(folder: Path, file: Path, name: str) -> Running:
    own = str(folder / name)
    return Running(folder, name, "node", "--cluster", str(file), "--name", name, "--folder", own)


def told(phases: Sequence[Phases]) -> str:
    """One line for all shards of a node."""
    median = [statistics.median(each) for each in zip(*phases, strict=True)]
    return (
        f"{len(phases)} shards: given to the other node after {median[0]:.1f} s, open after"
        f" {median[1]:.1f} s, a host requested after {median[2]:.1f} s (medians)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.takeover",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--total-s", type=float, default=60.0, help="fetch.total_s of the crawl")
    asked = parser.parse_args()
    print(described())
    with broker() as kafka:
        for _ in range(asked.runs):
            with TemporaryDirectory(prefix="lycosa-bench-") as name:
                print(told(run(Path(name), kafka, asked.total_s)), flush=True)


if __name__ == "__main__":
    main()
