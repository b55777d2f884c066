"""Sitemaps and feeds in a crawl that goes on: when they are read again, what they tell of known
pages, and what status shows of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from judging import are_balanced, quick_config, tables, urls_of
from lycosa.base.calls import Found, ListingsQuery
from lycosa.base.config.sections import (
    PolitenessSection,
    RefetchRule,
    RefetchSection,
    SitemapSection,
)
from lycosa.cli.main import main
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.queries.answering import answer_question
from lycosa.inspect.queries.listing_queries import listings_by_host
from lycosa.synthetic import Response
from lycosa.worker.assemble import Assembled
from scripted import Answer, ScriptedWeb, page, robots, scripted_crawl
from virtual_crawl import VirtualCrawl

A = "http://a.example/"
HOUR_S, DAY_S = 3600, 86_400
SLOW = RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=30 * DAY_S, min_s=60.0, max_s=90 * DAY_S)


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def stop_after(seconds: float) -> Callable[[Assembled], None]:
    def stop(assembled: Assembled) -> None:
        asyncio.get_running_loop().call_later(seconds, assembled.worker.stop)

    return stop


class Site:
    """A site with pages, a sitemap, a sitemap of news and a feed, which change when it says so."""

    def __init__(self, pages: int = 6) -> None:
        self.changed = dict.fromkeys(range(pages), 0.0)
        self.listed = dict.fromkeys(range(pages), 0.0)
        self.news: list[str] = []
        self.tag = 0
        self.conditional = 0
        self.answers: dict[str, Answer] = {
            A: page(*(f"{A}{each}" for each in self.changed), f"{A}feed"),
            f"{A}robots.txt": robots(f"Sitemap: {A}map.xml\nSitemap: {A}news.xml"),
            f"{A}map.xml": self._map,
            f"{A}news.xml": self._news,
            f"{A}feed": self._feed,
        }
        for number in self.changed:
            self.answers[f"{A}{number}"] = self._page(number)

    def _page(self, number: int) -> Answer:
        return lambda *_: page(text=f"page {number} of {self.changed[number]}")

    def _xml(
        self, body: str, headers: Mapping[str, str], kind: str = "application/xml"
    ) -> Response:
        tag = f'"{hash(body)}"'
        if {name.lower(): value for name, value in headers.items()}.get("if-none-match") == tag:
            self.conditional += 1
            return Response(304, [("ETag", tag)], b"", 0.05)
        return Response(200, [("Content-Type", kind), ("ETag", tag)], body.encode(), 0.05)

    def _map(self, _: int, headers: Mapping[str, str]) -> Response:
        entries = (
            f"<url><loc>{A}{number}</loc>"
            + (f"<lastmod>{moment(at)}</lastmod>" if at else "")
            + "</url>"
            for number, at in self.listed.items()
        )
        return self._xml(f"<urlset>{''.join(entries)}</urlset>", headers)

    def _news(self, _: int, headers: Mapping[str, str]) -> Response:
        space = 'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"'
        entries = (
            f"<url><loc>{A}{name}</loc><news:news><news:title>{name}</news:title></news:news></url>"
            for name in ["first", *self.news]
        )
        return self._xml(f"<urlset {space}>{''.join(entries)}</urlset>", headers)

    def _feed(self, _: int, headers: Mapping[str, str]) -> Response:
        return self._xml("<rss><channel><item/></channel></rss>", headers, "application/rss+xml")


def crawl_of(folder: Path, site: Site, **sections: object) -> tuple[VirtualCrawl, ScriptedWeb]:
    given: dict[str, object] = {"refetch": SLOW, **sections}
    crawl, web = scripted_crawl(folder, site.answers, quick_config(**given))
    crawl.run([A])
    return crawl, web


def wall(crawl: VirtualCrawl) -> float:
    return crawl.clock._epoch + crawl.now


def later(crawl: VirtualCrawl, seconds: float) -> None:
    crawl.now += seconds
    crawl.run()


def test_each_kind_has_its_schedule_and_is_asked_for_by_its_validators(tmp_path: Path) -> None:
    site = Site()
    crawl, web = crawl_of(tmp_path / "c", site)
    for _ in range(8):
        later(crawl, 3 * HOUR_S)
    # Nothing changed: the news and the feed after 1 h, 1.5 h, 2.25 h ..., the sitemap after a day.
    assert web.asked[f"{A}map.xml"] <= 2
    assert 5 <= web.asked[f"{A}news.xml"] <= 7 and 5 <= web.asked[f"{A}feed"] <= 7
    again = [web.asked[f"{A}{name}"] - 1 for name in ("map.xml", "news.xml", "feed")]
    assert site.conditional == sum(again)
    assert web.asked[f"{A}0"] == 1
    are_balanced(crawl)
    # News every hour: it is read as often as it changes.
    before = web.asked[f"{A}news.xml"]
    for number in range(16):
        site.news.append(f"news-{number}")
        later(crawl, HOUR_S)
    assert web.asked[f"{A}news.xml"] - before >= 9
    assert web.asked[f"{A}news-12"] == 1
    assert web.asked[f"{A}map.xml"] <= 3


def test_a_lastmod_has_its_page_fetched_within_the_schedule_of_the_sitemap(tmp_path: Path) -> None:
    site = Site()
    crawl, web = crawl_of(tmp_path / "c", site)
    now = wall(crawl)
    site.changed[3] = site.listed[3] = now + HOUR_S
    later(crawl, 1.1 * DAY_S)
    assert {number: web.asked[f"{A}{number}"] for number in site.changed} == {
        0: 1,
        1: 1,
        2: 1,
        3: 2,
        4: 1,
        5: 1,
    }
    site.listed = dict.fromkeys(site.listed, wall(crawl) + 1e8)  # of a clock that is wrong
    for _ in range(10):
        later(crawl, DAY_S)
    assert sum(web.asked[f"{A}{number}"] for number in site.changed) == 7


def test_neither_sitemaps_nor_pages_starve(tmp_path: Path) -> None:
    """40 sitemaps that change at each reading, and more pages due all the time than have turns."""
    count = 40
    answers: dict[str, Answer] = {
        A: page(*(f"{A}{number}" for number in range(50))),
        f"{A}robots.txt": robots("\n".join(f"Sitemap: {A}{n}.xml" for n in range(count))),
    }
    for number in range(50):
        answers[f"{A}{number}"] = lambda earlier, _: page(text=f"{earlier}")
    for n in range(count):
        answers[f"{A}{n}.xml"] = lambda earlier, _, n=n: Response(  # type: ignore[misc]
            200,
            [("Content-Type", "application/xml")],
            f"<urlset><url><loc>{A}{n % 50}</loc></url><!-- {earlier} --></urlset>".encode(),
            0.05,
        )
    config = quick_config(
        refetch=RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=60, min_s=60, max_s=600),
        sitemaps=SitemapSection(min_s=60, news_min_s=60),
        politeness=PolitenessSection(delay_s=10.0, jitter=0.0, adaptive_factor=0.0),
    )
    crawl, web = scripted_crawl(tmp_path / "c", answers, config)
    crawl.run([A], meanwhile=stop_after(1000.0))
    before = web.asked.copy()
    crawl.now += 1.1 * DAY_S
    crawl.run(meanwhile=stop_after(1000.0))
    since = web.asked - before
    assert {since[f"{A}{number}.xml"] for number in range(count)} == {1}
    pages = sum(since[f"{A}{number}"] for number in range(50))
    assert pages + count <= sum(since.values()) <= 102
    assert pages >= 50


def test_status_shows_them_by_host_and_the_interface_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site()
    crawl, _ = crawl_of(tmp_path / "c", site)
    site.changed[3] = site.listed[3] = wall(crawl) + HOUR_S
    later(crawl, 1.1 * DAY_S)
    reader = read_folder(crawl.folder)
    (host,) = listings_by_host(reader, 10, wall(crawl))
    assert (host.host, host.sitemaps, host.feeds, host.read) == ("a.example", 2, 1, 3)
    assert host.urls == 7 and host.newer == 1 and host.refused == 0
    assert {row["kind"] for row in host.rows} == {"sitemap", "news", "feed"}
    assert all(row["next"] > wall(crawl) for row in host.rows)
    (signal,) = host.signals
    assert signal["source"] == "sitemap" and signal["precision"] > 0.7 and not signal["trusted"]

    assert main(["status", str(crawl.folder), "--sitemaps"]) == 0
    shown = capsys.readouterr().out
    assert "a.example" in shown and "sitemap 75%" in shown
    assert main(["status", str(crawl.folder), "--sitemaps", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"][0]["sitemaps"] == 2

    assert main(["explain", str(crawl.folder), f"{A}news.xml"]) == 0
    assert "read on its own schedule" in capsys.readouterr().out

    rows = []
    for partition in range(crawl.config.frontier.partitions):
        after = ""
        while True:
            query = ListingsQuery("a.example", after, 1)
            found = answer_question(reader.source, partition, query)
            assert isinstance(found, Found)
            rows += msgspec.json.decode(found.rows)
            if not (after := found.cursor):
                break
    assert {row["url"] for row in rows} == {f"{A}map.xml", f"{A}news.xml", f"{A}feed"}


def test_status_says_when_there_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", {A: page()}, quick_config())
    crawl.run([A])
    assert main(["status", str(crawl.folder), "--sitemaps"]) == 0
    assert "No sitemap or feed" in capsys.readouterr().out


def test_explain_tells_of_an_open_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page may not be fetched before the minimum of its policy, so the signal stays open."""
    site = Site()
    rare = RefetchSection(
        rule=RefetchRule.ADAPTIVE, first_s=30 * DAY_S, min_s=20 * DAY_S, max_s=90 * DAY_S
    )
    crawl, _ = crawl_of(tmp_path / "c", site, refetch=rare)
    site.listed[3] = wall(crawl) + HOUR_S
    later(crawl, 1.1 * DAY_S)
    assert main(["explain", str(crawl.folder), f"{A}3"]) == 0
    shown = capsys.readouterr().out
    assert "says sitemap (right in 67% at this host)" in shown


def test_an_index_tells_which_of_its_sitemaps_has_changed(tmp_path: Path) -> None:
    changed = {"old": 0.0, "new": 0.0}

    def index(earlier: int, _: object) -> Response:
        entries = "".join(
            f"<sitemap><loc>{A}{name}.xml</loc>"
            + (f"<lastmod>{moment(at)}</lastmod>" if at else "")
            + "</sitemap>"
            for name, at in changed.items()
        )
        body = f"<sitemapindex>{entries}<!-- {earlier} --></sitemapindex>".encode()
        return Response(200, [("Content-Type", "application/xml")], body, 0.05)

    def listing(name: str) -> Answer:
        text = f"<urlset><url><loc>{A}{name}</loc></url></urlset>".encode()
        return lambda *_: Response(
            200,
            [("Content-Type", "application/xml")],
            text + b"<!---->" * (changed[name] > 0),
            0.05,
        )

    answers: dict[str, Answer] = {A: page(), f"{A}robots.txt": robots(f"Sitemap: {A}index.xml")}
    answers |= {
        f"{A}index.xml": index,
        f"{A}old.xml": listing("old"),
        f"{A}new.xml": listing("new"),
    }
    crawl, web = scripted_crawl(tmp_path / "c", answers, quick_config(refetch=SLOW))
    crawl.run([A])
    later(crawl, 1.1 * DAY_S)  # the index has changed, so it is read again after half a day
    read = web.asked.copy()
    changed["new"] = wall(crawl) + HOUR_S
    later(crawl, 0.6 * DAY_S)
    since = web.asked - read
    assert since[f"{A}index.xml"] == since[f"{A}new.xml"] == 1
    assert since[f"{A}old.xml"] == 0


def test_a_sitemap_that_always_says_now_costs_a_few_fetches_of_its_host(tmp_path: Path) -> None:
    """Of 60 pages that never change, and all of which it announces at each reading."""
    site = Site(pages=60)
    crawl, web = crawl_of(tmp_path / "c", site)
    for _ in range(4):
        site.listed = dict.fromkeys(site.listed, wall(crawl) + HOUR_S)
        later(crawl, 1.1 * DAY_S)
        are_balanced(crawl)
    again = sum(web.asked[f"{A}{number}"] - 1 for number in site.changed)
    assert 3 <= again <= 25
    assert main(["audit", str(crawl.folder)]) == 0


def test_a_policy_by_sitemap_reaches_listed_pages_that_were_known_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sitemap is read again as a whole, although it has not changed."""
    site = Site()
    del site.listed[5]
    crawl, web = crawl_of(tmp_path / "c", site)
    rules = (f"{'a.example'} /0 weekly", f"sitemap:{A}m*.xml every 2h")
    crawl.config = quick_config(refetch=msgspec.structs.replace(SLOW, policies=rules))
    later(crawl, HOUR_S)
    later(crawl, HOUR_S)
    assert web.asked[f"{A}map.xml"] == 2 and site.conditional < sum(web.asked.values()) - 10
    read = web.asked[f"{A}map.xml"]
    for _ in range(4):
        later(crawl, 1.3 * HOUR_S)
    asked = {number: web.asked[f"{A}{number}"] for number in range(6)}
    assert all(asked[number] >= 3 for number in (1, 2, 3, 4)), asked
    assert asked[0] == asked[5] == web.asked[A] == 1
    assert web.asked[f"{A}map.xml"] == read
    assert main(["explain", str(crawl.folder), f"{A}1"]) == 0
    assert f"every 2h (refetch.policies, line 2: sitemap:{A}m*.xml every 2h)" in (
        " ".join(capsys.readouterr().out.split())
    )
    assert main(["policy", "test", str(crawl.folder), f"{A}5"]) == 0
    assert "no rule is for it" in capsys.readouterr().out
    # The rule goes, and comes back: its pages still have their mark, and the sitemap is not read.
    crawl.config = quick_config(refetch=SLOW)
    later(crawl, HOUR_S)
    assert main(["policy", "test", str(crawl.folder), f"{A}1"]) == 0
    assert "no rule is for it" in capsys.readouterr().out
    crawl.config = quick_config(refetch=msgspec.structs.replace(SLOW, policies=rules))
    later(crawl, HOUR_S)
    assert main(["policy", "test", str(crawl.folder), f"{A}1"]) == 0
    assert "line 2" in capsys.readouterr().out
    assert web.asked[f"{A}map.xml"] == read
    assert audit(crawl.folder).is_clean


def test_a_policy_by_sitemap_is_for_pages_of_other_hosts_and_a_feeds_only_for_its_own(
    tmp_path: Path,
) -> None:
    other = "http://b.example/"
    entries = "".join(f"<item><link>{each}</link></item>" for each in (f"{A}2", f"{other}2"))
    listed = "".join(f"<url><loc>{each}</loc></url>" for each in (f"{A}1", f"{other}1"))
    answers: dict[str, Answer] = {
        A: page(other, f"{A}feed", f"{A}2", f"{other}2", f"{other}1"),
        f"{A}robots.txt": robots(f"Sitemap: {A}map.xml"),
        f"{other}robots.txt": robots(f"Sitemap: {A}map.xml"),
        f"{A}map.xml": Response(
            200, [("Content-Type", "application/xml")], f"<urlset>{listed}</urlset>".encode(), 0.05
        ),
        f"{A}feed": Response(
            200,
            [("Content-Type", "application/rss+xml")],
            f"<rss><channel>{entries}</channel></rss>".encode(),
            0.05,
        ),
        **{f"{host}{name}": page(text=f"{host} {name}") for host in (A, other) for name in "12"},
        other: page(text="b"),
    }
    rules = (f"sitemap:{A}map.xml every 3h", f"sitemap:{A}feed every 5h")
    config = quick_config(refetch=msgspec.structs.replace(SLOW, policies=rules))
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config)
    crawl.run([A])
    later(crawl, HOUR_S)
    with tables(crawl) as opened:
        found = {
            (host.host, record.target): round(record.history.interval_s / HOUR_S)
            for table in opened
            for host, _, record in urls_of(table)
            if record.history is not None and record.target in ("/", "/1", "/2")
        }
    assert found == {
        ("a.example", "/"): 720,
        ("a.example", "/1"): 3,
        ("b.example", "/1"): 3,
        ("a.example", "/2"): 5,
        ("b.example", "/"): 720,
        ("b.example", "/2"): 720,
    }


def test_a_trusted_lastmod_says_for_how_long_a_changed_page_stayed_as_it_is(
    tmp_path: Path,
) -> None:
    """A fetch that finds an announced change adds two observations once the sitemap is trusted."""
    site = Site(pages=12)
    crawl, _ = crawl_of(tmp_path / "c", site)
    now = wall(crawl)
    for number in range(11):
        site.changed[number] = site.listed[number] = now + HOUR_S
    later(crawl, 1.5 * DAY_S)

    def observations() -> dict[str, int]:
        with tables(crawl) as opened:
            return {
                record.target: len(record.history.observations)
                for table in opened
                for _, _, record in urls_of(table)
                if record.history is not None
            }

    learned = observations()
    assert {learned[f"/{number}"] for number in range(10)} <= {1, 2} and learned["/11"] == 0
    site.changed[11] = site.listed[11] = wall(crawl) + HOUR_S
    later(crawl, 1.5 * DAY_S)
    found = observations()
    assert found["/11"] == 2
    assert found["/0"] == learned["/0"]
