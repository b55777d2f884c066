"""A crawl by two nodes of a cluster, everything as in production but small: a broker, a folder of
objects, processes, a web on a socket. It is the crawl of one machine, and as polite.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import (
    LATE_S,
    SETTINGS,
    Expected,
    WatchedLog,
    crawled_by_one_machine,
    pages_of,
    politeness,
    real_cluster,
    seed_at,
    states_of,
)
from judging import is_polite
from kafka_broker import Broker
from lycosa.cluster.kafka.changelog import ClaimRecord, encoded
from lycosa.cluster.kafka.topics import Topics
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log
from tls_server import tls_files

pytestmark = [pytest.mark.service]
PLAN = WebPlan(hosts=12, pages=5, seed=5, latency_s=0.0, page_bytes=2000)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return crawled_by_one_machine(PLAN, tmp_path_factory.mktemp("one") / "crawl")


@pytest.fixture
def web() -> Iterator[tuple[int, WatchedLog]]:
    log = WatchedLog()
    with served_with_log(SyntheticWeb(PLAN), log=log) as (port, _):
        yield port, log


def test_two_nodes_crawl_what_one_machine_crawls_and_can_continue(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog], expected: Expected
) -> None:
    port, log = web
    with real_cluster(tmp_path, kafka, SETTINGS) as cluster:
        serving = cluster.serve()
        nodes = [cluster.node(name) for name in "ab"]
        crawling = cluster.crawl(seed_at(port))
        for node in nodes:
            node.await_line("shard [0-9] runs here in term [0-9]+, .* 127.0.0.1:[0-9]+")
        other = cluster.node("a", "--work", "another")
        other.await_line("refuses this node: a node 'a' is connected from")
        other.process.send_signal(signal.SIGTERM)
        assert other.wait() == 0
        assert crawling.wait() == 0
        for node in nodes:
            node.await_line("the crawl is over")
        assert pages_of(log) == expected.pages
        assert states_of(cluster) == expected.states
        is_polite(log, politeness(SETTINGS), LATE_S)
        # another seed, of a host that nothing links to
        requests = len(log)
        # its server closes the connection: the URL waits for it (6), or the host was given up (0)
        assert cluster.crawl(f"http://other.example:{port}/").wait() in (0, 6)
        assert len(log) > requests
        for node in nodes:
            node.await_line("the crawl continues")
            node.process.send_signal(signal.SIGTERM)
            assert node.wait() == 0
            assert "left the cluster" in node.lines[-1]
        serving.process.send_signal(signal.SIGTERM)
        assert serving.wait() == 0


def test_a_crawl_continues_although_another_program_wrote_into_all_its_topics(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog], expected: Expected
) -> None:
    port, log = web
    with real_cluster(tmp_path, kafka, SETTINGS) as cluster:
        junk = [b"junk", b"{}", b""]
        kafka.write(f"{cluster.name}.control", 0, junk, b"settings")
        for kind in ("changelog", "inbox", "pages", "dlq"):
            for shard in range(3):
                kafka.write(f"{cluster.name}.{kind}", shard, junk)
        serving = cluster.run("serve", "--cluster", "cluster.toml")
        serving.await_line("stepped over a record .*control, partition 0, offset 0: not readable")
        serving.await_line("coordinator 1 of the crawl")
        node = cluster.node("a")
        crawling = cluster.crawl(seed_at(port))
        node.await_line(
            "shard [0-9] has stepped over [0-9]+ records in .* no program of this crawl"
        )
        assert crawling.wait() == 0
        assert pages_of(log) == expected.pages
        assert states_of(cluster) == expected.states
        kept = [path.parent.parent.name for path in tmp_path.glob("objects/foreign/*/*/*")]
        name = cluster.name
        numbers = {f"{name}.changelog": 9, f"{name}.inbox": 9, f"{name}.control": 3}
        assert Counter(kept) == numbers
        shown = cluster.run("cluster", "status", "cluster.toml")
        shown.await_line(
            "foreign records +9 in changelog, 3 in control, 9 in inbox: another program"
        )
        serving.process.send_signal(signal.SIGTERM)
        assert serving.wait() == 0
        kafka.write(f"{cluster.name}.control", 0, junk, b"settings")
        cluster.serve()
        audit = cluster.run("audit", "--cluster", "cluster.toml", "--topic")
        assert audit.wait() == 0, str(audit)


def test_owners_stop_when_their_topic_is_deleted_and_made_again(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog]
) -> None:
    port, log = web
    with real_cluster(tmp_path, kafka, {**SETTINGS, "politeness.delay_s": "3"}) as cluster:
        cluster.serve()
        node = cluster.node("a")
        cluster.crawl(*(f"http://h{n:06}.site{n:06}.example:{port}/" for n in range(12)))
        log.await_more(20)
        topics = Topics(cluster.name, 3, 1, 1)
        kafka.remake(topics, topics.changelog)
        for _ in range(3):
            node.await_line("shard [0-2] has failed: .*deleted and made again.*cluster rescue")


@pytest.mark.long
def test_a_shard_that_cannot_continue_fails_alone_and_a_stop_ends_the_crawl(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog]
) -> None:
    port, log = web
    with real_cluster(tmp_path, kafka, SETTINGS) as cluster:
        another = encoded(ClaimRecord("another crawl", b"0" * 16))
        kafka.write(f"{cluster.name}.changelog", 1, [another])
        cluster.serve()
        node = cluster.node("a")
        crawling = cluster.crawl(*(f"http://h{n:06}.site{n:06}.example:{port}/" for n in range(12)))
        node.await_line("shard 1 has failed: .* `lycosa cluster move cluster.toml 1 a` starts")
        log.await_more(20)
        [failed] = [each for each in cluster.status()["shards"] if each["state"] == "failed"]
        assert failed["shard"] == 1 and failed["why"]
        assert cluster.run("cluster", "move", "cluster.toml", "1", "a").wait() == 0
        node.await_line("shard 1 starts here")
        node.await_line("shard 1 has failed: ")
        assert cluster.run("cluster", "stop", "cluster.toml").wait() == 0
        node.await_line("the crawl is over")
        assert crawling.wait() == 4


@pytest.mark.long
def test_machines_prove_themselves_by_token_and_certificate(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog]
) -> None:
    port, log = web
    (tmp_path / "token").write_text("of this crawl: 0123456789abcdef")
    (tmp_path / "token").chmod(0o600)
    files = tls_files(tmp_path / "tls")
    names = {"certificate": files.certificate, "key": files.key, "authority": files.authority}
    section = "\n".join(["[tls]", *(f'{key} = "{path}"' for key, path in names.items())])
    toml = ('token_file = "token"', section)
    with real_cluster(tmp_path, kafka, SETTINGS, 2, toml) as cluster:
        cluster.serve()
        nodes = [cluster.node(name, "--listen", "127.0.0.1") for name in "ab"]
        assert cluster.crawl(seed_at(port)).wait() == 0
        for node in nodes:
            node.await_line("the crawl is over")
        assert len(pages_of(log)) > 30
        (tmp_path / "token").write_text("of another crawl: 0123456789")
        cluster.run("node", "--cluster", "cluster.toml", "--name", "c").await_line(
            "refuses: the token is not the one of this crawl"
        )
        assert "0123456789" not in str(cluster)
