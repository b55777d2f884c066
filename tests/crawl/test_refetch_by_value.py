"""A crawl of four months by the rule of value: what is fetched how often, and what is told of it."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from crawling import page
from judging import are_balanced, quick_config, tables
from lycosa.base.config.sections import Config, RefetchRule, RefetchSection
from lycosa.base.model.refetch_cell import rate_in
from lycosa.base.model.url_state import History
from lycosa.cli.refetch_lines import refetches_line
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import CrawlStatus, crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.state.kv.table_records import decode_url, prefix_end
from lycosa.synthetic import VIRTUAL_EPOCH, Response
from scripted import scripted_crawl

A = "http://a.example/"
DAY = 86_400
DAYS = 120


def prose(seed: int) -> str:
    chance = random.Random(seed)
    return " ".join(f"word{chance.randrange(4000)}" for _ in range(300))


LONG = prose(0)
WEB = {
    A: page("/still", "/news", "/counter", "/token", "/asked"),
    f"{A}still": page(text=LONG),
    # another text at every second fetch, and at each fetch
    f"{A}news": lambda earlier, _: page(text=prose(2 + earlier // 2)),
    f"{A}counter": lambda earlier, _: page(text=f"{LONG} visitor {earlier}"),
    f"{A}token": lambda earlier, _: page(text=prose(1), head=f"<!-- {earlier} -->"),
    f"{A}asked": lambda earlier, asked: (
        Response(304, [], b"")
        if asked.get("if-none-match")
        else Response(200, [("Content-Type", "text/html"), ("ETag", '"1"')], b"<p>the same")
    ),
}


PRICE = 0.5  # pages of these priorities have a mean weight of more than 1


def config_of(rule: RefetchRule, price: float = PRICE) -> Config:
    # without fetches that only check what others found, so that numbers can be compared
    section = RefetchSection(rule=rule, budget="", price=price, check_every=0, soft_gone=False)
    return msgspec.structs.replace(quick_config(), refetch=section)


class Crawled:
    """Such a crawl, with what its records and its status say at the end."""

    def __init__(self, folder: Path, config: Config, days: int = DAYS) -> None:
        self.crawl, web = scripted_crawl(folder, WEB, config)
        self.crawl.run([A])
        for _ in range(days):
            self.crawl.now += DAY
            self.crawl.run()
        self.fetches = {url.removeprefix(A): number for url, number in web.asked.items()}
        self.histories: dict[str, History] = {}
        self.counters = are_balanced(self.crawl)
        with tables(self.crawl) as opened:
            for table in opened:
                for _, value in table.scan(b"U", prefix_end(b"U")):
                    record = decode_url(value)
                    assert record.history is not None
                    self.histories[record.target[1:]] = record.history

    @property
    def now(self) -> float:
        return VIRTUAL_EPOCH + self.crawl.now

    def status(self) -> CrawlStatus:
        reader = read_folder(self.crawl.folder)
        return crawl_status(reader, load_saved_settings(reader), self.now)

    def explained(self, path: str) -> tuple[str, dict[str, float]]:
        reader = read_folder(self.crawl.folder)
        answer = explain(reader, load_saved_settings(reader), f"{A}{path}", self.now)
        (fact,) = [each for each in answer.facts if each.key == "refetch"]
        return fact.text, fact.value


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    return Crawled(tmp_path_factory.mktemp("value") / "c", config_of(RefetchRule.VALUE))


def test_what_changes_is_fetched_more_often_and_a_counter_or_a_token_is_no_change(
    crawled: Crawled,
) -> None:
    fetches, seen = crawled.fetches, crawled.histories
    assert fetches["news"] > 1.5 * fetches["still"]
    assert fetches["token"] == fetches["still"] == fetches["asked"]
    assert seen["token"].changes == seen["asked"].changes == seen["still"].changes == 0
    assert seen["counter"].changes == seen["counter"].fetches - 1, "each is told as a change"
    # as soon as it is known to be restless it is fetched no more often than a still page
    assert seen["counter"].interval_s > seen["news"].interval_s
    assert rate_in(seen["counter"].cell) < rate_in(seen["news"].cell)
    assert rate_in(seen["still"].cell) < 1 / 60
    assert all(len(each.observations) == min(each.fetches - 1, 16) for each in seen.values())


def test_the_counters_have_the_cells_of_the_records_and_the_audit_recounts_them(
    crawled: Crawled,
) -> None:
    assert sum(crawled.counters.cells.values()) == len(crawled.histories)
    report = audit(crawled.crawl.folder)
    assert [each.name for each in report.checks if each.breaches] == []


def test_status_says_what_the_price_costs_and_the_crawl_costs_that(crawled: Crawled) -> None:
    found = crawled.status()
    cost = found.refetches
    assert cost is not None and cost.pages == len(crawled.histories) == 6
    planned = sum(DAY / each.interval_s for each in crawled.histories.values())
    assert cost.a_day == pytest.approx(planned, rel=0.2)
    assert cost.at_half > cost.a_day > cost.at_double
    told = refetches_line(found)
    assert told == (
        f"about {cost.a_day:g} a day of 6 pages, when a fetch is worth refetch.price = 0.5"
        f" (half of the price: {cost.at_half:g}, twice: {cost.at_double:g})"
    )


def test_explain_says_how_often_a_page_changes_and_what_a_fetch_is_worth(
    crawled: Crawled,
) -> None:
    text, facts = crawled.explained("news")
    assert text.startswith("due in ") and ": changes about every " in text, text
    assert " changes in " in text and " seen); a fetch now is worth " in text
    assert text.endswith(" % of the price at which it is due")
    # it was fetched a moment ago, so its value is hardly more than nothing
    assert 0 <= facts["value"] < facts["price"] == pytest.approx(PRICE, rel=0.1)
    text, facts = crawled.explained("still")
    assert "(0 changes in " in text and facts["changes_seen"] == 0


def test_other_rules_observe_too_so_a_crawl_can_change_to_value_and_says_no_value(
    tmp_path: Path,
) -> None:
    crawled = Crawled(tmp_path / "c", config_of(RefetchRule.ADAPTIVE), days=60)
    text, facts = crawled.explained("news")
    assert text.startswith("due ") and "value" not in text and "price" not in facts
    assert crawled.status().refetches is None
    assert crawled.counters.cells and crawled.histories["news"].observations
    assert crawled.histories["counter"].interval_s > 10 * DAY, "immaterial in every rule"
    before = dict(crawled.fetches)
    crawled.crawl.config = config_of(RefetchRule.VALUE)
    for _ in range(8):
        crawled.crawl.now += DAY
        crawled.crawl.run()
    assert crawled.status().refetches is not None
    assert before["news"] > before["still"]


@pytest.mark.long
def test_half_the_price_buys_more_fetches(tmp_path: Path, crawled: Crawled) -> None:
    cheap = Crawled(tmp_path / "c", config_of(RefetchRule.VALUE, PRICE / 4))
    assert sum(cheap.fetches.values()) > 1.4 * sum(crawled.fetches.values())
