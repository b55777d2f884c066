"""The two ways in which a Python program crawls: with a worker in its own process, or with several.

One worker runs on the program's event loop, as it needs no other process but the parser. Several,
and one whose pages a renderer takes, are processes under a supervisor, as those of ``lycosa
crawl``. They call the program's sinks over a
socket, and import its rules by their names.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.messages.progress import Progress
from lycosa.base.model.code_failure import PRINTED, CodeFailure, name_of_code
from lycosa.base.model.end import End
from lycosa.base.system.memory_plan import MemoryPlan
from lycosa.base.system.plugins import (
    Plugins,
    active_plugins,
    inactive_lines,
    installed_extensions,
    loaded,
)
from lycosa.cluster.coordinator.price_search import PriceSearch
from lycosa.processes.called_crawl import CalledCrawl
from lycosa.processes.page_socket import PAGES_SOCKET, PageServer
from lycosa.processes.run_limits import RunLimits
from lycosa.processes.session import Session
from lycosa.processes.socket_folder import SocketFolder
from lycosa.processes.supervisor import RunRules, Supervisor
from lycosa.processes.user_code import prepared_extensions
from lycosa.state.kv.rocks import opener_within
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.extension_failures import ExtensionFailures
from lycosa.worker.extensions import PageSink, UserRule
from lycosa.worker.real_ports import cache_of, real_ports
from lycosa.worker.sink_thread import SinkThread
from lycosa.worker.worker_progress import ProgressReport

LOG = logging.getLogger("lycosa")
"""The log of crawls in a Python program, which has no log file."""
OnProgress = Callable[[Progress], object]
_SEED_BATCH = 10_000
_PROGRESS_S = 0.5
_PRICED_S = 0.5  # between parts of the work of a price


class ProgramParts(msgspec.Struct, frozen=True):
    """What a program gives to its crawl."""

    seeds: Sequence[str]
    rules: tuple[UserRule, ...]
    sinks: tuple[PageSink, ...]
    on_progress: OnProgress
    note_seeds: Callable[[int], None]
    """Gets the number of seeds that are committed."""


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended, and the seeds that were refused, with the reasons."""

    end: End
    progress: Progress
    refused: list[tuple[str, str]]


class ProgramRun(Protocol):
    """A run of a crawl in a program. The methods are called on its loop."""

    async def run(self) -> RunEnd:
        """Run to the end. Raises the errors of the crawl."""
        ...

    def stop(self) -> None:
        """Finish what is in flight."""
        ...

    def pause(self, is_paused: bool) -> None:
        """Start no new request, or start requests again."""
        ...


def log_failure(failure: CodeFailure, number: int) -> None:
    """Say in the program's log what failed, as a ``TellFailure``."""
    if failure.kind == PRINTED:
        LOG.info(failure.headline)
        return
    more = f" ({number:,} times since the last message)" if number > 1 else ""
    LOG.error("%s%s\n%s", failure.headline, more, failure.trace)


class SingleRun:
    """One worker on the program's loop. All seeds are committed before the first request."""

    def __init__(self, session: Session, plan: MemoryPlan, parts: ProgramParts) -> None:
        self._session, self._parts = session, parts
        config = session.config
        job = session.job(0, tuple(range(config.frontier.partitions)), plan)
        installed = installed_extensions()
        named = active_plugins(config.extensions, installed)
        for line in inactive_lines(config.extensions, installed):
            LOG.warning(line)
        rules = (*loaded(named.rules), *parts.rules)
        sinks = (*loaded(named.sinks), *parts.sinks)
        self._ports = real_ports(job, opener_within(cache_of(plan)))
        extensions = prepared_extensions(config.extensions, rules, sinks, log_failure)
        try:
            self._assembled: Assembled = assemble(job, self._ports, extensions=extensions)
        except BaseException:
            extensions.close()
            raise

    def __repr__(self) -> str:
        return repr(self._assembled.worker)

    async def run(self) -> RunEnd:
        """See ``ProgramRun``."""
        worker, report = (
            self._assembled.worker,
            ProgressReport(self._assembled, self._session.config),
        )
        limits = RunLimits(
            self._session.config.limits, self._session.folder, partial(worker.stop, End.LIMIT)
        )
        beside = [
            asyncio.create_task(self._show(report)),
            asyncio.create_task(find_price(self._assembled)),
        ]
        try:
            refused = await self._give_seeds()
            with limits:
                end = await worker.run()
            progress = report.make_report()
            self._parts.on_progress(progress)
            return RunEnd(end, progress, refused)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._ports.parser.close()
            await self._assembled.sender.close()
            self._assembled.close()

    def stop(self) -> None:
        """See ``ProgramRun``."""
        self._assembled.worker.stop()

    def pause(self, is_paused: bool) -> None:
        """See ``ProgramRun``."""
        worker = self._assembled.worker
        (worker.pause if is_paused else worker.resume)()

    async def _show(self, report: ProgressReport) -> None:
        while True:
            self._parts.on_progress(report.make_report())
            await asyncio.sleep(_PROGRESS_S)

    async def _give_seeds(self) -> list[tuple[str, str]]:
        """Commit all seeds; return those that were refused."""
        seeds, refused = self._parts.seeds, list[tuple[str, str]]()
        for at in range(0, len(seeds), _SEED_BATCH):
            refused += self._assembled.intake.take_seeds(seeds[at : at + _SEED_BATCH])
            await self._assembled.worker.committer.commit()
        self._parts.note_seeds(len(seeds))
        return refused


async def find_price(assembled: Assembled) -> None:
    """Find the price of a refetch, as the coordinator of several workers does; until cancelled."""
    search, grids, clock = PriceSearch(1), assembled.grids, assembled.clock
    while True:
        now = clock.monotonic()
        if (grid := grids.step(now, assembled.live.version)) is not None:
            grids.follow(search.receive(0, (0, 0), grid, now))
        for found in search.tick(now).values():
            grids.follow(found)
        await asyncio.sleep(_PRICED_S)


class _ProgramSeeds:
    """The seeds of a program as a ``SeedFeed``."""

    def __init__(self, parts: ProgramParts) -> None:
        self._parts, self._taken = parts, 0

    def take_seeds(self, most: int) -> list[str]:
        """See ``SeedFeed``."""
        found = list(self._parts.seeds[self._taken : self._taken + most])
        self._taken += len(found)
        return found

    def note_committed(self) -> None:
        """See ``SeedFeed``."""
        self._parts.note_seeds(self._taken)


class SeveralRun:
    """Several worker processes, and the program's sinks in a thread of this one.

    Raises ``ValueError`` for a rule that workers cannot import, and ``OSError``.
    """

    def __init__(self, session: Session, plan: MemoryPlan, parts: ProgramParts) -> None:
        self._session, self._parts = session, parts
        self._rules_told, self._is_stopping = set[str](), False
        named = active_plugins(session.config.extensions)
        rules = (*named.rules, *(importable_name(rule) for rule in parts.rules))
        with ExitStack() as stack:
            self._sockets = stack.enter_context(SocketFolder()).path
            pages = str(self._sockets / PAGES_SOCKET) if parts.sinks else ""
            plugins = Plugins(rules, named.sinks, tuple(each for each in sys.path if each), pages)
            self._supervisor = Supervisor(
                session,
                plan,
                _ProgramSeeds(parts),
                self._show,
                LOG.warning,
                hosting=RunRules(self._sockets, plugins=plugins),
            )
            self._stack = stack.pop_all()  # which ``run`` closes

    def __repr__(self) -> str:
        return f"<SeveralRun {self._sockets}>"

    async def run(self) -> RunEnd:
        """See ``ProgramRun``."""
        session, supervisor, sinks = self._session, self._supervisor, self._parts.sinks
        crawl = session.manifest.crawl
        called = CalledCrawl(
            crawl, supervisor, self._sockets, session.folder, LOG.warning, session.config.render
        )
        supervisor.keep_renderer = called.keep_renderer
        with self._stack:
            async with AsyncExitStack() as stack:
                if sinks:
                    thread = SinkThread(sinks, session.config.extensions.sink_s)
                    noted = ExtensionFailures(log_failure).note
                    path = self._sockets / PAGES_SOCKET
                    await stack.enter_async_context(PageServer(path, thread, noted))
                await called.open()
                stack.push_async_callback(called.close)
                limits = RunLimits(session.config.limits, session.folder, supervisor.reach_limit)
                stack.enter_context(limits)
                outcome = await supervisor.run()
        return RunEnd(End(outcome.end), outcome.progress, outcome.refused_seeds)

    def stop(self) -> None:
        """See ``ProgramRun``. To the supervisor a second stop would be an operator's impatience."""
        if not self._is_stopping:
            self._is_stopping = True
            self._supervisor.stop()

    def pause(self, is_paused: bool) -> None:
        """See ``ProgramRun``."""
        self._supervisor.pause(is_paused)

    def _show(self, progress: Progress) -> None:
        for each in progress.failures:
            # those of sinks are logged where they are called, in this process
            if each.first.kind == "rule" and each.first.name not in self._rules_told:
                self._rules_told.add(each.first.name)
                log_failure(each.first, each.failures)
        self._parts.on_progress(progress)


def with_code(config: Config, extensions: Iterable[object]) -> Config:
    """The settings with a program's extensions: functions with a decorator, or names.

    Raises ``ValueError`` for what another process cannot import.
    """
    names = [each if isinstance(each, str) else _code_name(each) for each in extensions]
    section = config.extensions
    section = msgspec.structs.replace(section, code=(*section.code, *names))
    return msgspec.structs.replace(config, extensions=section)


def _code_name(code: object) -> str:
    module, _, name = name_of_code(code).partition(":")
    file = getattr(sys.modules.get(module), "__file__", None)
    if getattr(sys.modules.get(module), name, None) is not code or file is None:
        raise ValueError(
            f"extensions are imported by their names in another process, and {module}:{name} is not"
            " one of a module or of the program's file: move it to a file"
        )
    return f"{Path(file).resolve()}:{name}" if "." not in module else f"{module}:{name}"


def importable_name(rule: UserRule) -> str:
    """``module:function``, or ``FILE.py:function`` of the program that runs.

    Raises ``ValueError`` for what a worker process cannot import.
    """
    module, _, name = name_of_code(rule).partition(":")
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not rule or (module == "__main__" and main is None):
        raise ValueError(
            f"several workers import the rule {name} by its name, so it must be a function of a"
            " module or of the program's file; move it there, or use one worker"
        )
    return f"{Path(str(main)).resolve()}:{name}" if module == "__main__" else f"{module}:{name}"
