"""Operators decide about dead letters of a crawl on a cluster: the owners of the URLs commit it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clusters import LYCOSA, SETTINGS, RealCluster, WatchedLog, real_cluster, seed_at
from kafka_broker import Broker
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=8, pages=6, seed=5, latency_s=0.0, page_bytes=2000)


def dlq(cluster: RealCluster, *arguments: str) -> dict[str, Any]:
    command = [
        *LYCOSA,
        "dlq",
        *arguments,
        "--cluster",
        "cluster.toml",
        "--cache",
        "cache",
        "--json",
    ]
    done = subprocess.run(command, cwd=cluster.folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def urls(report: dict[str, Any]) -> set[str]:
    return {each["url"] for each in report["dead_letters"]}


def test_a_finished_crawl_continues_for_a_decision_and_a_running_one_is_not_disturbed(
    tmp_path: Path, kafka: Broker
) -> None:
    log = WatchedLog()
    with (
        served_with_log(SyntheticWeb(PLAN), log=log) as (port, _),
        real_cluster(tmp_path, kafka, SETTINGS) as cluster,
    ):
        missing = {f"http://h{n:06}.site{n:06}.example:{port}/missing" for n in range(4)}
        cluster.serve()
        cluster.node("a")
        assert cluster.crawl(seed_at(port), *missing).wait() == 0
        assert urls(dlq(cluster, "list")) >= missing
        first, *_ = sorted(missing)
        dropped = dlq(cluster, "drop", first, "--by", "ann")
        assert dropped["urls"] == 1
        requests = len(log)
        retried = dlq(cluster, "retry", "--reason", "http_client_error")
        assert retried["urls"] >= 3 and urls(retried) >= missing - {first}
        log.await_that(lambda: len(log) >= requests + retried["urls"])
        assert cluster.crawl().wait() == 0  # until it is finished again
        left = urls(dlq(cluster, "list"))
        assert first not in left and left >= missing - {first}
        explained = cluster.run("explain", "--cluster", "cluster.toml", first)
        assert explained.wait() == 0
        assert "ann" in str(explained)
