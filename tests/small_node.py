"""A node of few lines that speaks with a real coordinator over TCP: the crawler's own ``NodePlan``,
and workers that do what they are told at once and crawl nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType

from lycosa.base.messages.coordinator_messages import (
    Assignments,
    CoordinatorHello,
    Refused,
    ToCoordinator,
    decode_to_node,
    encode_node_message,
)
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.worker_messages import (
    Ended,
    FromWorker,
    LiveSettings,
    NoMoreCalls,
    Probe,
    ProbeAnswer,
    Routes,
    Seeds,
    SeedsTaken,
    Stop,
    ToWorker,
    WorkerStatus,
)
from lycosa.base.system.frame_stream import FrameStream
from lycosa.cluster.coordinator.node_acts import (
    Machine,
    NodeAct,
    Note,
    Reply,
    StartWorker,
    TellCoordinator,
    TellWorker,
)
from lycosa.cluster.coordinator.node_plan import NodePlan
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.credentials import Credentials
from progress_making import progress_with

FREE = 1 << 40
LONGEST_S = 60.0


class SmallWorker:
    """The worker of a shard: its seeds are fetched when they are committed.

    ``taken`` are those of the shard's table, which earlier workers of it filled.
    """

    def __init__(self, shard: int, term: int, taken: list[str]) -> None:
        self.shard, self.term = shard, term
        self.taken = taken
        self.expects_more, self.settings, self.routes = True, 0, 0

    def status(self) -> list[FromWorker]:
        number = len(self.taken)
        progress = progress_with(
            discovered=number,
            captures=number,
            states={"fetched": number},
            is_idle=not self.expects_more,
        )
        address = f"127.0.0.1:{1000 + self.shard}"
        status = WorkerStatus(
            self.term, 0, 0, 0, False, self.expects_more, self.settings, address, self.routes
        )
        return [status, progress]

    def handle_message(self, message: ToWorker) -> list[FromWorker]:
        if isinstance(message, Seeds):
            good = [seed for seed in message.raw if "bad" not in seed]
            self.taken += good if self.shard == 0 else []
            bad = [(seed, "not a URL") for seed in message.raw if "bad" in seed]
            return [SeedsTaken(message.call, bad if self.shard == 0 else [])]
        if isinstance(message, Probe):
            return [ProbeAnswer(message.round, not self.expects_more, 0)]
        if isinstance(message, NoMoreCalls):
            self.expects_more = False
        elif isinstance(message, LiveSettings):
            self.settings = message.version
        elif isinstance(message, Routes):
            self.routes = message.version
        return []


class SmallNode:
    """A context manager; connects to all ``addresses`` again and again, as nodes do.

    ``ahead_s`` is how far its clock is ahead. Its workers may be held back from taking seeds.
    """

    def __init__(
        self, crawl: str, addresses: list[str], name: str = "n1", ahead_s: float = 0.0
    ) -> None:
        self._crawl, self._addresses, self.name, self._ahead_s = crawl, addresses, name, ahead_s
        self.plan = NodePlan(time.time())
        self.workers: dict[int, SmallWorker] = {}
        self.terms: dict[int, int] = {}
        self.taken: dict[int, list[str]] = {}
        self.notes: list[str] = []
        self.refused: list[str] = []
        self.takes_seeds = True
        self._streams: set[FrameStream] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._news = asyncio.Event()

    async def __aenter__(self) -> SmallNode:
        self._tasks = [asyncio.create_task(self._dial(address)) for address in self._addresses]
        self._tasks.append(asyncio.create_task(self._tick()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds that messages can change."""
        async with asyncio.timeout(LONGEST_S):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def _dial(self, address: str) -> None:
        hello = encode_node_message(CoordinatorHello("node", self.name, self._crawl))
        while True:
            try:
                stream = await connect(address, Credentials(), hello)
            except OSError:
                await asyncio.sleep(0.2)
                continue
            self._streams.add(stream)
            try:
                while (frame := await stream.receive()) is not None:
                    self._receive(stream, decode_to_node(frame))
            except OSError:
                pass
            finally:
                self._streams.discard(stream)
                stream.close()
            await asyncio.sleep(0.2)

    def _receive(self, stream: FrameStream, message: object) -> None:
        if isinstance(message, Refused):
            self.refused.append(message.reason)
        else:
            assert isinstance(message, Assignments) or hasattr(message, "shard")
            self._do(self.plan.handle_message(message, time.monotonic()), stream)  # type: ignore[arg-type]
        self._news.set()

    async def _tick(self) -> None:
        while True:
            machine = Machine(time.time() + self._ahead_s, FREE, FREE)
            self._do(self.plan.tick(time.monotonic(), machine))
            for shard, worker in list(self.workers.items()):
                self._say(shard, worker.status())
            self._news.set()
            await asyncio.sleep(0.1)

    def _say(self, shard: int, messages: list[FromWorker]) -> None:
        for message in messages:
            self._do(self.plan.handle_worker_message(shard, message, time.monotonic()))

    def _do(self, acts: list[NodeAct], answered: FrameStream | None = None) -> None:
        for act in acts:
            if isinstance(act, StartWorker):
                self._start(act)
            elif isinstance(act, TellWorker) and act.shard in self.workers:
                self._tell(act.shard, act.message)
            elif isinstance(act, TellCoordinator):
                for stream in self._streams:
                    self._write(stream, act.message)
            elif isinstance(act, Reply) and answered is not None:
                self._write(answered, act.message)
            elif isinstance(act, Note):
                self.notes.append(act.text)

    @staticmethod
    def _write(stream: FrameStream, message: ToCoordinator) -> None:
        stream.write(encode_node_message(message))

    def _start(self, act: StartWorker) -> None:
        self.terms[act.shard] = self.terms.get(act.shard, 0) + 1
        taken = self.taken.setdefault(act.shard, [])
        worker = SmallWorker(act.shard, self.terms[act.shard], taken)
        self.workers[act.shard] = worker
        self._say(act.shard, worker.status())
        if (stop := self.plan.greeting(act.shard)) is not None:
            self._tell(act.shard, stop)

    def _tell(self, shard: int, message: ToWorker) -> None:
        if isinstance(message, Stop):
            del self.workers[shard]
            ended = Ended(message.end, Progress())
            self._do(self.plan.handle_worker_end(shard, ended, time.monotonic()))
        elif self.takes_seeds or not isinstance(message, Seeds):
            self._say(shard, self.workers[shard].handle_message(message))
