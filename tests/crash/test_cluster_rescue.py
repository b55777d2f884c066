"""A crawl whose topics are lost continues from its object storage, and comes to the same pages.

Everything is real: processes, a broker whose topics are deleted, a folder of objects, a web on a
socket whose own log says what was requested.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import (
    LATE_S,
    LYCOSA,
    SETTINGS,
    RealCluster,
    WatchedLog,
    crawled_by_one_machine,
    pages_of,
    politeness,
    real_cluster,
    seed_at,
)
from judging import is_polite
from kafka_broker import PATIENCE_S, Broker, started
from lycosa.kafka import Topics, missing_topics
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=16, pages=70, seed=5, latency_s=0.0, page_bytes=2000)
SHARDS = 3
QUICK = {**SETTINGS, "store.commit_s": "0.5", "store.segment_age_s": "4"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with started() as broker:
        yield broker


@pytest.fixture
def web() -> Iterator[tuple[int, WatchedLog]]:
    log = WatchedLog()
    with served_with_log(SyntheticWeb(PLAN), log=log) as (port, _):
        yield port, log


def called(cluster: RealCluster, *arguments: str) -> tuple[int, str, str]:
    """Exit code, answer and notes of a command."""
    done = subprocess.run(
        [*LYCOSA, *arguments], cwd=cluster.folder, capture_output=True, text=True, timeout=240
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def rescued(cluster: RealCluster, *options: str) -> dict[str, Any]:
    code, answer, notes = called(
        cluster, "cluster", "rescue", "cluster.toml", "--folder", "rescue", "--json", *options
    )
    assert code == 0, notes
    report: dict[str, Any] = json.loads(answer)
    return report


def audited(cluster: RealCluster) -> dict[str, Any]:
    options = ("--cluster", "cluster.toml", "--cache", "cache", "--all", "--json")
    code, answer, notes = called(cluster, "audit", *options)
    report: dict[str, Any] = json.loads(answer)
    assert (code, report["clean"]) == (0, True), (report["checks"], notes)
    return report


def lose_topics(broker: Broker, cluster: RealCluster) -> None:
    topics = Topics(cluster.name, SHARDS, 1, 1)
    names = [plan.name for plan in topics.plans()]
    admin = broker.client.admin()
    for future in admin.delete_topics(names).values():
        future.result(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while len(missing_topics(broker.client, topics)) < len(names):
        assert time.monotonic() < deadline


def crawl_until_lost(cluster: RealCluster, seed: str, log: WatchedLog, kafka: Broker) -> None:
    """Crawl a part, stop in order (which saves snapshots), crawl on, kill all, lose the topics."""
    serving = cluster.serve()
    nodes = [cluster.node(name) for name in "ab"]
    crawling = cluster.crawl(seed)
    log.await_that(lambda: len(pages_of(log)) >= 250)
    for node in nodes:
        node.process.send_signal(signal.SIGTERM)
        assert node.wait() == 0
    nodes = [cluster.node(name) for name in "ab"]
    log.await_that(lambda: len(pages_of(log)) >= 700)
    for program in (*nodes, crawling, serving):
        program.end()
    lose_topics(kafka, cluster)


def continue_crawl(cluster: RealCluster, seed: str) -> None:
    cluster.serve()
    for name in "ab":
        cluster.node(name)
    assert cluster.crawl(seed).wait() == 0


def test_a_crawl_without_its_topics_continues_where_its_captures_end(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog]
) -> None:
    port, log = web
    with real_cluster(tmp_path, kafka, QUICK, SHARDS) as cluster:
        crawl_until_lost(cluster, seed_at(port), log, kafka)
        before = pages_of(log)
        planned = rescued(cluster, "--dry-run")
        report = rescued(cluster)
        figures = ("captures", "links", "robots", "snapshot")
        for one, other in zip(planned["shards"], report["shards"], strict=True):
            assert [one[name] for name in figures] == [other[name] for name in figures]
        code, _, notes = called(cluster, "cluster", "rescue", "cluster.toml")
        assert code == 2 and "the topics still have a log of this crawl" in notes
        continue_crawl(cluster, seed_at(port))
        expected = crawled_by_one_machine(PLAN, tmp_path / "one")
        assert pages_of(log) == expected.pages
        audited(cluster)
        is_polite(log, politeness(SETTINGS), LATE_S)
        repeats = Counter(
            each.host + each.path for each in log.exchanges if each.path != "/robots.txt"
        )
        found = sum(shard["captures"] for shard in report["shards"])
        twice = [url for url, number in repeats.items() if number > 1]
        print(
            f"{len(before)} pages before, {found} found behind the snapshots,"
            f" {len(twice)} requested again: {twice}"
        )
        print(json.dumps(report["shards"], indent=1))
        assert found > 250 and len(twice) < 60
