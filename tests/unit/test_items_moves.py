"""Items where segments go: an upload that removes files here, and an import into a cluster."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from item_crawl import PRODUCTS, SECOND, ItemCrawl
from lycosa.base.config.sections import UploadSection
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_tables import CrawlTables
from lycosa.inspect.sql_query import ask
from lycosa.moves.new_generation import ClusterPlaces
from lycosa.moves.stopped_folder import StoppedFolder
from lycosa.state.folder.upload import Upload
from lycosa.state.objects.folder import FolderStore
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
from lycosa.state.store.journal_rows import Extractor


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[ItemCrawl]:
    """Version 1 in a closed segment, and version 2 that was extracted again and is current."""
    made = ItemCrawl(tmp_path / "crawl")
    made.page("a", 1, ["lamp", 1])
    made.close_segments()
    name, path = made.segments[-1], tmp_path / "again.parquet"
    builder = ItemsBuilder(path, msgspec.structs.replace(PRODUCTS, version=2))
    for row in read_rows(made.folder / layout.file_name(layout.JOURNAL, name)):
        builder.add_row(msgspec.structs.replace(row, items={"products": [["again", 2]]}))
    builder.close()
    store = FolderStore(f"file://{made.folder}", made.folder)
    store.create(note_key("products", 2), b"{}\n")
    store.put(table_key("products", 2, name), path)
    assert set_current(store, "products", 2, CurrentVersion())
    yield made
    made.close()


def names(crawl: ItemCrawl) -> list[Any]:
    with CrawlTables(read_folder(crawl.folder), ["products"]) as tables:
        return [row[0] for row in ask(tables, "SELECT name FROM products")[1]]


def files(folder: Path) -> dict[str, bytes]:
    found = (each for each in (folder / "items").rglob("*") if each.is_file())
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in found}


def test_tables_of_all_versions_are_uploaded_and_read_from_there(
    crawl: ItemCrawl, tmp_path: Path
) -> None:
    before = files(crawl.folder)
    (tmp_path / "up").mkdir()
    url = f"file://{tmp_path}/up"
    store = FolderStore(url, tmp_path / "up")
    upload = Upload(crawl.folder, UploadSection(url=url, remove=True), store)
    for file in upload.waiting():
        upload.put(file)
    assert files(tmp_path / "up") == before and len(before) == 4
    for segment in upload.removable():
        upload.remove(segment)
    assert upload.doubtful == {} and upload.waiting() == []
    # what readers here need of the versions stays here
    assert sorted(files(crawl.folder)) == [
        "items/products/2/version.json",
        "items/products/current/000001.json",
    ]
    assert names(crawl) == ["again"]
    assert set_current(
        FolderStore(f"file://{crawl.folder}", crawl.folder),
        "products",
        0,
        CurrentVersion(2, 1),
    )
    assert names(crawl) == ["lamp"]


def test_a_crawl_may_make_a_version_with_the_number_of_one_that_was_extracted_again(
    crawl: ItemCrawl,
) -> None:
    # The program of the crawl cannot know it, and the columns may be others.
    crawl.store.use_extractors([Extractor.of(SECOND)])
    crawl.page("b", 2, [["x", "y"], "new"])
    crawl.close_segments()
    assert sorted(map(str, names(crawl))) == ["[x, y]", "again"]


def test_a_kind_that_is_not_uploaded_stays(crawl: ItemCrawl, tmp_path: Path) -> None:
    (tmp_path / "up").mkdir()
    url = f"file://{tmp_path}/up"
    section = UploadSection(url=url, kinds=("warc",))
    upload = Upload(crawl.folder, section, FolderStore(url, tmp_path / "up"))
    assert {file.name.partition("/")[0] for file in upload.waiting()} == {"warc"}


@pytest.mark.parametrize("is_removed", [False, True])
def test_an_import_carries_all_versions(crawl: ItemCrawl, tmp_path: Path, is_removed: bool) -> None:
    before = files(crawl.folder)
    crawl.page("b", 2, ["desk", 2])
    crawl.commit([])  # an open segment, which the import closes
    crawl.close()
    if is_removed:
        (tmp_path / "up").mkdir()
        url = f"file://{tmp_path}/up"
        upload = Upload(
            crawl.folder, UploadSection(url=url, remove=True), FolderStore(url, tmp_path / "up")
        )
        for file in upload.waiting():
            upload.put(file)
        for segment in upload.removable():
            upload.remove(segment)
    (tmp_path / "objects").mkdir()
    objects = FolderStore(f"file://{tmp_path}/objects", tmp_path / "objects")
    no_cluster: Any = None
    places = ClusterPlaces(
        no_cluster, no_cluster, objects, tmp_path / "work", no_cluster, lambda *step: None, print
    )
    source = StoppedFolder(crawl.folder, places)
    for _ in range(2):  # it may be repeated
        assert source.complete_segments(no_cluster) == len(crawl.segments) + 2
    moved = files(tmp_path / "objects")
    assert moved.items() >= before.items()
    assert read_current(objects, "products") == CurrentVersion(2, 1)
    listed = stored_items(objects)
    assert listed.versions("products") == [1, 2] and len(listed.tables["products"][1]) == 2
    shutil.rmtree(tmp_path / "work", ignore_errors=True)
