"""What several contract tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import cassandra_server
import postgres_server
from cassandra_server import CassandraServer
from postgres_server import PostgresServer
from raw_server import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A fetcher and its servers, closed at the end of the test."""
    world = World(tmp_path)
    yield world
    await world.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that nothing kills; each test uses a schema of its own."""
    with postgres_server.started() as server:
        yield server


@pytest.fixture(scope="session")
def cassandra() -> Iterator[CassandraServer]:
    """A node of Cassandra that nothing kills; each test uses a keyspace of its own."""
    with cassandra_server.started() as server:
        yield server
