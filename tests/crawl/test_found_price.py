"""Crawls whose price of a refetch is found from a budget, on one machine with several workers."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from crawling import page
from judging import are_balanced, quick_config
from lycosa.base.config.sections import Config, RefetchRule, RefetchSection
from lycosa.cli.refetch_lines import refetches_line
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.synthetic import VIRTUAL_EPOCH
from scripted import Answer, scripted_crawl
from several_workers import run_workers

DAY = 86_400
HOSTS = [f"http://{name}.example/" for name in "abcd"]
PAGES = 12


def changing(host: str, number: int) -> Answer:
    """Its text is another one at about every third fetch."""
    texts = [random.Random(f"{host}{number}{at}").random() for at in range(200)]
    return lambda earlier, _: page(text=f"page {number}: {texts[earlier // 3]}")


WEB: dict[str, Answer] = {
    host: page(*(f"/{n}" for n in range(PAGES)), *HOSTS, text=f"all of {host}") for host in HOSTS
} | {f"{host}{n}": changing(host, n) for host in HOSTS for n in range(PAGES)}


def config_of(**section: object) -> Config:
    refetch = RefetchSection(rule=RefetchRule.VALUE, **section)  # type: ignore[arg-type]
    frontier = msgspec.structs.replace(quick_config().frontier, partitions=4)
    return msgspec.structs.replace(quick_config(), refetch=refetch, frontier=frontier)


def test_refetches_meet_the_budget_and_the_price_is_in_commits_and_told(tmp_path: Path) -> None:
    folder, budget = tmp_path / "c", 4.0
    crawl, web = scripted_crawl(folder, WEB, config_of(budget="4/d"))
    run_workers(crawl, 2, HOSTS)
    known = sum(web.asked[url] for url in WEB)
    assert known == len(WEB)
    fetched = []
    for day in range(50):
        crawl.now += DAY
        # Workers come and go, and another coordinator begins each day.
        run_workers(crawl, 2 if day % 3 else 1, [])
        fetched.append(sum(web.asked[url] for url in WEB))
    # What a run finds is due in the next ones: seven weeks are enough to be near.
    used = (fetched[-1] - fetched[24]) / 25
    assert used == pytest.approx(budget, rel=0.35), fetched
    are_balanced(crawl)
    report = audit(folder)
    assert [each.name for each in report.checks if each.breaches] == []
    reader = read_folder(folder)
    saved, now = load_saved_settings(reader), VIRTUAL_EPOCH + crawl.now
    found = crawl_status(reader, saved, now)
    cost = found.refetches
    assert cost is not None and cost.budget == "4/d"
    assert cost.price > 1.2, "its 52 pages are worth more than one each in 13 days"
    mean = reader.price / cost.price  # commits have the price for weights as they are
    assert 0.1 < mean < 2 and mean != 1
    assert cost.a_day == pytest.approx(budget, rel=0.35)
    assert "which was found for refetch.budget = 4/d (" in refetches_line(found)
    answer = explain(reader, saved, f"{HOSTS[1]}3", now)
    (fact,) = [each for each in answer.facts if each.key == "refetch"]
    assert fact.value["price"] == pytest.approx(cost.price, rel=0.2)
    assert fact.text.startswith("due ") and " of the price" in fact.text


def test_without_a_budget_the_price_stays_that_of_the_settings(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", WEB, config_of(price=2.0, budget=""))
    run_workers(crawl, 2, HOSTS)
    reader = read_folder(crawl.folder)
    cost = crawl_status(reader, load_saved_settings(reader), VIRTUAL_EPOCH + crawl.now).refetches
    assert cost is not None and (cost.price, cost.budget) == (2.0, "")
    assert 0.1 < reader.price / 2.0 < 2, "for weights that are not divided by their mean"
    config = quick_config(refetch=RefetchSection(rule=RefetchRule.ADAPTIVE))
    adaptive, _ = scripted_crawl(tmp_path / "d", WEB, config)
    run_workers(adaptive, 1, HOSTS[:1])
    assert read_folder(adaptive.folder).price == 0.0, "no page has one"
