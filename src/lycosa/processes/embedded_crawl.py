"""A crawl from a Python program: the same session, worker and stages as on the command line.

    import lycosa

    report = lycosa.Crawl(["https://example.org/"], folder="example").run()

Everything runs in the program's process, except the parser, which runs in a child process. The
program's rules and sinks are called on the crawl's event loop, so they should be quick.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import msgspec
import uvloop

from lycosa.base.config.sections import Config
from lycosa.base.config.sources import check_config
from lycosa.base.messages.progress import Progress
from lycosa.base.model.end import End
from lycosa.base.model.page import Page
from lycosa.base.system.memory_plan import MemoryPlan, memory_plan
from lycosa.cluster.coordinator.price_search import PriceSearch
from lycosa.inspect.unfetched import failed_seeds, unfetched_of
from lycosa.processes.seed_check import SeedCheck
from lycosa.processes.session import Session, open_session
from lycosa.processes.status_file import held_up_by
from lycosa.processes.upload_thread import Uploads, begin_uploads, check_place
from lycosa.state.folder.manifest import has_manifest
from lycosa.state.folder.pause_note import save_pause
from lycosa.state.folder.seed_sources import (
    SeedSource,
    SourceKind,
    load_sources,
    merged_sources,
    save_sources,
    unread,
)
from lycosa.state.kv.rocks import opener_within
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.extensions import Extensions, PageSink, UserRule
from lycosa.worker.real_ports import cache_of, real_ports
from lycosa.worker.worker import Worker
from lycosa.worker.worker_progress import ProgressReport

_QUEUED_PAGES = 100
_SEED_BATCH = 10_000
_PRICED_S = 0.5  # between parts of the work of a price
_SMALL = 1000  # failed seeds are searched among this number of URLs


class Report(msgspec.Struct, frozen=True):
    """How a run ended.

    It has the reason of the end, the counts of the whole crawl, and the refused seeds with reasons.
    ``unread_seeds`` are sources of seeds that an earlier run did not read to their end. For
    example, the command line continues to read a file that it was given. ``reasons`` say why URLs
    were not fetched, a line for each cause and for each seed that failed; ``captured`` counts the
    captures of this run.
    """

    end: End
    progress: Progress
    refused_seeds: list[tuple[str, str]]
    unread_seeds: list[SeedSource] = []
    reasons: list[str] = []
    captured: int = 0


class Crawl:
    """One crawl folder and what to do there.

    Each ``run`` continues the last one, also after a crash. ``rules`` judge every URL that is
    found, after scope and traps, and refuse one by returning a ``Refusal``. ``sinks`` get every
    capture before its commit, after a crash possibly twice. ``run`` raises the errors that the
    command line reports in one line: ``ManifestError``, ``CrawlInUse``, ``StoreDamaged``,
    ``KeyFileError``, ``ObjectError``, ``OSError``. It raises ``ValueError`` when no seed of a new
    crawl can be crawled, with the reasons. Settings are checked at once: the constructor raises
    ``SettingsError``.
    """

    def __init__(
        self,
        seeds: Iterable[str],
        folder: str | Path,
        config: Config | None = None,
        *,
        rules: Sequence[UserRule] = (),
        sinks: Sequence[PageSink] = (),
    ) -> None:
        if isinstance(seeds, str):
            raise TypeError(f"seeds must be a list of URLs, for instance [{seeds!r}]")
        self._seeds = list(seeds)
        self._folder = Path(folder)
        self._config = config if config is not None else Config()
        check_config(self._config)
        self._rules = tuple(rules)
        self._sinks = tuple(sinks)
        self._worker: Worker | None = None
        self._uploads: Uploads | None = None

    def __repr__(self) -> str:
        return f"<Crawl {self._folder} {self._worker!r}>"

    def run(self) -> Report:
        """Crawl until no work is left, a limit is reached, or ``stop`` is called. Blocks."""
        return uvloop.run(self.run_async())

    async def run_async(self) -> Report:
        """The same on a running event loop."""
        self._check_seeds()
        plan = memory_plan(msgspec.structs.replace(self._config, workers=1))
        session = open_session(self._folder, self._config)
        session.on_locked = lambda: self._note_seeds(0)
        if self._config.upload.url:
            check_place(self._folder, self._config.upload)
        with session:
            save_pause(session.folder, None)  # the program starts the crawl
            if unshared := session.share_addresses():
                warnings.warn(unshared, RuntimeWarning, stacklevel=2)
            self._uploads = begin_uploads(session, lambda _: None)
            try:
                report = await self._with_uploads(await self._run(session, plan))
            finally:
                if self._uploads is not None:
                    self._uploads.stop()
        reasons = await asyncio.to_thread(self._reasons, report, session.folder)
        captured = report.progress.captures - sum(session.recovered.captures.values())
        return msgspec.structs.replace(report, reasons=reasons, captured=captured)

    @staticmethod
    def _reasons(report: Report, folder: Path) -> list[str]:
        """Why URLs were not fetched, read from what the run left."""
        now, progress = time.time(), report.progress
        held_up = held_up_by(progress)
        lines = [f"at the end it waited for {held_up}"] if held_up else []
        lines += unfetched_of(folder, now).lines(str(folder), now)
        is_small = progress.discovered <= _SMALL
        return [*lines, *failed_seeds(folder)] if is_small else lines

    def stop(self) -> None:
        """Finish and commit what is in flight, then return from ``run``.

        Call it from the loop's thread, for instance from a sink.
        """
        if self._worker is not None:
            self._worker.stop()
        elif self._uploads is not None:
            self._uploads.stop()

    def pause(self) -> None:
        """Start no new request until ``resume``."""
        if self._worker is not None:
            self._worker.pause()

    def resume(self) -> None:
        if self._worker is not None:
            self._worker.resume()

    async def pages(self) -> AsyncIterator[Page]:
        """Run the crawl and yield its captures.

        The crawl is paused while the program is far behind.
        """
        queue: asyncio.Queue[Page | None] = asyncio.Queue()

        def put(page: Page) -> None:
            queue.put_nowait(page)
            if queue.qsize() >= _QUEUED_PAGES:
                self.pause()

        sinks, self._sinks = self._sinks, (*self._sinks, put)
        running = asyncio.create_task(self.run_async())
        running.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (page := await queue.get()) is not None:
                yield page
                if queue.empty():
                    self.resume()
            await running
        finally:
            self._sinks = sinks
            self.stop()
            self.resume()
            await asyncio.wait([running])
            if not running.cancelled():
                # The program has left the loop, so an error of the crawl is not raised any more.
                running.exception()

    async def _with_uploads(self, report: Report) -> Report:
        """Upload what the run left; ``progress.uploads`` says how much was uploaded."""
        if self._uploads is None:
            return report
        state = await self._uploads.finish(lambda: None)
        progress = msgspec.structs.replace(report.progress, uploads=state)
        return msgspec.structs.replace(report, progress=progress)

    def _check_seeds(self) -> None:
        """Refuse a crawl without seeds before its folder is created, because it is a mistake."""
        if has_manifest(self._folder):
            return
        check = SeedCheck(self._config, time.time())
        reasons = []
        for seed in self._seeds:
            reason = check.refusal(seed)
            if not reason:
                return
            reasons.append(f"{seed!r}: {reason}")
        raise ValueError(
            "; ".join(["no seed can be crawled", *reasons[:10]])
            if reasons
            else "a new crawl needs a seed"
        )

    def _note_seeds(self, taken: int) -> None:
        """Record how many of the program's seeds are committed."""
        if self._seeds:
            source = SeedSource(
                kind=SourceKind.PROGRAM,
                lines=taken,
                seeds=taken,
                is_complete=taken == len(self._seeds),
            )
            save_sources(self._folder, merged_sources(load_sources(self._folder), [source]))

    def _unread(self) -> list[SeedSource]:
        return unread(load_sources(self._folder))

    async def _give_seeds(self, assembled: Assembled) -> list[tuple[str, str]]:
        """Commit all seeds before the first request; return those that were refused."""
        refused: list[tuple[str, str]] = []
        for at in range(0, len(self._seeds), _SEED_BATCH):
            refused += assembled.intake.take_seeds(self._seeds[at : at + _SEED_BATCH])
            await assembled.worker.committer.commit()
        self._note_seeds(len(self._seeds))
        return refused

    async def _run(self, session: Session, plan: MemoryPlan) -> Report:
        job = session.job(0, tuple(range(self._config.frontier.partitions)), plan)
        ports = real_ports(job, opener_within(cache_of(plan)))
        extensions = Extensions(self._rules, self._sinks)
        assembled = assemble(job, ports, extensions=extensions)
        self._worker = assembled.worker
        pricing = asyncio.create_task(_find_price(assembled))
        try:
            refused = await self._give_seeds(assembled)
            end = await assembled.worker.run()
            return Report(
                end,
                ProgressReport(assembled, session.config).make_report(),
                refused,
                self._unread(),
            )
        finally:
            self._worker = None
            pricing.cancel()
            await asyncio.gather(pricing, return_exceptions=True)
            await ports.parser.close()
            await assembled.sender.close()
            assembled.close()


async def _find_price(assembled: Assembled) -> None:
    """Find the price of a refetch, as the coordinator of several workers does; until cancelled."""
    search, grids, clock = PriceSearch(1), assembled.grids, assembled.clock
    while True:
        now = clock.monotonic()
        if (grid := grids.step(now, assembled.live.version)) is not None:
            grids.follow(search.receive(0, (0, 0), grid, now))
        for found in search.tick(now).values():
            grids.follow(found)
        await asyncio.sleep(_PRICED_S)
