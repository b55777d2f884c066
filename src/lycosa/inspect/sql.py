"""One question in SQL to a crawl's tables. Questions only: a statement that would change or write anything is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import duckdb

from lycosa.inspect.tables import TABLES, CrawlTables

_ROWS = 1000
_ASKING = frozenset({"SELECT", "EXPLAIN"})  # DESCRIBE, SHOW, SUMMARIZE and VALUES are SELECT to DuckDB
_COLUMNS_ONLY = re.compile(r"\s*(?:DESCRIBE|DESC|SHOW)\b(?!\s*\()", re.IGNORECASE)
_UNKNOWN = ("Catalog Error", "Binder Error")


class SqlError(Exception):
    """A question that cannot be answered; the first line says why, further ones list tables and columns."""


def wanted_tables(statement: str) -> list[str]:
    """The tables that a statement reads: those that it names. Filling one may cost a pass over open segments or over the state."""
    words = {word.lower() for word in re.findall(r"\w+", statement)}
    return [name for name in TABLES if name in words and not _COLUMNS_ONLY.match(statement)]


def ask(tables: CrawlTables, statement: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """The columns and the rows of an answer; rows stream. Raises ``SqlError``, later ones while rows are taken."""
    connection = tables.connection
    try:
        parsed = connection.extract_statements(statement)
        if len(parsed) != 1:
            raise SqlError(f"one statement at a time, this is {len(parsed)}")
        kind = str(parsed[0].type).rpartition(".")[2]
        if kind not in _ASKING:
            raise SqlError(f"{kind} is not a question; only SELECT, WITH, DESCRIBE, SUMMARIZE and EXPLAIN are answered")
        cursor = connection.execute(parsed[0])
        names = [column[0] for column in cursor.description or ()]
    except duckdb.Error as error:
        raise explained(tables, error) from error
    return names, _rows(tables, cursor)


def explained(tables: CrawlTables, error: duckdb.Error) -> SqlError:
    """DuckDB's error in one line; when a name is unknown, with those there are."""
    lines = [line.strip() for line in str(error).split("\n")]
    text = lines[0]
    near = next((line for line in lines[1:] if line.startswith(("Did you mean", "Candidate bindings"))), "")
    if text.startswith(_UNKNOWN):
        listed = [f"table {table}: {', '.join(columns)}" for table, columns in tables.columns().items()]
        return SqlError("\n".join([f"{text} {near}" if near.startswith("Did") else text, *listed]))
    return SqlError(text)


def _rows(tables: CrawlTables, cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    try:
        while rows := cursor.fetchmany(_ROWS):
            yield from rows
    except duckdb.Error as error:
        raise explained(tables, error) from error
