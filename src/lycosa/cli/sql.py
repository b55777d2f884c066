"""``lycosa sql``: query a crawl's tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, reading_crawl
from lycosa.cli.output import ExitCode, emit, emit_table, is_terminal

_EPILOG = """
\b
Examples:
  lycosa sql crawls/example.org "SELECT url, title FROM pages WHERE fetch_status = 200 LIMIT 10"
  lycosa sql crawls/example.org "SELECT state, reason, count(*) FROM urls GROUP BY ALL"
  lycosa sql crawls/example.org "SELECT target_url, count(*) n FROM links GROUP BY 1 ORDER BY n"
  lycosa sql crawls/example.org --format csv "FROM hosts" > hosts.csv
  lycosa sql crawls/example.org "DESCRIBE pages"
  lycosa sql crawls/shop.example "SELECT name, price, _url, _fetched FROM products"
  lycosa sql --cluster cluster.toml "SELECT state, count(*) FROM urls GROUP BY state"

\b
Tables:
  pages    one row per capture of a page: Common Crawl's index columns, then ours
  fetches  the same for everything stored: pages, robots.txt files and sitemaps (column kind)
  links    one row per outlink
  texts    the text of each page, as far as the purpose of the crawl may use it
  renders  one row per time that the scripts of a page ran; pages, texts and content have the better
           text, and text_from says which it is
  ccindex  fetches with only Common Crawl's columns: its queries run unchanged
  urls     one row per known URL: state, reason, history (read from the crawl's state when named)
  hosts    one row per known host (likewise)
  NAME     the items of an extractor of that name, as each URL has them now: its columns, and
           _url, _fetched, _capture, _version, _item
  items.NAME  each item that it made of any capture

The dialect is DuckDB's. Only statements that read are allowed (SELECT, WITH, FROM, VALUES,
DESCRIBE, SHOW, SUMMARIZE, and EXPLAIN of these). No other files are read or written, and the crawl
may be running. A query has no time limit; Ctrl-C ends it. What it spills to disk is deleted at its
end; if it was killed, by the next query. Times are UTC. A reader may stop early (| head) without an
error.
"""
_MAX_SHOWN = 1000


def _size(context: click.Context, parameter: click.Parameter, value: str) -> int:
    from lycosa.base.config.units import read_bytes

    try:
        return read_bytes(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(
    "sql", cls=CrawlCommand, epilog=_EPILOG, short_help="Query a crawl's tables with SQL."
)
@crawl_place
@click.argument("statement", metavar="STATEMENT")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    help="Format of the answer [table].",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option(
    "--memory",
    metavar="SIZE",
    default="512MB",
    callback=_size,
    help="Memory bound of a query; beyond it data is spilled to disk [512MB].",
)
@click.option(
    "--disk",
    metavar="SIZE",
    default="10GB",
    callback=_size,
    help="Bound of what a query spills to the folder for temporary files [10GB].",
)
@click.option(
    "--raw",
    "is_raw",
    is_flag=True,
    help="CSV: no apostrophe before text that a spreadsheet would treat as a formula.",
)
@click.option(
    "--without-private",
    is_flag=True,
    help="Leave out captures made with credentials, as an export does.",
)
def command(
    place: CrawlPlace,
    statement: str,
    form: str,
    memory: int,
    disk: int,
    is_raw: bool,
    without_private: bool,
) -> ExitCode:
    """Run STATEMENT, a query in SQL, on the tables of the crawl in DIR."""
    from lycosa.inspect.crawl_tables import CrawlTables
    from lycosa.inspect.sql_query import ask, refuse_writes, wanted_tables

    refuse_writes(statement)
    memory_mb, wanted = max(memory // 1_000_000, 64), wanted_tables(statement)
    with (
        reading_crawl(place) as reader,
        CrawlTables(
            reader, wanted, memory_mb, hides_private=without_private, disk_bytes=max(disk, 1)
        ) as tables,
    ):
        tables.leave_out_private()
        names, rows = ask(tables, statement)
        if form == "json":
            _emit_json(names, rows)
        elif form == "csv":
            _emit_csv(names, rows, is_raw)
        else:
            _emit_table(names, rows)
    return ExitCode.FINISHED


def _emit_json(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print one JSON document, an array with an object per row, written as the rows arrive."""
    from lycosa.inspect.printable import json_text
    from lycosa.inspect.table_export import json_cell

    separator = "["
    for row in rows:
        emit(
            separator
            + json_text(
                {name: json_cell(value) for name, value in zip(names, row, strict=True)},
                is_ascii=True,
            )
        )
        separator = ","
    emit("[]" if separator == "[" else "]")


def _emit_csv(names: Sequence[str], rows: Iterable[tuple[Any, ...]], is_raw: bool) -> None:
    from lycosa.inspect.table_export import CsvStyle, write_text

    write_text("csv", (names, iter(rows)), sys.stdout, CsvStyle(is_raw, is_terminal()))


def _emit_table(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    from lycosa.inspect.table_export import csv_cell

    emit_table(names, [[csv_cell(value) for value in row] for row in islice(rows, _MAX_SHOWN)])
    if next(rows, None) is not None:
        click.echo(
            f"lycosa: only the first {_MAX_SHOWN} rows are shown; --format csv or json gives all",
            err=True,
        )
