"""A crawl by several shards in virtual time, whose segments are in a real folder of objects.

Logs and tables are in memory. Workers, coordinator and exchange are those of ``several_workers``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from judging import SUFFIXES, new_folder, quick_config
from lycosa.base.config.sections import Config, FrontierSection
from lycosa.base.messages.timeouts import ONE_PROCESS
from lycosa.base.ports import Parser
from lycosa.base.urls.identity import Sites
from lycosa.cluster.coordinator.coordinator import Coordinator
from lycosa.stages.extract.code_source import load_code
from lycosa.stages.extract.inline_code import InlineCode
from lycosa.state.commit import Commit, MemoryChangelog, MemoryLog
from lycosa.state.folder.manifest import Manifest, identity_of
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.objects.folder import FolderStore
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.state.shard.live_view import LiveView, viewable
from lycosa.state.shard.opened_shard import PartitionData, Shard, ShardStorage, open_shard
from lycosa.state.shard.view import CrawlOrigin
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.synthetic import run_virtual
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.extensions import Extensions
from lycosa.worker.job import WorkerJob
from memory_snapshots import MemorySnapshots
from scripted import Answer, scripted_crawl
from several_workers import OneMachine, SlowExchange, _ports

CRAWL = "00000000-0000-4000-8000-000000000001"
Meanwhile = Callable[["ObjectCluster"], None]


class ObjectCluster:
    """``shards`` shards over the web of ``answers``. ``now`` is virtual time, as in a
    ``VirtualCrawl``.

    During a run and after it ``shards`` are the open shards. ``wrap_parser`` changes the parser of
    a worker, ``code`` is user code that every worker calls, ``shop.py:products``.
    """

    def __init__(self, folder: Path, answers: dict[str, Answer], shards: int, **sections: object):
        folder.mkdir()
        self.config: Config = quick_config(
            frontier=FrontierSection(partitions=shards, bands=3, head=5), **sections
        )
        self.crawl, self.web = scripted_crawl(folder / "web", answers, self.config)
        (folder / "objects").mkdir()
        self.objects = FolderStore(f"file://{folder}/objects", folder / "objects")
        self._folder, self._count, self._runs = folder, shards, 0
        suffixes = folder / "suffixes"
        suffixes.write_text(SUFFIXES)
        self.sites = Sites(suffixes)
        self.manifest = Manifest(
            crawl=CRAWL,
            created="2030-01-01T00:00:00Z",
            software="test",
            identity=identity_of(self.config, self.sites),
        )
        self._changelogs = [MemoryChangelog(CRAWL, shard) for shard in range(shards)]
        self._kept: list[dict[str, bytes]] = [{} for _ in range(shards)]
        self.shards: list[Shard] = []
        self.wrap_parser: Callable[[Parser], Parser] = lambda parser: parser
        self.code: Sequence[str] = ()

    def commits(self, shard: int) -> list[Commit]:
        """The commits of a shard that are kept."""
        return list(self._changelogs[shard].commits())

    def run(
        self,
        seeds: Sequence[str] = (),
        look_at_s: float = 0.0,
        look: Meanwhile = lambda cluster: None,
        change: Callable[[KeyValue], None] = lambda table: None,
    ) -> None:
        """One run to its end. ``look`` is called after so many seconds, ``change`` with each table
        before the run.
        """
        self._runs += 1
        run_virtual(
            self._run(list(seeds), look_at_s, look, change),
            seed=self._runs,
            start=self.crawl.now,
        )

    @contextmanager
    def view(self, shard: int) -> Iterator[LiveView]:
        """What the owner of a shard reads for callers."""
        opened = self.shards[shard]
        origin = CrawlOrigin(
            f"shard {shard}",
            self.manifest,
            lambda: self.sites,
            lambda: self.config,
            find_attempts=lambda partition: None,
            is_cluster=True,
        )
        segments = opened.storage.segments
        assert isinstance(segments, ObjectSegments)
        view = LiveView(origin, opened, segments)
        try:
            yield view
        finally:
            view.close()

    def _open(self, shard: int, change: Callable[[KeyValue], None]) -> Shard:
        folder = self._folder / f"run-{self._runs}-{shard}"
        folder.mkdir()

        def make() -> PartitionData:
            return PartitionData(MemoryKeyValue(), SortedSeenUrls(folder / "seen"))

        log = MemoryLog(self._changelogs[shard])
        segments = ObjectSegments(self.objects, shard, folder / "segments", kept_s=0.0)
        storage = ShardStorage(log, segments, MemorySnapshots(self._kept[shard], shard, log, make))
        opened = viewable(open_shard(shard, [shard], storage)[0])
        change(opened.tables[shard])
        return opened

    async def _run(
        self,
        seeds: list[str],
        look_at_s: float,
        look: Meanwhile,
        change: Callable[[KeyValue], None],
    ) -> None:
        loop, crawl, exchange = asyncio.get_running_loop(), self.crawl, SlowExchange()
        self.shards = [self._open(shard, change) for shard in range(self._count)]

        def start(number: int) -> Assembled:
            folder = new_folder(self._folder / f"worker-{self._runs}-{number}")
            for name in ("spool", "state", "log"):
                (folder / name).mkdir()
            ports = _ports(crawl, number, None)
            ports = msgspec.structs.replace(
                ports, exchange=exchange.ends(number), parser=self.wrap_parser(ports.parser)
            )
            job = WorkerJob(folder, self.config, self.manifest, number, (number,), "test", "test")
            code = InlineCode([load_code(each) for each in self.code], self.config.canonical)
            extensions = Extensions(code=code)
            each = assemble(job, ports, self.shards[number], extensions, has_coordinator=True)
            exchange.receivers.register_partition(
                number, each.incoming.receive_parcel, each.incoming.look_up(number)
            )
            each.outgoing.start()
            each.incoming.start()
            return each

        machine = OneMachine(
            Coordinator(1, self._count, self.config.limits, ONE_PROCESS, loop.time()), start
        )
        looked: list[BaseException | None] = []

        def look_now() -> None:
            try:
                look(self)
                looked.append(None)
            except BaseException as error:
                looked.append(error)

        if look_at_s:
            loop.call_later(look_at_s, look_now)
        try:
            async with asyncio.timeout(crawl.longest_s):
                await machine.run(seeds)
        finally:
            crawl.now = loop.time()
            machine.cancel()
            for each in machine.workers.values():
                await each.assembled.incoming.close()
                await each.assembled.outgoing.close()
            await exchange.close()
        assert len(looked) == bool(look_at_s), "the run ended before it was looked at"
        for error in looked:
            if error is not None:
                raise error
