"""Which user code a real cluster runs: nodes, coordinator and commands as processes of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clusters import LYCOSA, SETTINGS, RealCluster, WatchedLog, real_cluster, seed_at
from kafka_broker import Broker
from lycosa.base.system.code_file import CodeFile
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.stored_code import CODE_NAME, keep_code
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=8, pages=60, seed=5, latency_s=0.0, page_bytes=2000)
SOURCE = """import lycosa

open({ran!r}, "a").write("{version}" + chr(10))


class Page(lycosa.Item, frozen=True):
    title: str


@lycosa.extract(Page, version={version})
def products(page):
    yield Page(page.url)
"""


def extension(cluster: RealCluster, *arguments: str, code: int = 0) -> Any:
    command = [*LYCOSA, "extension", *arguments, "--cluster", "cluster.toml", "--json"]
    done = subprocess.run(command, cwd=cluster.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if not code else done.stderr


def written(cluster: RealCluster, version: int) -> str:
    """Write the code of that version; returns its digest."""
    text = SOURCE.format(ran=str(cluster.folder / "ran"), version=version)
    (cluster.folder / "shop.py").write_text(text)
    return CodeFile(text.encode()).digest


def nodes_of(cluster: RealCluster) -> dict[str, Any]:
    return {each["name"]: each for each in cluster.status()["nodes"]}


def test_a_cluster_runs_what_each_node_allows(tmp_path: Path, kafka: Broker) -> None:
    log, settings = WatchedLog(), {**SETTINGS, "politeness.delay_s": "0.5"}
    with (
        served_with_log(SyntheticWeb(PLAN), log=log) as (port, _),
        real_cluster(tmp_path, kafka, settings, is_made=False) as cluster,
    ):
        first = written(cluster, 1)
        pairs = [part for each in settings.items() for part in ("--set", "=".join(each))]
        made = cluster.run(
            "cluster", "init", "cluster.toml", *pairs, "--extension", "./shop.py:products"
        )
        assert made.wait() == 0, str(made)
        # the bucket's writer adds code of his own; no node allows it
        store = FolderStore("file://objects", tmp_path / "objects")
        evil = CodeFile(f"open({str(tmp_path / 'evil')!r}, 'w')\n".encode())
        keep_code(store, evil)
        cluster.serve()
        cluster.node("without")
        cluster.node("a", "--allow", first)
        cluster.crawl(seed_at(port))
        log.await_more(30)
        found = nodes_of(cluster)
        assert not found["without"]["shards"] and first in found["without"]["refusal"]
        assert found["a"]["shards"] == [0, 1, 2]
        listed = extension(cluster, "list")
        assert listed["code"]["shop:products"]["sha256"] == first
        assert listed["nodes"] == {"a": [first], "without": []}

        second = written(cluster, 2)
        refused = extension(cluster, "update", "./shop.py:products", "--wait", "0", code=2)
        assert "have not reported" in refused and "without" in refused
        # every machine has a cluster.toml of its own; here they share one
        cluster.file.write_text(
            f'{cluster.file.read_text()}\n[extensions]\nallow = ["{first}", "{second}"]\n'
        )
        updated = extension(cluster, "update", "./shop.py:products", "--wait", "60")
        assert updated["code"]["shop:products"]["sha256"] == second
        log.await_more(20)
        found = nodes_of(cluster)
        assert not found["without"]["refusal"] and not found["a"]["refusal"]

        # someone replaces what the bucket says: nothing of it runs, and the records of control count
        records = {"records": [{"name": "evil:x", "digest": evil.digest}]}
        (tmp_path / "objects" / CODE_NAME).write_text(json.dumps(records))
        cluster.serve()
        log.await_more(10)
        assert list(cluster.status()["code"]) == ["shop:products"]
        assert not (tmp_path / "evil").exists()
