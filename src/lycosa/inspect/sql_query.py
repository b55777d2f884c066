"""One SQL query on a crawl's tables. A statement that would change or write anything is refused."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import pyarrow as pa

from lycosa.inspect.crawl_tables import TABLES, CrawlTables
from lycosa.inspect.sql_gate import NotAQuestion, check_reads_only
from lycosa.state.store.derived_files import ITEMS

_ROWS = 1000
_COLUMNS_ONLY = re.compile(r"\s*(?:DESCRIBE|DESC|SHOW)\b(?!\s*\()", re.IGNORECASE)
_NO_TABLE = re.compile(r"Table with name (.+?) does not exist")
_NO_COLUMN = re.compile(r'(?:Referenced column|does not have a column named) "(.+?)"')


class SqlError(Exception):
    """A query that cannot be answered; the first line says why, further lines list what exists."""


def wanted_tables(statement: str) -> list[str]:
    """The tables that a statement names, then its other words: the crawl may have items of that
    name.

    Filling one may need a pass over open segments or over the state.
    """
    if _COLUMNS_ONLY.match(statement):
        return []
    words = {word.lower() for word in re.findall(r"\w+", statement)}
    return [*(name for name in TABLES if name in words), *sorted(words - set(TABLES))]


def ask(tables: CrawlTables, statement: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """The columns and rows of an answer; rows stream.

    Raises ``SqlError``, also later while rows are read.
    """
    refuse_writes(statement)
    tables.lock()
    try:
        cursor = tables.connection.execute(statement)
        described = cursor.description or ()
    except duckdb.Error as error:
        raise explained(tables, error, statement) from error
    return [column[0] for column in described], fetched(tables, cursor, statement)


def refuse_writes(statement: str) -> None:
    """Raises ``SqlError`` for anything but one statement that only reads."""
    try:
        check_reads_only(statement)
    except NotAQuestion as error:
        # `from None`, because the refusal is the whole cause.
        raise SqlError(str(error)) from None
    except duckdb.Error as error:
        # A syntax error: DuckDB's first line names it, and the others repeat the statement.
        raise SqlError(_first_line(error)) from error


def explained(tables: CrawlTables, error: duckdb.Error, statement: str) -> SqlError:
    """DuckDB's error in one line; for an unknown name, with the nearest one and all that exist."""
    text = _first_line(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        bound = "--disk" if "max_temp_directory_size" in str(error) else "--memory"
        return SqlError(f"the query needs more than {bound}; ask for less, or give more ({text})")
    if found := _NO_TABLE.search(text):
        return no_table(tables, found[1])
    if found := _NO_COLUMN.search(text):
        columns = tables.columns()
        named = [name for name in wanted_tables(statement) if name in columns]
        if named:
            known = [column for name in named for column in columns[name]]
            listed = [f"table {name}: {', '.join(columns[name])}" for name in named]
            return SqlError(
                "\n".join([f"there is no column {found[1]!r}{_near(found[1], known)}", *listed])
            )
    return SqlError(text)


def no_table(tables: CrawlTables, name: str) -> SqlError:
    """The error for a table that there is not, with the nearest one and all that exist."""
    items = [each for each in tables.names() if each.startswith(f"{ITEMS}.")]
    if name.startswith(f"{ITEMS}."):
        there = f"there are {', '.join(items)}" if items else "the crawl has no items"
        return SqlError(f"there is no table {name!r}; {there}")
    return SqlError(
        f"there is no table {name!r}{_near(name, tables.names())}; there are"
        f" {', '.join(tables.names())}".replace("?;", "?")
    )


def _first_line(error: duckdb.Error) -> str:
    return str(error).split("\n", 1)[0].strip()


def _near(name: str, known: Iterable[str]) -> str:
    """The name that was probably meant."""
    names = list(dict.fromkeys(known))
    near = (
        difflib.get_close_matches(name.lower(), names, 1, 0.6)
        or [each for each in names if name.lower() in each.split("_")][:1]
    )
    return f"; did you mean {near[0]}?" if near else ""


def fetched(
    tables: CrawlTables, cursor: duckdb.DuckDBPyConnection, statement: str
) -> Iterator[tuple[Any, ...]]:
    """Rows as an iterator. Raises ``SqlError``."""
    has_zones = any("TIME ZONE" in str(column[1]) for column in cursor.description or ())
    try:
        if has_zones:
            yield from _through_arrow(cursor)
            return
        while rows := cursor.fetchmany(_ROWS):
            yield from rows
    except duckdb.Error as error:
        raise explained(tables, error, statement) from error


def _through_arrow(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    """Rows by way of Arrow.

    To make Python values of times with a zone, DuckDB needs a package that nothing else here needs.
    The zone is UTC, so it is dropped.
    """
    with warnings.catch_warnings():
        # copies rows once more: they are few here
        warnings.simplefilter("ignore", UserWarning)
        # its name before DuckDB 2
        name = "to_arrow_reader" if hasattr(cursor, "to_arrow_reader") else "fetch_record_batch"
        batches: pa.RecordBatchReader = getattr(cursor, name)(_ROWS)
    for batch in batches:
        columns = [
            (
                column.cast(pa.timestamp(column.type.unit))
                if pa.types.is_timestamp(column.type) and column.type.tz
                else column
            )
            for column in batch.columns
        ]
        yield from zip(*(column.to_pylist() for column in columns), strict=True)
