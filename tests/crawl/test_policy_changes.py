"""Whole crawls under refetch policies: what is fetched again, changes while a crawl runs, kills in
the middle of a change.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from crawling import QUICK, Pages, crawl_folder, page
from judging import new_folder, quick_config, tables
from lycosa.base.config.policy_classes import NEVER_CLASS, promised_s
from lycosa.base.config.refetch_policies import policies_version
from lycosa.base.config.sections import Config, PolitenessSection, RefetchSection
from lycosa.base.model.url_state import UrlState
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.policy_state import policy_state
from lycosa.stages.frontier.policy_walk import walk_row
from lycosa.state.kv.table_records import UrlRecord, decode_url, prefix_end
from lycosa.synthetic import Faults, SyntheticWeb, WebPlan
from lycosa.worker.assemble import Assembled
from several_workers import run_workers
from virtual_crawl import VirtualCrawl

DAY_S = 86_400.0
NEWS, SHOP, BLOG = "http://news.test", "http://shop.test", "http://blog.test"
PAGES = 30


def web() -> Pages:
    names = [f"/{number}" for number in range(PAGES)]
    return Pages(
        {f"{site}/": page(*names) for site in (NEWS, SHOP, BLOG)}
        | {f"{site}{name}": page(text=name) for site in (NEWS, SHOP, BLOG) for name in names}
    )


def config(*policies: str) -> Config:
    refetch = RefetchSection(policies=policies)
    politeness = PolitenessSection(delay_s=0.1, jitter=0.0, adaptive_factor=0.0)
    return msgspec.structs.replace(QUICK, refetch=refetch, politeness=politeness)


def crawled(folder: Path, *policies: str) -> None:
    crawl_folder(folder, web(), [f"{each}/" for each in (NEWS, SHOP, BLOG)], config(*policies))


def records(folder: Path) -> dict[str, UrlRecord]:
    found = {}
    with_views = read_folder(folder)
    for view in with_views.partition_views():
        hosts = {each.host8: each.record.host for each in view.hosts()}
        for key, value in view.scan(b"U", prefix_end(b"U")):
            record = decode_url(value)
            found[f"http://{hosts[key[1:9]]}{record.target}"] = record
    return found


def classes(folder: Path, site: str) -> Counter[int]:
    return Counter(
        each.history.policy
        for url, each in records(folder).items()
        if url.startswith(f"{site}/") and each.history is not None
    )


def test_pages_are_fetched_again_as_their_rule_says(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    rules = ("news.test every 1d", "shop.test never", "blog.test adaptive min=20d max=30d")
    crawled(folder, *rules)
    [(number, pages)] = classes(folder, NEWS).items()
    assert promised_s(number) == 86_400 and pages == PAGES + 1
    assert classes(folder, SHOP) == {NEVER_CLASS: PAGES + 1}
    due = records(folder)
    assert not any(each.due_at for url, each in due.items() if url.startswith(SHOP))
    crawl_folder(folder, web(), [], config(*rules), start=10 * DAY_S)
    fetches = Counter(
        (url.split("/")[2], each.history.fetches)
        for url, each in records(folder).items()
        if each.history is not None
    )
    assert fetches == {
        ("news.test", 2): PAGES + 1,
        ("shop.test", 1): PAGES + 1,
        ("blog.test", 1): PAGES + 1,
    }
    assert audit(folder).is_clean


def following(*rules: str) -> dict[str, str]:
    return {"refetch.policies": str(list(rules)).replace("'", '"')}


def test_a_change_reaches_pages_that_are_due_later_or_never(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    crawled(folder, "shop.test never")

    async def change(assembled: Assembled) -> None:
        rules = ("news.test every 1h", "blog.test never")
        assembled.live.follow(1, following(*rules))
        frontier = assembled.worker.frontier
        assert frontier.walks_policies and frontier.policy_records_left() == 3 * (PAGES + 1)
        await asyncio.sleep(30.0)
        assert not frontier.walks_policies
        await assembled.worker.next_commit()
        assembled.worker.stop()

    crawl_folder(folder, web(), [], config("shop.test never"), start=DAY_S / 2, meanwhile=change)
    found = records(folder)
    assert classes(folder, BLOG) == {NEVER_CLASS: PAGES + 1}
    assert classes(folder, SHOP) == {0: PAGES + 1}
    assert all(each.due_at for url, each in found.items() if url.startswith(SHOP))
    assert not any(each.due_at for url, each in found.items() if url.startswith(BLOG))
    news = [each for url, each in found.items() if url.startswith(NEWS)]
    assert {each.history.interval_s for each in news if each.history} == {3600}
    assert audit(folder).is_clean


@pytest.mark.parametrize(
    ("point", "number"),
    [
        pytest.param(point, number, marks=[pytest.mark.long] * (number not in quick))
        for point, quick in (
            ("commit:logged", [1]),
            ("commit:stored", [2]),
            ("commit:settled", [3]),
        )
        for number in (1, 2, 3)
    ],
)
def test_a_crawl_that_is_killed_in_a_change_continues_it(
    tmp_path: Path, point: str, number: int
) -> None:
    folder = tmp_path / "c"
    crawled(folder)
    rules = ("news.test every 2d", "shop.test never", "* every 9d")
    faults = Faults(random.Random(number), crash_at=number, crash_point=point)

    async def slowly(assembled: Assembled) -> None:
        """A commit after each slice, so that a kill comes between them."""
        assembled.live.follow(1, following(*rules))
        frontier = assembled.worker.frontier
        while frontier.walks_policies:
            for partition in frontier.partitions.values():
                if not partition.policy_walk.is_done:
                    partition.policy_walk.step(assembled.clock.time(), 10, lambda _: 0.0)
            frontier.follow_policies()
            await assembled.worker.committer.commit()

    end = crawl_folder(folder, web(), [], config(), start=3600.0, faults=faults, meanwhile=slowly)
    assert end is None, "it was killed"
    assert audit(folder).is_clean
    section = RefetchSection(policies=rules)
    assert policy_state(read_folder(folder), section).left > 0
    crawl_folder(folder, web(), [], config(*rules), start=7200.0)
    assert audit(folder).is_clean
    reader = read_folder(folder)
    assert policy_state(reader, section).left == 0
    for view in reader.partition_views():
        row = walk_row(view.get)
        assert (row.is_done, row.version) == (True, policies_version(section))
    days = {NEWS: 2, BLOG: 9}
    for url, record in records(folder).items():
        assert record.history is not None
        site = url.rpartition("/")[0]
        wanted = int(days.get(site, 0) * DAY_S)
        assert record.history.interval_s == wanted, url
        assert record.due_at == (record.history.fetched_at + wanted if wanted else 0)


def test_many_pages_that_become_due_at_once_are_fetched_politely_and_once_in_their_time(
    tmp_path: Path,
) -> None:
    """Each page every second: more than a host has turns. The delay holds, and nothing grows."""
    folder = tmp_path / "c"
    crawled(folder)
    before = sum(each.history.fetches for each in records(folder).values() if each.history)

    async def flood(assembled: Assembled) -> None:
        assembled.live.follow(1, following("* every 1s"))
        await asyncio.sleep(30.0)
        worst = assembled.worker.frontier.broken_promises()
        assert {each.host for each in worst} == {"news.test", "shop.test", "blog.test"}
        assert worst[0].promised == (PAGES + 1) * DAY_S and worst[0].turns == DAY_S / 0.1
        assembled.worker.stop()

    crawl_folder(folder, web(), [], config(), start=3600.0, meanwhile=flood)
    after = sum(each.history.fetches for each in records(folder).values() if each.history)
    # at most 30 s at a request a tenth of a second at three hosts, and the first second
    assert 400 < after - before <= 3 * 310
    report = audit(folder)
    assert report.is_clean


def test_several_workers_apply_a_change_each_to_its_own_partitions(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=3, hosts=6, pages=12, page_bytes=300, links=6))
    crawl = VirtualCrawl(new_folder(tmp_path / "crawl"), web, quick_config())
    run_workers(crawl, 3, [web.seed_url(0)])
    rules = ("/p* never", "* every 200d")

    def change(assembled: Assembled) -> None:
        assembled.live.follow(5, following(*rules))

    for assembled in run_workers(crawl, 3, [], meanwhile=change):
        assert not assembled.worker.frontier.walks_policies
    section = RefetchSection(policies=rules)
    seen = 0
    with tables(crawl) as opened:
        for table in opened:
            row = walk_row(table.get)
            assert (row.is_done, row.version) == (True, policies_version(section))
            seen += row.seen
            for _, value in table.scan(b"U", prefix_end(b"U")):
                record = decode_url(value)
                if record.history is not None and record.state is UrlState.FETCHED:
                    is_promised = promised_s(record.history.policy) > 0
                    assert is_promised or record.history.policy == NEVER_CLASS
                    assert bool(record.due_at) == is_promised
    assert seen > 50
