"""The SQL statements that are allowed: those that only read, by DuckDB's own parser.

The type of a statement is not enough. ``WITH x AS (COPY ... TO ...) SELECT ...`` is a SELECT to
DuckDB and writes a file, ``EXPLAIN ANALYZE`` runs what it explains, and some table functions
(``enable_logging``, ``import_database``) change settings or write. So the parsed tree is walked,
and every kind of query and table function that is not on a list of known reading ones is refused.
Additions of a later DuckDB are refused until they are listed.

This is one of two barriers. The other is the engine's lock (``CrawlTables.lock``): no files except
those of the tables, and no change of settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb

ALLOWED = (
    "SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE, and EXPLAIN or EXPLAIN ANALYZE of one"
    " of these"
)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s*(?:\([^()]*\)|ANALYZE\b)?", re.IGNORECASE)
_COMMENT = re.compile(r"\s*(?:--[^\n]*(?:\n|$)|/\*.*?\*/)", re.DOTALL)
_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLE_FUNCTIONS = frozenset(
    {
        "duckdb_columns",
        "duckdb_functions",
        "duckdb_keywords",
        "duckdb_settings",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "generate_series",
        "histogram",
        "histogram_values",
        "json_each",
        "json_tree",
        "pragma_table_info",
        "range",
        "repeat",
        "summary",
        "unnest",
    }
)
_FUNCTIONS_REFUSED = frozenset({"getenv", "nextval", "setval", "write_log"})


class NotAQuestion(Exception):
    """The statement does more than read; the message says what, and what is allowed."""


def check_reads_only(statement: str) -> None:
    """Raises ``NotAQuestion``, and ``duckdb.Error`` for invalid SQL. Nothing is run."""
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as parser:
        parsed = parser.extract_statements(statement)
        if len(parsed) != 1:
            raise NotAQuestion(f"give one SQL statement; there are {len(parsed) or 'none'}")
        kind = _kind(parsed[0])
        if kind == "EXPLAIN":
            # EXPLAIN ANALYZE executes its statement, so this one has to pass all checks as well.
            inner = parser.extract_statements(_explained(statement))
            if len(inner) != 1 or _kind(inner[0]) != "SELECT":
                raise _refused(f"EXPLAIN of {_kind(inner[0]) if inner else 'nothing'}")
            statement = _explained(statement)
        elif kind == "MULTI":
            raise _refused(
                "a PIVOT without a list of values (write SELECT * FROM table PIVOT (... FOR column"
                " IN (...)))"
            )
        elif kind != "SELECT":
            raise _refused(kind)
        row = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchone()
    try:
        tree: dict[str, Any] = json.loads(row[0]) if row else {"error": True}
    except RecursionError:
        # The parsed form is nested as deeply as the statement, and a statement is input from
        # outside.
        raise _refused("a statement nested this deeply") from None
    if tree.get("error") or len(tree.get("statements", ())) != 1:
        raise _refused(
            f"a statement that cannot be checked ({tree.get('error_message', 'no parsed form')})"
        )
    for part in _parts(tree["statements"]):
        _check(part)


def _check(part: dict[str, Any]) -> None:
    """Check one node of the parsed tree."""
    kind, name = str(part.get("type", "")), str(part.get("function_name", "")).lower()
    if (kind.endswith("_NODE") and kind not in _QUERIES) or "info_type" in part:
        raise _refused(
            f"{kind.removesuffix('_NODE').removesuffix('_QUERY') or 'a command'} inside a query"
        )
    if kind == "TABLE_FUNCTION":
        called = str(part.get("function", {}).get("function_name", "")).lower()
        if called not in _TABLE_FUNCTIONS:
            raise NotAQuestion(
                f"the table function {called} is not allowed here; read the tables of the crawl by"
                " their names"
            )
    if name in _FUNCTIONS_REFUSED:
        raise NotAQuestion(f"the function {name} is not allowed here")


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a parsed tree."""
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _explained(statement: str) -> str:
    """The statements that an EXPLAIN explains."""
    while found := _COMMENT.match(statement):
        statement = statement[found.end() :]
    found = _EXPLAIN.match(statement)
    return statement[found.end() :] if found else statement


def _kind(statement: duckdb.Statement) -> str:
    return str(statement.type).rpartition(".")[2]


def _refused(what: str) -> NotAQuestion:
    return NotAQuestion(
        f"{what} does not only read, and a crawl's tables are read-only; allowed are {ALLOWED}"
    )
