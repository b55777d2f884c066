"""A worker whose start raises: on one machine that is a death of this worker, not the run's end. On
a cluster the other shards of the node continue, and another node may have this one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lycosa.base.config.sections import ExtensionSection
from lycosa.base.messages.coordinator_messages import (
    Assignments,
    NodeReport,
    ShardState,
    ToCoordinator,
)
from lycosa.base.system.memory_plan import MemoryPlan
from lycosa.cluster.coordinator.node_acts import Machine, TellCoordinator
from lycosa.cluster.network.credentials import Credentials
from lycosa.processes.cluster.cluster_node import ClusterNode
from lycosa.processes.cluster.cluster_session import ClusterSession
from lycosa.processes.local_node import Node
from lycosa.processes.session import Session
from lycosa.processes.worker_handle import WorkerFailed
from lycosa.state.store.damage import StoreDamaged


class BareSession:
    """A session whose job cannot be made, for the reasons given in turn."""

    config = SimpleNamespace(frontier=SimpleNamespace(partitions=1), extensions=ExtensionSection())
    lock_filenos = ()
    code = SimpleNamespace(code={}, allowed=())

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
    assert (failed.kind, str(failed)) == ("lycosa.state.store.damage.StoreDamaged", str(damage))


class NodeSession:
    """The session of a node on a cluster whose disk is full."""

    generation = crawl_id = ""
    given = SimpleNamespace(name="news", coordinators=(), path=Path("cluster.toml"))
    memory = SimpleNamespace(most=2, total=0)

    def __init__(self, folder: Path) -> None:
        self.folder = SimpleNamespace(path=folder, lock_filenos=(), known_shards=list)
        self.folder.delete_owners = lambda shard: None
        self.begun = 0

    def follow_settings(self) -> None:
        self.begun += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def send_attempts(self, shard: int) -> str:
        return ""


class Shown:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_event(self, text: str, shard: int = -1) -> None:
        self.lines.append(text)


async def test_a_start_that_lacks_disk_on_a_cluster_leaves_the_shard_to_other_nodes(
    tmp_path: Path,
) -> None:
    session, shown = NodeSession(tmp_path), Shown()
    node = ClusterNode(cast(ClusterSession, session), Credentials(), "n", shown)
    node._do(node.plan.handle_message(Assignments(1, 1, 0, {0: 10}), time.monotonic()))
    async with asyncio.timeout(30):
        await node._workers.close()
    assert shown.lines == [
        "shard 0 cannot run here: [Errno 28] No space left on device; it is tried again, until"
        " another node can take it"
    ]
    acts = node.plan.tick(time.monotonic(), Machine(time.time(), 1, 1))
    [said] = [act.message for act in acts if isinstance(act, TellCoordinator)]
    assert isinstance(said, NodeReport) and said.deaths == 0
    [shard] = said.shards
    assert (shard.state, shard.is_local) == (ShardState.WAITING, True)
