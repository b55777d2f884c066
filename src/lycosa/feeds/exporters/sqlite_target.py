"""Exports to a SQLite database: rows and position in one transaction.

Any number of exporters may write one database, of several feeds and crawls. Each waits while
another one's transaction lasts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lycosa.feeds.export_port import (
    Batch,
    ExportRow,
    ExportTable,
    Overtaken,
    TargetAway,
    TargetError,
)
from lycosa.feeds.exporters.cell_values import PLAIN, converter, signed, stored_values
from lycosa.feeds.exporters.sql_statements import (
    POSITION_TABLE,
    column_text,
    create_statement,
    missing_columns,
    quoted,
    replaced_captures,
    upsert_text,
)

_BUSY_S = 60.0
_TYPES = {
    "text": "TEXT",
    "integer": "INTEGER",
    "number": "REAL",
    "boolean": "INTEGER",
    "time": "TEXT",
    "date": "TEXT",
    "json": "TEXT",
}
_CONVERT = {**PLAIN, "integer": signed}


class SqliteTarget:
    """A table of a SQLite database as an ``Exporter``. ``crawl`` is the id of the crawl."""

    batch = Batch()

    def __init__(self, path: Path, table: ExportTable, crawl: str, name: str) -> None:
        self._path, self._table, self._crawl = path, table, crawl
        self._named, self._rows = name, quoted(name)
        self._convert = [converter(each.type, _CONVERT) for each in table.columns]
        self._upsert = upsert_text(table, self._rows, ["?"] * len(table.columns))
        self._shown = f"the table {name} of {path}"
        self._connection: sqlite3.Connection | None = None

    @property
    def name(self) -> str:
        return self._shown

    def open(self) -> str:
        """See ``Exporter``."""
        try:
            # autocommit, so that transactions begin where they are written
            self._connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            # The change to a write-ahead log does not wait for another exporter that opens it.
            kind = TargetAway if "locked" in str(error) else TargetError
            raise kind(f"{self._path}: {error}") from error
        with self._transaction() as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {POSITION_TABLE} (crawl TEXT NOT NULL,"
                " feed TEXT NOT NULL, target TEXT NOT NULL, position TEXT NOT NULL,"
                " PRIMARY KEY (crawl, feed, target))"
            )
            self._prepare(connection)
            return self._stored(connection)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        found = {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({self._rows})")}
        if not found:
            connection.execute(create_statement(_TYPES, self._table, self._rows))
            return
        for column in missing_columns(self.name, _TYPES, self._table, found):
            text = column_text(_TYPES, self._table, column)
            connection.execute(f"ALTER TABLE {self._rows} ADD COLUMN {text}")

    def _stored(self, connection: sqlite3.Connection) -> str:
        row = connection.execute(
            f"SELECT position FROM {POSITION_TABLE} WHERE crawl = ? AND feed = ? AND target = ?",
            (self._crawl, self._table.name, self._named),
        ).fetchone()
        return row[0] if row else ""

    def write(self, rows: Sequence[ExportRow], before: str, after: str) -> None:
        """See ``Exporter``: one transaction."""
        with self._transaction() as connection:
            if self._stored(connection) != before:
                raise Overtaken
            if captures := replaced_captures(self._table, rows):
                connection.executemany(
                    f"DELETE FROM {self._rows} WHERE {quoted(self._table.capture)} = ?",
                    [(each,) for each in captures],
                )
            connection.executemany(
                self._upsert,
                [stored_values(self._convert, row.values) for row in rows],
            )
            connection.execute(
                f"INSERT INTO {POSITION_TABLE} VALUES (?, ?, ?, ?)"
                " ON CONFLICT (crawl, feed, target) DO UPDATE SET position = excluded.position",
                (self._crawl, self._table.name, self._named, after),
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        assert connection is not None, "the database is not open"
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.OperationalError as error:
            # "database is locked", "disk I/O error", "database or disk is full": they may pass
            if "syntax" in str(error) or "no such" in str(error):
                raise TargetError(f"{self._path}: {error}") from error
            raise TargetAway(f"{self._path}: {error}") from error
        except sqlite3.Error as error:
            raise TargetError(f"{self._path}: {error}") from error

    def close(self) -> None:
        """See ``Exporter``."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
