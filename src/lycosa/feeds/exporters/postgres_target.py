"""Exports to PostgreSQL: rows and position in one transaction.

The connection and its errors are those of ``lycosa project postgres``. Each transaction first locks
the row of its position, so of two exporters one waits and then finds that it was overtaken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lycosa.feeds.export_port import (
    Batch,
    ExportRow,
    ExportTable,
    Overtaken,
    TargetAway,
    TargetError,
)
from lycosa.feeds.exporters.cell_values import (
    Convert,
    converter,
    day_of,
    moment_of,
    signed,
    stored_values,
    text_of_json,
)
from lycosa.feeds.exporters.sql_statements import (
    POSITION_TABLE,
    column_text,
    create_statement,
    missing_columns,
    quoted,
    replaced_captures,
    upsert_text,
)
from lycosa.feeds.registry.postgres_connection import (
    PostgresConnection,
    connect_database,
    parsed_dsn,
    shown_dsn,
    translated_errors,
)
from lycosa.feeds.registry.registry_port import DatabaseAway, RegistryError

_TYPES = {
    "text": "text",
    "integer": "bigint",
    "number": "double precision",
    "boolean": "boolean",
    "time": "timestamp with time zone",
    "date": "date",
    "json": "jsonb",
}
_ZERO = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def _without_zero(value: str) -> str:
    return value.replace("\0", "\ufffd")  # PostgreSQL stores every other character


def _jsonb_text(value: Any) -> str:
    # an even number of backslashes in front: the escape of the character, not its name
    return _ZERO.sub(r"\1\\ufffd", text_of_json(value))


_CONVERT: dict[str, Convert] = {
    "text": _without_zero,
    "integer": signed,
    "time": moment_of,
    "date": day_of,
    "json": _jsonb_text,
}


class PostgresTarget:
    """A table of a PostgreSQL database as an ``Exporter``. Raises ``TargetError``."""

    batch = Batch()

    def __init__(self, dsn: str, schema: str, table: ExportTable, crawl: str, name: str) -> None:
        try:
            self._parameters = parsed_dsn(dsn)
        except RegistryError as error:
            raise TargetError(str(error)) from error
        self._schema, self._table, self._crawl, self._named = schema, table, crawl, name
        self._rows = quoted(name)
        self._convert = [_converter(each.type) for each in table.columns]
        marks = ["%s::jsonb" if _is_json(each.type) else "%s" for each in table.columns]
        self._upsert = upsert_text(table, self._rows, marks)
        self._connection: PostgresConnection | None = None

    @property
    def name(self) -> str:
        return f"the table {self._schema}.{self._named} of {shown_dsn(self._parameters)}"

    def open(self) -> str:
        """See ``Exporter``."""
        with self._translated():
            self._connection = connect_database(self._parameters, self._schema)
        with self._transaction() as connection:
            # creating a schema or table at the same time as another exporter would fail
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtext('lycosa ' || %s))", [self._schema]
            )
            self._prepare(connection)
            return self._stored(connection)

    def _prepare(self, connection: PostgresConnection) -> None:
        is_there = connection.execute(
            "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL", [self._schema]
        ).fetchone()
        if not is_there or not is_there[0]:
            connection.execute(f"CREATE SCHEMA {quoted(self._schema)}")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {POSITION_TABLE} (crawl text NOT NULL, feed text NOT NULL,"
            " target text NOT NULL, position text NOT NULL, PRIMARY KEY (crawl, feed, target))"
        )
        connection.execute(
            f"INSERT INTO {POSITION_TABLE} VALUES (%s, %s, %s, '') ON CONFLICT DO NOTHING",
            self._identity,
        )
        found: dict[str, str] = dict(
            connection.execute(
                "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
                [self._rows],
            ).fetchall()
        )
        if not found:
            connection.execute(create_statement(_TYPES, self._table, self._rows))
            return
        for column in missing_columns(self.name, _TYPES, self._table, found):
            text = column_text(_TYPES, self._table, column)
            connection.execute(f"ALTER TABLE {self._rows} ADD COLUMN IF NOT EXISTS {text}")

    @property
    def _identity(self) -> list[str]:
        return [self._crawl, self._table.name, self._named]

    def _stored(self, connection: PostgresConnection) -> str:
        row = connection.execute(
            f"SELECT position FROM {POSITION_TABLE} WHERE crawl = %s AND feed = %s AND target = %s"
            " FOR UPDATE",
            self._identity,
        ).fetchone()
        return str(row[0]) if row else ""

    def write(self, rows: Sequence[ExportRow], before: str, after: str) -> None:
        """See ``Exporter``: one transaction."""
        with self._transaction() as connection:
            if self._stored(connection) != before:
                raise Overtaken
            if captures := replaced_captures(self._table, rows):
                connection.execute(
                    f"DELETE FROM {self._rows} WHERE {quoted(self._table.capture)} = ANY(%s)",
                    [captures],
                )
            with connection.cursor() as cursor:
                cursor.executemany(
                    self._upsert,
                    [stored_values(self._convert, row.values) for row in rows],
                )
            connection.execute(
                f"UPDATE {POSITION_TABLE} SET position = %s"
                " WHERE crawl = %s AND feed = %s AND target = %s",
                [after, *self._identity],
            )

    @contextmanager
    def _transaction(self) -> Iterator[PostgresConnection]:
        connection = self._connection
        assert connection is not None, "the database is not open"
        with self._translated(), translated_errors(self._parameters), connection.transaction():
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DatabaseAway as error:
            raise TargetAway(str(error)) from error
        except RegistryError as error:
            raise TargetError(str(error)) from error

    def close(self) -> None:
        """See ``Exporter``."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _is_json(kind: str) -> bool:
    return kind == "json" or kind.startswith("list[")


def _converter(kind: str) -> Convert:
    return converter("json" if _is_json(kind) else kind, _CONVERT)
