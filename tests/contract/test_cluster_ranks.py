"""Ranks of a real cluster: computed from its bucket, used by its nodes, and kept in more shards."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clusters import LONGEST_S, LYCOSA, SETTINGS, RealCluster, real_cluster, seed_at
from kafka_broker import Broker
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=6, pages=60, seed=7, latency_s=0.0, page_bytes=2000)


def answer(cluster: RealCluster, *arguments: str) -> Any:
    """What a command of the cluster prints as JSON."""
    command = [*LYCOSA, *arguments, "--json"]
    done = subprocess.run(
        command, cwd=cluster.folder, timeout=LONGEST_S, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def of_cluster(name: str, *arguments: str) -> list[str]:
    return [name, "--cluster", "cluster.toml", *arguments]


def test_a_cluster_ranks_its_links_goes_by_them_and_keeps_them_in_more_shards(
    tmp_path: Path, kafka: Broker
) -> None:
    with (
        served(SyntheticWeb(PLAN)) as port,
        real_cluster(tmp_path, kafka, SETTINGS, 2) as cluster,
    ):
        serving, node = cluster.serve(), cluster.node("a", "--most-shards", "64")
        refused = cluster.run(*of_cluster("use-ranks"))
        assert refused.wait() == 2 and "the crawl has no ranks" in str(refused)
        assert cluster.crawl(seed_at(port)).wait() == 0
        made = cluster.run(*of_cluster("rank"))
        assert made.wait() == 0 and "lycosa use-ranks --cluster cluster.toml" in str(made)
        result = answer(cluster, *of_cluster("rank"))
        assert result["number"] == 1, "there is nothing new"
        assert result["captures"] >= 60 and result["links"] > result["captures"]
        used = answer(cluster, *of_cluster("use-ranks"))
        assert used["hosts"] == result["levels"]["host"]["vertices"] >= 6
        assert used["pages"] == result["levels"]["page"]["vertices"] >= 60
        # the next commits are made by them
        assert cluster.crawl(f"{seed_at(port)}one-more").wait() == 0
        assert facts(cluster, port)["ranks"] == used["ranks"]

        assert cluster.run("cluster", "stop", "cluster.toml").wait() == 0
        node.await_line("the crawl is over")
        assert answer(cluster, "cluster", "import", "cluster.toml", "--shards", "6")["is_new"]
        cluster.set_shards(6)
        assert [each["number"] for each in listed(cluster)] == [1]
        for each in (serving, node):
            each.end()
        cluster.serve()
        cluster.node("b", "--most-shards", "64")
        assert cluster.run("cluster", "resume", "cluster.toml").wait() == 0
        assert cluster.crawl(f"{seed_at(port)}another").wait() == 0
        found = facts(cluster, port)
        assert found["ranks"] == used["ranks"] and "host_rank" in found


def listed(cluster: RealCluster) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = answer(cluster, *of_cluster("rank", "--list"))["results"]
    return results


def facts(cluster: RealCluster, port: int) -> dict[str, Any]:
    found: dict[str, Any] = answer(cluster, *of_cluster("explain", seed_at(port)))["facts"]
    return found
