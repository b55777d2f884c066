"""Whole crawls with an extractor, read as its user reads them: SQL, export, feed, status, audit."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from dying import runs_that_may_die
from judging import quick_config, stored_rows
from lycosa.__main__ import main
from lycosa.base.config.sections import StoreSection
from lycosa.base.model.end import End
from lycosa.cluster.shards.opened_cluster import ClusterItems
from lycosa.feeds.cluster_lines import ClusterLines
from lycosa.feeds.cluster_source import ClusterSource
from lycosa.feeds.folder_lines import FolderLines
from lycosa.feeds.items_feed import ItemFeed
from lycosa.inspect.audit.crawl_audit import AuditOptions
from lycosa.inspect.audit.folder_audit import audit
from lycosa.state.commit import Commit, Mark
from lycosa.state.objects.cached import CachedObjects
from lycosa.state.shard.view import CrawlOrigin
from object_cluster import ObjectCluster
from scripted import page, scripted_crawl
from virtual_crawl import VirtualCrawl

A, B = "http://a.test/", "http://b.test/"
ANSWERS = {
    A: page(*(f"{A}p/{n}" for n in range(8))),
    **{f"{A}p/{n}": page(text=f"lamp{n} desk{n} chair{n} ") for n in range(8)},
    B: page(*(f"{B}p/{n}" for n in range(8))),
    **{f"{B}p/{n}": page(text=f"sofa{n} rug{n} ") for n in range(8)},
}
CODE = """
import lycosa

class Word(lycosa.Item, frozen=True):
    word: str
    size: int | None

@lycosa.extract(Word, match="/p/")
def words(page):
    for word in page.select_one("body").text.split():
        yield Word(word, None if word.startswith("lamp") else len(word))
"""
WORDS = {
    *(f"{name}{n}" for n in range(8) for name in ("lamp", "desk", "chair", "sofa", "rug")),
}
SMALL = StoreSection(segment_bytes=2_000_000, segment_age_s=20.0, commit_s=2.0)


@pytest.fixture
def code(tmp_path: Path) -> str:
    (tmp_path / "shop.py").write_text(CODE)
    return f"{tmp_path / 'shop.py'}:words"


def crawl_at(folder: Path, code: str) -> VirtualCrawl:
    crawl, _ = scripted_crawl(folder, ANSWERS, quick_config(store=SMALL))
    crawl.code = (code,)
    return crawl


def exported(folder: Path, table: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["export", str(folder), table]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "items/words/1").glob("*.parquet")}


def test_items_are_the_same_in_every_output(
    tmp_path: Path, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = crawl_at(tmp_path / "c", code)
    assert crawl.run([A, B]).end is End.FINISHED
    folder = crawl.folder
    rows = exported(folder, "items.words", capsys)
    assert Counter(row["word"] for row in rows) == dict.fromkeys(WORDS, 1)
    feed = ItemFeed(FolderLines(folder), "words")
    given = [json.loads(row) for row in feed.new_rows()]
    assert sorted(map(str, given)) == sorted(map(str, rows))
    assert sorted(map(str, exported(folder, "words", capsys))) == sorted(map(str, rows))
    assert main(["sql", str(folder), "--json", "SELECT count(*) n FROM words"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 40}]
    assert main(["status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == {"words": 40}
    report = audit(folder, AuditOptions(sample=0))
    assert report.breaches == 0
    (check,) = [each for each in report.checks if each.name == "items"]
    assert check.checked >= 40


@pytest.mark.parametrize("seed", range(2))
def test_a_crawl_that_dies_has_each_item_once_in_tables_and_feed(
    tmp_path: Path, code: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    chance, folder = random.Random(seed), tmp_path / "c"
    crawl = crawl_at(folder, code)
    fed: list[bytes] = []
    position, deaths = "", 0
    for is_dead in runs_that_may_die(crawl, [A, B], chance, tmp_path):
        deaths += is_dead
        feed = ItemFeed(FolderLines(folder), "words", position)
        fed += feed.new_rows()
        position = feed.position
    assert deaths
    assert crawl.run([A, B]).end is End.FINISHED
    fed += ItemFeed(FolderLines(folder), "words", position).new_rows()
    assert Counter(json.loads(row)["word"] for row in fed) == dict.fromkeys(WORDS, 1)
    rows = exported(folder, "items.words", capsys)
    assert Counter(row["word"] for row in rows) == dict.fromkeys(WORDS, 1)
    assert main(["status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == {"words": 40}
    # every table is lost, and built again with the same bytes
    before = tables(folder)
    shutil.rmtree(folder / "items")
    crawl.run([])
    assert tables(folder).items() >= before.items() and before
    assert audit(folder, AuditOptions(sample=0)).breaches == 0


class MemoryFollower:
    """The commits of a cluster in memory, as ``CommitFollower``."""

    def __init__(self, cluster: ObjectCluster, shards: int) -> None:
        self._cluster, self._given = cluster, [Mark(0, 0)] * shards

    def read_new(self) -> Iterator[Commit]:
        for shard, given in enumerate(self._given):
            for commit in self._cluster.commits(shard):
                if commit.mark > given:
                    self._given[shard] = commit.mark
                    yield commit

    def count_waiting(self) -> int:
        return sum(
            commit.mark > given
            for shard, given in enumerate(self._given)
            for commit in self._cluster.commits(shard)
        )

    def close(self) -> None:
        """Nothing is held."""


def lines_of(cluster: ObjectCluster, shards: int, work: Path) -> ClusterLines:
    items = ClusterItems(cluster.objects, CachedObjects(cluster.objects, work), work)
    origin = CrawlOrigin(
        "cluster", cluster.manifest, lambda: cluster.sites, lambda: None, is_cluster=True,
        items=items,
    )  # fmt: skip
    seen = SimpleNamespace(seen=SimpleNamespace(origin=origin))
    opened: Any = SimpleNamespace(view=seen, objects=cluster.objects, cache=work)
    return ClusterLines(ClusterSource(opened, MemoryFollower(cluster, shards)))


def test_a_cluster_feeds_each_item_once_and_seals_tables(tmp_path: Path, code: str) -> None:
    shards = 2
    cluster = ObjectCluster(tmp_path / "c", ANSWERS, shards, store=SMALL)
    cluster.code = (code,)
    kept = ItemFeed(lines_of(cluster, shards, tmp_path / "kept"), "words")
    of_one: list[bytes] = []
    of_many: list[bytes] = []
    position = ""

    def look(cluster: ObjectCluster) -> None:
        nonlocal position
        of_one.extend(kept.new_rows())
        again = ItemFeed(lines_of(cluster, shards, tmp_path / "again"), "words", position)
        for number, row in enumerate(again.new_rows()):
            of_many.append(row)
            position = again.position
            if number == 2:  # it stops in the middle of a page
                break

    for seed in (A, B):
        cluster.run([seed], 5.0, look)
    last = ItemFeed(lines_of(cluster, shards, tmp_path / "last"), "words", position)
    for feed, rows in ((kept, of_one), (last, of_many)):
        assert feed.is_behind
        while feed.is_behind:
            rows.extend(feed.new_rows())
        assert list(feed.new_rows()) == []
    for rows in (of_one, of_many):
        assert Counter(json.loads(row)["word"] for row in rows) == dict.fromkeys(WORDS, 1)
    keys = [each.key for each in cluster.objects.list("items/")]
    assert keys and all(key.startswith("items/words/1/") for key in keys)
    found = Counter(
        word
        for key in keys
        for word in pq.read_table(tmp_path / "c" / "objects" / key)["word"].to_pylist()
    )
    sealed = {each.key for each in cluster.objects.list("journal/")}
    assert len(sealed) == len(keys)
    assert found == dict.fromkeys(WORDS, 1)
    assert kept.schema() is not None


def test_a_worker_whose_code_is_gone_makes_no_more_items(tmp_path: Path, code: str) -> None:
    crawl = crawl_at(tmp_path / "c", code)
    crawl.run([A, B])
    crawl.code = ()
    crawl.run([f"{A}p/0?again"])
    assert sum(bool(row.items) for row in stored_rows(crawl.folder)) == 16
    assert audit(crawl.folder, AuditOptions(sample=0)).breaches == 0
