"""A real PostgreSQL for tests, in a folder of its own, which may be killed and brought back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

from killing import children_of, kill_server

_SERVICES = Path(__file__).parents[1] / "script" / "services"


class PostgresServer:
    """One server with an empty database."""

    def __init__(self, folder: Path, syncs: bool = False) -> None:
        self._folder, self._syncs = folder, syncs
        self.pid = 0
        self.start()

    def start(self) -> None:
        """Starts it if it does not run, on the same port with the same data."""
        run = subprocess.run(
            [_SERVICES, "start", "postgres", self._folder],
            env={**os.environ, "POSTGRES_FSYNC": "on" if self._syncs else "off"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        values = dict(line.split("=", 1) for line in run.stdout.split())
        self.dsn, self.pid = values["POSTGRES"], int(values["POSTGRES_PID"])

    def kill(self) -> None:
        """``kill -9`` of the server and of its children, which could otherwise still answer a
        client; all are gone when this returns.
        """
        children = children_of(self.pid)
        kill_server(self.pid)
        for child in children:
            with suppress(ProcessLookupError):  # it noticed that the server is gone
                kill_server(child)

    def stop(self) -> None:
        subprocess.run([_SERVICES, "stop", "postgres", self._folder], check=True)

    def rows(self, statement: str, schema: str = "lycosa") -> list[tuple[Any, ...]]:
        """The answer to a query, whose names mean tables of the schema."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SELECT set_config('search_path', quote_ident(%s), false)", [schema])
            connection.execute("SET timezone TO 'UTC'")
            return connection.execute(statement).fetchall()

    def last_rows(self, statements: str) -> list[tuple[Any, ...]]:
        """The answer to the last of several statements."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statements)
            while cursor.nextset():
                pass
            return cursor.fetchall()

    def execute(self, statement: str) -> None:
        """Runs statements that give no rows."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(statement)


def lacking() -> str:
    """What is missing here to start one; empty when nothing is."""
    run = subprocess.run(
        [_SERVICES, "lacks", "postgres"], stdout=subprocess.PIPE, text=True, check=True
    )
    return run.stdout.strip()


@contextmanager
def started(syncs: bool = False) -> Iterator[PostgresServer]:
    """A server of its own; skips the test when none can be started here."""
    if lacks := lacking():
        pytest.skip(f"PostgreSQL cannot be started, missing: {lacks} (script/services)")
    with TemporaryDirectory(prefix="lycosa-postgres-") as folder:
        server = PostgresServer(Path(folder), syncs)
        try:
            yield server
        finally:
            server.stop()
