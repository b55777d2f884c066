"""Targets of exports: rows and position as one, whichever target it is."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
import pyarrow.parquet as pq
import pytest

import opensearch_server
import postgres_server
from lycosa.feeds.export_port import (
    ExportColumn,
    Exporter,
    ExportRow,
    ExportTable,
    Overtaken,
    TargetError,
)
from lycosa.feeds.exporters.target_texts import exporter_for

COLUMNS = (
    ExportColumn("_url", "text"),
    ExportColumn("_fetched", "time"),
    ExportColumn("_capture", "text"),
    ExportColumn("_item", "integer"),
    ExportColumn("_version", "integer", 1),
    ExportColumn("name", "text", ""),
    ExportColumn("price", "number"),
    ExportColumn("stock", "integer"),
    ExportColumn("is_new", "boolean"),
    ExportColumn("until", "date"),
    ExportColumn("tags", "list[text]"),
    ExportColumn("offer", "json"),
)
ITEMS = ExportTable(
    "items.products",
    COLUMNS,
    key=("_capture", "_item"),
    capture="_capture",
    version="_version",
    url="_url",
)
CRAWL = "0c1d2e3f-1111-2222-3333-444455556666"


def item(capture: int, number: int = 0, **values: Any) -> ExportRow:
    row = {
        "_url": f"http://h{capture % 7}.test/{capture}",
        "_fetched": 1_700_000_000_000_000 + capture,
        "_capture": f"c{capture}",
        "_item": number,
        "name": f"lamp {capture}.{number}",
        **values,
    }
    return ExportRow(ITEMS, msgspec.json.encode(row))


class Target(NamedTuple):
    """A kind of target: its text, and how its rows are read back by key, name and price."""

    text: str
    rows: Callable[[], list[dict[str, Any]]]
    replaces: bool = False

    def open(self, table: ExportTable = ITEMS, crawl: str = CRAWL) -> tuple[Exporter, str]:
        exporter = exporter_for(self.text, table, crawl)
        return exporter, exporter.open()


def json_lines(folder: Path) -> Target:
    path = folder / "items.jsonl"
    return Target(str(path), lambda: [json.loads(line) for line in path.read_bytes().splitlines()])


def csv_file(folder: Path) -> Target:
    path = folder / "items.csv"

    def rows() -> list[dict[str, Any]]:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    return Target(str(path), rows)


def sqlite(folder: Path) -> Target:
    path = folder / "items.db"

    def rows() -> list[dict[str, Any]]:
        with sqlite3.connect(path) as connection:
            connection.row_factory = sqlite3.Row
            found = [dict(row) for row in connection.execute("SELECT * FROM products")]
        connection.close()
        return found

    return Target(f"sqlite:{path}", rows, replaces=True)


def parquet(folder: Path) -> Target:
    place = folder / "dataset"

    def rows() -> list[dict[str, Any]]:
        files = sorted((place / "data").glob("*.parquet"))
        return [row for path in files for row in pq.read_table(path).to_pylist()]

    return Target(f"parquet:{place}?splits=train:3,test:1", rows)


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a catalogue; PyIceberg reads its settings when it is imported."""
    folder = tmp_path_factory.mktemp("iceberg")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("TYPE", "sql"),
            ("URI", f"sqlite:///{folder}/catalogue.db"),
            ("WAREHOUSE", f"file://{folder}/warehouse"),
        ):
            patch.setenv(f"PYICEBERG_CATALOG__TESTS__{name}", value)
        yield "tests"


def iceberg(catalogue: str, table: str) -> Target:
    from pyiceberg.catalog import load_catalog

    def rows() -> list[dict[str, Any]]:
        with load_catalog(catalogue) as source:
            found = source.load_table(f"shop.{table}")
            return list(found.scan().to_arrow().to_pylist())

    return Target(f"iceberg:{catalogue}/shop.{table}", rows)


@pytest.fixture(scope="module")
def database() -> Iterator[postgres_server.PostgresServer]:
    with postgres_server.started() as server:
        yield server


@pytest.fixture(scope="module")
def search() -> Iterator[str]:
    with opensearch_server.started() as url:
        yield url


def postgres(server: postgres_server.PostgresServer, schema: str) -> Target:
    server.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")

    def rows() -> list[dict[str, Any]]:
        row_factory = psycopg.rows.dict_row
        with psycopg.connect(server.dsn, row_factory=row_factory) as connection:
            return connection.execute(f"SELECT * FROM {schema}.products").fetchall()

    return Target(f"{server.dsn}?schema={schema}", rows, replaces=True)


def opensearch(url: str, index: str) -> Target:
    return Target(
        f"opensearch:{url}/{index}",
        lambda: [
            {name.removeprefix("lycosa"): value for name, value in row.items()}
            for row in opensearch_server.documents(url, index)
        ],
        replaces=True,
    )


KINDS = ("jsonl", "csv", "sqlite", "parquet", "iceberg", "postgresql", "opensearch", "loopback")


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    kind = request.param
    unique = abs(hash(request.node.name)) % 10**9
    if kind == "iceberg":
        yield iceberg(request.getfixturevalue("catalogue"), f"t{unique}")
    elif kind == "postgresql":
        yield postgres(request.getfixturevalue("database"), "shop")
    elif kind == "opensearch":
        yield opensearch(request.getfixturevalue("search"), f"items-{unique}")
    elif kind == "loopback":
        with opensearch_server.loopback() as url:
            yield opensearch(url, "items")
    else:
        makers = {"jsonl": json_lines, "csv": csv_file, "sqlite": sqlite, "parquet": parquet}
        yield makers[kind](tmp_path)


def names(target: Target) -> list[str]:
    return sorted(str(row["name"]) for row in target.rows())


def test_rows_are_there_with_the_position_behind_them(target: Target) -> None:
    exporter, position = target.open()
    assert position == ""
    exporter.write([item(1), item(2, 0), item(2, 1)], "", "p1")
    exporter.write([item(3)], "p1", "p2")
    exporter.close()
    again, position = target.open()
    again.close()
    assert position == "p2"
    assert names(target) == ["lamp 1.0", "lamp 2.0", "lamp 2.1", "lamp 3.0"]


def test_a_write_from_another_position_changes_nothing(target: Target) -> None:
    exporter, _ = target.open()
    exporter.write([item(1)], "", "p1")
    for before in ("", "p0"):
        with pytest.raises(Overtaken):
            exporter.write([item(2)], before, "p2")
    exporter.close()
    again, position = target.open()
    again.close()
    assert position == "p1" and names(target) == ["lamp 1.0"]


def test_of_two_exporters_one_writes_each_step(target: Target) -> None:
    first, _ = target.open()
    try:
        second, _ = target.open()
    except TargetError as error:  # files and folders have one writer at a time
        assert "another process" in str(error)
        first.close()
        return
    first.write([item(1)], "", "p1")
    with pytest.raises(Overtaken):
        second.write([item(1)], "", "p1")
    second.close()
    second, position = target.open()
    assert position == "p1"
    second.write([item(2)], "p1", "p2")
    with pytest.raises(Overtaken):
        first.write([item(2)], "p1", "p2")
    first.close()
    second.close()
    assert names(target) == ["lamp 1.0", "lamp 2.0"]


def test_values_arrive_as_what_they_are(target: Target) -> None:
    exporter, _ = target.open()
    full = item(
        1,
        name="=Lämp \0\n\"'; DROP",
        price=12.5,
        stock=2**64 - 1,
        is_new=True,
        until="2026-11-23",
        tags=["a", "ü,"],
        offer={"a": [1, None]},
    )
    exporter.write([full, item(2)], "", "p1")
    exporter.close()
    found, empty = sorted(target.rows(), key=lambda row: str(row["_url"]))
    assert "Lämp" in found["name"] and "DROP" in found["name"]
    assert float(found["price"]) == 12.5
    assert int(found["stock"]) in (-1, 2**64 - 1)
    assert str(found["is_new"]).lower() in ("true", "1")
    assert str(found["until"]) == "2026-11-23"
    tags = found["tags"]
    assert (json.loads(tags) if isinstance(tags, str) else tags) == ["a", "ü,"]
    offer = found["offer"]
    assert (json.loads(offer) if isinstance(offer, str) else offer) == {"a": [1, None]}
    assert not empty.get("price") and not empty.get("offer")


def test_the_rows_of_a_capture_replace_those_of_an_earlier_version(target: Target) -> None:
    exporter, _ = target.open()
    exporter.write([item(1, 0), item(1, 1), item(1, 2), item(2)], "", "p1")
    exporter.write([item(1, 0, _version=2, name="better")], "p1", "p2")
    exporter.close()
    older = ["lamp 1.0", "lamp 1.1", "lamp 1.2"]
    kept = [] if target.replaces else older
    assert names(target) == sorted(["better", *kept, "lamp 2.0"])


def test_a_column_of_a_later_version_is_added_or_refused(target: Target) -> None:
    exporter, _ = target.open()
    exporter.write([item(1)], "", "p1")
    exporter.close()
    wider = msgspec.structs.replace(ITEMS, columns=(*COLUMNS, ExportColumn("colour", "text")))
    row = ExportRow(wider, item(2).line[:-1] + b',"colour":"red"}')
    try:
        exporter, position = target.open(wider)
    except TargetError as error:
        assert "other columns" in str(error) and "new f" in str(error)
        return
    exporter.write([row], position, "p2")
    exporter.close()
    assert sorted(str(row.get("colour")) for row in target.rows()) in (
        ["None", "red"],
        ["red", "None"],
    )


def test_two_crawls_may_share_a_database(target: Target) -> None:
    exporter, _ = target.open()
    exporter.write([item(1)], "", "p1")
    exporter.close()
    try:
        other, position = target.open(crawl="another")
    except TargetError as error:
        assert "another crawl" in str(error)
        return
    if target.text.endswith((".jsonl", ".csv")):
        other.close()  # the position says which crawl: the feed refuses it
        return
    assert position == ""
    other.write([item(2)], "", "q1")
    other.close()
    assert names(target) == ["lamp 1.0", "lamp 2.0"]
