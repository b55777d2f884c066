"""What several contract tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kafka_broker import Broker, started
from raw_server import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A fetcher and its servers, closed at the end of the test."""
    world = World(tmp_path)
    yield world
    await world.close()


@pytest.fixture(scope="session")
def kafka() -> Iterator[Broker]:
    """A Kafka broker that nothing kills: on a busy machine it may be silent for seconds."""
    with started(session_s=60.0) as broker:
        yield broker
