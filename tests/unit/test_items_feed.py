"""The feed of items: each once, from any position, also in the middle of a page's items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_use_policy import DENIED

from item_crawl import SECOND, SITE, ItemCrawl
from lycosa.__main__ import main
from lycosa.base.model.item_schema import BadSchema, ItemColumn, ItemSchema
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.feeds.feed_position import BadPosition
from lycosa.feeds.folder_lines import FolderLines
from lycosa.feeds.items_feed import ItemFeed
from lycosa.state.store.journal_rows import Extractor


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[ItemCrawl]:
    made = ItemCrawl(tmp_path / "crawl")
    yield made
    made.close()


def feed(crawl: ItemCrawl, after: str = "", name: str = "products") -> ItemFeed:
    return ItemFeed(FolderLines(crawl.folder), name, after)


def names(rows: Iterator[bytes]) -> list[Any]:
    return [json.loads(row)["name"] for row in rows]


def filled(crawl: ItemCrawl) -> list[str]:
    """Pages with several items, one and none, in a closed segment and an open one."""
    crawl.page("a", 1, ["a0", 1], ["a1", 1], ["a2", 1])
    crawl.page("b", 2)
    crawl.page("c", 3, ["c0", 1])
    crawl.close_segments()
    crawl.page("d", 4, ["d0", 1], ["d1", 1])
    crawl.commit([])
    crawl.page("e", 5, ["e0", 1])
    crawl.commit([])
    return ["a0", "a1", "a2", "c0", "d0", "d1", "e0"]


def test_every_item_is_given_once_with_its_page(crawl: ItemCrawl) -> None:
    wanted = filled(crawl)
    given = feed(crawl)
    rows = [json.loads(row) for row in given.new_rows()]
    assert [row["name"] for row in rows] == wanted and not given.is_behind
    assert list(given.new_rows()) == []
    assert rows[1] == {
        "_url": f"{SITE}/a",
        "_fetched": "2026-09-21T14:13:21.250000Z",
        "_capture": rows[0]["_capture"],
        "_version": 1,
        "_item": 1,
        "name": "a1",
        "price": 1,
    }
    assert len({(row["_capture"], row["_item"]) for row in rows}) == len(rows)


def test_after_any_position_come_exactly_the_items_behind_it(crawl: ItemCrawl) -> None:
    wanted = filled(crawl)
    given = feed(crawl)
    positions = [given.position, *(given.position for _ in given.new_rows())]
    assert len(set(positions)) == len(wanted) + 1
    for number, position in enumerate(positions):
        later = feed(crawl, position)
        assert later.position == position
        assert names(later.new_rows()) == wanted[number:]


def test_a_reader_that_stops_between_the_items_of_a_page_continues_there(crawl: ItemCrawl) -> None:
    wanted = filled(crawl)
    given, found = feed(crawl), []
    for _ in range(20):
        for row in given.new_rows():
            found.append(row)
            break
    assert names(iter(found)) == wanted


def test_a_position_in_a_page_holds_when_its_segment_is_closed(crawl: ItemCrawl) -> None:
    crawl.page("a", 1, ["a0", 1], ["a1", 1])
    crawl.commit([])
    given = feed(crawl)
    next(given.new_rows())
    position = given.position
    crawl.close_segments()
    assert names(feed(crawl, position).new_rows()) == ["a1"]
    assert names(given.new_rows()) == ["a1"]


def test_items_that_are_not_committed_are_not_given(crawl: ItemCrawl) -> None:
    crawl.page("a", 1, ["a0", 1])
    crawl.write_files()
    given = feed(crawl)
    assert list(given.new_rows()) == []
    crawl.commit([])
    assert names(given.new_rows()) == ["a0"]


def test_items_of_several_extractors_and_versions_are_apart(crawl: ItemCrawl) -> None:
    crawl.page("a", 1, ["a0", 1])
    other = ItemSchema("reviews", 1, (ItemColumn("at", "time"), ItemColumn("data", "json")))
    crawl.store.use_extractors([Extractor.of(SECOND), Extractor.of(other)])
    crawl.page("b", 2, [["x", "y"], "yes"])
    made = msgspec.structs.replace(
        crawl.last, items={"reviews": [[1_000_000, {"a": [1]}]], "products": []}
    )
    crawl.store.append_capture(made)
    crawl.close_segments()
    assert names(feed(crawl).new_rows()) == ["a0", ["x", "y"]]
    (row,) = map(json.loads, feed(crawl, name="reviews").new_rows())
    assert (row["at"], row["data"]) == ("1970-01-01T00:00:01Z", {"a": [1]})
    assert feed(crawl).schema() == SECOND
    assert feed(crawl).names() == ["products", "reviews"]


def test_a_purpose_leaves_out_items_of_refused_pages(crawl: ItemCrawl) -> None:
    crawl.store.policy = UsePolicy(("ai-train",))
    crawl.page("a", 1, ["refused", 1], preferences=DENIED)
    crawl.page("b", 2, ["allowed", 1])
    crawl.close_segments()
    assert names(feed(crawl).new_rows()) == ["allowed"]


def test_a_position_of_another_feed_or_form_and_a_bad_name_are_refused(crawl: ItemCrawl) -> None:
    filled(crawl)
    position = feed(crawl).position
    for wrong in ("nonsense", position.replace("products", "reviews"), "pages/00000000/0.1.1"):
        with pytest.raises(BadPosition):
            feed(crawl, wrong)
    with pytest.raises(BadSchema):
        feed(crawl, name="../x")


def test_the_command_appends_each_item_once(
    crawl: ItemCrawl, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    wanted = filled(crawl)
    target, folder = tmp_path / "items.jsonl", str(crawl.folder)
    assert main(["feed", "items.products", folder, "-o", str(target)]) == 0
    crawl.page("f", 6, ["f0", 1])
    crawl.commit([])
    assert main(["feed", "items.products", folder, "-o", str(target)]) == 0
    assert names(iter(target.read_bytes().splitlines())) == [*wanted, "f0"]
    assert main(["feed", "items.products", folder, "--positions"]) == 0
    rows = capfdbinary.readouterr().out.splitlines()
    after = json.loads(rows[1])["position"]
    assert main(["feed", "items.products", folder, "--after", after]) == 0
    assert names(iter(capfdbinary.readouterr().out.splitlines())) == [*wanted, "f0"][2:]


def test_the_command_names_the_extractors_that_there_are(
    crawl: ItemCrawl, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    crawl.page("a", 1, ["a0", 1])
    crawl.commit([])
    assert main(["feed", "items.prices", str(crawl.folder)]) == 2
    said = capfdbinary.readouterr().err
    assert (
        b"no run of the crawl made items of an extractor prices; there are items.products" in said
    )
    assert main(["feed", "items.Prices", str(crawl.folder)]) == 2
    assert b"lower-case letters" in capfdbinary.readouterr().err
