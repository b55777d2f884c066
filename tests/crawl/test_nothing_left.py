"""Wherever a visit is broken off, by an error or by being cancelled, it leaves nothing held:
neither host nor lease, slot or permit.

The visits of a small crawl are made one after another, without the worker's loop. At each point in
turn where one of them waits for something, the wait ends with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from judging import quick_config
from lycosa.base.config.sections import (
    BudgetSection,
    Config,
    FrontierSection,
    LimitSection,
    PolitenessSection,
)
from lycosa.base.reasons import Reason
from lycosa.stages.parse.page import Page
from lycosa.stages.politeness.address_table import AddressTable
from lycosa.stages.politeness.machine_addresses import MachineAddresses
from lycosa.synthetic import VirtualClock, run_virtual
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.extensions import Extensions
from scripted import Answer, Names, error, moved, page, robots, scripted_crawl
from virtual_crawl import VirtualCrawl

A, B, C = "http://a.test/", "http://b.test/", "http://c.test/"
MANY = [f"/n/{number}" for number in range(1200)]
WEB: dict[str, Answer] = {
    A: page("/moved", "/gone", "/busy", "/no", "/many"),
    f"{A}robots.txt": robots("User-agent: *\nDisallow: /no\nDisallow: /n/\n"),
    f"{A}moved": moved("/to"),
    f"{A}to": page(),
    f"{A}busy": error(503),
    f"{A}many": page(*MANY),
    B: page(),
    f"{B}robots.txt": moved(f"{C}robots.txt"),
    C: page("/x"),
    f"{C}x": page(),
}
CONFIG = quick_config(
    frontier=FrontierSection(partitions=2, bands=4, head=6),
    politeness=PolitenessSection(delay_s=0.5, backoff_s=1.0),
    budgets=BudgetSection(host_pages=8),
)


class _Bug(Exception):
    """What the crawler's code never expects."""


class _Breaking:
    """Runs work whose waits are counted; the ``at``-th of all ends with ``error``."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        self._at, self._error = at, error
        self.waits = 0

    @property
    def is_broken(self) -> bool:
        return self.waits >= self._at > 0

    def run(self, work: Coroutine[Any, Any, None]) -> _Run:
        return _Run(self, work)

    def wait(self, work: Coroutine[Any, Any, None], future: Any) -> Any:
        """Called with what the work waits for; gives what it waits for in the end."""
        self.waits += 1
        if self.waits != self._at:
            return future
        return work.throw(self._error())


class _Run:
    def __init__(self, breaking: _Breaking, work: Coroutine[Any, Any, None]) -> None:
        self._breaking, self._work = breaking, work

    def __await__(self) -> Generator[Any, Any, None]:
        while True:
            try:
                yield self._breaking.wait(self._work, self._work.send(None))
            except StopIteration:
                return


class _Waiting:
    """Slots of addresses that take a turn of the loop, as those that are shared by nodes do."""

    def __init__(self) -> None:
        self.table = AddressTable(None, CONFIG.politeness)
        self._inner = MachineAddresses(self.table, VirtualClock())
        self.record_start, self.close = self._inner.record_start, self._inner.close
        self.describe_slot = self._inner.describe_slot

    async def take_slot(self, address: str, now: float, holder: object = None) -> float:
        await asyncio.sleep(0)
        return await self._inner.take_slot(address, now)

    async def release_slot(self, address: str, now: float, holder: object = None) -> None:
        await self._inner.release_slot(address, now)
        await asyncio.sleep(0)


def nothing_is_held(assembled: Assembled, addresses: _Waiting) -> None:
    frontier = assembled.worker.frontier
    assert not frontier.in_process
    for partition in frontier.partitions.values():
        assert not partition.leased
        for host in partition.visits._cache.values():
            assert host.queue.open_leases == 0 and not host.in_process
            waits = host.record.waiting > 0 and host.may_be_visited
            has_place = host.on_workbench or host.record.front or host.record.asleep_until
            assert not waits or has_place, "its URLs would never be fetched"
    assert addresses.table.snapshot()["slots_used"] == 0
    assert " open=0 " in repr(assembled.permits)
    assert assembled.sender.in_flight == 0
    assert assembled.pipeline.parsing.number == 0


async def _visit_all(crawl: VirtualCrawl, breaking: _Breaking, most: int = 100) -> None:
    """Visits until nothing is left, or until one was broken off; ``most`` at most."""
    addresses = _Waiting()
    with crawl.session() as session:
        job = session.job(0, tuple(range(crawl.config.frontier.partitions)))
        ports = msgspec.structs.replace(crawl._ports(None), addresses=lambda _: addresses)
        assembled = assemble(job, ports, extensions=Extensions(sinks=crawl.sinks))
        worker, frontier, clock = assembled.worker, assembled.worker.frontier, assembled.clock
        assembled.intake.take_seeds([A, B])
        try:
            while not breaking.is_broken and most:
                host = frontier.acquire(clock.monotonic(), clock.time())
                if host is not None:
                    most -= 1
                    await breaking.run(worker._visit(host))
                elif (ready := frontier.next_time()) is None or ready > clock.monotonic() + 60:
                    return
                else:
                    await clock.sleep(max(ready - clock.monotonic(), 0.001))
        finally:
            nothing_is_held(assembled, addresses)
            assembled.close()


def visits(folder: Path, at: int, error: type[BaseException], config: Config = CONFIG) -> int:
    """Gives how often visits waited for something."""
    names = Names({"c.test": ["198.18.1.9"], "d.test": Reason.DNS_TIMEOUT})
    crawl, _ = scripted_crawl(folder, WEB, config, names)
    breaking = _Breaking(at, error)
    if at:
        with pytest.raises(error):
            run_virtual(_visit_all(crawl, breaking), seed=1)
    else:
        run_virtual(_visit_all(crawl, breaking), seed=1)
    return breaking.waits


@pytest.mark.parametrize("error", [_Bug, asyncio.CancelledError])
def test_a_visit_that_is_broken_off_anywhere_leaves_nothing_held(
    error: type[BaseException], tmp_path: Path
) -> None:
    waits = visits(tmp_path / "whole", 0, error)
    assert waits > 40
    for at in range(1, waits + 1):
        assert visits(tmp_path / f"at-{at}", at, error) == at


def test_a_name_that_fails_and_a_permit_that_is_not_given_leave_nothing_held(
    tmp_path: Path,
) -> None:
    crawl, web = scripted_crawl(
        tmp_path / "c",
        WEB,
        msgspec.structs.replace(CONFIG, limits=LimitSection(max_pages=1)),
        Names({"b.test": Reason.DNS_TIMEOUT}),
    )
    run_virtual(_visit_all(crawl, _Breaking(0, _Bug), most=8), seed=1)
    assert sum(asked for url, asked in web.asked.items() if "robots" not in url) == 1


def test_an_error_of_a_page_sink_ends_no_visit_and_leaves_nothing_held(tmp_path: Path) -> None:
    given: list[str] = []

    def sink(found: Page) -> None:
        given.append(found.url)
        raise _Bug

    crawl, _ = scripted_crawl(tmp_path / "c", WEB, CONFIG)
    crawl.sinks = (sink,)
    run_virtual(_visit_all(crawl, _Breaking(0, _Bug)), seed=1)
    assert len(given) > 5


def test_the_loop_that_is_not_the_workers_makes_all_kinds_of_visits(tmp_path: Path) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", WEB, CONFIG)
    run_virtual(_visit_all(crawl, _Breaking(0, _Bug)), seed=1)
    assert web.asked[f"{C}robots.txt"] and web.asked[f"{A}to"] and web.asked[f"{A}many"]
    assert web.asked[f"{A}busy"] and not web.asked[f"{A}no"]
