"""A real Cassandra of one node for tests, in a folder of its own, which may be killed and brought
back. It takes 10 s to start and 900 MB, so a session has one.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import acsylla
import pytest

from killing import kill_server

_SERVICES = Path(__file__).parents[1] / "script" / "services"


class CassandraServer:
    """One node without keyspaces of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder, self._settings = folder, settings
        self._reader: ProcessPoolExecutor | None = None
        self.pid = 0
        self.start()

    @property
    def dsn(self) -> str:
        return f"cassandra://{self.address}"

    def start(self) -> None:
        """Starts it if it does not run, on the same port with the same data."""
        run = subprocess.run(
            [_SERVICES, "start", "cassandra", self._folder],
            env={**os.environ, **self._settings},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        values = dict(line.split("=", 1) for line in run.stdout.split())
        self.address, self.pid = values["CASSANDRA"], int(values["CASSANDRA_PID"])

    def kill(self) -> None:
        """``kill -9`` of the node; it is gone when this returns."""
        self._disconnect()
        kill_server(self.pid)

    def stop(self) -> None:
        self._disconnect()
        subprocess.run([_SERVICES, "stop", "cassandra", self._folder], check=True)

    def create_keyspace(self, name: str, copies: int = 1, more: str = "") -> str:
        """Creates one if it is not there; gives its name."""
        self.execute(
            f"CREATE KEYSPACE IF NOT EXISTS {name} WITH replication ="
            f" {{'class': 'NetworkTopologyStrategy', 'datacenter1': {copies}}}{more}"
        )
        return name

    def rows(self, statement: str, keyspace: str = "lycosa") -> list[tuple[Any, ...]]:
        """The answer to a query, whose names mean tables of the keyspace."""
        return [tuple(row) for row in self._run(statement, keyspace)[1]]

    def named_rows(self, statement: str, keyspace: str) -> list[dict[str, Any]]:
        """The same as dictionaries."""
        names, rows = self._run(statement, keyspace)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def execute(self, statement: str, keyspace: str = "") -> None:
        """Runs a statement that gives no rows."""
        self._run(statement, keyspace)

    def _run(self, statement: str, keyspace: str) -> tuple[list[str], list[list[Any]]]:
        """Queries run in a process of their own: the driver expects one event loop in a process."""
        if self._reader is None:
            self._reader = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        return self._reader.submit(answer, self.address, statement, keyspace).result(60)

    def _disconnect(self) -> None:
        if self._reader is not None:
            self._reader.shutdown()
        self._reader = None


_connected: dict[str, tuple[asyncio.Runner, Any]] = {}


def answer(address: str, text: str, keyspace: str) -> tuple[list[str], list[list[Any]]]:
    """The names of the columns of an answer, and its rows. Called in the process that reads."""
    if address not in _connected:
        runner = asyncio.Runner()
        _connected[address] = runner, runner.run(_connect(address))
    runner, session = _connected[address]
    return runner.run(_answer(session, text, keyspace))


async def _connect(address: str) -> Any:
    host, port = address.split(":")
    cluster = acsylla.create_cluster(
        [host], port=int(port), request_timeout=30.0, log_level="disabled"
    )
    return await cluster.create_session()


async def _answer(session: Any, text: str, keyspace: str) -> tuple[list[str], list[list[Any]]]:
    if keyspace:
        await session.use_keyspace(keyspace)
    statement = acsylla.create_statement(text, page_size=1000)
    names: list[str] = []
    rows: list[list[Any]] = []
    while True:
        result = await session.execute(statement)
        names = names or result.columns_names()
        rows += [row.as_list() for row in result]
        if not result.has_more_pages():
            return names, rows
        statement.set_page_state(result.page_state())


def lacking() -> str:
    """What is missing here to start one; empty when nothing is."""
    run = subprocess.run(
        [_SERVICES, "lacks", "cassandra"], stdout=subprocess.PIPE, text=True, check=True
    )
    return run.stdout.strip()


@contextmanager
def started(**settings: str) -> Iterator[CassandraServer]:
    """A server of its own; skips the test when none can be started here."""
    if lacks := lacking():
        pytest.skip(f"Cassandra cannot be started, missing: {lacks} (script/services)")
    with TemporaryDirectory(prefix="lycosa-cassandra-") as folder:
        server = CassandraServer(Path(folder), **settings)
        try:
            yield server
        finally:
            server.stop()
