"""Exports of items to every target, killed at random moments, two exporters at once.

After each round the target has every item of the crawl once, with its values. Files and folders
have one writer at a time: there the second exporter is refused, and begins when the first is dead.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import opensearch_server
import postgres_server
from item_crawl import ItemCrawl
from lycosa.feeds.export_port import Batch, Exporter, ExportTable, TargetError
from lycosa.feeds.export_run import ExportRun
from lycosa.feeds.exporters.target_texts import exporter_for
from lycosa.feeds.folder_lines import FolderLines
from lycosa.feeds.items_export import ItemsExport, KnownVersions

_BUSY, _FAILED = 3, 4
Rows = Callable[[], list[tuple[str, str]]]  # name and price of each item


class Target(NamedTuple):
    """A target's text, and how its rows are read; ``longest_s`` is that of a process's life.

    ``settings`` are environment variables of the process.
    """

    text: str
    rows: Rows
    longest_s: float = 0.25
    settings: Mapping[str, str] = {}


def prove(work: Path, short: bool, seeds: int = 0) -> list[str]:
    """``seeds`` is the number of kills of each target."""
    kills = seeds or (3 if short else 100)
    crawl, wanted = _crawl(work / "crawl", 60 if short else 400)
    chance, lines = random.Random(20261123), []
    for name, made in _targets(work, short):
        with made as new_target:
            lines.append(_prove_target(name, new_target, crawl, wanted, kills, chance))
    return lines


def _crawl(folder: Path, pages: int) -> tuple[Path, Counter[tuple[str, str]]]:
    """A crawl with up to three items a page, in closed segments and an open one."""
    made, chance, wanted = ItemCrawl(folder), random.Random(7), Counter[tuple[str, str]]()
    for page in range(pages):
        items = [[f"p{page} ü{n}", float(n)] for n in range(chance.randrange(4))]
        made.page(f"page/{page}", page, *items)
        wanted.update((str(name), str(price)) for name, price in items)
        if page % 50 == 20:
            made.close_segments()
    made.commit([])
    made.close()
    return folder, wanted


def _prove_target(
    name: str,
    new_target: Callable[[int], Target],
    crawl: Path,
    wanted: Counter[tuple[str, str]],
    kills: int,
    chance: random.Random,
) -> str:
    done = rounds = refused = 0
    while done < kills or not rounds:
        target = new_target(rounds)
        killed, busy = _round(target, crawl, chance, kills - done)
        found = Counter(target.rows())
        twice = sum((found - wanted).values())
        lost = sum((wanted - found).values())
        assert not twice and not lost, f"{name}: {twice} rows twice or wrong, {lost} lost"
        done, rounds, refused = done + killed, rounds + 1, refused + busy
    assert done >= kills or rounds
    return (
        f"{name}: {done} kills in {rounds} exports of {wanted.total()} items, two exporters at"
        f" once; every item once ({refused} times a second writer was refused)"
    )


def _round(target: Target, crawl: Path, chance: random.Random, kills: int) -> tuple[int, int]:
    """One export: two processes at a time until one of them ends by itself; kills and refusals."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    done = busy = 0
    while True:
        running = [
            context.Process(target=_export, args=(target.text, str(crawl), target.settings))
            for _ in range(2)
        ]
        for each in running:
            each.start()
        may_kill = done < kills
        victims = chance.sample(running, chance.randrange(1, 3)) if may_kill else []
        ended = wait([each.sentinel for each in running], chance.random() * target.longest_s)
        if victims and not ended:
            for each in victims:
                done += _kill(each)
        for each in running:
            each.join()
        codes = [each.exitcode for each in running]
        assert not {code for code in codes if code not in (0, _BUSY, -9)}, codes
        busy += codes.count(_BUSY)
        if 0 in codes:
            return done, busy


def _kill(process: BaseProcess) -> bool:
    if process.exitcode is not None:
        return False
    process.kill()  # type: ignore[attr-defined]
    process.join()
    return process.exitcode == -9


def _export(text: str, crawl: str, settings: Mapping[str, str]) -> None:
    """The life of one exporter: everything that there is, in small batches."""
    os.environ.update(settings)
    known = KnownVersions("products")

    def open_feed(after: str) -> ItemsExport:
        feed = ItemsExport(FolderLines(Path(crawl)), known, after)
        feed.learn_versions()
        return feed

    def exporter_of(table: ExportTable) -> Exporter:
        exporter: Any = exporter_for(text, table, "c")
        exporter.batch = Batch(rows=7)
        return exporter  # type: ignore[no-any-return]

    waits = _short_wait
    try:
        report = ExportRun(open_feed, exporter_of, lambda report: None, waits).follow(True)
    except TargetError as error:
        if "another process" not in str(error):
            print(f"{text}: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(_BUSY if "another process" in str(error) else _FAILED)
    os._exit(_FAILED if report.waits_for else 0)


def _short_wait(seconds: float) -> bool:
    """A short wait: a target that fails is tried again at once here."""
    wait([], min(seconds, 0.02))
    return False


# -- the targets


def _targets(work: Path, short: bool) -> Iterator[tuple[str, Any]]:
    yield "JSON lines", _files(work, "jsonl", _json_rows)
    yield "SQLite", _files(work, "db", _sqlite_rows)
    if not postgres_server.lacking():
        yield "PostgreSQL", _schemas()
    if short:
        return
    yield "CSV", _files(work, "csv", _csv_rows)
    yield "Parquet data set", _datasets(work)
    yield "Iceberg", _tables(work)
    if not opensearch_server.lacking():
        yield "OpenSearch", _indexes()


@contextmanager
def _files(
    work: Path, ending: str, rows: Callable[[Path], list[tuple[str, str]]]
) -> Iterator[Callable[[int], Target]]:
    def make(number: int) -> Target:
        path = work / f"items-{number}.{ending}"
        return Target(str(path), lambda: rows(path), 0.06)

    yield make


def _json_rows(path: Path) -> list[tuple[str, str]]:
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [(row["name"], str(row["price"])) for row in rows]


def _csv_rows(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["name"], row["price"]) for row in csv.DictReader(file)]


def _sqlite_rows(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(path)
    try:
        found = connection.execute("SELECT name, price FROM products").fetchall()
    finally:
        connection.close()
    return [(name, str(price)) for name, price in found]


@contextmanager
def _datasets(work: Path) -> Iterator[Callable[[int], Target]]:
    import pyarrow.parquet as pq

    def make(number: int) -> Target:
        folder = work / f"dataset-{number}"

        def rows() -> list[tuple[str, str]]:
            files = sorted((folder / "data").glob("[!.]*.parquet"))
            found = [row for path in files for row in pq.read_table(path).to_pylist()]
            return [(row["name"], str(row["price"])) for row in found]

        return Target(f"parquet:{folder}?splits=train:8,test:2", rows, 0.4)

    yield make


@contextmanager
def _tables(work: Path) -> Iterator[Callable[[int], Target]]:
    from pyiceberg.catalog import load_catalog

    given = {
        "type": "sql",
        "uri": f"sqlite:///{work}/catalogue.db",
        "warehouse": f"file://{work}/warehouse",
    }
    settings = {f"PYICEBERG_CATALOG__PROOF__{name.upper()}": value for name, value in given.items()}

    def make(number: int) -> Target:
        def rows() -> list[tuple[str, str]]:
            table = load_catalog("proof", **given).load_table(f"shop.t{number}")
            return [(row["name"], str(row["price"])) for row in table.scan().to_arrow().to_pylist()]

        return Target(f"iceberg:proof/shop.t{number}", rows, 3.0, settings)

    yield make


@contextmanager
def _schemas() -> Iterator[Callable[[int], Target]]:
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server.started(syncs=True))

        def make(number: int) -> Target:
            def rows() -> list[tuple[str, str]]:
                found = server.rows("SELECT name, price FROM products", f"s{number}")
                return [(name, str(price)) for name, price in found]

            return Target(f"{server.dsn}?schema=s{number}", rows, 0.6)

        yield make


@contextmanager
def _indexes() -> Iterator[Callable[[int], Target]]:
    with opensearch_server.started() as url:

        def make(number: int) -> Target:
            def rows() -> list[tuple[str, str]]:
                found = opensearch_server.documents(url, f"t{number}")
                return [(row["name"], str(row["price"])) for row in found]

            return Target(f"opensearch:{url}/t{number}", rows, 3.0)

        yield make
