"""Following a feed into a target: failures, other exporters, versions of items, ends."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from test_folder_feed import SMALL, WEB, A

from crawling import crawl_folder
from item_crawl import SECOND, ItemCrawl
from lycosa.base.messages.progress import Progress
from lycosa.base.model.item_schema import ItemColumn, ItemSchema
from lycosa.base.model.progress_parts import WebhookState
from lycosa.cli.progress_rows import webhooks_in_words
from lycosa.feeds.export_port import TargetError
from lycosa.feeds.export_run import ExportReport, ExportRun
from lycosa.feeds.exporters.target_texts import exporter_for
from lycosa.feeds.folder_lines import FolderLines
from lycosa.feeds.items_export import ItemsExport, KnownVersions
from lycosa.feeds.page_feed import PageFeed
from lycosa.state.store.journal_rows import Extractor
from opensearch_server import SearchIndexes, documents, failing_sometimes, loopback

WIDER = ItemSchema("products", 2, (ItemColumn("name", "text"), ItemColumn("colour", "text", True)))


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "crawl"
    crawl_folder(folder, WEB, [f"{A}/"], SMALL)
    return folder


def test_a_target_that_fails_now_and_then_gets_every_row_once(crawl: Path) -> None:
    indexes, reports = SearchIndexes(), list[ExportReport]()
    wanted = [json.loads(row)["record_id"] for row in PageFeed(FolderLines(crawl)).new_rows()]
    with loopback(indexes) as url:
        indexes.fails = failing_sometimes(5, 0.02)
        run = ExportRun(
            lambda after: PageFeed(FolderLines(crawl), after),
            lambda table: exporter_for(f"opensearch:{url}/pages", table, "c"),
            reports.append,
            lambda seconds: False,
        )
        report = run.follow(True)
        indexes.fails = lambda: 0
        found = [row["record_id"] for row in documents(url, "pages")]
    assert sorted(found) == sorted(wanted) and indexes.writes == len(wanted)
    assert any("planned failure" in each.waits_for for each in reports)
    assert not report.waits_for and report.rows == len(wanted)


def test_an_export_that_is_ended_while_its_target_is_away_ends(crawl: Path) -> None:
    run = ExportRun(
        lambda after: PageFeed(FolderLines(crawl), after),
        lambda table: exporter_for("opensearch:http://127.0.0.1:9/pages", table, "c"),
        lambda report: None,
        lambda seconds: True,
    )
    report = run.follow(False)
    assert "does not answer" in report.waits_for and report.rows == 0


def test_the_end_of_a_followed_crawl_leaves_no_row_behind(crawl: Path, tmp_path: Path) -> None:
    run = ExportRun(
        lambda after: PageFeed(FolderLines(crawl), after),
        lambda table: exporter_for(f"parquet:{tmp_path / 'set'}", table, "c"),
        lambda report: None,
        lambda seconds: True,  # the crawl has ended before the first look
    )
    assert run.follow(False).rows == len(list(PageFeed(FolderLines(crawl)).new_rows()))


def items(folder: Path, known: KnownVersions, after: str) -> ItemsExport:
    return ItemsExport(FolderLines(folder), known, after)


def export_items(folder: Path, target: Path) -> ExportReport:
    known = KnownVersions("products")
    items(folder, known, "").learn_versions()
    run = ExportRun(
        lambda after: items(folder, known, after),
        lambda table: exporter_for(f"sqlite:{target}", table, "c"),
        lambda report: None,
        lambda seconds: False,
    )
    return run.follow(True)


def test_a_version_with_more_fields_widens_the_table(tmp_path: Path) -> None:
    made = ItemCrawl(tmp_path / "crawl")
    made.page("a", 1, ["lamp", 1.0])
    made.commit([])
    known = KnownVersions("products")
    items(made.folder, known, "").learn_versions()  # of a crawl that has one version yet
    made.close_segments()
    made.store.use_extractors([Extractor.of(WIDER)])
    made.page("b", 2, ["sofa", "red"])
    made.commit([])
    made.close()
    target = tmp_path / "items.db"
    run = ExportRun(
        lambda after: items(made.folder, known, after),
        lambda table: exporter_for(f"sqlite:{target}", table, "c"),
        lambda report: None,
        lambda seconds: False,
    )
    run.follow(True)
    connection = sqlite3.connect(target)
    found = connection.execute("SELECT name, price, colour, _version FROM products ORDER BY name")
    assert found.fetchall() == [("lamp", 1.0, None, 1), ("sofa", None, "red", 2)]
    connection.close()


def test_versions_whose_fields_differ_in_type_have_no_common_table(tmp_path: Path) -> None:
    made = ItemCrawl(tmp_path / "crawl")
    made.page("a", 1, ["lamp", 1.0])
    made.close_segments()
    made.store.use_extractors([Extractor.of(SECOND)])
    made.page("b", 2, [["sofa"], "x"])
    made.commit([])
    made.close()
    with pytest.raises(TargetError, match="the field name is text in version 1 and list"):
        export_items(made.folder, tmp_path / "items.db")


class ClusterLikeLines(FolderLines):
    """The lines of a folder, whose positions name terms as those of a cluster do."""

    has_terms = True


def test_a_position_of_a_folder_counts_in_the_cluster_that_it_became(tmp_path: Path) -> None:
    made = ItemCrawl(tmp_path / "crawl")
    made.commit([])
    folder = PageFeed(FolderLines(made.folder))
    rows = [(row, folder.position) for row in folder.new_rows()]
    for at, (_, position) in enumerate(rows):
        feed = PageFeed(ClusterLikeLines(made.folder), position)
        later = [(row, feed.position) for row in feed.new_rows()]
        assert [row for row, _ in later] == [row for row, _ in rows[at + 1 :]]
        if later:
            again = PageFeed(ClusterLikeLines(made.folder), later[0][1])
            assert list(again.new_rows()) == [row for row, _ in later[1:]]
    made.close()


def test_the_status_of_webhooks_in_words() -> None:
    failing = WebhookState(
        "b.test", "", 2, failures=3, failing_since=50.0, why="answered 500", next_try=108.0
    )
    progress = Progress(webhooks=[WebhookState("a.test", "", 40).note(100.0), failing.note(100.0)])
    assert webhooks_in_words(progress) == (
        "42 changes told; b.test has failed 3 times in 50s (answered 500), next try in 8s"
    )
    assert webhooks_in_words(Progress()) == ""
