"""Crawls whose records become cold: they leave the tables within commits, count as before, and come
back when they are linked or given again.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from test_continuous import Watched
from test_policy_changes import following

from crawling import page
from judging import are_balanced, quick_config, tables
from lycosa.base.config.sections import (
    ColdSection,
    Config,
    LimitSection,
    RefetchRule,
    RefetchSection,
)
from lycosa.inspect.audit.folder_audit import audit
from lycosa.worker.assemble import Assembled
from scripted import ScriptedWeb, scripted_crawl
from virtual_crawl import VirtualCrawl

A = "http://a.example/"
DAY = 86_400.0
PAGES = [f"p{number}" for number in range(8)]
WEB = {A: page(*PAGES, "gone"), **{f"{A}{name}": page(text=name) for name in PAGES}}
URLS = len(PAGES) + 2
COLD = ColdSection(after_s=2 * DAY, return_after_s=3 * DAY, least_records=1)


def config_of(cold: ColdSection = COLD) -> Config:
    return msgspec.structs.replace(
        quick_config(),
        refetch=RefetchSection(rule=RefetchRule.OFF),
        limits=LimitSection(continuous=True),
        cold=cold,
    )


def cold_crawl(folder: Path) -> tuple[VirtualCrawl, ScriptedWeb]:
    """A crawl whose pages are all cold after six days."""
    crawl, web = scripted_crawl(folder, WEB, config_of())
    crawl.longest_s = 366 * DAY
    crawl.run([A], meanwhile=Watched(days=6.0))
    return crawl, web


def live_records(crawl: VirtualCrawl) -> int:
    """Records that are in the tables themselves."""
    with tables(crawl) as opened:
        return sum(1 for table in opened for _ in table.scan(b"U", b"V"))


def breaches(folder: Path) -> list[str]:
    return [each.name for each in audit(folder).checks if each.breaches]


def test_records_leave_the_tables_and_count_as_before(tmp_path: Path) -> None:
    crawl, _ = cold_crawl(tmp_path / "c")
    counters = are_balanced(crawl)
    assert sum(counters.cold.values()) == counters.discovered == URLS
    assert live_records(crawl) == 0
    assert breaches(crawl.folder) == []


def test_a_cold_url_that_is_given_again_comes_back_and_so_does_what_it_links(
    tmp_path: Path,
) -> None:
    crawl, web = cold_crawl(tmp_path / "c")
    crawl.now += 2 * DAY
    crawl.run([A], meanwhile=Watched(days=0.5))
    assert {web.asked[url] for url in WEB} == {2}
    counters = are_balanced(crawl)
    assert counters.cold == {} and counters.discovered == URLS
    assert live_records(crawl) == URLS
    assert breaches(crawl.folder) == []


@pytest.mark.parametrize("days", [9.0, pytest.param(80.0, marks=pytest.mark.long)])
def test_pages_that_are_due_later_leave_the_tables_and_are_fetched_when_they_are_due(
    tmp_path: Path, days: float
) -> None:
    fetched: dict[str, dict[str, int]] = {}
    for name, after_s in (("warm", 0.0), ("cold", 1.5 * DAY)):
        cold = ColdSection(after_s=after_s, least_records=1)
        config = msgspec.structs.replace(config_of(cold), refetch=RefetchSection())
        crawl, web = scripted_crawl(tmp_path / name, WEB, config)
        crawl.longest_s = 366 * DAY
        held: list[int] = []

        def look(assembled: Assembled, held: list[int] = held) -> None:
            partitions = assembled.worker.frontier.partitions.values()
            held.append(sum(sum(each.counters.cold.values()) for each in partitions))

        crawl.run([A], meanwhile=Watched(days=days, act=look))
        assert breaches(crawl.folder) == []
        fetched[name] = dict(web.asked)
        assert max(held) == (URLS if after_s else 0)
    assert fetched["cold"] == fetched["warm"]
    assert min(fetched["cold"][url] for url in WEB) > 1


def test_changed_policies_reach_cold_pages(tmp_path: Path) -> None:
    """A page that is due once a month is due every day, as soon as the rules say so."""
    cold = ColdSection(after_s=2 * DAY, least_records=1)
    monthly = RefetchSection(policies=("a.example every 30d",))
    config = msgspec.structs.replace(config_of(cold), refetch=monthly)
    crawl, web = scripted_crawl(tmp_path / "c", WEB, config)
    crawl.longest_s = 366 * DAY

    def change(assembled: Assembled) -> None:
        partitions = assembled.worker.frontier.partitions.values()
        if sum(sum(each.counters.cold.values()) for each in partitions) == URLS:
            assembled.live.follow(1, following("a.example /p1 every 1d", "a.example every 30d"))

    crawl.run([A], meanwhile=Watched(days=8.0, act=change))
    assert web.asked[f"{A}p1"] > 3 and web.asked[f"{A}p2"] in (1, 2)
    assert breaches(crawl.folder) == []


def test_a_crawl_says_that_its_cold_files_cannot_be_stored_and_stores_them_later(
    tmp_path: Path,
) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", WEB, config_of())
    crawl.longest_s = 366 * DAY
    told: list[str] = []

    def look(assembled: Assembled) -> None:
        in_the_way = crawl.folder / "cold"
        told.append(assembled.worker.archiver.waits_for)
        if len(told) == 1:
            in_the_way.write_bytes(b"")
        elif told[-1]:
            in_the_way.unlink(missing_ok=True)

    crawl.run([A], meanwhile=Watched(days=6.0, act=look))
    assert told[-1] == "" and any("cold" in each for each in told)
    assert sum(are_balanced(crawl).cold.values()) == URLS
    assert breaches(crawl.folder) == []
