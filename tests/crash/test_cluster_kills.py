"""Nodes of a cluster that are killed, suspended and told to leave, with everything real: the crawl
finishes all the same, with each page once in its state, and no host notices.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clusters import (
    LATE_S,
    SETTINGS,
    Expected,
    Program,
    RealCluster,
    WatchedLog,
    await_death,
    crawled_by_one_machine,
    pages_of,
    politeness,
    real_cluster,
    seed_at,
    states_of,
)
from crawling import HTML, page
from judging import is_polite
from kafka_broker import Broker
from lycosa.synthetic import Response, SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=20, pages=25, seed=6, latency_s=0.0, page_bytes=2000)
SLOW = {**SETTINGS, "politeness.delay_s": "0.7"}
"""At this delay no host is done before the faults are."""
HELD_S = 35.0
POISON = "/hook-kill-worker/a.html"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return crawled_by_one_machine(PLAN, tmp_path_factory.mktemp("one") / "crawl")


class Running:
    """A crawl by the nodes ``a`` and ``b``, each of which has a shard and requests pages."""

    def __init__(self, cluster: RealCluster, port: int, log: WatchedLog) -> None:
        self.cluster, self.log = cluster, log
        self.serving = cluster.serve()
        self.a, self.b = cluster.node("a"), cluster.node("b")
        self.crawling = cluster.crawl(seed_at(port))
        for node in (self.a, self.b):
            node.await_line("shard [0-9] runs here")
        log.await_more(100)

    def shards_of(self, name: str) -> list[int]:
        return [each["shard"] for each in self.cluster.status()["shards"] if each["node"] == name]

    def await_shards(self, node: Program, shards: list[int]) -> None:
        """Wait until a node runs all of these shards."""
        waiting = set(shards)
        while waiting:
            waiting.discard(int(node.await_line("shard ([0-9]) runs here")[1]))

    def finishes(self, expected: Expected) -> None:
        assert self.crawling.wait() == 0
        assert pages_of(self.log) == expected.pages
        assert states_of(self.cluster) == expected.states
        is_polite(self.log, politeness(SLOW), LATE_S)


@pytest.fixture
def running(tmp_path: Path, kafka: Broker) -> Iterator[Running]:
    log = WatchedLog()
    with (
        served_with_log(SyntheticWeb(PLAN), log=log) as (port, _),
        real_cluster(tmp_path, kafka, SLOW) as cluster,
    ):
        yield Running(cluster, port, log)


def test_a_killed_node_loses_nothing_and_its_workers_end_with_it(
    running: Running, expected: Expected
) -> None:
    shards, workers = running.shards_of("b"), running.b.children()
    assert shards and len(workers) >= len(shards)
    running.b.process.kill()
    await_death(workers)
    running.await_shards(running.a, shards)
    # the folder can be used again at once, under the same name
    running.b = running.cluster.node("b")
    running.finishes(expected)


def test_a_killed_worker_is_started_again(running: Running, expected: Expected) -> None:
    os.kill(running.a.children()[0], signal.SIGKILL)
    shard = running.a.await_line(r"worker ([0-9]) died \(SIGKILL\)")[1]
    running.a.await_line(f"shard {shard} runs here in term [2-9]")
    running.finishes(expected)


def test_a_suspended_machine_gives_up_its_shards_when_it_wakes(
    running: Running, expected: Expected
) -> None:
    shards = running.shards_of("b")
    running.b.freeze()
    running.await_shards(running.a, shards)
    running.b.wake()
    for _ in shards:
        running.b.await_line("shard [0-9] (has ended here|leaves this node)")
    running.finishes(expected)


def test_workers_of_a_suspended_node_end_when_their_shards_have_moved(
    running: Running, expected: Expected
) -> None:
    shards, workers = running.shards_of("b"), running.b.children()
    os.kill(running.b.process.pid, signal.SIGSTOP)
    running.await_shards(running.a, shards)
    await_death(workers)  # the next commit of each is refused
    running.b.wake()
    for _ in shards:
        running.b.await_line("a later owner")
    running.finishes(expected)


def test_a_crawl_survives_its_coordinator(running: Running, expected: Expected) -> None:
    running.serving.process.kill()
    running.a.await_line("no connection to a coordinator")
    running.log.await_more(20)
    running.serving = running.cluster.serve()
    running.a.await_line("connected to coordinator 2")
    running.finishes(expected)


def test_a_node_that_is_told_to_leave_hands_over_without_a_hold(
    running: Running, expected: Expected
) -> None:
    shards = running.shards_of("b")
    running.b.process.send_signal(signal.SIGTERM)
    running.await_shards(running.a, shards)
    assert running.b.wait() == 0
    running.finishes(expected)
    waits = [gap for host in running.log.hosts() for gap in running.log.gaps(host)]
    assert max(waits) < HELD_S


def test_a_second_signal_ends_a_node_at_once(running: Running) -> None:
    workers = running.b.children()
    os.kill(workers[0], signal.SIGSTOP)  # this one cannot finish
    running.b.process.send_signal(signal.SIGTERM)
    running.b.await_line("leaving the cluster")
    running.b.process.send_signal(signal.SIGTERM)
    running.b.await_line("ending at once")
    assert running.b.wait() == 4
    await_death(workers)


class PoisonedWeb:
    """One host; storing one of its pages kills the worker (see ``worker_process``)."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        path = urlsplit(url).path
        self.asked[path] += 1
        if path == "/":
            return page(POISON, *(f"/{number}" for number in range(20)))
        return page() if path == POISON or path[1:].isdigit() else Response(404, [HTML], b"none")


def test_a_page_that_kills_its_worker_ends_as_a_recorded_failure(
    tmp_path: Path, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYCOSA_TEST_HOOKS", "1")
    web = PoisonedWeb()
    with served_with_log(web) as (port, _), real_cluster(tmp_path, kafka, SETTINGS, 1) as cluster:
        cluster.serve()
        node = cluster.node("a")
        seed = f"http://poison.example:{port}"
        assert cluster.crawl(f"{seed}/").wait() == 0
        node.await_line("the crawl is over")
        assert sum("died (SIGKILL)" in line for line in node.lines) == web.asked[POISON] <= 3
        assert all(web.asked[f"/{number}"] for number in range(20))
        told = cluster.run("explain", f"{seed}{POISON}", "--cluster", "cluster.toml", "--json")
        assert told.wait() == 0
        found = json.loads("\n".join(told.lines[told.lines.index("{") :]))
        assert (found["verdict"], found["facts"]["reason"]) == ("failed", "crashed_worker")
