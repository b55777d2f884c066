"""A crawl by two nodes, of which one is killed, is read and audited while it runs and after it.

Everything is real: processes, a broker, a folder of objects, a web on a socket whose own log says
what was requested.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from warcio.archiveiterator import ArchiveIterator

from clusters import LYCOSA, RealCluster, WatchedLog, real_cluster
from kafka_broker import Broker
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.synthetic_hosts import host_name
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=12, pages=14, seed=5, latency_s=0.0, page_bytes=2000)
SETTINGS = {
    "scope.rule": "any",
    "dns.pins": '["*=127.0.0.1"]',
    "fetch.allow_addresses": '["127.0.0.0/8"]',
    "fetch.total_s": "5",
    "parse.language": "false",
    "politeness.delay_s": "1.5",
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


def read(cluster: RealCluster, command: str, *arguments: str) -> tuple[int, str]:
    """The exit code and the answer of a command that reads the crawl."""
    done = subprocess.run(
        [*LYCOSA, command, "--cluster", "cluster.toml", "--cache", "cache", *arguments],
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout or done.stderr


def audited(cluster: RealCluster) -> dict[str, Any]:
    code, text = read(cluster, "audit", "--all", "--topic", "--json")
    report: dict[str, Any] = json.loads(text)
    assert (code, report["clean"]) == (0, True), report["checks"]
    assert {"parcels", "pages feed", "outlinks"} <= {check["name"] for check in report["checks"]}
    return report


def pages_of(log: WatchedLog) -> set[str]:
    return {
        f"http://{each.host}{each.path}"
        for each in log.exchanges
        if each.status == 200 and each.path != "/robots.txt"
    }


def captures(folder: Path) -> set[str]:
    """The pages in the WARCs, by another program's reader."""
    found = set()
    for path in (folder / "warc").iterdir():
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream):
                if record.rec_type in ("response", "revisit"):
                    found.add(record.rec_headers.get_header("WARC-Target-URI"))
    return {url for url in found if not url.endswith("/robots.txt")}


def test_a_crawl_whose_node_was_killed_is_proven_from_another_machine(
    tmp_path: Path, kafka: Broker, web: tuple[int, WatchedLog]
) -> None:
    port, log = web
    seed = f"http://{host_name(0)}:{port}/"
    with real_cluster(tmp_path, kafka, SETTINGS) as cluster:
        cluster.serve()
        killed, other = (cluster.node(name) for name in "ab")
        crawling = cluster.crawl(seed)
        log.await_more(40)
        report = audited(cluster)
        assert report["is_running"]
        code, text = read(cluster, "explain", seed, "--json")
        assert code == 0
        assert json.loads(text)["facts"]["owner_term"] >= 1
        killed.end()
        assert crawling.wait() == 0, str(cluster)
        other.process.send_signal(signal.SIGTERM)
        assert other.wait() == 0
        report = audited(cluster)
        assert not report["is_running"]
        # what the killed node had not sent
        assert report["unproven"]
        assert all(each["until"] > 0 for each in report["unproven"]), report["unproven"]
        again = cluster.node("a")
        again.await_line("the crawl is over")
        again.process.send_signal(signal.SIGTERM)
        assert again.wait() == 0
        assert audited(cluster)["unproven"] == []
        status = json.loads(read(cluster, "status", "--json")[1])
        assert status["states"]["queued"] == 0
        assert {each["shard"] for each in status["shards"]} == {0, 1, 2}
        rows = [json.loads(line) for line in read(cluster, "export", "pages")[1].splitlines()]
        urls = {row["url"] for row in rows}
        assert {row["url"] for row in rows if row["fetch_status"] == 200} == pages_of(log)
        # other programs read the same from the objects
        assert captures(tmp_path / "objects") == urls
        query = f"SELECT DISTINCT url FROM '{tmp_path}/objects/pages/*.parquet' WHERE kind = 'page'"
        assert {row[0] for row in duckdb.sql(query).fetchall()} == urls
