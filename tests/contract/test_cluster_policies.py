"""Operators change refetch policies of a crawl on a cluster: every shard applies them."""

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
PLAN = WebPlan(hosts=8, pages=60, seed=5, latency_s=0.0, page_bytes=2000)


def policy(cluster: RealCluster, *arguments: str) -> dict[str, Any]:
    places = ["--cluster", "cluster.toml", "--cache", "cache", "--json"]
    command = [*LYCOSA, "policy", *arguments, *places]
    done = subprocess.run(command, cwd=cluster.folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_shard_follows_new_policies_and_a_new_owner_knows_them(
    tmp_path: Path, kafka: Broker
) -> None:
    log = WatchedLog()
    settings = {**SETTINGS, "politeness.delay_s": "0.5"}
    with (
        served_with_log(SyntheticWeb(PLAN), log=log) as (port, _),
        real_cluster(tmp_path, kafka, settings) as cluster,
    ):
        cluster.serve()
        cluster.node("a")
        cluster.crawl(seed_at(port))
        log.await_more(30)
        found = policy(cluster, "set", "/* every 400d", "* never", "--by", "ann", "--wait", "60")
        assert found["records_left"] == 0 and found["records_moved"] > 0
        shown = policy(cluster, "show")
        assert [each["rule"] for each in shown["rules"]] == ["/* every 400d", "* never"]
        tried = policy(cluster, "test", seed_at(port))
        assert (tried["line"], tried["policy"]) == (1, "every 400d")
        cluster.node("b")
        log.await_more(10)
        assert policy(cluster, "set", "* never", "--wait", "60")["records_left"] == 0
        assert policy(cluster, "test", seed_at(port))["next_due"] == 0
