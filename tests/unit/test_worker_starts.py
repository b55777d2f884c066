"""A worker whose start raises: on one machine that is a death of this worker, not the run's end."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lycosa.cluster.messages import Assignments, ToCoordinator
from lycosa.processes.node import Node
from lycosa.processes.session import Session
from lycosa.processes.worker_handle import WorkerFailed
from lycosa.store.damage import StoreDamaged
from lycosa.system.memory_plan import MemoryPlan


class BareSession:
    """A session whose job cannot be made, for the reasons given in turn."""

    config = SimpleNamespace(frontier=SimpleNamespace(partitions=1))
    lock_filenos = ()

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors

    def job(self, *given: object) -> Any:
        raise self.errors.pop(0)

    def recover_worker(self, *given: object) -> Any:
        return SimpleNamespace(last_commit=0.0)


class Told:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.failed: list[BaseException] = []

    def handle_node_message(self, message: ToCoordinator) -> None: ...

    def show_note(self, text: str) -> None:
        self.notes.append(text)

    def show_progress(self) -> None: ...

    def fail_run(self, error: BaseException) -> None:
        self.failed.append(error)


async def lived(errors: list[Exception], until: Callable[[Told], object]) -> Told:
    """What a node shows whose worker cannot start."""
    listener = Told()
    session = cast(Session, BareSession(errors))
    plan = cast(MemoryPlan, SimpleNamespace(total=0, workers=1))
    node = Node(session, plan, listener, sockets=Path("sockets"))
    node.handle_message(Assignments(1, 1, 0, {0: 1}))
    async with asyncio.timeout(30):
        while not until(listener):
            node.tick()
            await asyncio.sleep(0.01)
    node.kill()
    await node.close()
    return listener


@pytest.mark.parametrize(
    "error",
    [ValueError("35 is not a valid Signals"), OSError(errno.EMFILE, os.strerror(errno.EMFILE))],
)
async def test_a_start_that_raises_is_a_death_of_that_worker(error: Exception) -> None:
    listener = await lived([error] * 20, lambda listener: len(listener.notes) > 1)
    assert not listener.failed
    assert listener.notes[0] == (
        f"worker 0 died ({type(error).__name__}: {error}); recovering and starting another one"
    )


async def test_a_start_that_finds_damage_ends_the_run_with_what_it_found() -> None:
    damage = StoreDamaged(Path("part"), 1, 2)
    listener = await lived([damage], lambda listener: listener.failed)
    [failed] = listener.failed
    assert isinstance(failed, WorkerFailed)
    assert (failed.kind, str(failed)) == ("lycosa.store.damage.StoreDamaged", str(damage))
