"""A crawl that moves: from the folder of one machine to shards of a cluster, then to more shards.

Everything is as in production but small: a broker, a folder of objects, processes, a web on a
socket.
"""

from __future__ import annotations

import json
import signal
import subprocess
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
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log

pytestmark = [pytest.mark.service]
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


def continue_crawl(cluster: RealCluster) -> None:
    """Continue the crawl on the cluster, to its end or to that which ``cluster stop`` gives it."""
    cluster.serve()
    cluster.node("a", "--most-shards", "64")
    assert cluster.run("cluster", "resume", "cluster.toml").wait() == 0


def end_programs(cluster: RealCluster) -> None:
    for program in reversed(cluster.programs):
        if program.process.poll() is None:
            program.process.send_signal(signal.SIGTERM)
            program.wait()


def check_audit(cluster: RealCluster) -> None:
    audit = cluster.run("audit", "--cluster", "cluster.toml")
    assert audit.wait() == 0, str(audit)


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
        first = result(tmp_path, "cluster", "import", "cluster.toml", "one")
        assert (first["is_new"], first["shards"]) == (True, 4)
        check_audit(cluster)
        assert not result(tmp_path, "cluster", "import", "cluster.toml", "one")["is_new"]
        continue_crawl(cluster)
        log.await_more(20)
        assert cluster.run("cluster", "stop", "cluster.toml").wait() == 0
        cluster.programs[-3].await_line("the crawl is over")
        end_programs(cluster)
        second = result(tmp_path, "cluster", "import", "cluster.toml", "--shards", "6")
        assert (second["is_new"], second["shards"]) == (True, 6)
        cluster.set_shards(6)
        check_audit(cluster)
        continue_crawl(cluster)
        cluster.programs[-2].await_line("the crawl is over")
        expected = crawled_by_one_machine(PLAN, tmp_path / "expected")
        found = result(tmp_path, "status", "--cluster", "cluster.toml")
        assert {state: count for state, count in found["states"].items() if count} == (
            expected.states
        )
        assert pages_of(log) == expected.pages
        is_polite(log, politeness(SETTINGS), LATE_S)
        check_audit(cluster)
        print(json.dumps(found)[:3000])
        counts = Counter(each.host + each.path for each in log.exchanges)
        print([each for each in counts.items() if each[1] > 1])
        print(cluster)
        assert 0
