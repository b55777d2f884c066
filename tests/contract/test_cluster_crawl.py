"""A crawl by two nodes of a cluster, everything as in production but small: brokers, a folder of
objects, processes, a web on a socket. It is the crawl of one machine, and as polite.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import LYCOSA, RealCluster, WatchedLog, real_cluster
from judging import is_polite
from kafka_broker import Broker
from lycosa.config.sections import PolitenessSection
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.hosts import host_name
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log

pytestmark = [pytest.mark.service]
PLAN = WebPlan(hosts=12, pages=8, seed=5, latency_s=0.0, page_bytes=2000)
SETTINGS = {
    "scope.rule": "any",
    "dns.pins": '["*=127.0.0.1"]',
    "fetch.allow_addresses": '["127.0.0.0/8"]',
    "fetch.total_s": "5",
    "parse.language": "false",
    "politeness.delay_s": "0.1",
    "politeness.address_delay_s": "0",
    "politeness.address_slots": "60",
    "agent.contact": "test@example.org",
}
POLITENESS = PolitenessSection(delay_s=0.1, address_delay_s=0.0, address_slots=60)


@pytest.fixture
def web() -> Iterator[tuple[int, WatchedLog]]:
    log = WatchedLog()
    with served_with_log(SyntheticWeb(PLAN), log=log) as (port, _):
        yield port, log


def seed_at(port: int) -> str:
    return f"http://{host_name(0)}:{port}/"


def pages_of(log: WatchedLog) -> set[str]:
    """What was answered with a page; the port is another one in each test."""
    return {
        each.host.partition(":")[0] + each.path
        for each in log.exchanges
        if each.status == 200 and each.path != "/robots.txt"
    }


def crawled_by_one_machine(folder: Path) -> set[str]:
    log = WatchedLog()
    with served_with_log(SyntheticWeb(PLAN), log=log) as (port, _):
        pairs = [part for each in SETTINGS.items() for part in ("--set", "=".join(each))]
        command = [*LYCOSA, "crawl", seed_at(port), "--dir", str(folder), *pairs]
        subprocess.run(command, check=True, timeout=240, capture_output=True)
    return pages_of(log)


def states_of(cluster: RealCluster) -> dict[str, int]:
    progress = cluster.status()["progress"]
    assert sum(progress["states"].values()) == progress["discovered"]
    return {state: count for state, count in progress["states"].items() if count}


def test_two_nodes_crawl_what_one_machine_crawls_and_can_continue(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog]
) -> None:
    port, log = web
    with real_cluster(tmp_path, kafka, SETTINGS) as cluster:
        serving = cluster.serve()
        nodes = [cluster.node(name) for name in "ab"]
        crawling = cluster.crawl(seed_at(port))
        for node in nodes:
            node.await_line("shard [0-9] runs here in term 1, .* 127.0.0.1:[0-9]+")
        assert crawling.wait() == 0, str(cluster)
        for node in nodes:
            node.await_line("the crawl is over")
        assert pages_of(log) == crawled_by_one_machine(tmp_path / "one")
        is_polite(log, POLITENESS)
        assert states_of(cluster).keys() <= {"fetched", "failed", "refused"}, states_of(cluster)
        # another seed, of a host that nothing links to
        requests = len(log)
        assert cluster.crawl(f"http://other.example:{port}/").wait() == 0, str(cluster)
        assert len(log) > requests
        for node in nodes:
            node.await_line("the crawl continues")
            node.process.send_signal(signal.SIGTERM)
            assert node.wait() == 0
            assert "left the cluster" in node.lines[-1]
        serving.process.send_signal(signal.SIGTERM)
        assert serving.wait() == 0
