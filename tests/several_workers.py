"""A crawl by several workers in one process and in virtual time: the real coordinator and node
plan, with tasks for processes.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from lycosa.base.messages.coordinator_messages import (
    CALLER,
    Ask,
    Assignments,
    NoMoreAsks,
    OutgoingMessage,
    Relay,
)
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.timeouts import ONE_PROCESS
from lycosa.base.messages.worker_messages import Ended, FromWorker, Seeds, Stop, ToldWorker
from lycosa.base.model.end import End
from lycosa.base.model.parcel_items import PartitionKey
from lycosa.cluster.coordinator.coordinator import Coordinator
from lycosa.cluster.coordinator.node_acts import (
    Machine,
    NodeAct,
    StartWorker,
    TellCoordinator,
    TellWorker,
)
from lycosa.cluster.coordinator.node_plan import NodePlan
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.state.exchange.exchange_port import ExchangeEnds
from lycosa.state.exchange.local import InProcessExchange
from lycosa.synthetic import Faults, SyntheticFetcher, VirtualOffload, run_virtual
from lycosa.synthetic.faults import FaultyFetcher, FaultyOffload
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.coordinator_link import CoordinatorLink
from lycosa.worker.worker_ports import Ports
from progress_making import progress_with
from virtual_crawl import VirtualCrawl

_TICK_S = 1.0


class SlowExchange(InProcessExchange):
    """Answers questions and delivers after ``latency_s``; while ``is_deaf`` it answers none."""

    latency_s = 0.002
    is_deaf = False

    async def look_up_keys(self, keys: Sequence[PartitionKey]) -> dict[bytes, bytes | None]:
        await asyncio.sleep(self.latency_s)
        return {} if self.is_deaf else await super().look_up_keys(keys)

    def ends(self, number: int) -> ExchangeEnds:
        """What a worker is given."""
        return ExchangeEnds(self, self)


def run_workers(
    crawl: VirtualCrawl,
    workers: int,
    seeds: Sequence[str],
    faults: Faults | None = None,
    exchange: SlowExchange | None = None,
    meanwhile: Callable[[Assembled], None] = lambda _: None,
) -> list[Assembled]:
    """One run of a crawl's folder by several workers, to its end. Raises ``Crash`` when ``faults``
    says so: all die together.

    ``meanwhile`` is called with each worker that was put together, before seeds are given.
    """
    crawl._runs += 1
    config = crawl.config = msgspec.structs.replace(crawl.config, workers=workers)
    return run_virtual(
        _main(crawl, workers, list(seeds), faults, exchange or SlowExchange(), meanwhile),
        seed=config.seed * 1000 + crawl._runs,
        start=crawl.now,
        on_turn=faults.turn if faults else None,
    )


async def _main(
    crawl: VirtualCrawl,
    workers: int,
    seeds: list[str],
    faults: Faults | None,
    exchange: SlowExchange,
    meanwhile: Callable[[Assembled], None],
) -> list[Assembled]:
    loop = asyncio.get_running_loop()
    with crawl.session() as session:

        def start(number: int) -> Assembled:
            owned = tuple(range(number, crawl.config.frontier.partitions, workers))
            ends = exchange.ends(number) if workers > 1 else None
            ports = msgspec.structs.replace(_ports(crawl, number, faults), exchange=ends)
            each = assemble(
                session.job(number, owned), ports, None, crawl.extensions(), has_coordinator=True
            )
            meanwhile(each)
            if workers > 1:
                for partition in each.worker.frontier.partitions:
                    exchange.receivers.register_partition(
                        partition,
                        each.incoming.receive_parcel,
                        each.incoming.look_up(partition),
                    )
                each.outgoing.start()
                each.incoming.start()
            return each

        coordinator = Coordinator(
            1,
            workers,
            crawl.config.limits,
            ONE_PROCESS,
            loop.time(),
        )
        machine = OneMachine(coordinator, start)
        try:
            async with asyncio.timeout(crawl.longest_s):
                await machine.run(seeds)
        finally:
            crawl.now = loop.time()
            machine.cancel()
        running = [each.assembled for _, each in sorted(machine.workers.items())]
        for each in running:
            await each.incoming.close()
            await each.outgoing.close()
        await exchange.close()
        for each in running:
            each.close()
    return running


class _Worker:
    """A worker as tasks: its loop, and what it does about the messages that it is told, one
    after the other.
    """

    def __init__(self, assembled: Assembled, duties: CoordinatorLink) -> None:
        self.assembled, self.duties = assembled, duties
        self.told: asyncio.Queue[ToldWorker] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self.tasks = [loop.create_task(assembled.worker.run()), loop.create_task(self._listen())]
        self.tasks.append(loop.create_task(duties.send_news()))

    async def _listen(self) -> None:
        while True:
            await self.duties.handle_message(await self.told.get())

    def progress(self) -> Progress:
        """As little as coordinators and nodes need: it is made very often."""
        worker = self.assembled.worker
        counters, renders = worker.committer.counted, worker._renders
        return progress_with(
            captures=sum(each.captures for each in counters),
            wanted=sum(each.wanted for each in counters),
            renders_awaited=renders.waiting if renders is not None and renders.is_busy else 0,
            body_bytes=sum(each.body_bytes for each in counters),
            commits=worker.committer.commits,
            is_idle=worker.is_idle,
            reaches_nobody=worker.reaches_nobody,
        )


class OneMachine:
    """The coordinator and the node's plan that run a real crawl, with tasks in place of
    processes.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        start: Callable[[int], Assembled],
    ) -> None:
        self._coordinator, self._start = coordinator, start
        self._plan = NodePlan(0.0)
        self._waiting: deque[tuple[str, object]] = deque()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_handling = False
        self.workers: dict[int, _Worker] = {}

    async def run(self, seeds: list[str]) -> None:
        """Until all workers have ended. Raises what one of them raised."""
        loop = asyncio.get_running_loop()
        self._carry(CALLER, Ask(Seeds("seeds", seeds)))
        self._carry(CALLER, NoMoreAsks())
        while not self._coordinator.is_over:
            self._do(self._plan.tick(loop.time(), Machine(loop.time(), 0, 0)))
            for number in self._plan.alive:
                each = self.workers[number]
                for message in (*each.duties.report(), each.progress()):
                    self._do(self._plan.handle_worker_message(number, message, loop.time()))
            for outgoing in self._coordinator.tick(loop.time(), loop.time()):
                self._carry("", outgoing)
            await asyncio.wait([self._failure], timeout=_TICK_S)
            if self._failure.done():
                self._failure.result()

    def cancel(self) -> None:
        for each in self.workers.values():
            for task in each.tasks:
                task.cancel()
        self._failure.cancel()

    def _carry(self, sender: str, message: object) -> None:
        self._waiting.append((sender, message))
        if self._is_handling:
            return
        self._is_handling = True
        while self._waiting:
            sender, message = self._waiting.popleft()
            now = asyncio.get_running_loop().time()
            if not isinstance(message, OutgoingMessage):
                self._waiting += [
                    ("", each) for each in self._coordinator.handle_message(sender, message, now)
                ]  # type: ignore[arg-type]
            elif isinstance(message.message, Assignments | Relay):
                self._do(self._plan.handle_message(message.message, now))
        self._is_handling = False

    def _do(self, acts: list[NodeAct]) -> None:
        for act in acts:
            if isinstance(act, StartWorker):
                self._start_worker(act)
            elif isinstance(act, TellCoordinator):
                self._carry("node", act.message)
            elif isinstance(act, TellWorker) and isinstance(act.message, Stop):
                self.workers[act.shard].assembled.worker.stop(End(act.message.end))
            elif isinstance(act, TellWorker):
                self.workers[act.shard].told.put_nowait(act.message)  # type: ignore[arg-type]

    def _start_worker(self, act: StartWorker) -> None:
        number = act.shard

        def say(message: FromWorker) -> None:
            self._do(
                self._plan.handle_worker_message(number, message, asyncio.get_running_loop().time())
            )

        assembled = self._start(number)
        worker = self.workers[number] = _Worker(
            assembled, CoordinatorLink(assembled, act.process, say)
        )
        for task in worker.tasks:
            task.add_done_callback(lambda task: self._ended(number, task))

    def _ended(self, number: int, task: asyncio.Task[End | None]) -> None:
        if task.cancelled() or self._failure.done():
            return
        if (error := task.exception()) is not None:
            self._failure.set_exception(error)
        elif (end := task.result()) is not None:
            worker, now = self.workers[number], asyncio.get_running_loop().time()
            worker.tasks[1].cancel()
            self._do(self._plan.handle_worker_end(number, Ended(end.value, worker.progress()), now))


def _ports(crawl: VirtualCrawl, number: int, faults: Faults | None) -> Ports:
    chance = random.Random(f"{crawl.config.seed}:{crawl._runs}:{number}")
    fetcher = crawl.wrap(
        SyntheticFetcher(crawl.answers, crawl.clock, crawl.log, spool_dir=crawl.folder / "spool")
    )
    parser = InlineParser(ParserConfig.of(crawl.config))
    offload = VirtualOffload(chance, 0.005)
    if faults is None:
        return Ports(
            crawl.clock, offload, fetcher, crawl.resolver, parser, crawl.open_table, lambda _: None
        )
    return Ports(
        crawl.clock,
        FaultyOffload(offload, crawl.clock, faults),
        FaultyFetcher(fetcher, crawl.clock, faults),
        crawl.resolver,
        parser,
        crawl.open_table,
        faults.reach,
    )
