"""A crawl from a Python program: the same session, worker and stages as on the command line.

    import lycosa

    report = lycosa.Crawl(["https://example.org/"], folder="example").run()

One worker runs in the program's process, several in separate processes. The program's sinks are
called in a thread, its rules on the loop of the worker.
"""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import uvloop

from lycosa.base.config.sections import Config
from lycosa.base.config.sources import SettingsError, check_config
from lycosa.base.messages.progress import Progress
from lycosa.base.model.code_failure import PROGRAM, FailureNote
from lycosa.base.model.end import End
from lycosa.base.system.memory_plan import memory_plan, worker_count
from lycosa.feeds.stored_pages import StoredPages
from lycosa.inspect.unfetched import failed_seeds, unfetched_of
from lycosa.processes.program_run import (
    LOG,
    OnProgress,
    ProgramParts,
    ProgramRun,
    SeveralRun,
    SingleRun,
    with_code,
)
from lycosa.processes.seed_check import SeedCheck
from lycosa.processes.session import open_session
from lycosa.processes.status_file import held_up_by
from lycosa.processes.upload_thread import Uploads, begin_uploads, check_place
from lycosa.stages.parse.page import Page
from lycosa.state.folder.folder_notes import save_pause, saved_settings
from lycosa.state.folder.manifest import has_manifest
from lycosa.state.folder.seed_sources import (
    SeedSource,
    SourceKind,
    load_sources,
    merged_sources,
    save_sources,
    unread,
)
from lycosa.worker.extensions import PageSink, UserRule

_LOOK_S = 0.2  # between two looks for pages that were committed
_SMALL = 1000  # failed seeds are searched among this number of URLs


class Report(msgspec.Struct, frozen=True):
    """How a run ended.

    It has the reason of the end, the counts of the whole crawl, and the refused seeds with reasons.
    ``unread_seeds`` are sources of seeds that an earlier run did not read to their end. For
    example, the command line continues to read a file that it was given. ``reasons`` say why URLs
    were not fetched, a line for each cause and for each seed that failed, and which rules and sinks
    failed; ``captured`` counts the captures of this run.
    """

    end: End
    progress: Progress
    refused_seeds: list[tuple[str, str]]
    unread_seeds: list[SeedSource] = []
    reasons: list[str] = []
    captured: int = 0

    @property
    def failures(self) -> list[FailureNote]:
        """The rules and sinks that failed in this run, each with its first failure."""
        return self.progress.failures


class Crawl:
    """One crawl folder and what to do there.

    Each ``run`` continues the last one, also after a crash. ``rules`` judge every URL that is
    found, after scope and traps, and refuse one by returning a ``Refusal``. ``sinks`` get every
    capture before its commit, after a crash possibly twice; they are called in one thread, a page
    after the other. A rule that raises refuses the URL, a sink that raises changes nothing: the
    page gets a remark, the failure is in ``Report.failures`` and in the log ``lycosa`` of
    ``logging``. ``extensions`` are extractors, link finders and scorers, which run in separate
    processes: functions with a decorator, of a module or of the program's file, or names such as
    ``"shop.py:products"``; in the program's file, the crawl must begin below ``if __name__ ==
    "__main__":``. A crawl that had extensions continues with those that are named again; ``[]``
    continues without any. ``on_progress`` gets the progress about twice a second.

    With ``workers`` greater than 1 in the settings, that many processes crawl; one if pages are
    rendered (``render.mode``), because a renderer calls it. They import rules by
    their names, so these must be functions of a module or of the program's file, and a program must
    begin its crawl below ``if __name__ == "__main__":``. Sinks are called in the program's process
    in any case.

    ``run`` raises ``CrawlInUse``, ``ManifestError``, ``CommittedDataMissing``, ``LogDamaged``,
    ``StoreDamaged``, ``KeyFileError``, ``ObjectError``, ``WorkerFailed`` or ``OSError``, and
    ``SettingsError`` for extensions that cannot be loaded or are not named again, and for a crawl
    that renders pages where there is no browser; all of them are names of ``lycosa``. It raises
    ``ValueError`` when no seed of a new crawl can be crawled, with the reasons. Settings are
    checked at once: the constructor raises ``SettingsError``.
    """

    def __init__(
        self,
        seeds: Iterable[str],
        folder: str | Path,
        config: Config | None = None,
        *,
        rules: Sequence[UserRule] = (),
        sinks: Sequence[PageSink] = (),
        extensions: Sequence[object] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        if isinstance(seeds, str):
            raise TypeError(f"seeds must be a list of URLs, for instance [{seeds!r}]")
        self._seeds = list(seeds)
        self._folder = Path(folder)
        self._config = config if config is not None else Config()
        if extensions:
            self._config = with_code(self._config, extensions)
        check_config(self._config)
        self._names_code = extensions is not None or bool(self._config.extensions.code)
        self._rules, self._sinks = tuple(rules), tuple(sinks)
        self._on_progress = on_progress
        self._loop: asyncio.AbstractEventLoop | None = None
        self._run: ProgramRun | None = None
        self._uploads: Uploads | None = None
        self._is_open = asyncio.Event()
        self._is_stopped = self._is_paused = False

    def __repr__(self) -> str:
        return f"<Crawl {self._folder} {self._run!r}>"

    def run(self) -> Report:
        """Crawl until no work is left, a limit is reached, or ``stop`` is called. Blocks.

        Raises ``RuntimeError`` where an event loop runs, as in a notebook: use ``run_async`` there.
        """
        self._refuse_worker()
        if _running_loop() is not None:
            raise RuntimeError(
                "an event loop runs here, as in a notebook: use `await crawl.run_async()`"
            )
        return uvloop.run(self.run_async())

    async def run_async(self) -> Report:
        """The same on a running event loop."""
        self._refuse_worker()
        if self._loop is not None:
            raise RuntimeError("this crawl runs already")
        self._check_seeds()
        self._check_code()
        self._check_browser()
        self._loop = asyncio.get_running_loop()
        try:
            return await self._run_session()
        finally:
            self._loop = self._run = None
            self._is_open.clear()
            self._is_stopped = self._is_paused = False

    async def _run_session(self) -> Report:
        is_one = worker_count(self._config) == 1
        config = msgspec.structs.replace(self._config, workers=1) if is_one else self._config
        is_one = is_one and not config.render.is_on
        plan = memory_plan(config)
        session = open_session(self._folder, self._config)
        session.on_locked = lambda: self._note_seeds(0)
        if self._config.upload.url:
            check_place(self._folder, self._config.upload)
        with session:
            save_pause(session.folder, None)  # the program starts the crawl
            if unshared := session.share_addresses():
                warnings.warn(unshared, RuntimeWarning, stacklevel=2)
            self._uploads = begin_uploads(session, lambda _: None)
            self._is_open.set()
            parts = ProgramParts(
                self._seeds, self._rules, self._sinks, self._show, self._note_seeds
            )
            try:
                run = (SingleRun if is_one else SeveralRun)(session, plan, parts)
                report = await self._with_uploads(await self._run_to_end(run))
            finally:
                if self._uploads is not None:
                    self._uploads.stop()
        reasons = await asyncio.to_thread(self._reasons, report, session.folder)
        captured = report.progress.captures - sum(session.recovered.captures.values())
        return msgspec.structs.replace(report, reasons=reasons, captured=captured)

    async def _run_to_end(self, run: ProgramRun) -> Report:
        self._run = run
        if self._is_paused:
            run.pause(True)
        if self._is_stopped:
            run.stop()
        try:
            ended = await run.run()
        finally:
            self._run = None
        return Report(ended.end, ended.progress, ended.refused, self._unread())

    @staticmethod
    def _refuse_worker() -> None:
        if PROGRAM in sys.modules:
            raise RuntimeError("this process crawls already: it is a worker of the program")

    def _show(self, progress: Progress) -> None:
        if self._on_progress is not None:
            try:
                self._on_progress(progress)
            except Exception:
                LOG.exception("on_progress failed, and is not called any more")
                self._on_progress = None

    @staticmethod
    def _reasons(report: Report, folder: Path) -> list[str]:
        """Why URLs were not fetched, read from what the run left, and which user code failed."""
        now, progress = time.time(), report.progress
        held_up = held_up_by(progress)
        lines = [f"at the end it waited for {held_up}"] if held_up else []
        lines += [str(each) for each in report.failures]
        lines += unfetched_of(folder, now).lines(str(folder), now)
        is_small = progress.discovered <= _SMALL
        return [*lines, *failed_seeds(folder)] if is_small else lines

    # -- control, from any thread

    def stop(self) -> None:
        """Finish and commit what is in flight, then return from ``run``.

        Before ``run`` it lets the next one end at once. It may be called from any thread, for
        instance by a sink.
        """
        self._is_stopped = True
        self._call(self._stop)

    def pause(self) -> None:
        """Start no new request until ``resume``. It may be called from any thread."""
        self._is_paused = True
        self._call(lambda: self._pause_run(True))

    def resume(self) -> None:
        """End a pause."""
        self._is_paused = False
        self._call(lambda: self._pause_run(False))

    def _stop(self) -> None:
        if self._run is not None:
            self._run.stop()
        elif self._uploads is not None:
            self._uploads.stop()

    def _pause_run(self, is_paused: bool) -> None:
        if self._run is not None:
            self._run.pause(is_paused)

    def _call(self, act: Callable[[], object]) -> None:
        """Do something on the loop of the run, at once if this is its thread."""
        loop = self._loop
        if loop is not None and loop is _running_loop():
            act()
        elif loop is not None:
            with suppress(RuntimeError):  # the run has just ended, and its loop is closed
                loop.call_soon_threadsafe(act)

    # -- pages

    async def pages(self, *, new_only: bool = False) -> AsyncIterator[Page]:
        """Run the crawl and yield its pages, each once, when they are committed.

        First come those that the folder has from earlier runs, so what a program gets does not
        depend on how often it was started; with ``new_only`` they are left out. Pages are read from
        the folder, as by ``lycosa.open``: a slow program does not slow the crawl down. Leaving the
        loop stops the crawl. Not yielded are sitemaps, robots.txt files, and answers that a page
        has not changed.
        """
        running = asyncio.create_task(self.run_async())
        opened = asyncio.create_task(self._is_open.wait())
        try:
            await asyncio.wait([running, opened], return_when=asyncio.FIRST_COMPLETED)
            if self._is_open.is_set():
                stored = StoredPages(self._folder)
                if new_only:
                    await asyncio.to_thread(stored.skip_to_end)
                is_last = False
                while not is_last:
                    is_last = running.done()
                    while batch := await asyncio.to_thread(stored.next_pages):
                        for page in batch:
                            yield page
                    await asyncio.wait([running], timeout=_LOOK_S)
            await running
        finally:
            opened.cancel()
            self.stop()
            self.resume()
            await asyncio.wait([running])
            self._is_stopped = False
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

    def _check_code(self) -> None:
        """Refuse to continue without the extensions of the last run, unless the program says so."""
        if self._names_code:
            return
        saved = saved_settings(self._folder)
        if saved is not None and (names := saved.extensions.code):
            raise SettingsError(
                [
                    f"extensions: the crawl has {', '.join(names)}, and code runs only when the"
                    " program names it again; extensions=[] continues without"
                ]
            )

    def _check_browser(self) -> None:
        """Refuse a crawl that renders pages where no browser is found, before anything begins."""
        if not self._config.render.is_on:
            return
        # only for crawls that render: it costs others 10 ms
        from lycosa.stages.render.browser_process import NoBrowser, find_browser

        try:
            find_browser(self._config.render.browser)
        except NoBrowser as error:
            raise SettingsError([f"render: {error}"]) from error

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


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None  # in a thread without one, as in an ordinary program
