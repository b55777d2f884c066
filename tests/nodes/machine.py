"""A simulated machine and the processes on it: the node's own logic is the crawler's
(``NodePlan``), and so is all that a worker does.

A machine can be lost (its disk with it), hang and wake, and lose its connection to the cluster
while it still reaches the web. A process can be killed; its machine's disk stays, so the attempt
log names what was in flight.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judging import new_folder
from lycosa.base.messages.worker_messages import AllowedCode, Ended, Failed, Stop
from lycosa.base.model.end import End, PreviousEnd
from lycosa.cluster.coordinator import node_plan
from lycosa.cluster.coordinator.node_acts import (
    Died,
    GiveUp,
    NodeAct,
    Note,
    Reply,
    StartWorker,
    TellCoordinator,
    TellWorker,
)
from lycosa.cluster.coordinator.node_plan import NodePlan
from lycosa.processes.failures import failure_of
from lycosa.stages.frontier.crawl_clock import time_after_takeover
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.stages.politeness.node_addresses import NodeAddresses
from lycosa.state.commit import Fenced, OutcomeUnknown, RolledBack
from lycosa.state.commit.shard_lease import LEASE_S, ShardLease
from lycosa.state.exchange.exchange_port import ExchangeEnds, Lateness
from lycosa.state.exchange.topic import TopicPost
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.objects.object_errors import StoreFailed
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.state.shard.opened_shard import (
    PartitionData,
    Shard,
    ShardStorage,
    SnapshotLimit,
    open_shard,
)
from lycosa.synthetic.fetcher import SyntheticFetcher
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.coordinator_link import CoordinatorLink
from lycosa.worker.job import WorkerJob
from lycosa.worker.worker_ports import Ports
from memory_objects import MemoryStore
from nodes.logs import NodeLog
from nodes.ports import (
    Dead,
    NodeClock,
    NodeFetcher,
    NodeObjects,
    NodeOffload,
    NodeResolver,
    NodeSegments,
    NodeSnapshots,
    ProcessLog,
    bad_append,
)
from progress_making import progress_with

if TYPE_CHECKING:
    from nodes.world import World

CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process whose code runs: tasks that it begins are its own, and end with it."""
_FREE = 1 << 40
_REPORT_S = 0.5
_SNAPSHOT_COMMITS = 6
_TICK_S = 0.25


def _forget(task: asyncio.Task[Any]) -> None:
    """A dead process tells nobody what it died of."""
    if not task.cancelled():
        task.exception()


class MachineLacks(OSError):
    """The machine cannot give a process what it needs."""


class Machine:
    """One machine. ``world`` is everything that machines share."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.chance = random.Random(f"{world.seed} {name}")
        self.clock_off_s = self.chance.uniform(-world.clocks_differ_s, world.clocks_differ_s)
        self.monotonic_base = self.chance.uniform(1e4, 1e6)
        self.folder = world.folder / name
        self.folder.mkdir()
        self.addresses = NodeAddresses()
        self.is_dead = self.is_cut_off = False
        self.hears_late_s = 0.0  # of what it appended to logs
        self.lacks = 0  # the error number that workers meet when they start; 0 = nothing
        self._greatest = 0  # coordinator that it heard
        self.processes: dict[int, Process] = {}
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._numbers = count(1)
        self._plan = NodePlan(VIRTUAL_EPOCH + world.now() + self.clock_off_s)
        self._plan.allowed = world.allowed
        self._inbox: asyncio.Queue[object] = asyncio.Queue()
        self._tasks = [world.spawn(self._listen()), world.spawn(self._tick())]

    def __repr__(self) -> str:
        return (
            f"<Machine {self.name} dead={self.is_dead} hangs={self.hangs} cut off={self.is_cut_off}"
            f" {self._plan!r}>"
        )

    @property
    def hangs(self) -> bool:
        return not self._thawed.is_set()

    def hang(self) -> None:
        """Everything on it stands still. Servers answer what they were asked: a small answer
        fits into the buffers of the network.
        """
        self._thawed.clear()
        for process in self.processes.values():
            process.answered_by_servers()

    def wake(self) -> None:
        self._thawed.set()

    def lose(self) -> None:
        """The machine is gone, and what was on it."""
        self.is_dead = True
        for process in list(self.processes.values()):
            process.kill()
        for task in self._tasks:
            task.cancel()

    def kill(self, shard: int) -> None:
        """One worker process is killed; its node sees that."""
        process = self.processes.get(shard)
        if process is not None and not process.is_dead:
            process.kill()
            self._ended(process, Died("SIGKILL"))

    def fail(self, shard: int, failed: Failed) -> None:
        """One worker process ends with an error, and its node is told."""
        process = self.processes.get(shard)
        if process is not None and not process.is_dead:
            process.kill()
            self._ended(process, failed)

    def allow(self, digests: tuple[str, ...]) -> None:
        """Its operator allows exactly this user code."""
        self._do(self._plan.allow(digests, self._now()))

    async def gate(self) -> None:
        """Waits while the machine hangs; for ever when it is gone."""
        while not self.is_dead and self.hangs:
            await self._thawed.wait()
        if self.is_dead:
            await asyncio.Event().wait()

    # -- the node

    def handle_message(self, message: object) -> None:
        """A message has come in; a machine that hangs reads it when it wakes."""
        self._inbox.put_nowait(message)

    async def _listen(self) -> None:
        while True:
            message: Any = await self._inbox.get()
            await self.gate()
            acts = self._plan.handle_message(message, self._now())
            is_old, self._greatest = (
                message.coordinator < self._greatest,
                max(message.coordinator, self._greatest),
            )
            assert not is_old or all(isinstance(act, Reply) for act in acts), (
                f"{self.name} obeyed {message}: {acts}"
            )
            self._do(acts)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            await self.gate()
            wall = VIRTUAL_EPOCH + asyncio.get_running_loop().time() + self.clock_off_s
            self._do(self._plan.tick(self._now(), node_plan.Machine(wall, _FREE, _FREE)))

    def worker_said(self, process: Process, message: Any) -> None:
        """What a process tells, as long as it is the one that the node runs."""
        if self.processes.get(process.shard) is process:
            self._do(self._plan.handle_worker_message(process.shard, message, self._now()))

    def _ended(self, process: Process, ending: Any) -> None:
        if self.processes.get(process.shard) is process:
            del self.processes[process.shard]
            self._do(self._plan.handle_worker_end(process.shard, ending, self._now()))

    def _now(self) -> float:
        return asyncio.get_running_loop().time() + self.monotonic_base

    def _do(self, acts: list[NodeAct]) -> None:
        for act in acts:
            if isinstance(act, StartWorker):
                self._start(act)
            elif isinstance(act, TellWorker):
                if (process := self.processes.get(act.shard)) is not None:
                    process.handle_message(act.message)
            elif isinstance(act, TellCoordinator | Reply):
                self.world.tell_coordinators(self, act.message)
            elif isinstance(act, GiveUp):
                raise AssertionError(f"{self.name} gives up shard {act.shard}: {act.failed}")
            else:
                assert isinstance(act, Note)
                self.world.told.append(
                    f"{asyncio.get_running_loop().time():.0f} {self.name}: {act.text}"
                )

    def _start(self, act: StartWorker) -> None:
        assert act.shard not in self.processes, "the process before has ended"
        if objection := self._plan.code_objection:
            failed = Failed("PermissionError", objection, "", is_local=True)
            self._do(self._plan.handle_worker_end(act.shard, failed, self._now()))
            return
        wanted = {each.digest for each in self._plan.code.values()}
        self.world.code_starts.append((self.name, act.shard, wanted, set(self._plan.allowed)))
        process = self.processes[act.shard] = Process(
            self, act.shard, act.assignment, next(self._numbers), act.is_careful
        )
        process.start(self._ended)
        if (greeting := self._plan.greeting(act.shard)) is not None:
            process.handle_message(greeting)


class Process:
    """One worker process of a shard."""

    def __init__(
        self, machine: Machine, shard: int, assignment: int, number: int, is_careful: bool
    ) -> None:
        self.machine, self.shard, self._is_careful = machine, shard, is_careful
        self._assignment = assignment
        self.is_dead = False
        self._chance = random.Random(f"{machine.world.seed} {machine.name} {shard} {number}")
        self._number = number
        self._cold_chance = random.Random(f"cold {machine.world.seed} {machine.name} {number}")
        self._heard: asyncio.Queue[Any] = asyncio.Queue()
        self._tasks: dict[
            asyncio.Task[Any], None
        ] = {}  # in the order in which they began, which one seed gives
        self._log = ProcessLog(machine.world.log)
        self.term = 0
        self.assembled: Assembled | None = None
        self.appended = 0  # commits, by its log
        self.waited_s = 0.0  # in calls of the log that this clock has not counted yet

    def __repr__(self) -> str:
        return (
            f"<Process {self.machine.name} shard={self.shard} term={self.term} dead={self.is_dead}>"
        )

    @property
    def answers(self) -> bool:
        """Whether other workers reach it."""
        return not (
            self.is_dead or self.machine.is_dead or self.machine.hangs or self.machine.is_cut_off
        )

    def state(self) -> str:
        """For people."""
        each = self.assembled
        if each is None or self.is_dead:
            return repr(self)
        worker, outgoing = each.worker, each.outgoing
        return (
            f"{self!r} idle={worker.is_idle} more={worker.expects_more} lease={worker.has_lease}"
            f" {worker!r} {outgoing!r} {each.incoming!r} {each.permits!r}"
        )

    def _fail_sometimes(self, call: str, key: str) -> None:
        """Of the store of cold files; with a chance of its own, so that others stay as they are.

        An opening waits for its store, as ``PatientStore``.
        """
        self.check()
        if self.assembled and self.machine.world.is_troubled and self._cold_chance.random() < 0.2:
            self.machine.world.faults["cold file"] += 1
            raise StoreFailed(f"{call} {key}")

    def check(self) -> None:
        """Raises ``Dead``."""
        if self.is_dead:
            raise Dead

    async def gate(self) -> None:
        """Waits while the machine hangs; for ever when the process is dead."""
        await self.machine.gate()
        if self.is_dead:
            await asyncio.Event().wait()

    async def wait_out(self) -> None:
        """Lets the time pass that the log has waited."""
        seconds, self.waited_s = self.waited_s, 0.0
        if seconds:
            await asyncio.sleep(seconds)
            await self.gate()

    def handle_message(self, message: Any) -> None:
        self._heard.put_nowait(message)

    def kill(self) -> None:
        """As ``kill -9`` does: nothing of it has any effect from now on."""
        self.is_dead = True
        self._log.broken_off()
        for task in list(self._tasks):
            task.cancel()

    def answered_by_servers(self) -> None:
        self._log.broken_off()

    def start(self, ended: Any) -> None:
        """Runs it; ``ended`` hears how it ended by itself."""

        async def run() -> None:
            try:
                ending: Any = await self._run()
            except (Fenced, OutcomeUnknown, MachineLacks) as error:
                ending = failure_of(error, is_on_cluster=True)
            await self.gate()
            self.is_dead = True
            self._log.broken_off()
            for task in [task for task in self._tasks if task is not asyncio.current_task()]:
                task.cancel()
                task.add_done_callback(_forget)
            ended(self, ending)

        token = CURRENT.set(self)
        self.machine.world.spawn(run())
        CURRENT.reset(token)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A part of the process; how it fails is how the process ends."""
        return asyncio.get_running_loop().create_task(work)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """A task was begun by one of this process."""
        self._tasks[task] = None
        task.add_done_callback(lambda task: self._tasks.pop(task, None))

    # -- a worker

    async def _run(self) -> Any:
        world = self.machine.world
        if lacks := self.machine.lacks:
            raise MachineLacks(lacks, os.strerror(lacks))
        folder = self.machine.folder / f"s{self.shard:03d}"
        if not folder.exists():
            new_folder(folder)
            (folder / "spool").mkdir()
        clock, offload = NodeClock(self), NodeOffload(self, self._chance)
        lease = ShardLease(LEASE_S)
        shard, (began, claimed), latest, last_commit = await self._open(clock, offload, folder)
        self.term = shard.term
        lease.renew(began)
        job = self._job(folder, shard, clock, claimed, latest, last_commit)
        ports = self._ports(clock, offload, lease, folder)
        extensions = world.extensions(self)
        assembled = self.assembled = assemble(job, ports, shard, extensions, has_coordinator=True)
        duties = CoordinatorLink(assembled, shard.term, self._tell)
        world.inquiry_register(self, assembled)
        assembled.outgoing.start()
        assembled.incoming.start()
        working = self._spawn(assembled.worker.run())
        tasks = [
            working,
            self._spawn(self._listen(duties, assembled)),
            self._spawn(self._report(duties, assembled)),
            self._spawn(duties.send_news()),
        ]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.add_done_callback(_forget)
        for task in done:
            task.result()
        end = working.result()
        await assembled.incoming.close()
        await assembled.outgoing.close()
        await world.leave(self)
        assembled.close()
        return Ended(end.value, progress_with(commits=assembled.worker.committer.commits))

    async def _open(
        self, clock: NodeClock, offload: NodeOffload, folder: Path
    ) -> tuple[Shard, tuple[float, float], tuple[float, float], float]:
        """The shard, the moments before its claim and after it, and what was recovered."""
        world = self.machine.world
        tables = folder / f"tables-{self._number}"
        tables.mkdir()

        def make() -> PartitionData:
            return world.local_table(self.machine, self.shard) or PartitionData(
                MemoryKeyValue(), SortedSeenUrls(tables / "seen")
            )

        moments: list[float] = []
        while True:
            log = NodeLog(self, self._assignment, self._chance)
            storage = ShardStorage(
                log,
                NodeSegments(self, world.objects, self.shard, self._chance),
                NodeSnapshots(
                    self, NodeObjects(self, world.objects, self._chance), self.shard, log, make
                ),
                SnapshotLimit(_SNAPSHOT_COMMITS),
                lambda claim: moments.append(clock.monotonic()),
                saves_in_background=True,
                cold=MemoryStore(world.objects, self._fail_sometimes),
            )
            began = clock.monotonic()
            with suppress(RolledBack):
                shard, recovered = await offload.run(
                    lambda storage=storage: open_shard(self.shard, [self.shard], storage)
                )
                return shard, (began, moments[-1]), recovered.latest, recovered.last_commit
            await clock.sleep(1.0)

    def _job(
        self,
        folder: Path,
        shard: Shard,
        clock: NodeClock,
        claimed: float,
        latest: tuple[float, float],
        last_commit: float,
    ) -> WorkerJob:
        world = self.machine.world
        is_clean = shard.was_left_orderly
        here = world.last_machine.get(self.shard) is self.machine
        previous = (
            PreviousEnd.ORDERLY if is_clean else PreviousEnd.CRASH if here else PreviousEnd.LOST
        )
        world.last_machine[self.shard] = self.machine
        last = (
            ""
            if shard.last is None
            else f" after commit {shard.last.mark.sequence} of term {shard.last.term}"
        )
        how = "orderly" if is_clean else "held"
        world.told.append(
            f"{world.now():.1f} {self.machine.name} owns shard {self.shard} in term"
            f" {shard.term}{last}, {how}"
        )
        time = time_after_takeover(clock.wall(), latest[1], latest[0])
        config = world.config
        return WorkerJob(
            folder,
            config,
            world.manifest,
            self.shard,
            (self.shard,),
            "lycosa/simulated",
            "lycosa/simulated",
            last_commit,
            time_base=time - clock.monotonic(),
            held_until=0.0 if is_clean else claimed + LEASE_S + config.fetch.total_s,
            previous_end=previous,
            is_careful=self._is_careful,
        )

    def _ports(
        self, clock: NodeClock, offload: NodeOffload, lease: ShardLease, folder: Path
    ) -> Ports:
        world = self.machine.world
        inner = SyntheticFetcher(
            world.answers,
            clock,
            self._log,
            spool_dir=folder / "spool",
            may_send=lambda: lease.holds(clock.monotonic()),
        )
        return Ports(
            clock,
            offload,
            NodeFetcher(self, inner),
            NodeResolver(self, world.resolver, self._chance),
            world.parser(
                self,
                ParserConfig.of(world.config),
            ),
            lambda folder: MemoryKeyValue(),
            lambda point: None,
            addresses=lambda job: world.addresses_of(self, clock),
            lease=lease,
            exchange=ExchangeEnds(
                TopicPost(bad_append(self, self._chance, world.topics.append_parcel)),
                world.inquiry(self),
                world.inbound(self),
                Lateness(),
            ),
        )

    async def _listen(self, duties: CoordinatorLink, assembled: Assembled) -> None:
        while True:
            message = await self._heard.get()
            await self.gate()
            if isinstance(message, AllowedCode):
                assembled.live.code.allow(message.digests)
                continue
            await duties.handle_message(message)
            if isinstance(message, Stop):
                assembled.worker.stop(End(message.end))
                if message.at_once:
                    assembled.worker.break_off()

    async def _report(self, duties: CoordinatorLink, assembled: Assembled) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            await self.gate()
            worker = assembled.worker
            captures = sum(
                partition.counters.captures for partition in worker.frontier.partitions.values()
            )
            progress = progress_with(
                captures=captures,
                commits=worker.committer.commits,
                is_idle=worker.is_idle,
                reaches_nobody=worker.reaches_nobody,
            )
            for message in (*duties.report(), progress):
                self._tell(message)

    def _tell(self, message: Any) -> None:
        if not self.is_dead:
            self.machine.worker_said(self, message)
