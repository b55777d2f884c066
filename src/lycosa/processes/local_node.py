"""A node: starts, watches and ends the processes of its workers, and exchanges messages with them.

``coordinator.node_plan`` decides what is done. After a worker's death its part of the folder is
recovered before the next process gets the job, while the other workers continue. URLs that were in
flight are then suspected (``attempts.crashes``), so a page that kills its worker ends as a recorded
failure.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.base.messages.coordinator_messages import ToCoordinator, ToNode
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.worker_messages import Ended, Failed, FromWorker
from lycosa.base.system.memory_plan import MemoryPlan
from lycosa.base.system.plugins import (
    Plugins,
    active_plugins,
    inactive_lines,
    installed_extensions,
)
from lycosa.base.system.shortage import in_thread
from lycosa.cluster.coordinator.node_acts import (
    Died,
    GiveUp,
    Machine,
    NodeAct,
    Note,
    Reply,
    StartWorker,
    TellCoordinator,
    TellWorker,
)
from lycosa.cluster.coordinator.node_plan import NodePlan
from lycosa.processes.failures import failed_start
from lycosa.processes.session import Session
from lycosa.processes.socket_folder import SocketFolder
from lycosa.processes.worker_group import WorkerGroup
from lycosa.processes.worker_handle import WorkerFailed, WorkerHandle
from lycosa.worker.job import WorkerJob


class Listener(Protocol):
    """The part that runs the node."""

    def handle_node_message(self, message: ToCoordinator) -> None:
        """Handle a message for the coordinator."""
        ...

    def show_note(self, text: str) -> None:
        """Show one line to the operator."""
        ...

    def show_progress(self) -> None:
        """Show the totals, which changed with a worker's report."""
        ...

    def fail_run(self, error: BaseException) -> None:
        """End the run with an error, because the node cannot continue."""
        ...


class Node:
    """The workers of one run over a crawl folder, on this machine.

    ``sockets`` is a folder that is private to the user, for the sockets of the workers: other
    programs call them there. Without it several workers get a separate folder. ``plugins`` are the
    rules and sinks of a program; by default those of the settings are active.
    """

    def __init__(
        self,
        session: Session,
        plan: MemoryPlan,
        listener: Listener,
        sockets: Path | None = None,
        plugins: Plugins | None = None,
    ) -> None:
        self._session = session
        self._memory = plan
        self._listener = listener
        self.plan = NodePlan(time.time())
        self.plan.allowed = session.code.allowed
        self.workers = WorkerGroup(self.plan, plan.total, listener.show_note)
        partitions, count = session.config.frontier.partitions, plan.workers
        for number in range(count):
            owned = tuple(range(number, partitions, count))
            self.workers.handles[number] = WorkerHandle(
                number, owned, session.lock_filenos, self._receive_from_worker
            )
        self._own_sockets = SocketFolder() if count > 1 and sockets is None else None
        self._sockets = sockets or (self._own_sockets.path if self._own_sockets else None)
        section, installed = session.config.extensions, installed_extensions()
        self._plugins = plugins or active_plugins(section, installed)
        for line in inactive_lines(section, installed):
            listener.show_note(line)

    # -- called by the part that runs the node

    def tick(self) -> None:
        """Do what is due. Call it several times a second."""
        self._do(self.plan.tick(time.monotonic(), Machine(time.time(), 0, 0)))

    def handle_message(self, message: ToNode) -> None:
        """Handle a message of the coordinator."""
        self._do(self.plan.handle_message(message, time.monotonic()))

    def kill(self) -> None:
        """Kill all processes at once; none is started again."""
        self._do(self.plan.abandon(time.monotonic()))
        self.workers.kill()

    async def close(self) -> None:
        """Wait until all processes have ended. They were stopped or killed before."""
        await self.workers.close()
        if self._own_sockets is not None:
            self._own_sockets.close()

    # -- acts

    def _do(self, acts: list[NodeAct]) -> None:
        for act in acts:
            if isinstance(act, StartWorker):
                self.workers.begin(self._run(self.workers.handles[act.shard], act))
            elif isinstance(act, TellWorker):
                self.workers.send(act.shard, act.message)
            elif isinstance(act, TellCoordinator | Reply):
                self._listener.handle_node_message(act.message)
            elif isinstance(act, Note):
                self._listener.show_note(act.text)
            else:
                self._give_up(act)

    def _give_up(self, act: GiveUp) -> None:
        failed = act.failed
        error = WorkerFailed(
            failed.kind, failed.text, failed.trace, failed.errno, failed.filename, failed.is_passing
        )
        self._listener.fail_run(error)

    async def _run(self, handle: WorkerHandle, act: StartWorker) -> None:
        """Run one process of a worker, from the recovery before it to its end."""
        ending: Ended | Failed | Died
        try:
            if act.process > 1:
                await self._recover(handle)
            ending = await self.workers.run_process(handle, lambda: self._job_of(handle, act))
        except Exception as error:
            ending = failed_start(error, is_on_cluster=False)
        self._do(self.plan.handle_worker_end(handle.number, ending, time.monotonic()))

    async def _recover(self, handle: WorkerHandle) -> None:
        recovered = await in_thread(
            lambda: self._session.recover_worker(handle.number, handle.owned),
            lambda: self._listener.show_note(
                f"worker {handle.number} cannot be started (no thread is available): retrying"
                " until it can"
            ),
        )
        handle.last_commit = recovered.last_commit

    def _job_of(self, handle: WorkerHandle, act: StartWorker) -> WorkerJob:
        """The session's job for this run, completed by what has happened in it."""
        job = self._session.job(handle.number, handle.owned, self._memory)
        names = [f"w{number}" for number in self.workers.handles]
        return msgspec.structs.replace(
            job,
            last_commit=handle.last_commit or job.last_commit,
            is_careful=act.is_careful,
            process=act.process,
            plugins=self._plugins,
            sockets=tuple(self._sockets / name for name in names) if self._sockets else (),
        )

    # -- messages of workers

    def _receive_from_worker(self, handle: WorkerHandle, message: FromWorker) -> None:
        if isinstance(message, Progress | Ended):
            self.workers.note_parser(handle)
            self._listener.show_progress()
        self._do(self.plan.handle_worker_message(handle.number, message, time.monotonic()))
