"""A continuous crawl goes on when nothing is left: it sleeps, wakes when a page is due, and ends
only when it is told to or a limit is reached.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from clusters import LONGEST_S, LYCOSA, SETTINGS, WatchedLog, seed_at
from crawling import page
from judging import are_balanced, is_polite, quick_config
from lycosa.base.config.sections import Config, FrontierSection, LimitSection, RefetchSection
from lycosa.base.model.due_band import DueBand
from lycosa.base.model.end import End
from lycosa.inspect.audit.folder_audit import audit
from lycosa.synthetic import Crash, Faults, SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from lycosa.worker.assemble import Assembled
from scripted import Answer, ScriptedWeb, scripted_crawl
from serving import served_with_log
from several_workers import run_workers
from virtual_crawl import VirtualCrawl

A, B = "http://a.example/", "http://b.example/"
DAY = 86_400.0
PAGES = [f"p{number}" for number in range(8)]
WEB = {A: page(*PAGES), **{f"{A}{name}": page(text=name) for name in PAGES}}
DAILY = RefetchSection(first_s=DAY, min_s=DAY, max_s=DAY)


def config_of(refetch: RefetchSection = DAILY, **limits: int) -> Config:
    section = LimitSection(continuous=True, **limits)
    return msgspec.structs.replace(quick_config(), refetch=refetch, limits=section)


def continuous(
    folder: Path, web: Mapping[str, Answer], config: Config | None = None
) -> tuple[VirtualCrawl, ScriptedWeb]:
    crawl, scripted = scripted_crawl(folder, web, config or config_of())
    crawl.longest_s = 366 * DAY
    return crawl, scripted


class Watched:
    """Tells a crawl to stop after some days, and looks at it every six hours."""

    def __init__(self, days: float, act: Callable[[Assembled], None] = lambda _: None) -> None:
        self._days, self._act = days, act
        self.seen: list[tuple[bool, int, int]] = []
        self.turns = 0

    def __call__(self, assembled: Assembled) -> None:
        loop, worker = asyncio.get_running_loop(), assembled.worker

        def stop() -> None:
            self.turns = worker.turns
            worker.stop()

        def look() -> None:
            self._act(assembled)
            self.seen.append((worker.is_drained, worker.running, assembled.sender.slots.held))
            loop.call_later(DAY / 4, look)

        loop.call_later(self._days * DAY, stop)
        loop.call_later(DAY / 8, look)


def test_it_fetches_its_pages_cycle_after_cycle_and_holds_nothing_in_between(
    tmp_path: Path,
) -> None:
    crawl, web = continuous(tmp_path / "c", WEB)
    watched = Watched(days=4.5)
    run = crawl.run([A], meanwhile=watched)
    assert run.end is End.STOPPED and run.duration_s == pytest.approx(4.5 * DAY, abs=60)
    assert {web.asked[f"{A}{name}"] for name in PAGES} == {5}
    assert set(watched.seen) == {(True, 0, 0)}, "no visit runs and no slot is held"
    # It looks at the clock once a minute; everything else is work, less than 200 turns for 9 pages.
    assert watched.turns < 4.5 * (1440 + 200)
    assert run.counters.refetched == {DueBand.DUE: 36}
    assert are_balanced(crawl).due == {}
    is_polite(crawl.log, crawl.config.politeness)
    report = audit(crawl.folder)
    assert [each.name for each in report.checks if each.breaches] == []


def test_without_it_the_crawl_ends_when_nothing_is_due(tmp_path: Path) -> None:
    config = msgspec.structs.replace(config_of(), limits=LimitSection())
    crawl, _ = continuous(tmp_path / "c", WEB, config)
    run = crawl.run([A], meanwhile=Watched(days=3.0))
    assert run.end is End.FINISHED and run.duration_s < DAY


def test_a_limit_ends_it_with_its_reason(tmp_path: Path) -> None:
    crawl, web = continuous(tmp_path / "c", WEB, config_of(max_pages=30))
    run = crawl.run([A], meanwhile=Watched(days=30.0))
    assert run.end is End.LIMIT and run.counters.captures == 30
    assert 3 * DAY < run.duration_s < 4 * DAY
    assert sum(web.asked[f"{A}{name}"] for name in ("", *PAGES)) == 30


def test_new_seeds_wake_it_at_once(tmp_path: Path) -> None:
    crawl, web = continuous(tmp_path / "c", WEB | {B: page()})
    asked_after: list[float] = []

    def seed(assembled: Assembled) -> None:
        if not asked_after:
            at = asyncio.get_running_loop().time()
            assembled.intake.take_seeds([B])
            assembled.worker.wake()
            asked_after.append(at)

    crawl.run([A], meanwhile=Watched(days=0.9, act=seed))
    assert web.asked[B] == 1
    assert crawl.log.of_host("b.example")[0].start - asked_after[0] < 1


def test_a_killed_crawl_continues_with_the_due_pages_that_waited(tmp_path: Path) -> None:
    crawl, web = continuous(tmp_path / "c", WEB)
    # A cycle takes about ten commits, so this is in the third one.
    faults = Faults(random.Random(1), crash_at=25, crash_point="commit:logged")
    with pytest.raises(Crash):
        crawl.run([A], faults=faults)
    assert 1.9 * DAY < crawl.now < 2.1 * DAY
    crawl.run(meanwhile=Watched(days=2.2))
    assert {web.asked[f"{A}{name}"] for name in PAGES} <= {4, 5, 6}
    assert are_balanced(crawl).due == {}
    assert [each.name for each in audit(crawl.folder).checks if each.breaches] == []


def test_two_workers_reach_a_limit_although_one_of_them_has_nothing_to_do(tmp_path: Path) -> None:
    """The one with nothing to do gives its permits back, or the other would lack them."""
    often = RefetchSection(first_s=300, min_s=300, max_s=300, policies=("b.example never",))
    config = config_of(often, max_pages=40)
    config = msgspec.structs.replace(
        config, frontier=FrontierSection(partitions=4, bands=4, head=6, finish_wait_s=60)
    )
    crawl, web = continuous(tmp_path / "c", WEB | {B: page("1", "2")}, config)
    workers: list[Assembled] = []
    run_workers(crawl, 2, [A, B], meanwhile=workers.append)
    hosts = [
        sum(partition.counters.hosts for partition in each.worker.frontier.partitions.values())
        for each in workers
    ]
    assert hosts == [1, 1]
    counters = are_balanced(crawl)
    assert counters.captures == 40, "exactly the limit"
    assert web.asked[f"{A}p3"] >= 4 and web.asked[f"{B}1"] == 1
    is_polite(crawl.log, crawl.config.politeness)


@pytest.mark.long
def test_a_signal_ends_the_command_and_status_says_until_when_nothing_is_due(
    tmp_path: Path,
) -> None:
    folder, log = tmp_path / "crawl", WatchedLog()
    rests = {"refetch.first_s": "3s", "refetch.min_s": "3s", "refetch.max_s": "3s"}
    settings = SETTINGS | rests | {"frontier.finish_wait_s": "1s", "workers": "2"}
    pairs = [part for each in settings.items() for part in ("--set", "=".join(each))]
    plan = WebPlan(hosts=1, pages=4, seed=5, latency_s=0.0, page_bytes=2000)
    with served_with_log(SyntheticWeb(plan), log=log) as (port, _):
        command = [*LYCOSA, "crawl", seed_at(port), "--dir", str(folder), "--continuous", *pairs]
        crawl = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            log.await_that(lambda: sum(each.path == "/" for each in log.exchanges) >= 3)
            changed = [*LYCOSA, "policy", "set", str(folder), "* every 1h"]
            assert subprocess.run(changed, capture_output=True, timeout=LONGEST_S).returncode == 0
            lines: list[str] = []
            while not any("the next URL to be due" in line for line in lines):
                told = subprocess.run(
                    [*LYCOSA, "status", str(folder)],
                    capture_output=True,
                    text=True,
                    timeout=LONGEST_S,
                )
                lines = told.stdout.splitlines()
        finally:
            crawl.send_signal(signal.SIGINT)
            assert crawl.wait(LONGEST_S) == 4
    assert [each.name for each in audit(folder).checks if each.breaches] == []
