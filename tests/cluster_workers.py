"""Real worker processes of a cluster: the test is their node and coordinator, Kafka and the object
store are real.
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from judging import SUFFIXES
from kafka_broker import Broker
from lycosa.base.config.sections import Config
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.worker_messages import (
    Ended,
    Failed,
    FromWorker,
    NoMoreCalls,
    Probe,
    ProbeAnswer,
    Routes,
    Seeds,
    SeedsTaken,
    Stop,
    WorkerStatus,
)
from lycosa.base.model.end import End
from lycosa.base.system.memory_plan import fitted, plan_memory
from lycosa.base.urls.identity import Sites
from lycosa.cluster.kafka.topics import Topics
from lycosa.processes.worker_handle import WorkerHandle
from lycosa.state.folder.manifest import MANIFEST_NAME, Manifest, encoded_manifest, identity_of
from lycosa.worker.job import ClusterJob, WorkerJob

LONGEST_S = 60.0
_M = TypeVar("_M")


class Bed:
    """A crawl on one broker and a local folder of objects, with folders of nodes."""

    def __init__(self, folder: Path, broker: Broker, config: Config, shards: int = 1) -> None:
        self.folder, self.broker = folder, broker
        self.topics: Topics = broker.topics(shards)
        self.objects = folder / "objects"
        self.objects.mkdir()
        self.file = folder / "cluster.toml"
        self.write_file()
        suffixes = folder / "suffixes"
        suffixes.write_text(SUFFIXES)
        self.plan = plan_memory(config, shards, 2 << 30)
        self.config = fitted(config, self.plan)
        identity = identity_of(config, Sites(suffixes))
        self.manifest = Manifest(
            crawl=str(uuid.uuid4()),
            created="2030-01-01T00:00:00Z",
            software="test",
            identity=identity,
        )
        (self.objects / MANIFEST_NAME).write_bytes(encoded_manifest(self.manifest))

    def write_file(self, addresses: tuple[str, ...] = ()) -> None:
        """``cluster.toml``, with other addresses of Kafka if they are given."""
        kafka = ", ".join(f'"{each}"' for each in addresses or self.broker.addresses)
        self.file.write_text(
            f'name = "{self.topics.name}"\nshards = {self.topics.shards}\n'
            f"[kafka]\naddresses = [{kafka}]\nreplication = 1\n"
            f'[objects]\nurl = "file://{self.objects}"\n'
        )

    def start(self, node: str, assignment: int, shard: int = 0, **cluster: object) -> Process:
        """A process of a shard on a node."""
        folder = self.folder / node / f"s{shard:03d}"
        for name in ("spool", "log"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "public_suffix_list.dat").write_text(SUFFIXES)
        owners = sum(1 for _ in folder.glob("owner-*"))
        job = WorkerJob(
            folder,
            self.config,
            self.manifest,
            shard,
            (shard,),
            "lycosa/test",
            "lycosa/test",
            plan=self.plan,
            cluster=ClusterJob(
                self.file, assignment, "127.0.0.1", folder / f"owner-{owners + 1}-{uuid.uuid4()}"
            ),
        )
        given = msgspec.structs.replace(job.cluster, **cluster)
        return Process(msgspec.structs.replace(job, cluster=given))


class Process:
    """One worker process, and what it has said."""

    def __init__(self, job: WorkerJob) -> None:
        self.job = job
        self.messages: list[FromWorker] = []
        self._news, self._rounds = asyncio.Event(), 0
        self.handle = WorkerHandle(job.number, (job.number,), (), self._receive)
        self._running = asyncio.get_running_loop().create_task(self.handle.run(job))

    def _receive(self, handle: WorkerHandle, message: FromWorker) -> None:
        self.messages.append(message)
        self._news.set()

    @property
    def status(self) -> WorkerStatus | None:
        """Its last status; the first one comes when its shard is open."""
        return self._last(WorkerStatus)

    @property
    def progress(self) -> Progress:
        return self._last(Progress) or Progress()

    def _last(self, kind: type[_M]) -> _M | None:
        return next((each for each in reversed(self.messages) if isinstance(each, kind)), None)

    async def until(self, holds: Callable[[], object]) -> None:
        """Waits until a condition holds, which is asked after each message."""
        try:
            async with asyncio.timeout(LONGEST_S):
                while not holds():
                    assert not self._running.done(), f"it ended: {self._running.result()}"
                    self._news.clear()
                    news = asyncio.ensure_future(self._news.wait())
                    await asyncio.wait({news, self._running}, return_when=asyncio.FIRST_COMPLETED)
                    news.cancel()
        except TimeoutError as error:
            raise AssertionError(f"it does not come: {self.progress}") from error

    async def opened(self) -> WorkerStatus:
        await self.until(lambda: self.status)
        assert self.status is not None
        return self.status

    async def give_seeds(self, seeds: list[str]) -> None:
        """Returns when they are committed."""
        await self.handle.send_message(Seeds("seeds", seeds))
        await self.until(lambda: self._last(SeedsTaken))

    async def tell_routes(self, addresses: dict[int, str], version: int = 1) -> None:
        await self.handle.send_message(Routes(version, addresses))

    async def finished(self) -> Ended | Failed | None:
        """Ends it in order as soon as it has nothing left to do."""
        await self.handle.send_message(NoMoreCalls())
        try:
            async with asyncio.timeout(LONGEST_S):
                while not await self._is_idle():
                    pass
        except TimeoutError as error:
            raise AssertionError(f"it does not finish: {self.progress}") from error
        return await self.stopped(End.FINISHED)

    async def _is_idle(self) -> bool:
        await self.until(lambda: self.progress.is_idle)
        self._rounds += 1
        await self.handle.send_message(Probe(self._rounds))
        await self.until(lambda: self._answer().round == self._rounds)
        return self._answer().is_idle

    def _answer(self) -> ProbeAnswer:
        return self._last(ProbeAnswer) or ProbeAnswer(0, False, 0)

    async def stopped(self, end: End = End.STOPPED) -> Ended | Failed | None:
        await self.handle.send_message(Stop(end.value))
        return await self.ended()

    async def ended(self) -> Ended | Failed | None:
        try:
            async with asyncio.timeout(LONGEST_S):
                return await asyncio.shield(self._running)
        except TimeoutError as error:
            raise AssertionError(f"it does not end: {self.progress}") from error

    async def kill(self) -> None:
        """As ``kill -9``; returns when it is gone."""
        self.handle.kill()
        assert await self.ended() is None

    def send_signal(self, number: signal.Signals) -> None:
        process = self.handle._process
        assert process is not None
        os.kill(process.pid, number)
