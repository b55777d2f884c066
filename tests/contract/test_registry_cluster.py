"""A registry of a crawl on many machines equals the crawl: real processes, a broker, a folder of
objects and a database, while a node is killed and its shards move, and while the projector that
follows and the database are killed again and again.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import LYCOSA, Program, RealCluster, WatchedLog, real_cluster, seed_at
from kafka_broker import Broker
from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.inspect.committed_state import CrawlReader
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from registry_databases import RegistryDatabase, database_of, lacking
from registry_judging import differences_from
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=10, pages=40, seed=6, latency_s=0.0, page_bytes=2000)
SETTINGS = {
    "scope.rule": "any",
    "dns.pins": '["*=127.0.0.1"]',
    "fetch.allow_addresses": '["127.0.0.0/8"]',
    "fetch.total_s": "5",
    "parse.language": "false",
    "politeness.address_delay_s": "0",
    "politeness.address_slots": "60",
    "store.segment_age_s": "5",
    "agent.contact": "test@example.org",
}
# Kills of the database, and a delay with which the crawl lasts that long: Cassandra starts slowly.
KILLS, DELAY_S = {"postgres": 4, "cassandra": 3}, {"postgres": "0.7", "cassandra": "3"}


@pytest.fixture
def web() -> Iterator[tuple[int, WatchedLog]]:
    log = WatchedLog()
    with served_with_log(SyntheticWeb(PLAN), log=log) as (port, _):
        yield port, log


DATABASES = [
    pytest.param(name, marks=[*marks, pytest.mark.skipif(bool(lacks), reason=f"missing: {lacks}")])
    for name, marks in {"postgres": [], "cassandra": [pytest.mark.cassandra]}.items()
    for lacks in [lacking(name)]
]


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RegistryDatabase]:
    """A database of its own, because the test kills it."""
    made = database_of(request.param, tmp_path / "database")
    yield made
    made.stop()


def arguments(database: RegistryDatabase, schema: str) -> list[str]:
    place = ["--dsn", database.dsn, database.option, schema]
    return ["project", database.name, "--cluster", "cluster.toml", "--cache", "cache", *place]


def project(cluster: RealCluster, database: RegistryDatabase, schema: str) -> dict[str, Any]:
    """Brings a schema up to date; gives the report."""
    done = subprocess.run(
        [*LYCOSA, *arguments(database, schema), "--once", "--json"],
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def wrong_in(cluster: RealCluster, database: RegistryDatabase, schema: str) -> list[str]:
    given = read_cluster_file(cluster.folder / "cluster.toml")
    opened = OpenedCluster(given, cluster.folder / "judged")
    try:
        opened.view.open_shards()
        return differences_from(database, CrawlReader(opened.view), schema, near_s=10)
    finally:
        opened.close()


def test_the_registry_of_a_cluster_equals_its_crawl(
    tmp_path: Path, kafka: Broker, database: RegistryDatabase, web: tuple[int, WatchedLog]
) -> None:
    port, log = web
    first, second = (database.new_schema(name) for name in ("lycosa", "lycosa_new"))
    settings = {**SETTINGS, "politeness.delay_s": DELAY_S[database.name]}
    with real_cluster(tmp_path, kafka, settings) as cluster:

        def follow() -> Program:
            return cluster.run(*arguments(database, first), "--json")

        cluster.serve()
        node, other = (cluster.node(name) for name in "ab")
        crawling, projector = cluster.crawl(seed_at(port)), follow()
        log.await_more(30)
        back = threading.Thread()
        for round_ in range(KILLS[database.name]):
            log.await_more(15)
            projector.end()
            projector = follow()
            log.await_more(10)
            if back.ident is not None:
                back.join(120)
            database.kill()
            if round_ == 1:
                node.end()
            back = threading.Thread(target=database.start)
            back.start()
        assert crawling.wait() == 0, str(cluster)
        back.join(120)
        assert projector.process.poll() is None, str(projector)
        projector.end()
        other.end()
        assert project(cluster, database, first)["lag"]["commits"] == 0
        assert wrong_in(cluster, database, first) == []
        assert project(cluster, database, second)["read_whole"] == 3
        assert wrong_in(cluster, database, second) == []
        assert len(database.state_rows("crawl_log", "url", first)) > 300
