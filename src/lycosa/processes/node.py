"""A node: starts, watches and ends the processes of its workers, and exchanges messages with them.

``cluster.node_plan`` decides what is done. After a worker's death its part of the folder is
recovered before the next process gets the job, while the other workers continue. URLs that were in
flight are then suspected (``attempts.crashes``), so a page that kills its worker ends as a recorded
failure. The node manages the memory of the machine: it sends the sum over its processes to the
workers, and each worker decides what to do.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

import msgspec

from lycosa.cluster.messages import ToCoordinator, ToNode
from lycosa.cluster.node_acts import (
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
from lycosa.cluster.node_plan import NodePlan
from lycosa.cluster.worker_messages import (
    Ended,
    Failed,
    FromWorker,
    Memory,
    ProcessMemory,
    Progress,
    ToWorker,
    total,
)
from lycosa.config.units import show_mb
from lycosa.folder.run_cost import cpu_s
from lycosa.model.parsed import ParserHealth
from lycosa.processes.session import Session
from lycosa.processes.worker_handle import WorkerFailed, WorkerHandle, WorkerNotStarted
from lycosa.system.memory import held_by
from lycosa.system.memory_plan import MemoryPlan
from lycosa.system.memory_relief import FAR
from lycosa.system.plugins import registered
from lycosa.system.shortage import in_thread, pause_s
from lycosa.worker.job import WorkerJob

_MEMORY_S = 0.5
_PARSER_AWAY_S = 1.0  # a shorter absence of a parser is not reported
_STALLED_S = 60.0  # between notes about parcels that are not taken


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
    """The workers of one run over a crawl folder, on this machine."""

    def __init__(self, session: Session, plan: MemoryPlan, listener: Listener) -> None:
        self._session = session
        self._memory = plan
        self._listener = listener
        self.plan = NodePlan(time.time())
        partitions, count = session.config.frontier.partitions, plan.workers
        self._handles = [
            WorkerHandle(
                number,
                tuple(range(number, partitions, count)),
                session.lock_filenos,
                self._hear_worker,
            )
            for number in range(count)
        ]
        self._sockets = Path(tempfile.mkdtemp(prefix="lycosa-")) if count > 1 else None
        self._plugins = registered()
        self._parser_notes = ParserNotes()
        self._told_relief: set[str] = set()
        self._next_told = self._next_stalled = 0.0
        self._tasks: set[asyncio.Task[None]] = set()  # sending messages, and processes

    def __repr__(self) -> str:
        return f"<Node {self.plan!r} {self._handles!r}>"

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
        for handle in self._handles:
            handle.kill()

    async def close(self) -> None:
        """Wait until all processes have ended. They were stopped or killed before."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)

    def total(self) -> Progress:
        """The sum of the workers' reports, with the memory of all processes."""
        progress = total([handle.progress for handle in self._handles])
        mine = held_by()
        memory = [ProcessMemory("supervisor", *mine, cpu_s())]
        for handle in self._handles:
            which = f" {handle.number}" if len(self._handles) > 1 else ""
            memory += [
                msgspec.structs.replace(each, part=each.part + which)
                for each in handle.progress.memory
            ]
        # All processes share the pages of the program's code, so they are counted once.
        held = sum(each.own_bytes for each in memory) + mine.mapped_bytes
        return msgspec.structs.replace(
            progress, memory=memory, memory_bytes=held, memory_bound=self._memory.total
        )

    # -- acts

    def _do(self, acts: list[NodeAct]) -> None:
        for act in acts:
            if isinstance(act, StartWorker):
                self._begin(self._run(self._handles[act.shard], act))
            elif isinstance(act, TellWorker):
                self._say(self._handles[act.shard], act.message)
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

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _say(self, handle: WorkerHandle, message: ToWorker) -> None:
        self._begin(handle.send_message(message))

    async def _run(self, handle: WorkerHandle, act: StartWorker) -> None:
        """Run one process of a worker, from the recovery before it to its end."""
        try:
            if act.process > 1:
                await self._recover(handle)
            ending = await self._run_process(handle, act)
        except Exception as error:
            self._listener.fail_run(error)
            ending = Died(str(error))
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

    async def _run_process(self, handle: WorkerHandle, act: StartWorker) -> Ended | Failed | Died:
        """Run a process; retry while the system has no process available."""
        attempt = 0
        while not self.plan.is_abandoned:
            stop = self.plan.greeting(handle.number)
            try:
                ended = await handle.run(
                    self._job_of(handle, act), (stop,) if stop is not None else ()
                )
            except WorkerNotStarted as error:
                if stop is not None:
                    return Ended(stop.end, handle.progress)
                attempt += 1
                if attempt == 1:
                    self._listener.show_note(
                        f"worker {handle.number} cannot be started ({error}): retrying until it can"
                    )
                await asyncio.sleep(pause_s(attempt))
            else:
                return ended if ended is not None else Died(handle.how_it_died())
        return Died("")

    def _job_of(self, handle: WorkerHandle, act: StartWorker) -> WorkerJob:
        """The session's job for this run, completed by what has happened in it."""
        job = self._session.job(handle.number, handle.owned, self._memory)
        names = [f"w{each.number}" for each in self._handles]
        return msgspec.structs.replace(
            job,
            last_commit=handle.last_commit or job.last_commit,
            is_careful=act.is_careful,
            process=act.process,
            plugins=self._plugins,
            sockets=tuple(self._sockets / name for name in names) if self._sockets else (),
        )

    # -- messages of workers

    def _hear_worker(self, handle: WorkerHandle, message: FromWorker) -> None:
        if isinstance(message, Progress | Ended):
            if note := self._parser_notes.hear(handle.number, handle.progress.parser):
                self._listener.show_note(note)
            self._listener.show_progress()
        self._do(self.plan.handle_worker_message(handle.number, message, time.monotonic()))

    def tell_memory(self, progress: Progress) -> None:
        """Send the sum of the memory to the workers while it is near the bound.

        Each worker decides by the sum what to do.
        """
        now = time.monotonic()
        if now < self._next_told or not (
            progress.relief or progress.memory_bytes >= FAR * self._memory.total
        ):
            return
        self._next_told = now + _MEMORY_S
        for handle in self._handles:
            self._say(handle, Memory(progress.memory_bytes))
        if progress.relief and progress.relief not in self._told_relief:
            self._told_relief.add(progress.relief)
            held, bound = show_mb(progress.memory_bytes), show_mb(self._memory.total)
            self._listener.show_note(
                f"memory is near its bound ({held} of {bound}): a worker {progress.relief}"
            )

    def tell_stalled(self, progress: Progress) -> None:
        """Show which parcel waits. Otherwise a crawl whose workers wait would look idle."""
        now = time.monotonic()
        if progress.undelivered and now >= self._next_stalled:
            self._next_stalled = now + _STALLED_S
            self._listener.show_note(f"waiting for {progress.undelivered}")


class ParserNotes:
    """Notes for the operator about parse children that cannot be started.

    There is one when it begins, and one when it is over. ``hear`` takes the reports of all workers
    in turn.
    """

    def __init__(self) -> None:
        # By worker: the total time without a parser before the current absence.
        self._away: dict[int, float] = {}

    def hear(self, worker: int, health: ParserHealth) -> str:
        """A line for the operator, or the empty string."""
        if worker not in self._away and health.away_s >= _PARSER_AWAY_S:
            self._away[worker] = health.away_total_s - health.away_s
            waits = "pages wait for it, and nothing new is fetched after some seconds"
            return f"worker {worker} cannot start its parse child ({health.away_why}): {waits}"
        if worker in self._away and not health.away_s:
            seconds = health.away_total_s - self._away.pop(worker)
            return (
                f"worker {worker} has a parse child again, after {max(seconds, 0.0):.0f} s; the"
                " pages that waited are parsed now"
            )
        return ""
