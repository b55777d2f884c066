"""A whole crawl of a synthetic web in virtual time.

It runs the crawler of the real web with other ports. Only clock, offload, fetcher, resolver and
parser differ (``worker_ports``), so its results are those of the crawler: how long a crawl takes,
what waits for what, what is left over. Files are real, so the folder can be read afterwards like
any other. Time continues from run to run, so a crawl can be stopped, killed and resumed.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.end import End
from lycosa.base.ports import Fetcher, Parser, Resolver
from lycosa.processes.session import Session
from lycosa.stages.extract.code_source import load_code
from lycosa.stages.extract.inline_code import InlineCode
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.state.commit import ShardLease, folder_lease
from lycosa.state.kv.kv_port import KeyValue, Opener, SavedTable
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.state.kv.read_only import table_reader
from lycosa.state.shard.counters import Counters, count
from lycosa.synthetic.faults import Faults, FaultyFetcher, FaultyOffload
from lycosa.synthetic.fetcher import SyntheticFetcher
from lycosa.synthetic.request_log import RequestLog
from lycosa.synthetic.resolver import SyntheticResolver
from lycosa.synthetic.synthetic_web import Responder, SyntheticWeb
from lycosa.synthetic.virtual_clock import VirtualClock, VirtualOffload, run_virtual
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.extensions import Extensions, PageSink, UserRule
from lycosa.worker.job import WorkerJob
from lycosa.worker.worker_ports import Ports

Meanwhile = Callable[[Assembled], None]


class VirtualRun(msgspec.Struct, frozen=True):
    """How one run ended.

    ``duration_s`` is in virtual seconds, ``counters`` are of all partitions together, and
    ``refused`` has the refused seeds with the reasons.
    """

    end: End
    duration_s: float
    counters: Counters
    refused: list[tuple[str, str]]


class VirtualCrawl:
    """One crawl folder and its web.

    ``log`` is the web's record of all requests of all runs. ``now`` is the virtual time in seconds;
    increase it between two runs to let time pass. The following may be replaced before a run:
    ``answers`` (answers requests; by default the web), ``resolver``, ``wrap`` (a wrapper around the
    fetcher), ``sinks`` (receive the pages), ``rules`` (judge URLs), ``code`` (names of user code, called in this process by ``caller``), ``parser`` (parses),
    ``lease`` (makes the lease of a run's worker) and ``told`` (changes the worker's job). A run that
    takes more than ``longest_s`` ends with ``TimeoutError``.
    """

    def __init__(
        self,
        folder: Path,
        web: SyntheticWeb,
        config: Config | None = None,
        open_table: Opener | None = None,
    ) -> None:
        self.folder = folder
        self.web = web
        self.config = config or Config()
        self.log = RequestLog()
        self.clock = VirtualClock()
        self.now = 0.0
        self.answers: Responder = web
        self.resolver: Resolver = SyntheticResolver(web.hosts, self.clock)
        self.wrap: Callable[[Fetcher], Fetcher] = lambda fetcher: fetcher
        self.sinks: tuple[PageSink, ...] = ()
        self.rules: tuple[UserRule, ...] = ()
        self.code: tuple[str, ...] = ()
        self.caller: type[InlineCode] = InlineCode
        self.parser: Callable[[ParserConfig], Parser] = InlineParser
        self.lease: Callable[[], ShardLease] = folder_lease
        self.told: Callable[[WorkerJob], WorkerJob] = lambda job: job
        self.open_table: Opener = open_table or in_memory(MemoryTables())
        self.longest_s = 366 * 86400.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runs = 0

    def run(
        self,
        seeds: Iterable[str] = (),
        faults: Faults | None = None,
        meanwhile: Callable[[Assembled], None] | None = None,
    ) -> VirtualRun:
        """One run to its end.

        ``faults`` reaches its points at the worker's ports and commits, and at every turn of the
        loop. ``meanwhile`` is called once with the assembled worker, before seeds are added. Raises
        ``Crash`` by a fault plan, ``Deadlock``, ``TimeoutError``, and the errors of the worker.
        """
        self._runs += 1
        try:
            return run_virtual(
                self._main(list(seeds), faults, meanwhile),
                seed=self.config.seed * 1000 + self._runs,
                start=self.now,
                on_turn=faults.turn if faults else None,
            )
        finally:
            if self._loop is not None:
                self.now = self._loop.time()

    def session(self) -> Session:
        """The lock of this crawl's folder for one run.

        The id of the crawl comes from its seed. Every segment begins with it, and how well it
        compresses affects where a segment ends.
        """
        crawl_id = str(uuid.UUID(int=random.Random(self.config.seed).getrandbits(128), version=4))
        return Session(
            self.folder, self.config, self.open_table, self.clock, crawl_id, self._read_table
        )

    def _read_table(self, folder: Path) -> SavedTable:
        """A table on disk, or in memory, where there are no files to read."""
        return table_reader()(folder) if any(folder.glob("*")) else self.open_table(folder)

    async def _main(
        self, seeds: list[str], faults: Faults | None, meanwhile: Meanwhile | None
    ) -> VirtualRun:
        self._loop = asyncio.get_running_loop()
        began = self.clock.monotonic()
        with self.session() as session:
            job = self.told(session.job(0, tuple(range(self.config.frontier.partitions))))
            assembled = assemble(job, self._ports(faults), extensions=self.extensions())
            try:
                if meanwhile is not None:
                    meanwhile(assembled)
                refused = assembled.intake.take_seeds(seeds)
                async with asyncio.timeout(self.longest_s):
                    end = await assembled.worker.run()
            except Exception:  # but not after a crash, when nothing is closed
                assembled.close()
                raise
            assembled.close()
        counters = sum_of(
            partition.counters for partition in assembled.worker.frontier.partitions.values()
        )
        return VirtualRun(end, self.clock.monotonic() - began, counters, refused)

    def extensions(self) -> Extensions:
        """What is called for pages and URLs by one worker."""
        code = [load_code(each) for each in self.code]
        caller = self.caller(code, self.config.canonical)
        return Extensions(self.rules, self.sinks, code=caller)

    def _ports(self, faults: Faults | None) -> Ports:
        clock, chance, lease = (
            self.clock,
            random.Random(f"{self.config.seed}:{self._runs}"),
            self.lease(),
        )
        may_send: Callable[[], bool] = lambda: lease.holds(clock.monotonic())  # noqa: E731 (typed in place)
        web = SyntheticFetcher(
            self.answers, clock, self.log, spool_dir=self.folder / "spool", may_send=may_send
        )
        fetcher: Fetcher = self.wrap(web)
        parser = self.parser(ParserConfig.of(self.config))
        offload = VirtualOffload(chance, 0.005)
        if faults is None:
            return Ports(
                clock,
                offload,
                fetcher,
                self.resolver,
                parser,
                self.open_table,
                lambda _: None,
                lease=lease,
            )
        return Ports(
            clock,
            FaultyOffload(offload, clock, faults),
            FaultyFetcher(fetcher, clock, faults),
            self.resolver,
            parser,
            self.open_table,
            faults.reach,
            lease=lease,
        )


def in_memory(stores: MemoryTables) -> Opener:
    """Tables in memory, each with a folder, because recovery finds partitions by their folders."""

    def open_table(folder: Path) -> KeyValue:
        folder.mkdir(parents=True, exist_ok=True)
        return stores(folder)

    return open_table


def sum_of(counters: Iterable[Counters]) -> Counters:
    """The sum of several partitions' counters."""
    total = Counters()
    for each in counters:
        for name in Counters.__struct_fields__:
            value = getattr(each, name)
            if isinstance(value, dict):
                for key, number in value.items():
                    count(getattr(total, name), key, number)
            else:
                setattr(total, name, getattr(total, name) + value)
    return total
