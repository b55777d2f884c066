"""A real Cassandra of one node for tests, in a folder of its own, which may be killed and brought
back. It takes 10 s to start and 900 MB, so a session has one.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import acsylla
import pytest

_SERVICES = Path(__file__).parents[1] / "script" / "services"


class CassandraServer:
    """One node without keyspaces of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder, self._settings = folder, settings
        self._runner = asyncio.Runner()
        self._session: Any = None
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
        ended = os.pidfd_open(self.pid)
        try:
            signal.pidfd_send_signal(ended, signal.SIGKILL)
            poll = select.poll()
            poll.register(ended, select.POLLIN)
            assert poll.poll(20_000), "the server is still there"
        finally:
            os.close(ended)

    def stop(self) -> None:
        self._disconnect()
        self._runner.close()
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
        return self._runner.run(self._rows(statement, keyspace))

    def execute(self, statement: str, keyspace: str = "") -> None:
        """Runs a statement that gives no rows."""
        self._runner.run(self._rows(statement, keyspace))

    async def _rows(self, text: str, keyspace: str) -> list[tuple[Any, ...]]:
        if self._session is None:
            host, port = self.address.split(":")
            cluster = acsylla.create_cluster(
                [host], port=int(port), request_timeout=30.0, log_level="disabled"
            )
            self._session = await cluster.create_session()
        if keyspace:
            await self._session.use_keyspace(keyspace)
        statement = acsylla.create_statement(text, page_size=1000)
        found: list[tuple[Any, ...]] = []
        while True:
            result = await self._session.execute(statement)
            found += [tuple(row.as_list()) for row in result]
            if not result.has_more_pages():
                return found
            statement.set_page_state(result.page_state())

    def _disconnect(self) -> None:
        if self._session is not None:
            self._runner.run(self._session.close())
        self._session = None


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
