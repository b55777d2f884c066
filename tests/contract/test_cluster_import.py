"""A crawl that moves: from the folder of one machine to shards of a cluster, then to more shards.

Everything is as in production but small: a broker, a folder of objects, processes, a web on a
socket.
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
    LONGEST_S,
    LYCOSA,
    SETTINGS,
    Program,
    RealCluster,
    WatchedLog,
    await_death,
    crawled_by_one_machine,
    pages_of,
    politeness,
    real_cluster,
    seed_at,
)
from judging import is_polite
from kafka_broker import Broker
from lycosa.base.model.compatibility import PROTOCOL
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log

pytestmark = [pytest.mark.service]
COMMITTED_S = 5.0
"""After so long a capture is in a commit."""
PLAN = WebPlan(hosts=12, pages=8, seed=5, latency_s=0.0, page_bytes=2000)


@pytest.fixture
def web() -> Iterator[tuple[int, WatchedLog]]:
    log = WatchedLog()
    with served_with_log(SyntheticWeb(PLAN), log=log) as (port, _):
        yield port, log


def result(folder: Path, *arguments: str) -> Any:
    """What a command prints as JSON."""
    command = [*LYCOSA, *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, timeout=LONGEST_S, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def begin_crawl(cluster: RealCluster, port: int, *options: str) -> Program:
    """A crawl of one machine with three workers."""
    pairs = [part for each in SETTINGS.items() for part in ("--set", "=".join(each))]
    return cluster.run(
        "crawl", seed_at(port), "--dir", "one", "--set", "workers=3", *pairs, *options
    )


def continue_crawl(cluster: RealCluster) -> tuple[Program, Program]:
    """Continue the crawl on the cluster; gives the coordinator and the node."""
    serving, node = cluster.serve(), cluster.node("a", "--most-shards", "64")
    assert cluster.run("cluster", "resume", "cluster.toml").wait() == 0
    return serving, node


def check_audit(cluster: RealCluster) -> None:
    audit = cluster.run("audit", "--cluster", "cluster.toml")
    assert audit.wait() == 0, str(audit)


def import_with_kills(cluster: RealCluster, *arguments: str) -> None:
    """Import, after programs that were killed while they did."""
    for moment in ("partitions|shards$", "counting URLs", "saving shards", "beginning logs"):
        program = cluster.run("cluster", "import", "cluster.toml", *arguments)
        program.await_line(moment)
        program.process.kill()
        program.wait()
    assert result(cluster.folder, "cluster", "import", "cluster.toml", *arguments)["is_new"]


def fetched_twice(log: WatchedLog, since: float) -> list[str]:
    """Pages that were fetched twice although the first time was before ``since``."""
    ends: dict[str, list[float]] = {}
    for each in log.exchanges:
        if each.status == 200 and each.path != "/robots.txt":
            ends.setdefault(each.host + each.path, []).append(each.end)
    return [url for url, times in ends.items() if len(times) > 1 and times[0] < since]


def test_a_crawl_of_a_folder_comes_to_shards_as_it_was(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog]
) -> None:
    port, log = web
    with real_cluster(tmp_path, kafka, SETTINGS, 2, is_made=False) as cluster:
        crawling = begin_crawl(cluster, port, "--max-pages", "30")
        assert crawling.wait() == 3, str(crawling)
        requests, before = len(log), result(tmp_path, "status", "one")
        found = result(tmp_path, "cluster", "import", "cluster.toml", "one")
        assert (found["is_new"], found["shards"]) == (True, 2)
        check_audit(cluster)
        after = result(tmp_path, "status", "--cluster", "cluster.toml")
        for name in ("discovered", "captures", "pages", "requests", "body_bytes"):
            assert after[name] == before[name], name
        refused = begin_crawl(cluster, port)
        assert refused.wait() == 2 and "was imported into the cluster crawl" in str(refused)
        assert len(log) == requests


def test_a_crawl_that_has_so_many_shards_already_is_left_as_it_is(
    tmp_path: Path, kafka: Broker
) -> None:
    with real_cluster(tmp_path, kafka, SETTINGS, 2) as cluster:
        kept = tmp_path / "objects" / "snapshots" / "00001" / "of-this-crawl"
        kept.parent.mkdir(parents=True)
        kept.write_text("a snapshot")
        found = result(tmp_path, "cluster", "import", "cluster.toml", "--shards", "2")
        assert (found["is_new"], found["notes"], kept.exists()) == (False, [], True)
        refused = cluster.run("cluster", "import", "cluster.toml", "--shards", "4")
        assert refused.wait() == 2 and "was not stopped" in str(refused)


@pytest.mark.long
def test_a_killed_crawl_of_a_folder_goes_on_in_shards_and_then_in_more_shards(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog]
) -> None:
    port, log = web
    with real_cluster(tmp_path, kafka, SETTINGS, 4, is_made=False) as cluster:
        crawling = begin_crawl(cluster, port)
        log.await_more(40)
        workers = crawling.children()
        crawling.process.kill()
        await_death(workers)
        killed = max(each.end for each in log.exchanges if each.end < 1e18)
        import_with_kills(cluster, "one")
        check_audit(cluster)
        assert not result(tmp_path, "cluster", "import", "cluster.toml", "one")["is_new"]
        assert cluster.run("audit", "one").wait() == 0  # the folder is what it was
        refused = cluster.run("cluster", "init", "cluster.toml", "--set", "frontier.bands=4")
        assert refused.wait() == 2 and "frozen" in str(refused)
        serving, node = continue_crawl(cluster)
        # the folder's records may have late fields, which only programs of its formats keep
        assert cluster.status()["formats"] == PROTOCOL
        log.await_more(20)
        assert cluster.run("cluster", "stop", "cluster.toml").wait() == 0
        node.await_line("the crawl is over")
        refused = cluster.run("cluster", "import", "cluster.toml", "--shards", "3")
        assert refused.wait() == 2 and "cannot become fewer" in str(refused)
        import_with_kills(cluster, "--shards", "6")
        cluster.set_shards(6)
        check_audit(cluster)
        # the old ones end or are refused; they do not write into the new topics
        serving.process.send_signal(signal.SIGTERM)
        assert serving.wait() == 0
        newer = cluster.serve()
        newer.await_line("node 'a' .*is refused: the crawl was imported into other shards")
        for each in (node, newer):
            each.process.send_signal(signal.SIGTERM)
            assert each.wait() == 0
        _, node = continue_crawl(cluster)
        assert cluster.status()["formats"] == PROTOCOL
        node.await_line("the crawl is over")
        expected = crawled_by_one_machine(PLAN, tmp_path / "expected")
        found = result(tmp_path, "status", "--cluster", "cluster.toml")
        assert {state: count for state, count in found["states"].items() if count} == (
            expected.states
        )
        assert pages_of(log) == expected.pages
        assert fetched_twice(log, killed - COMMITTED_S) == []
        is_polite(log, politeness(SETTINGS), LATE_S)
        check_audit(cluster)


@pytest.mark.long
def test_cold_records_come_along_to_more_shards(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog]
) -> None:
    port, _ = web
    cold = {
        "cold.after_s": "1",
        "cold.least_records": "1",
        "limits.continuous": "true",
        "refetch.rule": "off",
    }
    with real_cluster(tmp_path, kafka, SETTINGS | cold, 2) as cluster:
        _, node = cluster.serve(), cluster.node("a")
        cluster.crawl(seed_at(port))
        end = time.monotonic() + LONGEST_S
        while sum(status_of(cluster)["cold"].values()) < PLAN.hosts * PLAN.pages // 2:
            assert time.monotonic() < end, "hardly anything became cold"
        assert cluster.run("cluster", "stop", "cluster.toml").wait() == 0
        node.await_line("the crawl is over")
        before = status_of(cluster)
        found = result(tmp_path, "cluster", "import", "cluster.toml", "--shards", "4")
        assert (found["is_new"], found["shards"], found["notes"]) == (True, 4, [])
        cluster.set_shards(4)
        after = status_of(cluster)
        assert (after["cold"], after["cold_files"]) == ({}, 0)
        for name in ("discovered", "captures", "pages", "requests", "body_bytes"):
            assert after[name] == before[name], name
        assert +Counter(after["states"]) == +Counter(before["states"])
        check_audit(cluster)


def status_of(cluster: RealCluster) -> Any:
    return result(cluster.folder, "status", "--cluster", "cluster.toml")
