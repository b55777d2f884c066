"""A node of a cluster: this machine's share of a crawl.

``coordinator.node_plan`` decides which workers run. This part does it: it keeps connections to all
addresses of coordinators, starts and stops one process for each shard, measures the machine, and
tells the operator what happens. Everything that lasts is in Kafka and in object storage, so a node
may end at any moment. Workers end when the connection to their node closes, so none outlives it.

A shard whose worker cannot continue is reported as failed with the reason; the other shards of the
node continue. If the reason is of this machine, it is tried again here, and another node takes it.
Otherwise it is started again when the node's program is, or when an operator moves it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

import msgspec

from lycosa.base.messages.coordinator_messages import (
    Assignments,
    CoordinatorHello,
    ToCoordinator,
    ToNode,
    encode_node_message,
)
from lycosa.base.messages.progress import ProcessMemory, Progress
from lycosa.base.messages.worker_messages import Ended, Failed, FromWorker, Stop, WorkerStatus
from lycosa.base.model.compatibility import PROTOCOL
from lycosa.base.system.machine import free_memory_bytes
from lycosa.base.system.process_memory import cpu_s, held_by
from lycosa.base.system.shortage import in_thread
from lycosa.cluster.coordinator.node_acts import (
    Died,
    Machine,
    NodeAct,
    Note,
    Reply,
    StartWorker,
    TellCoordinator,
    TellWorker,
)
from lycosa.cluster.coordinator.node_plan import NodePlan
from lycosa.cluster.network.credentials import Credentials
from lycosa.processes.cluster.cluster_session import ClusterSession
from lycosa.processes.cluster.coordinator_dialer import CoordinatorDialer
from lycosa.processes.cluster.node_code import NodeCode
from lycosa.processes.failures import failed_start
from lycosa.processes.worker_group import WorkerGroup
from lycosa.processes.worker_handle import WorkerHandle
from lycosa.worker.job import RunCode, WorkerJob

_TICK_S = 0.1
_MEASURE_S = 1.0
_MEMORY_S = 0.5
_CODE_S = 5.0  # between two looks for user code that is allowed, or not any more
_LAST_WORD_S = 5.0  # in which a coordinator should have received that nothing runs here any more
_LONG_WAIT_S = 5.0  # a shorter one is not shown
_WAITS_S = 300.0  # between notes about the same wait


class NodeEnd(Enum):
    """Why a node's program ended."""

    LEFT = "left"
    KILLED = "killed"

    @property
    def meaning(self) -> str:
        """One line for people."""
        return _MEANINGS[self]


_MEANINGS = {
    NodeEnd.LEFT: "left the cluster: the workers of this node have committed everything",
    NodeEnd.KILLED: "ended at once: the workers of this node were killed",
}


class NodeListener(Protocol):
    """Shows the operator what happens."""

    def show_event(self, text: str, shard: int = -1) -> None:
        """Show one line; it concerns the shard, or the node (-1)."""
        ...


class CodeNotAllowed(OSError):
    """This machine lacks user code that the crawl runs, so another one should have the shard."""


class ClusterNode:
    """One run of a node's program. ``name`` is the node's, unique in the cluster.

    ``code`` is the user code that this machine allows.
    """

    def __init__(
        self,
        session: ClusterSession,
        credentials: Credentials,
        name: str,
        listener: NodeListener,
        protocol: int = PROTOCOL,
        code: NodeCode | None = None,
    ) -> None:
        self._session, self._code = session, code
        self.keep_renderer: Callable[[Mapping[str, str]], bool] = lambda values: False
        """Keeps a renderer process if pages are rendered by these live settings."""
        self._name = name
        self._listener = listener
        self.plan = NodePlan(time.time(), session.memory.most)
        self.plan.protocol = protocol
        self._workers = WorkerGroup(self.plan, session.memory.total, listener.show_event)
        hello = CoordinatorHello(
            "node", name, session.given.name, protocol, session.generation, session.crawl_id
        )
        self._dialers = [
            CoordinatorDialer(address, credentials, hello, self._receive, self._show_connection)
            for address in session.given.coordinators
        ]
        self._machine: Machine | None = None
        self._measured = self._next_memory = 0.0
        self._running: dict[int, _Running] = {}  # processes by shard
        self._crashed: set[int] = set()  # shards whose last process died
        self._folder_locks: dict[int, asyncio.Lock] = {}
        self._ending: Stop | None = None  # as last shown
        self._is_over = False
        self._left_since = 0.0

    # -- the operator's controls

    def stop(self) -> None:
        """End the node: the first call stops its workers in order, the second kills them."""
        now = time.monotonic()
        if self.plan.is_leaving or self.plan.is_abandoned:
            self._show("ending at once: workers are killed, and the next owners of shards wait")
            self._do(self.plan.abandon(now))
            self._workers.kill()
        else:
            alive = len(self.plan.alive)
            self._show(f"leaving the cluster: {alive} workers finish and commit what is in flight")
            self._do(self.plan.leave(now))

    # -- the run

    async def run(self) -> NodeEnd:
        """Run until ``stop`` was called and is done.

        A node stays when the crawl is over, because a crawl can be continued.
        """
        # before a coordinator is told what this machine allows
        await self._refresh_code()
        keeping = asyncio.create_task(self._keep_code())
        dialing = [asyncio.create_task(dialer.run()) for dialer in self._dialers]
        dialing.append(keeping)
        for shard in self._session.folder.known_shards():
            self._workers.begin(self._send_attempts(shard))
        try:
            while (end := self._end()) is None:
                self._do(self.plan.tick(time.monotonic(), self._measure()))
                self._manage_memory()
                await self._pause(dialing)
            return end
        except BaseException:
            # also a cancellation: no process may live on without the node that watches it
            self._do(self.plan.abandon(time.monotonic()))
            self._workers.kill()
            raise
        finally:
            await self._workers.close()
            for task in dialing:
                task.cancel()
            await asyncio.gather(*dialing, return_exceptions=True)

    async def _keep_code(self) -> None:
        while True:
            await asyncio.sleep(_CODE_S)
            await self._refresh_code()

    async def _refresh_code(self) -> None:
        """Look which user code this machine allows and has, and tell workers and coordinators."""
        if (code := self._code) is None:
            return
        digests = await in_thread(lambda: code.refresh(self._session.open_objects))
        self._session.code = RunCode(self.plan.code, code.folder, digests)
        self._do(self.plan.allow(digests, time.monotonic()))

    def health(self) -> tuple[bool, str]:
        """Whether it does all that it was given to do, and its state in one line."""
        plan, alive = self.plan, len(self.plan.alive)
        if plan.is_leaving or plan.is_abandoned:
            return False, f"leaves the cluster: {alive} workers have not ended"
        if not any(dialer.is_connected for dialer in self._dialers):
            return False, f"no connection to a coordinator; {alive} workers"
        if missing := plan.not_running:
            shards = ", ".join(map(str, missing))
            return False, f"{alive} workers; shards that do not run yet: {shards}"
        return True, f"connected to coordinator {plan.coordinator}; {alive} workers"

    async def _pause(self, dialing: list[asyncio.Task[None]]) -> None:
        """Wait for the next tick. Raises the error of a dialer, which never ends by itself."""
        # a dialer ends only with an error, which must not wait for the next tick
        done, _ = await asyncio.wait(dialing, timeout=_TICK_S, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    def _end(self) -> NodeEnd | None:
        plan = self.plan
        if plan.alive or self._workers.is_busy:
            return None
        if plan.is_abandoned:
            return NodeEnd.KILLED
        if not plan.is_leaving:
            return None
        self._left_since = self._left_since or time.monotonic()
        # Without an answer the coordinator finds out by the node's silence.
        is_late = time.monotonic() - self._left_since > _LAST_WORD_S
        is_alone = not any(dialer.is_connected for dialer in self._dialers)
        return NodeEnd.LEFT if plan.has_left or is_late or is_alone else None

    def _measure(self) -> Machine:
        now = time.monotonic()
        if self._machine is None or now - self._measured >= _MEASURE_S:
            self._measured = now
            disk = os.statvfs(self._session.folder.path)
            free_disk = disk.f_bavail * disk.f_frsize
            memory = ProcessMemory("node", *held_by(), cpu_s())
            self._machine = Machine(time.time(), free_disk, free_memory_bytes(), memory)
        return msgspec.structs.replace(self._machine, wall=time.time())

    def _manage_memory(self) -> None:
        if (now := time.monotonic()) < self._next_memory:
            return
        self._next_memory = now + _MEMORY_S
        progress = self._workers.total()
        self._workers.tell_memory(progress)
        self._workers.tell_stalled(progress)
        self._workers.tell_pool(progress)

    def _show_connection(self, text: str) -> None:
        if not self.plan.is_leaving:
            self._show(text)

    def _show(self, text: str, shard: int = -1) -> None:
        self._listener.show_event(text, shard)

    # -- coordinators

    def _receive(self, dialer: CoordinatorDialer, message: ToNode) -> None:
        acts = self.plan.handle_message(message, time.monotonic())
        if isinstance(message, Assignments) and message.coordinator == self.plan.coordinator:
            self._session.formats = message.formats
            self._session.code = msgspec.structs.replace(self._session.code, code=self.plan.code)
            self.keep_renderer(message.render)
            self._note_end()
        self._do(acts, dialer)

    def _note_end(self) -> None:
        """Show that the crawl ends, has ended, or continues after its end."""
        end, is_over = self.plan.end, self.plan.is_over
        if end is not None and end != self._ending:
            self._show(f"the crawl ends ({end.end}){', at once' if end.at_once else ''}")
        if is_over and not self._is_over:
            self._show(
                "the crawl is over: the workers of all shards have ended; this node waits for it to"
                " be continued"
            )
        if end is None and self._ending is not None:
            self._show("the crawl continues")
        self._ending, self._is_over = end, is_over

    def _send(self, message: ToCoordinator, dialers: list[CoordinatorDialer]) -> None:
        frame = encode_node_message(message)
        for dialer in dialers:
            dialer.send(frame)

    # -- acts

    def _do(self, acts: list[NodeAct], dialer: CoordinatorDialer | None = None) -> None:
        for act in acts:
            if isinstance(act, StartWorker):
                self._workers.begin(self._run(act))
            elif isinstance(act, TellWorker):
                self._workers.send(act.shard, act.message)
                if isinstance(act.message, Stop) and not self.plan.end and not self.plan.is_leaving:
                    self._show(f"shard {act.shard} leaves this node", act.shard)
            elif isinstance(act, TellCoordinator):
                self._send(act.message, self._dialers)
            elif isinstance(act, Reply):
                self._send(act.message, [dialer] if dialer is not None else [])
            elif isinstance(act, Note):
                self._show(act.text)
            else:
                self._show(
                    f"shard {act.shard} has failed: {act.failed.text}; the other shards continue."
                    f" When the cause is corrected, `lycosa cluster move {self._session.given.path}"
                    f" {act.shard} {self._name}` starts it again",
                    act.shard,
                )

    # -- workers

    async def _run(self, act: StartWorker) -> None:
        """Run one process of a shard from its start to its end."""
        shard = act.shard
        handle = WorkerHandle(
            shard, (shard,), self._session.folder.lock_filenos, self._receive_from_worker
        )
        ending: Ended | Failed | Died
        try:
            make_job = await self._prepare(act)
            how = ", carefully: its processes died without committing anything"
            self._show(f"shard {shard} starts here{how if act.is_careful else ''}", shard)
            self._workers.handles[shard] = handle
            ending = await self._workers.run_process(handle, make_job)
        except Exception as error:
            # whatever went wrong concerns one shard: the node tells the coordinator, and runs the
            # others
            ending = failed_start(error, is_on_cluster=True)
        self._workers.handles.pop(shard, None)
        self._running.pop(shard, None)
        if is_crash(ending, handle.was_killed):
            self._crashed.add(shard)
        self._do(self.plan.handle_worker_end(shard, ending, time.monotonic()))
        if isinstance(ending, Ended):
            self._show(f"shard {shard} has ended here, everything is committed", shard)
        elif not self.plan.has_shard(shard):
            why = ending.text if isinstance(ending, Failed) else ending.how
            self._show(f"shard {shard} has ended here ({why})", shard)
        await self._delete_tables(shard)

    async def _prepare(self, act: StartWorker) -> Callable[[], WorkerJob]:
        """Prepare the folders of a process; returns what makes its job."""
        shard, session = act.shard, self._session
        if objection := self.plan.code_objection:
            raise CodeNotAllowed(errno.EPERM, f"node {self._name}: {objection}")

        # the tables of an earlier process of the shard may just be deleted
        async with self._folder_lock(shard):
            await in_thread(session.follow_settings)
            owner = await in_thread(lambda: session.folder.begin_process(shard))
            term = await in_thread(lambda: session.folder.last_term(shard))
        cluster = session.cluster_job(act.assignment, owner, term, shard in self._crashed)
        self._running[shard] = _Running()

        def make_job() -> WorkerJob:
            plan = session.memory.plan(len(self.plan.alive))
            return msgspec.structs.replace(
                session.job(shard, plan, cluster),
                is_careful=act.is_careful,
                process=act.process,
            )

        return make_job

    async def _delete_tables(self, shard: int) -> None:
        """Delete the tables of a shard that another node runs from now on."""
        # asked again under the lock: the shard may have come back while this waited for it
        async with self._folder_lock(shard):
            if not self.plan.has_shard(shard):
                await in_thread(lambda: self._session.folder.delete_owners(shard))
        if not self.plan.has_shard(shard):
            await self._send_attempts(shard)

    async def _send_attempts(self, shard: int) -> None:
        """Send the attempt logs that killed workers of a shard left here, unless one runs now.

        A running worker sends them itself.
        """
        async with self._folder_lock(shard):
            if shard not in self._running:
                why = await in_thread(lambda: self._session.send_attempts(shard))
                if why:
                    self._show(f"attempt logs of shard {shard} stay here for now: {why}", shard)

    def _folder_lock(self, shard: int) -> asyncio.Lock:
        """One at a time prepares or deletes folders of a shard."""
        return self._folder_locks.setdefault(shard, asyncio.Lock())

    # -- messages of workers

    def _receive_from_worker(self, handle: WorkerHandle, message: FromWorker) -> None:
        shard, running = handle.number, self._running[handle.number]
        if isinstance(message, WorkerStatus) and message.term != running.term:
            running.term = message.term
            self._crashed.discard(shard)
            self._workers.begin(self._record_term(shard, running))
            at = f", other workers reach it at {message.address}" if message.address else ""
            self._show(f"shard {shard} runs here in term {message.term}{at}", shard)
        elif isinstance(message, Progress):
            self._workers.note_parser(handle)
            self._note_waiting(shard, running, message.waits_for)
            self._note_foreign(shard, running, message)
        self._do(self.plan.handle_worker_message(shard, message, time.monotonic()))

    async def _record_term(self, shard: int, running: _Running) -> None:
        # a process that ended meanwhile must not overwrite what its successor recorded
        async with self._folder_lock(shard):
            if self._running.get(shard) is running:
                await in_thread(lambda: self._session.folder.record_term(shard, running.term))

    def _note_waiting(self, shard: int, running: _Running, waits: str) -> None:
        """Show what a worker waits for, when it does so for long, and that it is over."""
        now = time.monotonic()
        if not waits:
            if running.is_wait_shown:
                self._show(f"shard {shard} continues", shard)
            running.is_wait_shown, running.next_note = False, now + _LONG_WAIT_S
        elif now >= running.next_note:
            running.is_wait_shown, running.next_note = True, now + _WAITS_S
            self._show(f"shard {shard} waits for {waits}", shard)

    def _note_foreign(self, shard: int, running: _Running, progress: Progress) -> None:
        """Show that a worker has stepped over foreign records."""
        counts = progress.meter.table("lycosa_foreign_records_total")
        if (number := sum(counts.values())) > running.foreign:
            topics = " and ".join(sorted(counts))
            self._show(
                f"shard {shard} has stepped over {number - running.foreign} records in {topics},"
                " which no program of this crawl wrote; foreign/ in object storage has their bytes",
                shard,
            )
            running.foreign = number


def is_crash(ending: Ended | Failed | Died, was_killed: bool) -> bool:
    """Whether a process ended by a signal or for lack of memory, so that a URL may be the cause.

    One that has said why it ends may still be killed, if it does not end soon.
    """
    return (was_killed and isinstance(ending, Died)) or (
        isinstance(ending, Failed) and ending.is_passing
    )


class _Running:
    """A process of a shard: its term, and when the operator is told what it waits for."""

    __slots__ = ("foreign", "is_wait_shown", "next_note", "term")

    def __init__(self) -> None:
        self.term = -1
        self.foreign = 0
        self.is_wait_shown = False
        self.next_note = time.monotonic() + _LONG_WAIT_S
