"""The JSON Schemas of the feeds: current, and true of the rows of a real crawl."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import Pages, crawl_folder, html, moved, page
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.feeds.dead_letter_feed import DeadLetterFeed
from lycosa.feeds.folder_lines import FolderLines
from lycosa.feeds.page_feed import PageFeed
from lycosa.state.store.feed_rows import DeadLetterRow, PageFeedRow, page_row

DOCS = Path(__file__).parents[2] / "docs"
A = "http://a.test"


def schema(feed: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "schemas" / f"{feed}.json").read_text("utf-8"))
    return found


def check(value: Any, rule: dict[str, Any], whole: dict[str, Any]) -> None:
    """Check a value by the keywords that the schemas use; any other keyword fails the test."""
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    kinds |= {"object": dict, "array": list, "null": type(None)}
    known = {"$ref", "$schema", "$defs", "title", "description", "default", "type", "properties"}
    known |= {"required", "enum", "anyOf", "pattern", "minimum", "items", "prefixItems", "minItems"}
    known |= {"maxItems", "additionalProperties", "propertyNames"}
    assert rule.keys() <= known, rule.keys() - known
    if "$ref" in rule:
        check(value, whole["$defs"][rule["$ref"].rpartition("/")[2]], whole)
    if "anyOf" in rule:
        assert any(holds(value, each, whole) for each in rule["anyOf"]), (value, rule)
    if "type" in rule:
        assert isinstance(value, kinds[rule["type"]]), (value, rule)
    if "enum" in rule:
        assert value in rule["enum"], (value, rule)
    if "minimum" in rule:
        assert value >= rule["minimum"]
    for name in rule.get("required", ()):
        assert name in value, name
    for name, each in rule.get("properties", {}).items():
        if name in value:
            check(value[name], each, whole)
    parts = value if isinstance(value, list) else []
    for part, each in zip(parts, rule.get("prefixItems", ()), strict=False):
        check(part, each, whole)


def holds(value: Any, rule: dict[str, Any], whole: dict[str, Any]) -> bool:
    try:
        check(value, rule, whole)
    except AssertionError:
        return False
    return True


def test_the_files_are_what_the_script_writes() -> None:
    for name, text in runpy.run_path(str(DOCS / "schemas.py"))["schema_files"]().items():
        written = (DOCS / "schemas" / name).read_text("utf-8")
        assert written == text, f"run: python docs/schemas.py ({name})"


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("feeds") / "crawl"
    web = {
        f"{A}/": page("/one", "/same", "/old", "/none", "/broken", text="Some text. " * 200),
        f"{A}/one": page("/", text="One. " * 300),
        f"{A}/same": page("/", text="One. " * 300),
        f"{A}/old": moved("/one"),
        f"{A}/broken": html("<p>Out of order", 503),
    }
    crawl_folder(folder, Pages(web), [f"{A}/"])
    return folder


def test_real_rows_follow_the_schemas_and_have_no_other_fields(crawl: Path) -> None:
    for feed, rows, struct in (
        ("pages", PageFeed(FolderLines(crawl)), PageFeedRow),
        ("dlq", DeadLetterFeed(crawl), DeadLetterRow),
    ):
        found = [json.loads(row) for row in rows.new_rows()]
        assert found
        whole = schema(feed)
        names = {each.encode_name for each in msgspec.structs.fields(struct)}
        for row in found:
            check(row, whole, whole)
            assert row.keys() <= names, row.keys() - names


def test_a_row_without_a_required_field_does_not_follow_the_schema(crawl: Path) -> None:
    row = json.loads(next(iter(DeadLetterFeed(crawl).new_rows())))
    del row["reason"]
    with pytest.raises(AssertionError, match="reason"):
        check(row, schema("dlq"), schema("dlq"))


def test_a_shortened_row_follows_the_schema(crawl: Path) -> None:
    row = json.loads(next(iter(PageFeed(FolderLines(crawl)).new_rows())))
    row["title"] = "x" * 1_000_000
    _, short = page_row(json.dumps(row).encode())
    assert len(short) < 1000
    check(json.loads(short), schema("pages"), schema("pages"))
    row["preferences"] = [{"ai-train": True}]
    _, judged = page_row(json.dumps(row).encode(), UsePolicy(("ai-train",)))
    assert json.loads(judged) == {**json.loads(short), "may_use": True}
