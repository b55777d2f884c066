"""Items and changes of a real cluster come to their targets, from the topics and the bucket."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from clusters import SETTINGS, real_cluster, seed_at
from kafka_broker import Broker
from lycosa.base.system.code_file import CodeFile
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served
from webhook_receiver import receiver

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=4, pages=40, seed=7, latency_s=0.0, page_bytes=2000)
SOURCE = """import lycosa


class Page(lycosa.Item, frozen=True):
    address: str


@lycosa.extract(Page)
def products(page):
    yield Page(page.url)
"""


def test_items_and_changes_of_a_cluster_arrive_once(tmp_path: Path, kafka: Broker) -> None:
    (tmp_path / "shop.py").write_text(SOURCE)
    digest = CodeFile(SOURCE.encode()).digest
    (tmp_path / "secret").write_bytes(b"0123456789abcdef0123456789abcdef")
    with (
        receiver() as hook,
        served(SyntheticWeb(PLAN)) as port,
        real_cluster(tmp_path, kafka, SETTINGS, 2, is_made=False) as cluster,
    ):
        settings = {
            **SETTINGS,
            "webhooks.urls": hook.url,
            "webhooks.secret_file": str(tmp_path / "secret"),
            "webhooks.allow_http": "true",
        }
        pairs = [part for each in settings.items() for part in ("--set", "=".join(each))]
        code = ["--extension", "./shop.py:products"]
        assert cluster.run("cluster", "init", "cluster.toml", *pairs, *code).wait() == 0
        cluster.serve()
        cluster.node("a", "--allow", digest)
        assert cluster.crawl(seed_at(port)).wait() == 0
        for target in ("all.jsonl", "items.db", "items.csv"):
            for _ in range(2):  # the second one has nothing to add
                feed = ["feed", "items.products", "--cluster", "cluster.toml", "--to", target]
                assert cluster.run(*feed).wait() == 0
        lines = (tmp_path / "all.jsonl").read_text().splitlines()
        wanted = [json.loads(line)["address"] for line in lines]
        assert len(wanted) == len(set(wanted)) > 20
        with sqlite3.connect(tmp_path / "items.db") as database:
            found = database.execute("SELECT address FROM products").fetchall()
        assert sorted(each for (each,) in found) == sorted(wanted)
        lines = (tmp_path / "items.csv").read_text().splitlines()
        assert len(lines) == 1 + len(wanted)
        told = ["webhooks", "--cluster", "cluster.toml", "--state", "states"]
        assert cluster.run(*told).wait() == 0
        urls = [each["url"] for each in hook.accepted]
        assert len(urls) == len(set(urls)) and set(wanted) <= set(urls)
        before = len(hook.accepted)
        assert cluster.run(*told).wait() == 0
        assert len(hook.accepted) == before
