"""A crawl whose topics are lost continues from its object storage, and comes to the same pages.

Everything is real: processes, a broker whose topics are deleted, a folder of objects, a web on a
socket whose own log says what was requested.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from clusters import (
    LATE_S,
    LYCOSA,
    SETTINGS,
    RealCluster,
    WatchedLog,
    crawled_by_one_machine,
    pages_of,
    politeness,
    real_cluster,
    seed_at,
)
from judging import is_polite
from kafka_broker import PATIENCE_S, Broker, started
from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.upkeep import make_topics
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.state.kv.table_records import decode_url
from lycosa.state.objects.store_opening import open_store
from lycosa.state.seen.content_seen import decode_stored_original
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from s3_server import BUCKET, CREDENTIALS, S3Server, needs_s3
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
PLAN = WebPlan(hosts=16, pages=70, seed=5, latency_s=0.0, page_bytes=2000)
SMALL = WebPlan(hosts=12, pages=10, seed=5, latency_s=0.0, page_bytes=2000)
SHARDS = 3
QUICK = {**SETTINGS, "store.commit_s": "0.5"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with started() as broker:
        yield broker


class Lost(NamedTuple):
    """A cluster whose topics are lost in the middle of a crawl, and the web that it crawled."""

    cluster: RealCluster
    port: int
    log: WatchedLog
    objects: Path

    def restore(self, broker: Broker) -> None:
        """The state after the loss, after a test that changed it."""
        shutil.rmtree(self.cluster.folder / "objects")
        shutil.copytree(self.objects, self.cluster.folder / "objects")
        lose_topics(broker, self.cluster)


@pytest.fixture(scope="module")
def lost(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lost]:
    folder, log = tmp_path_factory.mktemp("lost"), WatchedLog()
    with (
        served_with_log(SyntheticWeb(PLAN), log=log) as (port, _),
        real_cluster(folder, kafka, QUICK, SHARDS) as cluster,
    ):
        crawl_until_lost(cluster, seed_at(port), log, kafka)
        shutil.copytree(folder / "objects", folder / "before")
        yield Lost(cluster, port, log, folder / "before")


@pytest.fixture
def cluster(lost: Lost, kafka: Broker) -> Iterator[RealCluster]:
    """The cluster right after the loss."""
    lost.restore(kafka)
    yield lost.cluster


def called(cluster: RealCluster, *arguments: str) -> tuple[int, str, str]:
    """Exit code, answer and notes of a command."""
    done = subprocess.run(
        [*LYCOSA, *arguments], cwd=cluster.folder, capture_output=True, text=True, timeout=240
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def rescued(cluster: RealCluster, *options: str) -> dict[str, Any]:
    code, answer, notes = called(
        cluster, "cluster", "rescue", "cluster.toml", "--work", "rescue", "--json", *options
    )
    assert code == 0, notes
    report: dict[str, Any] = json.loads(answer)
    return report


def audited(cluster: RealCluster) -> dict[str, Any]:
    options = ("--cluster", "cluster.toml", "--cache", "cache", "--all", "--json")
    code, answer, notes = called(cluster, "audit", *options)
    report: dict[str, Any] = json.loads(answer)
    assert (code, report["clean"]) == (0, True), (report["checks"], notes)
    return report


def bodies_elsewhere(cluster: RealCluster) -> int:
    """Every known content, and the body of every URL, is read at its place. Returns how many URLs
    have the body of another record.
    """
    opened = OpenedCluster(read_cluster_file(cluster.folder / "cluster.toml"), cluster.folder / "c")
    elsewhere = 0
    try:
        view = opened.view
        for shard in range(SHARDS):
            table = view.open_table(shard)
            for _, value in table.scan(b"C", b"D"):
                content = decode_stored_original(value)
                record = view.read_record(content.segment, content.offset)
                assert record.fields["WARC-Record-ID"] == f"<{content.record_id}>", content
            for _, value in table.scan(b"U", b"V"):
                history = decode_url(value).history
                if history is not None and history.digest:
                    record = view.read_record(*history.body_place)
                    assert record.fields["WARC-Record-ID"] == f"<{history.record_id}>", history
                    assert record.fields["WARC-Type"] == "response"
                    elsewhere += history.body_offset > 0
    finally:
        opened.close()
    return elsewhere


def topics_of(broker: Broker, cluster: RealCluster) -> list[str]:
    found = broker.client.admin().list_topics(timeout=PATIENCE_S).topics
    return [name for name in found if name.startswith(f"{cluster.name}.")]


def lose_topics(broker: Broker, cluster: RealCluster) -> None:
    admin = broker.client.admin()
    names = topics_of(broker, cluster)
    for future in admin.delete_topics(names).values() if names else ():
        future.result(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while topics_of(broker, cluster):
        assert time.monotonic() < deadline


def crawl_until_lost(cluster: RealCluster, seed: str, log: WatchedLog, kafka: Broker) -> None:
    """Crawl a part, stop in order (which saves snapshots), crawl on, kill all, lose the topics."""
    serving = cluster.serve()
    nodes = [cluster.node(name) for name in "ab"]
    crawling = cluster.crawl(seed)
    log.await_that(lambda: len(pages_of(log)) >= 250)
    for node in nodes:
        node.process.send_signal(signal.SIGTERM)
        assert node.wait() == 0
    nodes = [cluster.node(name) for name in "ab"]
    log.await_that(lambda: len(pages_of(log)) >= 700)
    for program in (*nodes, crawling, serving):
        program.end()
    lose_topics(kafka, cluster)


def figures(report: dict[str, Any]) -> list[list[Any]]:
    names = ("shard", "snapshot", "captures", "links", "robots", "parcels")
    return [[shard[name] for name in names] for shard in report["shards"]]


def test_a_rescue_that_is_killed_is_repeated_and_ends_the_same(cluster: RealCluster) -> None:
    planned = rescued(cluster, "--dry-run")
    assert planned["dry_run"] and not planned["topics"]
    assert not (cluster.folder / "objects" / "rescue.json").exists()
    captures = "shard {}: captures read, [0-9]+".format
    for step in (
        "shard 1: reading its newest",
        captures(0),
        captures(2),
        "beginning logs",
        "beginning logs",
    ):
        killed = cluster.run("cluster", "rescue", "cluster.toml", "--work", "rescue", "--progress")
        killed.await_line(step)
        killed.end()
    report = rescued(cluster)
    assert report["continued"] and figures(report) == figures(planned)
    code, _, notes = called(cluster, "cluster", "rescue", "cluster.toml")
    assert code == 2 and "the topics still have a log of this crawl" in notes
    assert len(list((cluster.folder / "objects" / "rescues").iterdir())) == 1
    audited(cluster)


def test_a_shard_without_snapshots_is_made_from_its_captures(
    cluster: RealCluster, kafka: Broker
) -> None:
    shutil.rmtree(cluster.folder / "objects" / "snapshots" / "00002")
    code, _, notes = called(cluster, "cluster", "init", "cluster.toml")
    assert code == 2 and "has commits, but topic" in notes and "cluster rescue" in notes
    # topics that were made again, and of which nothing was used, are not in the way
    make_topics(kafka.client, Topics(cluster.name, SHARDS, 1, 1))
    report = rescued(cluster)
    assert [shard["snapshot"] is None for shard in report["shards"]] == [False, False, True]
    assert report["shards"][2]["links_since"] == "the beginning"
    audited(cluster)


def test_nodes_that_start_on_topics_made_again_take_nothing_from_the_rescue(
    cluster: RealCluster, kafka: Broker
) -> None:
    planned = rescued(cluster, "--dry-run")
    make_topics(kafka.client, Topics(cluster.name, SHARDS, 1, 1))
    for command in ("check", "init"):
        code, found, notes = called(cluster, "cluster", command, "cluster.toml")
        assert code == 2 and "cluster rescue cluster.toml" in found + notes
    programs = [cluster.serve(), cluster.node("a"), cluster.node("b")]
    deadline = time.monotonic() + PATIENCE_S
    while any(shard["state"] != "failed" for shard in cluster.status()["shards"]):
        assert time.monotonic() < deadline, cluster.status()["shards"]
    assert all("cluster rescue" in shard["why"] for shard in cluster.status()["shards"])
    for program in programs:
        program.end()
    code, _, notes = called(cluster, "cluster", "rescue", "cluster.toml")
    assert code == 2 and "a node has claimed it" in notes and "kafka-topics.sh" in notes
    lose_topics(kafka, cluster)
    report = rescued(cluster)
    assert figures(report) == figures(planned)
    audited(cluster)


def test_the_snapshot_before_is_used_if_a_file_of_the_newest_is_lost(cluster: RealCluster) -> None:
    objects = cluster.folder / "objects"
    *older, newest = sorted((objects / "snapshots" / "00000").iterdir())
    kept = {file["sha256"] for path in older for file in json.loads(path.read_text())["files"]}
    files = [file for file in json.loads(newest.read_text())["files"] if file["bytes"]]
    lost = next(file for file in files if file["sha256"] not in kept)
    (objects / "files" / "00000" / lost["sha256"]).unlink()
    shard = rescued(cluster)["shards"][0]
    assert [shard["snapshot"] or [0, 0]] < [shard["newest_snapshot"]]
    assert (shard["snapshot"] is None) == (not older)
    audited(cluster)


def test_captures_in_lost_parts_are_all_that_is_requested_again(cluster: RealCluster) -> None:
    segments: dict[Path, list[Path]] = {}
    objects = cluster.folder / "objects"
    for path in sorted((objects / "parts").glob("*/*/*")):
        if not (objects / "journal" / f"{path.parent.name}.jsonl.zst").exists():
            segments.setdefault(path.parent, []).append(path)
    longest = max(segments.values(), key=len)
    shard, missing = int(longest[0].parent.parent.name), longest[len(longest) // 2]
    assert len(longest) > 2
    before = rescued(cluster, "--dry-run")["shards"][shard]
    missing.unlink()
    found = rescued(cluster)["shards"][shard]
    assert found["lost_parts"] == 1 and before["lost_parts"] == 0
    assert 0 < before["captures"] - found["captures"] < before["captures"]
    audited(cluster)
    assert bodies_elsewhere(cluster) > 0


@needs_s3
def test_a_copy_of_the_bucket_is_rescued(
    lost: Lost, cluster: RealCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = rescued(cluster, "--dry-run")
    with S3Server(tmp_path) as s3:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": s3.endpoint}.items():
            monkeypatch.setenv(name, value)
        store = open_store(f"s3://{BUCKET}/copy")
        for path in lost.objects.rglob("*"):
            if path.is_file():
                store.put(path.relative_to(lost.objects).as_posix(), path)
        file, text = cluster.file, cluster.file.read_text()
        try:
            url = f"file://{cluster.folder}/objects"
            file.write_text(text.replace(url, f"s3://{BUCKET}/copy"))
            assert figures(rescued(cluster)) == figures(planned)
            audited(cluster)
        finally:
            file.write_text(text)


def test_a_crawl_without_its_topics_continues_where_its_captures_end(
    lost: Lost, cluster: RealCluster, tmp_path: Path
) -> None:
    port, log = lost.port, lost.log
    before = pages_of(log)
    report = rescued(cluster)
    serving = cluster.serve()
    code, _, notes = called(cluster, "cluster", "rescue", "cluster.toml")
    assert code == 2 and "a coordinator of this crawl runs" in notes
    nodes = [cluster.node(name) for name in "ab"]
    assert cluster.crawl(seed_at(port)).wait() == 0
    expected = crawled_by_one_machine(PLAN, tmp_path / "one")
    assert pages_of(log) == expected.pages
    audited(cluster)
    is_polite(log, politeness(SETTINGS), LATE_S)
    repeats = Counter(each.host + each.path for each in log.exchanges)
    twice = [url for url, number in repeats.items() if number > 1]
    found = sum(shard["captures"] for shard in report["shards"])
    print(
        f"{len(before)} of {len(expected.pages)} pages before, {found} found behind the snapshots,"
        f" {len(twice)} URLs requested again"
    )
    print(json.dumps(report["shards"], indent=1))
    assert found > 250 and len(twice) < 80
    for program in (*nodes, serving):
        program.end()


def test_shards_of_an_import_are_rescued_from_captures_of_earlier_workers(
    tmp_path: Path, kafka: Broker
) -> None:
    log = WatchedLog()
    with (
        served_with_log(SyntheticWeb(SMALL), log=log) as (port, _),
        real_cluster(tmp_path, kafka, QUICK, 2, is_made=False) as cluster,
    ):
        pairs = [part for each in QUICK.items() for part in ("--set", "=".join(each))]
        crawl = ("crawl", seed_at(port), "--dir", "one", "--set", "workers=3", *pairs)
        assert cluster.run(*crawl, "--max-pages", "60").wait() == 3
        assert cluster.run("cluster", "import", "cluster.toml", "one").wait() == 0
        assert cluster.run("cluster", "import", "cluster.toml", "--shards", "4").wait() == 0
        file = tmp_path / "cluster.toml"
        file.write_text(file.read_text().replace("shards = 2", "shards = 4"))
        lose_topics(kafka, cluster)
        generation = max((tmp_path / "objects" / "generations").iterdir())
        assert all(shard["captures"] == 0 for shard in rescued(cluster, "--dry-run")["shards"])
        shutil.rmtree(generation / "snapshots")
        report = rescued(cluster)
        assert sum(shard["captures"] for shard in report["shards"]) == 60
        audited(cluster)
        requests = len(log)
        cluster.serve()
        cluster.node("a")
        assert (
            cluster.run("cluster", "init", "cluster.toml", "--set", "limits.max_pages=0").wait()
            == 0
        )
        assert cluster.crawl(seed_at(port)).wait() == 0
        assert len(log) > requests
        expected = crawled_by_one_machine(SMALL, tmp_path / "whole")
        assert pages_of(log) == expected.pages
        audited(cluster)
