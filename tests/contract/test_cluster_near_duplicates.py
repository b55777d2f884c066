"""Near-duplicates in a crawl by two nodes: verdicts travel through the real topics, and the records
of URLs and the files of sealed segments have them.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from clusters import LYCOSA, RealCluster, WatchedLog, real_cluster
from kafka_broker import Broker
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.synthetic_hosts import host_name
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=6, pages=12, seed=5, latency_s=0.0, near_duplicates=0.3, duplicates=0.0)
SETTINGS = {
    "scope.rule": "any",
    "dns.pins": '["*=127.0.0.1"]',
    "fetch.allow_addresses": '["127.0.0.0/8"]',
    "fetch.total_s": "5",
    "parse.language": "false",
    "politeness.delay_s": "0.1",
    "politeness.address_delay_s": "0",
    "politeness.address_slots": "60",
    "agent.contact": "test@example.org",
}
COPIES = "SELECT count(*) FROM urls WHERE reason = 'near_duplicate' AND duplicate_of IS NOT NULL"


def copies_in(folder: Path, *place: str) -> int:
    done = subprocess.run(
        [*LYCOSA, "sql", *place, COPIES, "--json"],
        cwd=folder,
        check=True,
        timeout=240,
        capture_output=True,
        text=True,
    )
    return int("".join(letter for letter in done.stdout if letter.isdigit()))


def copies_in_pages(cluster: RealCluster) -> int:
    folder = cluster.folder / "objects"
    named = [pq.read_table(path)["near_duplicate_of"] for path in folder.rglob("pages/*.parquet")]
    return sum(len(column) - column.null_count for column in named)


def test_shards_find_the_near_duplicates_that_one_machine_finds(
    tmp_path: Path, kafka: Broker
) -> None:
    seeds = [host_name(number) for number in range(PLAN.hosts)]
    with (
        served_with_log(SyntheticWeb(PLAN), log=WatchedLog()) as (port, _),
        real_cluster(tmp_path, kafka, SETTINGS) as cluster,
    ):
        urls = [f"http://{seed}:{port}/" for seed in seeds]
        serving = cluster.serve()
        nodes = [cluster.node(name) for name in "ab"]
        assert cluster.crawl(*urls).wait() == 0, str(cluster)
        for node in nodes:
            node.await_line("the crawl is over")
            node.process.send_signal(signal.SIGTERM)
            assert node.wait() == 0, str(cluster)
        found = copies_in(tmp_path, "--cluster", "cluster.toml")
        in_pages = copies_in_pages(cluster)
        serving.process.send_signal(signal.SIGTERM)
        assert serving.wait() == 0
        pairs = [part for each in SETTINGS.items() for part in ("--set", "=".join(each))]
        command = [*LYCOSA, "crawl", *urls, "--dir", str(tmp_path / "one"), *pairs]
        subprocess.run(command, check=True, timeout=240, capture_output=True)
    assert found == copies_in(tmp_path, str(tmp_path / "one")) > 5
    assert in_pages == found
