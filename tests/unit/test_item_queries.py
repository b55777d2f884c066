"""Items in SQL and exports: every item once, and those of each URL as they are now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from test_use_policy import DENIED

from item_crawl import PRODUCTS, SECOND, SITE, ItemCrawl
from lycosa.__main__ import main
from lycosa.base.model.item_schema import ItemColumn, ItemSchema
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_tables import CrawlTables
from lycosa.inspect.sql_query import SqlError, ask, wanted_tables
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.object_errors import StoreFailed
from lycosa.state.store import layout
from lycosa.state.store.item_versions import (
    CurrentVersion,
    note_key,
    read_current,
    set_current,
    stored_items,
    table_key,
)
from lycosa.state.store.items_table import ItemsBuilder
from lycosa.state.store.journal import read_rows
from lycosa.state.store.journal_rows import Extractor, JournalRow
from memory_objects import MemoryStore
from sample_crawl import SampleCrawl


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[ItemCrawl]:
    made = ItemCrawl(tmp_path / "crawl")
    yield made
    made.close()


def answer(crawl: SampleCrawl, statement: str) -> list[tuple[Any, ...]]:
    with CrawlTables(read_folder(crawl.folder), wanted_tables(statement)) as tables:
        return list(ask(tables, statement)[1])


def names(crawl: SampleCrawl, table: str = "products") -> list[str]:
    return [row[0] for row in answer(crawl, f"SELECT name FROM {table} ORDER BY name, _fetched")]


def exported(capsys: pytest.CaptureFixture[str], *args: object) -> list[dict[str, Any]]:
    assert main(["export", *map(str, args)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_items_of_closed_and_open_segments_are_there_once_each(crawl: ItemCrawl) -> None:
    crawl.page("a", 1, ["lamp", 9.5], ["desk", None])
    crawl.close_segments()
    crawl.page("b", 2, ["chair", 3])
    crawl.commit([])
    crawl.page("c", 3, ["never", 1])  # not committed
    rows = answer(crawl, "SELECT name, price, _url, _item FROM products ORDER BY name")
    assert rows == [
        ("chair", 3.0, f"{SITE}/b", 0),
        ("desk", None, f"{SITE}/a", 1),
        ("lamp", 9.5, f"{SITE}/a", 0),
    ]
    assert names(crawl, "items.products") == ["chair", "desk", "lamp"]


def test_a_lost_table_is_read_from_the_journal(crawl: ItemCrawl) -> None:
    crawl.page("a", 1, ["lamp", 9.5])
    crawl.close_segments()
    (crawl.folder / table_key("products", 1, crawl.segments[-1])).unlink()
    assert names(crawl) == ["lamp"]


def test_the_view_has_the_newest_items_of_a_url(crawl: ItemCrawl) -> None:
    crawl.page("a", 1, ["old", 1])
    crawl.page("b", 1, ["other", 1])
    crawl.close_segments()
    crawl.page("a", 50, ["new", 2])
    crawl.commit([])
    assert names(crawl) == ["new", "other"]
    assert names(crawl, "items.products") == ["new", "old", "other"]


def test_a_304_has_the_items_of_the_capture_before_and_its_own_time(crawl: ItemCrawl) -> None:
    first = crawl.page("a", 1, ["old", 1])
    crawl.page("a", 50, ["new", 2])
    crawl.close_segments()
    # The place of the body may be that of another capture with the same body.
    crawl.page("a", 60, status=304, original=first, is_304=True)
    crawl.commit([])
    assert names(crawl) == ["new"]
    times = answer(crawl, "SELECT _fetched FROM products UNION SELECT max(fetch_time) FROM pages")
    assert len(times) == 1
    assert names(crawl, "items.products") == ["new", "old"]


def test_a_body_that_came_back_has_the_items_that_it_had(crawl: ItemCrawl) -> None:
    first = crawl.page("a", 1, ["first", 1])
    crawl.page("a", 50, ["second", 2])
    crawl.page("a", 60, original=first)
    crawl.page("a", 70, status=304, original=first, is_304=True)
    crawl.commit([])
    assert names(crawl) == ["first"]


def test_a_body_of_another_url_has_the_items_that_were_made_for_this_url(crawl: ItemCrawl) -> None:
    first = crawl.page("a", 1, ["of a", 1])
    crawl.page("copy", 2, ["of copy", 1], original=first)
    crawl.page("unread", 3, original=first)
    crawl.commit([])
    rows = answer(crawl, "SELECT name, _url FROM products ORDER BY name")
    assert rows == [("of a", f"{SITE}/a"), ("of copy", f"{SITE}/copy")]


def test_fields_may_have_the_names_of_our_columns(crawl: ItemCrawl) -> None:
    columns = "url", "made_at", "seen_at", "fetch_time", "is_own", "source", "made", "own"
    named = ItemSchema("products", 2, tuple(ItemColumn(each, "text") for each in columns))
    crawl.store.use_extractors([Extractor.of(named)])
    first = crawl.page("a", 1, [*columns])
    crawl.page("a", 50, [each.upper() for each in columns])
    crawl.page("a", 60, original=first)
    crawl.close_segments()
    listed = ", ".join(f'"{each}"' for each in columns)
    assert answer(crawl, f"SELECT {listed} FROM products") == [columns]
    assert len(answer(crawl, "FROM items.products")) == 2


def test_a_page_that_is_gone_or_lost_its_items_has_none(crawl: ItemCrawl) -> None:
    for path in ("gone", "emptied", "away", "moved"):
        crawl.page(path, 1, [path, 1])
    crawl.page("gone", 60, status=404)
    crawl.page("emptied", 60)
    crawl.page("away", 60, status=503)  # an error that passes says nothing
    crawl.page("moved", 60, status=301)
    crawl.commit([])
    assert names(crawl) == ["away"]
    assert len(names(crawl, "items.products")) == 4


def test_another_version_in_a_later_segment_is_read_with_its_own_columns(crawl: ItemCrawl) -> None:
    crawl.page("a", 1, ["lamp", 1])
    crawl.store.use_extractors([Extractor.of(SECOND)])
    crawl.page("b", 2, [["desk", "table"], "yes"])
    crawl.close_segments()
    rows = answer(crawl, "SELECT name, price, new, _version FROM products ORDER BY _version")
    # name is text in one version and a list in the other
    assert rows == [("lamp", 1.0, None, 1), ("[desk, table]", None, "yes", 2)]


def test_columns_are_described_without_reading_rows(crawl: ItemCrawl) -> None:
    crawl.page("a", 1, ["lamp", 1])
    crawl.commit([])
    rows = answer(crawl, "DESCRIBE products")
    assert [(row[0], row[1]) for row in rows] == [
        ("_url", "VARCHAR"),
        ("_fetched", "TIMESTAMP"),
        ("_capture", "VARCHAR"),
        ("_version", "INTEGER"),
        ("_item", "INTEGER"),
        ("name", "VARCHAR"),
        ("price", "DOUBLE"),
    ]
    crawl.close_segments()
    assert [row[0] for row in answer(crawl, "DESCRIBE items.products")][-2:] == ["name", "price"]


def test_an_unknown_table_or_column_names_those_that_exist(crawl: ItemCrawl) -> None:
    crawl.page("a", 1, ["lamp", 1])
    crawl.close_segments()
    with pytest.raises(SqlError, match=r"did you mean products.*items\.products"):
        answer(crawl, "FROM product")
    with pytest.raises(SqlError, match="did you mean price"):
        answer(crawl, "SELECT prise FROM products")


def test_both_tables_are_exported_in_all_formats(
    crawl: ItemCrawl, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    crawl.page("a", 1, ["lamp", 1])
    crawl.page("a", 60, ["lamp", 2])
    crawl.close_segments()
    every = exported(capsys, crawl.folder, "items.products")
    assert [(row["name"], row["price"]) for row in every] == [("lamp", 1.0), ("lamp", 2.0)]
    assert list(every[0])[:5] == ["_url", "_fetched", "_capture", "_version", "_item"]
    assert [row["price"] for row in exported(capsys, crawl.folder, "products")] == [2.0]
    (one,) = exported(capsys, crawl.folder, "items.products", "--where", "price = 1")
    assert one["price"] == 1.0
    target = tmp_path / "p.parquet"
    assert main(["export", str(crawl.folder), "items.products", "--output", str(target)]) == 0
    assert pq.read_table(target).num_rows == 2
    assert main(["export", str(crawl.folder), "products", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("name,price")


def test_an_export_of_items_that_do_not_exist_is_refused(
    crawl: ItemCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl.page("a", 1, ["lamp", 1])
    crawl.commit([])
    assert main(["export", str(crawl.folder), "items.prices"]) == 2
    assert "there is no table 'items.prices'; there are items.products" in capsys.readouterr().err


# Versions


def planted(crawl: ItemCrawl, store: FolderStore, version: int, *items: list[Any]) -> None:
    """A version that was extracted again, of the last closed segment."""
    name = crawl.segments[-1]
    schema = msgspec.structs.replace(PRODUCTS, version=version)
    path = crawl.folder.parent / "again.parquet"
    builder = ItemsBuilder(path, schema)
    for row in rows_of(crawl, name):
        builder.add_row(msgspec.structs.replace(row, items={"products": list(items)}))
    builder.close()
    store.create(note_key("products", version), b"{}")
    store.put(table_key("products", version, name), path)


def rows_of(crawl: ItemCrawl, segment: str) -> Sequence[JournalRow]:
    return list(read_rows(crawl.folder / layout.file_name(layout.JOURNAL, segment)))


def test_items_that_are_extracted_again_are_seen_when_they_are_current(crawl: ItemCrawl) -> None:
    store = FolderStore(f"file://{crawl.folder}", crawl.folder)
    crawl.page("a", 1, ["wrong", 1])
    crawl.close_segments()
    crawl.page("b", 2, ["later", 1])
    planted(crawl, store, 2, ["right", 1])
    crawl.commit([])
    assert names(crawl) == ["later", "wrong"]  # it is being made
    assert set_current(store, "products", 2, read_current(store, "products"))
    assert names(crawl) == ["later", "right"]
    assert set_current(store, "products", 0, read_current(store, "products"))
    assert names(crawl) == ["later", "wrong"]


def test_a_later_version_of_the_crawl_counts_more_than_one_extracted_again(
    crawl: ItemCrawl,
) -> None:
    store = FolderStore(f"file://{crawl.folder}", crawl.folder)
    crawl.store.use_extractors([Extractor.of(msgspec.structs.replace(PRODUCTS, version=3))])
    crawl.page("a", 1, ["third", 1])
    crawl.close_segments()
    planted(crawl, store, 2, ["second", 1])
    assert set_current(store, "products", 2, CurrentVersion())
    assert names(crawl) == ["third"]


def test_a_version_that_the_crawl_makes_itself_is_seen_before_the_same_one_is_complete(
    crawl: ItemCrawl,
) -> None:
    store = FolderStore(f"file://{crawl.folder}", crawl.folder)
    crawl.page("a", 1, ["first", 1])
    crawl.close_segments()
    planted(crawl, store, 2, ["again", 1])
    crawl.store.use_extractors([Extractor.of(msgspec.structs.replace(PRODUCTS, version=2))])
    crawl.page("b", 2, ["second", 1])
    crawl.close_segments()
    assert names(crawl) == ["first", "second"]


def test_a_crawl_without_extractors_shows_items_that_were_extracted_from_it(
    tmp_path: Path,
) -> None:
    crawl = ItemCrawl(tmp_path / "crawl")
    store = FolderStore(f"file://{crawl.folder}", crawl.folder)
    crawl.store.use_extractors([])
    crawl.page("a", 1)
    crawl.close_segments()
    planted(crawl, store, 1, ["found", 1])
    assert names(crawl) == []
    assert set_current(store, "products", 1, CurrentVersion())
    assert names(crawl) == ["found"]
    crawl.close()


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_current_version_changes_by_compare_and_set(tmp_path: Path, in_memory: bool) -> None:
    store = MemoryStore() if in_memory else FolderStore(f"file://{tmp_path}", tmp_path)
    none = read_current(store, "products")
    assert none == CurrentVersion(0, 0)
    assert set_current(store, "products", 2, none)
    assert set_current(store, "products", 2, none)  # the same change again: its answer was lost
    assert not set_current(store, "products", 3, none)
    now = read_current(store, "products")
    assert now == CurrentVersion(2, 1)
    assert set_current(store, "products", 3, now)
    assert read_current(store, "products") == CurrentVersion(3, 2)
    assert stored_items(store).changes == {"products": 2}


def test_a_damaged_change_is_reported() -> None:
    store = MemoryStore({"items/products/current/000001.json": b"{"})
    with pytest.raises(StoreFailed, match="cannot be read"):
        read_current(store, "products")
    store.objects["items/products/current/000001.json"] = b'{"version":1,"format":9}'
    with pytest.raises(StoreFailed, match="format 9"):
        read_current(store, "products")


def test_another_purpose_leaves_out_items_of_all_versions(
    crawl: ItemCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl.page("refused", 1, ["refused", 1], preferences=DENIED)
    crawl.page("allowed", 2, ["allowed", 1])
    crawl.close_segments()
    for table in ("products", "items.products"):
        assert len(exported(capsys, crawl.folder, table)) == 2
        (row,) = exported(capsys, crawl.folder, table, "--purpose", "ai-train")
        assert row["name"] == "allowed"
    store = FolderStore(f"file://{crawl.folder}", crawl.folder)
    planted(crawl, store, 2, ["again", 1])
    assert set_current(store, "products", 2, CurrentVersion())
    assert len(exported(capsys, crawl.folder, "products")) == 2
    (row,) = exported(capsys, crawl.folder, "products", "--purpose", "ai-train")
    assert row["_url"] == f"{SITE}/allowed"


def test_a_page_whose_use_is_refused_later_has_no_items_any_more(
    crawl: ItemCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    first = crawl.page("a", 1, ["lamp", 1])
    crawl.page("a", 60, status=304, original=first, is_304=True, preferences=DENIED)
    crawl.close_segments()
    assert exported(capsys, crawl.folder, "products", "--purpose", "ai-train") == []
    assert len(exported(capsys, crawl.folder, "products")) == 1
