"""What is fetched first in whole crawls, by the facts that a priority is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from judging import asked, quick_config, tables, urls_of
from lycosa.base.config.sections import Config, PrioritySection, RefetchRule, RefetchSection
from lycosa.base.model.due_band import DueBand
from lycosa.base.model.end import End
from lycosa.state.kv.table_records import UrlRecord
from lycosa.synthetic import VIRTUAL_EPOCH, Response
from scripted import Answer, page, robots, scripted_crawl
from virtual_crawl import VirtualCrawl

A = "http://a.example/"
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
XML = ("Content-Type", "application/xml")
DAY = 86_400.0


def only(name: str) -> PrioritySection:
    """Weights that leave one factor."""
    return PrioritySection(
        **{
            each: float(each == name)
            for each in PrioritySection.__struct_fields__
            if each != "ranks"
        }
    )


def order(crawl: VirtualCrawl, *names: str) -> list[str]:
    """In which order pages of the first host were asked for, each counted once."""
    return [
        url.removeprefix(A)
        for url in dict.fromkeys(asked(crawl.log))
        if url.removeprefix(A) in names
    ]


def records(crawl: VirtualCrawl) -> dict[str, UrlRecord]:
    with tables(crawl) as opened:
        return {record.target: record for table in opened for _, _, record in urls_of(table)}


def priorities(crawl: VirtualCrawl) -> dict[str, float]:
    return {target: record.priority / 255 for target, record in records(crawl).items()}


@pytest.mark.parametrize(
    ("factor", "wanted"), [("importance", ["named", "often"]), ("change", ["often", "named"])]
)
def test_weights_decide_the_order(factor: str, wanted: list[str], tmp_path: Path) -> None:
    """A sitemap lists a page that it calls important, and one that it says changes often."""
    entries = "".join(
        f"<url><loc>{A}{name}</loc>{said}</url>"
        for name, said in (
            ("often", "<changefreq>hourly</changefreq><priority>0.1</priority>"),
            ("named", "<changefreq>monthly</changefreq><priority>1.0</priority>"),
        )
    )
    answers: dict[str, Answer] = {
        A: page(),
        f"{A}robots.txt": robots(f"Sitemap: {A}map.xml"),
        f"{A}map.xml": Response(
            200, [XML], f'<urlset xmlns="{NAMESPACE}">{entries}</urlset>'.encode(), 0.05
        ),
        **{f"{A}{name}": page() for name in ("often", "named")},
    }
    crawl, _ = scripted_crawl(tmp_path / "c", answers, quick_config(priority=only(factor)))
    assert crawl.run([A]).end is End.FINISHED
    assert order(crawl, "often", "named") == wanted


@pytest.mark.parametrize(
    ("factor", "wanted"), [("depth", ["near", "deep"]), ("importance", ["deep", "near"])]
)
def test_a_deep_page_that_an_important_page_links_to_comes_first_or_last(
    factor: str, wanted: list[str], tmp_path: Path
) -> None:
    """``near`` is one of many links of the seed; ``deep`` is the only link of a page that the
    seed links to.
    """
    fill = [f"{A}fill{number}" for number in range(20)]
    answers: dict[str, Answer] = {
        A: page(f"{A}first", *fill, f"{A}near"),
        f"{A}first": page(f"{A}deep"),
        **{url: page() for url in (f"{A}near", f"{A}deep", *fill)},
    }
    crawl, _ = scripted_crawl(tmp_path / "c", answers, quick_config(priority=only(factor)))
    assert crawl.run([A]).end is End.FINISHED
    assert order(crawl, "near", "deep") == wanted


class Changing:
    """A host of two pages of which one is another at each visit."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        if url == A:
            return page(f"{A}never", f"{A}often")
        if url == f"{A}often":
            return page(text=f"At {at:.0f}.")
        return page(text="Always the same.") if url == f"{A}never" else Response(404, [], b"", 0.05)


def refetching(folder: Path, config: Config) -> VirtualCrawl:
    crawl, _ = scripted_crawl(folder, {}, config)
    crawl.answers = Changing()
    return crawl


def test_a_page_that_changed_often_waits_in_a_better_band_than_one_that_never_changes(
    tmp_path: Path,
) -> None:
    """``never`` was found first and is due first."""
    crawl = refetching(
        tmp_path / "c",
        quick_config(
            refetch=RefetchSection(
                rule=RefetchRule.ADAPTIVE, first_s=4 * DAY, min_s=DAY, max_s=40 * DAY
            )
        ),
    )
    crawl.run([A])
    assert order(crawl, "never", "often") == ["never", "often"]
    for _ in range(100):
        crawl.now += 0.7 * DAY
        earlier = crawl.run().counters.refetched
        often, never = (records(crawl)[f"/{name}"] for name in ("often", "never"))
        if often.history is not None and often.history.changes > 3 and never.due_at < often.due_at:
            break
    else:
        raise AssertionError("no moment at which the page that never changes is due first")
    assert never.history is not None
    # So both are due, and the first is late by less than an interval.
    crawl.now = never.history.fetched_at + 1.9 * never.history.interval_s - VIRTUAL_EPOCH
    before = len(asked(crawl.log))
    refetched = Counter(crawl.run().counters.refetched) - Counter(earlier)
    again = [url.removeprefix(A) for url in asked(crawl.log)[before:]]
    assert {"never", "often"} <= set(again)
    assert refetched[DueBand.DUE] == len(again) - 1
    assert refetched[DueBand.FOURFOLD] + refetched[DueBand.TWOFOLD] == 1, "the one that changes"


def test_what_was_just_fetched_is_less_urgent_than_what_was_never(tmp_path: Path) -> None:
    crawl = refetching(tmp_path / "c", quick_config(priority=only("staleness")))
    crawl.run([A])
    assert set(priorities(crawl).values()) == {0.0}, "all were fetched a moment ago"
    crawl.now += 30 * DAY
    crawl.config = quick_config(priority=only("authority"))
    crawl.run()
    assert set(priorities(crawl).values()) == {1.0}, (
        "all are of a seed's host, and were ranked again by the new weights"
    )
