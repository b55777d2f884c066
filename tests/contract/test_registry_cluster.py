"""A registry of a crawl on many machines equals the crawl: real processes, a broker, a folder of
objects and PostgreSQL, while a node is killed and its shards move.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import LYCOSA, RealCluster, WatchedLog, real_cluster, seed_at
from kafka_broker import Broker
from lycosa.config.cluster_file import read_cluster_file
from lycosa.inspect.reader import CrawlReader
from lycosa.shard.opened_cluster import OpenedCluster
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from postgres_server import PostgresServer
from registry_judging import differences_from
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=10, pages=14, seed=6, latency_s=0.0, page_bytes=2000)
SETTINGS = {
    "scope.rule": "any",
    "dns.pins": '["*=127.0.0.1"]',
    "fetch.allow_addresses": '["127.0.0.0/8"]',
    "fetch.total_s": "5",
    "parse.language": "false",
    "politeness.delay_s": "0.7",
    "politeness.address_delay_s": "0",
    "politeness.address_slots": "60",
    "store.segment_age_s": "5",
    "agent.contact": "test@example.org",
}


@pytest.fixture
def web() -> Iterator[tuple[int, WatchedLog]]:
    log = WatchedLog()
    with served_with_log(SyntheticWeb(PLAN), log=log) as (port, _):
        yield port, log


def project(cluster: RealCluster, server: PostgresServer, schema: str) -> dict[str, Any]:
    """Brings a schema up to date; gives the report."""
    done = subprocess.run(
        [
            *(*LYCOSA, "project", "postgres", "--cluster", "cluster.toml", "--cache", "cache"),
            *("--schema", schema, "--once", "--json", "--dsn", server.dsn),
        ],
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def wrong_in(cluster: RealCluster, server: PostgresServer, schema: str) -> list[str]:
    given = read_cluster_file(cluster.folder / "cluster.toml")
    opened = OpenedCluster(given, cluster.folder / "judged")
    try:
        opened.view.open_shards()
        return differences_from(server, CrawlReader(opened.view), schema, near_s=10)
    finally:
        opened.close()


def test_the_registry_of_a_cluster_equals_its_crawl(
    tmp_path: Path, kafka: Broker, postgres: PostgresServer, web: tuple[int, WatchedLog]
) -> None:
    port, log = web
    with real_cluster(tmp_path, kafka, SETTINGS) as cluster:
        cluster.serve()
        killed, other = (cluster.node(name) for name in "ab")
        crawling = cluster.crawl(seed_at(port))
        log.await_more(30)
        first = project(cluster, postgres, "cluster")
        assert first["read_whole"] == 3
        killed.end()
        log.await_more(20)
        project(cluster, postgres, "cluster")
        assert crawling.wait() == 0, str(cluster)
        other.end()
        last = project(cluster, postgres, "cluster")
        assert last["lag"]["commits"] == 0
        assert wrong_in(cluster, postgres, "cluster") == []
        project(cluster, postgres, "cluster-new")
        assert wrong_in(cluster, postgres, "cluster-new") == []
        assert postgres.rows("SELECT count(*) FROM crawl_log", "cluster")[0][0] > 100
