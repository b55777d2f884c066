"""Tasks that no other one awaits: their errors are told, and what they kept running goes on."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from lycosa.base.messages.coordinator_messages import (
    CallerMessage,
    ClusterStatus,
    Refused,
    ToCoordinator,
)
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.kept_tasks import KeptTasks
from lycosa.cluster.coordinator.node_plan import NodePlan
from lycosa.cluster.serve.caller_service import CallerHandler
from lycosa.cluster.serve.coordinator_links import PeerLink
from lycosa.processes.api_keeper import ApiKeeper, ApiListener
from lycosa.processes.worker_group import WorkerGroup
from lycosa.service.api.api_job import ApiJob, ApiSettings
from lycosa.synthetic import run_virtual


async def fail(error: Exception) -> None:
    raise error


async def test_the_error_of_a_task_is_told_and_a_cancelled_one_tells_nothing() -> None:
    told: list[BaseException] = []
    tasks = KeptTasks(told.append)
    error = OSError(28, "No space left on device")
    tasks.begin(fail(error))
    assert len(tasks) == 1
    await tasks.wait()
    assert told == [error] and len(tasks) == 0
    tasks.begin(asyncio.sleep(3600))
    await tasks.cancel()
    assert told == [error] and len(tasks) == 0


async def test_a_node_shows_that_a_part_of_its_work_failed() -> None:
    notes: list[str] = []
    group = WorkerGroup(NodePlan(0.0), 0, notes.append)
    group.begin(fail(OSError(28, "No space left on device")))
    await group.close()
    assert notes == [
        "a part of this node's work failed (OSError: [Errno 28] No space left on device)"
    ]
    assert not group.is_busy


class FailingRunner:
    """A coordinator that cannot handle that a caller has left."""

    def __init__(self) -> None:
        self.callers: set[PeerLink] = set()
        self.is_over = False

    def status(self) -> ClusterStatus:
        raise AssertionError

    def objection(self, message: CallerMessage) -> Refused | None:
        raise AssertionError

    async def receive(self, sender: str, message: ToCoordinator) -> None:
        raise ValueError(f"cannot handle {type(message).__name__}")


async def test_an_error_after_a_caller_has_left_is_told() -> None:
    told: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def on_more() -> None:
        raise AssertionError

    caller_handler = CallerHandler(FailingRunner(), on_more, told.set_result, left_s=0.0)
    ours, theirs = socket.socketpair()
    theirs.close()
    link = PeerLink(FrameStream(ours), "caller", "here")
    link.is_seeding = True
    await caller_handler.serve_caller(link)
    async with asyncio.timeout(60):
        assert repr(await told) == "ValueError('cannot handle NoMoreAsks')"
    link.close()
    await caller_handler.close()


class BrokenKeeper(ApiKeeper):
    """Its process cannot be started twice, for a reason that nobody thought of."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.tries = 0

    async def _run_once(self) -> str:
        self.tries += 1
        if self.tries < 3:
            raise ValueError(f"try {self.tries}")
        await asyncio.sleep(1e6)
        return ""


def test_an_error_does_not_leave_a_crawl_without_its_api() -> None:
    told: list[str] = []
    listener = ApiListener("127.0.0.1:0", has_tls=False)
    job = ApiJob(ApiSettings("127.0.0.1:0"), listener.socket.fileno())

    async def keep() -> int:
        keeper = BrokenKeeper(job, listener, told.append)
        keeper.start()
        await asyncio.sleep(60.0)
        await keeper.close()
        return keeper.tries

    assert run_virtual(keep()) == 3
    assert [line.partition(";")[0] for line in told] == [
        "the process of the API cannot be kept: ValueError: try 1",
        "the process of the API cannot be kept: ValueError: try 2",
    ]
