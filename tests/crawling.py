"""Whole crawls in process and in virtual time, into a real folder: what tests of everything that
reads crawl folders begin with.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from lycosa.base.config.sections import Config, FrontierSection, ParseSection
from lycosa.base.model.end import End
from lycosa.base.ports import Parser, ResolveError, Resolver
from lycosa.base.reasons import Reason
from lycosa.processes.session import Session
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.stages.parse.parser_process import ParserConfig
from lycosa.state.folder.names import spool_folder, suffix_list
from lycosa.state.kv.rocks import rocks_opener
from lycosa.synthetic import (
    Crash,
    Faults,
    Responder,
    Response,
    SyntheticFetcher,
    VirtualClock,
    VirtualOffload,
    run_virtual,
)
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.extensions import Extensions
from lycosa.worker.worker_ports import Ports

# Identifying languages is left out: the model takes half a second to load.
QUICK = Config(frontier=FrontierSection(partitions=3), parse=ParseSection(language=False))
# Reading the whole public suffix list takes a quarter of a second.
SUFFIXES = "// VERSION: of-the-tests\ncom\norg\ntest\nexample\n"
HTML = ("Content-Type", "text/html; charset=utf-8")


def page(*links: str, text: str = "", title: str = "A page", head: str = "") -> Response:
    """An HTML page with links."""
    anchors = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    return html(f"<!DOCTYPE html><title>{title}</title>{head}<p>{text}</p>{anchors}")


def html(text: str, status: int = 200) -> Response:
    return Response(status, [HTML], text.encode())


def moved(target: str, status: int = 301) -> Response:
    return Response(status, [("Location", target)], b"")


def robots(*lines: str) -> Response:
    return Response(200, [("Content-Type", "text/plain")], "\n".join([*lines, ""]).encode())


class Pages:
    """A web given page by page; everything else is 404. A list is answered in turn, its last one
    for ever.
    """

    def __init__(self, pages: Mapping[str, Response | Sequence[Response]]) -> None:
        self._pages = dict(pages)
        self.asked: list[str] = []

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        found = self._pages.get(url, Response(404, [HTML], b"<p>There is nothing here."))
        earlier = self.asked.count(url)
        self.asked.append(url)
        return found if isinstance(found, Response) else found[min(earlier, len(found) - 1)]


class Names:
    """A resolver: every name has one address of its own, but for those that fail."""

    def __init__(self, failing: Mapping[str, Reason] | None = None) -> None:
        self._failing = failing or {}
        self._known: dict[str, str] = {}

    async def resolve(self, name: str) -> Sequence[str]:
        if name in self._failing:
            raise ResolveError(name, self._failing[name], "as the test says")
        return [self._known.setdefault(name, f"198.18.1.{len(self._known) + 1}")]

    async def close(self) -> None:
        """Nothing is held."""


def crawl_folder(
    folder: Path,
    web: Responder,
    seeds: Sequence[str],
    config: Config = QUICK,
    *,
    start: float = 0.0,
    stop_after_s: float | None = None,
    faults: Faults | None = None,
    resolver: Callable[[VirtualClock], Resolver] | None = None,
    parser: Callable[[ParserConfig], Parser] = InlineParser,
    meanwhile: Callable[[Assembled], Coroutine[Any, Any, None]] | None = None,
    extensions: Extensions | None = None,
) -> End | None:
    """Crawls into ``folder`` with one worker and gives why the run ended; ``None`` when it crashed.

    ``start`` is the virtual time at which the run begins (a later run of the same folder begins
    later). ``stop_after_s`` asks the worker to stop after that long. After a crash that ``faults``
    chose the folder is what a ``kill -9`` leaves: nothing that was only in memory. ``meanwhile`` is
    what others do with the worker while it runs; until it returns the crawl does not end.
    """
    if not folder.exists():
        folder.mkdir(parents=True)
        suffix_list(folder).write_text(SUFFIXES)
    killed = folder.with_name(folder.name + ".killed")

    def reach(point: str) -> None:
        try:
            if faults is not None:
                faults.reach(point)
        except Crash:
            if not killed.exists():
                shutil.copytree(folder, killed)
            raise

    async def run() -> End:
        clock = VirtualClock()
        with Session(folder, config, rocks_opener(8 << 20, 4 << 20), clock) as session:
            ports = Ports(
                clock=clock,
                offload=VirtualOffload(random.Random(config.seed)),
                fetcher=SyntheticFetcher(
                    web, clock, spool_dir=spool_folder(folder), agent=session.user_agent
                ),
                resolver=resolver(clock) if resolver else Names(),
                parser=parser(ParserConfig.of(config)),
                open_table=rocks_opener(8 << 20, 4 << 20),
                reach=reach,
            )
            job = session.job(0, tuple(range(config.frontier.partitions)))
            assembled = assemble(job, ports, extensions=extensions)
            try:
                for each in seeds:
                    assembled.intake.take_seed(each)
                if stop_after_s is not None:
                    asyncio.get_running_loop().call_later(stop_after_s, assembled.worker.stop)
                if meanwhile is None:
                    return await assembled.worker.run()
                assembled.worker.expects_more = True
                running = asyncio.create_task(assembled.worker.run())
                other = asyncio.create_task(meanwhile(assembled))
                try:
                    done, _ = await asyncio.wait({running, other}, return_when="FIRST_COMPLETED")
                    if other in done:
                        other.result()
                        assembled.worker.expects_more = False
                        assembled.worker.wake()
                    return await running
                finally:
                    for task in (running, other):
                        task.cancel()
                    await asyncio.gather(running, other, return_exceptions=True)
            finally:
                assembled.close()

    try:
        return run_virtual(run(), seed=config.seed, start=start)
    except Crash:
        shutil.rmtree(folder)
        killed.rename(folder)
        return None
