"""Sitemaps in whole crawls: where they are found, what they may list, how much of them is read,
and what they say of their pages.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from judging import are_balanced, asked, outcomes, quick_config, stored_rows, tables, urls_of
from lycosa.base.config.sections import (
    Config,
    FetchSection,
    LimitSection,
    RefetchRule,
    RefetchSection,
    ScopeRule,
    ScopeSection,
    SitemapSection,
)
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.synthetic import Response
from scripted import Answer, ScriptedWeb, moved, page, robots, scripted_crawl
from several_workers import run_workers
from virtual_crawl import VirtualCrawl

A, B, C = "http://a.example/", "http://b.example/", "http://c.test/"
XML = ("Content-Type", "application/xml")


def urlset(*entries: str) -> Response:
    """A sitemap; an entry is a URL, or the inside of a ``<url>``."""
    inner = "".join(
        f"<url>{entry if '<' in entry else f'<loc>{entry}</loc>'}</url>" for entry in entries
    )
    return Response(
        200,
        [XML],
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inner}</urlset>'.encode(),
        0.05,
    )


def index(*urls: str) -> Response:
    inner = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return Response(200, [XML], f"<sitemapindex>{inner}</sitemapindex>".encode(), 0.05)


def crawled(
    folder: Path,
    answers: Mapping[str, Answer],
    *,
    scope: ScopeRule = ScopeRule.ANY,
    **sitemaps: object,
) -> set[str]:
    """What of a web is asked for, its seed ``A`` and robots.txt left out."""
    crawl, _, _ = crawl_of(folder, answers, scope=scope, **sitemaps)
    return {url for url in asked(crawl.log) if not url.endswith("/robots.txt")} - {A}


def crawl_of(
    folder: Path,
    answers: Mapping[str, Answer],
    *,
    scope: ScopeRule = ScopeRule.ANY,
    **sitemaps: object,
) -> tuple[VirtualCrawl, ScriptedWeb, dict[Reason, int]]:
    section = SitemapSection(**sitemaps)  # type: ignore[arg-type]
    crawl, web = scripted_crawl(folder, {A: page(), **answers}, config(scope, section))
    run = crawl.run([A])
    are_balanced(crawl)
    return (
        crawl,
        web,
        {Reason(reason): number for reason, number in run.counters.rule_refusals.items()},
    )


def config(scope: ScopeRule, sitemaps: SitemapSection) -> Config:
    return quick_config(scope=ScopeSection(rule=scope), sitemaps=sitemaps)


def priorities(crawl: VirtualCrawl) -> dict[str, int]:
    """The priority with which each URL was queued, by its target."""
    with tables(crawl) as opened:
        return {
            record.target: record.priority for table in opened for _, _, record in urls_of(table)
        }


# -- found


def test_sitemaps_are_named_in_robots_txt(tmp_path: Path) -> None:
    lines = (
        f"User-agent: *\nDisallow: /no\nSitemap: {A}one.xml\nsitemap:/two.txt\nSITEMAP:"
        f" {A}three.xml.gz"
    )
    answers = {
        f"{A}robots.txt": robots(lines),
        f"{A}one.xml": urlset(f"{A}1", f"{A}no"),
        f"{A}two.txt": Response(
            200, [("Content-Type", "text/plain")], f"{A}2\n{A}3\n".encode(), 0.05
        ),
        f"{A}three.xml.gz": Response(
            200, [("Content-Type", "application/gzip")], gzip.compress(urlset(f"{A}4").body), 0.05
        ),
    }
    assert crawled(tmp_path / "c", answers) == {
        f"{A}{name}" for name in ("one.xml", "two.txt", "three.xml.gz", "1", "2", "3", "4")
    }


def test_the_usual_place_is_asked_when_it_is_asked_for_and_robots_txt_names_none(
    tmp_path: Path,
) -> None:
    answers = {f"{A}sitemap.xml": urlset(f"{A}1")}
    assert crawled(tmp_path / "off", answers) == set()
    assert crawled(tmp_path / "on", answers, guess=True) == {f"{A}sitemap.xml", f"{A}1"}
    named = {**answers, f"{A}robots.txt": robots(f"Sitemap: {A}other.xml")}
    assert crawled(tmp_path / "named", named, guess=True) == {f"{A}other.xml"}


def test_they_are_not_read_when_the_operator_does_not_want_it(tmp_path: Path) -> None:
    answers = {f"{A}robots.txt": robots(f"Sitemap: {A}map.xml"), f"{A}map.xml": urlset(f"{A}1")}
    assert crawled(tmp_path / "c", answers, follow=False, guess=True) == set()


def test_a_sitemap_is_a_capture_of_its_own_kind_and_not_a_page(tmp_path: Path) -> None:
    answers = {
        f"{A}robots.txt": robots("Sitemap: /old.xml"),
        f"{A}old.xml": moved("/new.xml"),
        f"{A}new.xml": urlset(f"{A}1"),
        f"{A}1": page(),
    }
    crawl, _, _ = crawl_of(tmp_path / "c", answers)
    kinds = {row.url: (row.kind, row.link_kind) for row in stored_rows(crawl.folder)}
    assert kinds[f"{A}old.xml"] == (FetchKind.SITEMAP, LinkKind.SITEMAP_FILE)
    assert kinds[f"{A}new.xml"] == (FetchKind.SITEMAP, LinkKind.REDIRECT)
    assert kinds[f"{A}1"] == (FetchKind.PAGE, LinkKind.SITEMAP)


# -- what it may list


def test_a_sitemap_may_not_list_what_belongs_to_another_host(tmp_path: Path) -> None:
    answers = {
        f"{A}robots.txt": robots(f"Sitemap: {A}map.xml"),
        f"{A}map.xml": urlset(f"{A}1", f"{B}1", f"{A}2"),
    }
    crawl, _, refused = crawl_of(tmp_path / "c", answers)
    assert {url for url in asked(crawl.log) if "robots" not in url} == {
        A,
        f"{A}map.xml",
        f"{A}1",
        f"{A}2",
    }
    assert refused == {Reason.SITEMAP_FOREIGN: 1}


def test_a_host_whose_robots_txt_names_it_may_be_listed(tmp_path: Path) -> None:
    """Cross submission: B's robots.txt names A's file, so that may list B's pages, but not C's."""
    answers = {
        A: page(B),
        f"{B}robots.txt": robots(f"Sitemap: {A}maps/b.xml"),
        B: page(),
        f"{A}maps/b.xml": urlset(f"{B}1", f"{B}deep/2", f"{C}3", f"{A}4", f"{A}maps/5"),
    }
    assert crawled(tmp_path / "c", answers) == {
        B,
        f"{A}maps/b.xml",
        f"{B}1",
        f"{B}deep/2",
        f"{A}maps/5",
    }


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_who_vouches_is_known_whichever_worker_owns_the_hosts(tmp_path: Path, workers: int) -> None:
    """Ten sites in a ring: each keeps the sitemap of the one before it."""
    sites = [f"http://s{number}.example/" for number in range(10)]
    answers: dict[str, Answer] = {}
    for site, keeper in zip(sites, [*sites[1:], sites[0]], strict=True):
        name = site[7:-1]
        answers |= {
            site: page(keeper),
            f"{site}robots.txt": robots(f"Sitemap: {keeper}maps/{name}.xml"),
            f"{keeper}maps/{name}.xml": index(f"{keeper}lists/{name}.xml"),
            f"{keeper}lists/{name}.xml": urlset(f"{site}1", f"{site}2", f"{keeper}3", f"{C}4"),
        }
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config(ScopeRule.ANY, SitemapSection()))
    run_workers(crawl, workers, sites[:1])
    are_balanced(crawl)
    wanted = {site + path for site in sites for path in ("", "1", "2")} | {
        url for url in answers if url.endswith(".xml")
    }
    assert set(asked(crawl.log)) == wanted


def test_an_index_passes_on_who_vouches_for_it(tmp_path: Path) -> None:
    answers = {
        f"{A}robots.txt": robots(f"Sitemap: {A}maps/index.xml"),
        f"{A}maps/index.xml": index(f"{A}else/1.xml", f"{A}maps/2.xml", f"{B}3.xml"),
        f"{A}else/1.xml": urlset(f"{A}anywhere", f"{B}no"),
        f"{A}maps/2.xml": urlset(f"{A}there"),
        f"{B}3.xml": urlset(f"{B}b"),
    }
    found = {f"{A}maps/index.xml", f"{A}else/1.xml", f"{A}maps/2.xml", f"{A}anywhere", f"{A}there"}
    assert crawled(tmp_path / "c", answers) == found


def test_a_sitemap_that_nobody_named_speaks_for_its_folder(tmp_path: Path) -> None:
    answers = {
        A: page("/shop/map.xml"),
        f"{A}shop/map.xml": urlset(f"{A}shop/1", f"{A}shop/deep/2", f"{A}other", f"{B}shop/3"),
    }
    assert crawled(tmp_path / "c", answers) == {f"{A}shop/map.xml", f"{A}shop/1", f"{A}shop/deep/2"}


def test_a_redirect_keeps_who_vouches(tmp_path: Path) -> None:
    answers = {
        f"{A}robots.txt": robots(f"Sitemap: {A}map.xml"),
        f"{A}map.xml": moved("/files/map-1.xml"),
        f"{A}files/map-1.xml": urlset(f"{A}anywhere"),
    }
    assert f"{A}anywhere" in crawled(tmp_path / "c", answers)


def test_a_sitemap_on_another_host_is_read_though_its_host_is_out_of_scope(tmp_path: Path) -> None:
    """Only for the host that named it: what else is there stays out, and what that host's own
    robots.txt names, too.
    """
    answers = {
        f"{A}robots.txt": robots(f"Sitemap: {B}for-a.xml"),
        f"{B}robots.txt": robots(f"Sitemap: {B}own.xml"),
        f"{B}for-a.xml": urlset(f"{A}1", f"{B}2"),
        f"{B}own.xml": urlset(f"{B}3"),
    }
    assert crawled(tmp_path / "host", answers, scope=ScopeRule.HOST) == {f"{B}for-a.xml", f"{A}1"}
    everything = {f"{B}for-a.xml", f"{A}1", f"{B}2", f"{B}own.xml", f"{B}3"}
    assert crawled(tmp_path / "any", answers, scope=ScopeRule.ANY) == everything


def test_a_feed_that_is_named_as_a_sitemap_is_held_to_the_same_rule(tmp_path: Path) -> None:
    items = "".join(f"<item><link>{url}</link></item>" for url in (f"{A}1", f"{B}2"))
    feed = Response(
        200,
        [("Content-Type", "application/rss+xml")],
        f"<rss><channel>{items}</channel></rss>".encode(),
        0.05,
    )
    assert crawled(
        tmp_path / "named", {f"{A}robots.txt": robots("Sitemap: /feed"), f"{A}feed": feed}
    ) == {f"{A}feed", f"{A}1"}
    assert crawled(tmp_path / "linked", {A: page("/feed"), f"{A}feed": feed}) == {
        f"{A}feed",
        f"{A}1",
        f"{B}2",
    }


# -- how much


@pytest.mark.parametrize(("nesting", "levels"), [(0, 1), (1, 2), (2, 3)])
def test_indexes_are_followed_to_a_level(tmp_path: Path, nesting: int, levels: int) -> None:
    chain: dict[str, Answer] = {
        f"{A}{level}.xml": index(f"{A}{level + 1}.xml") for level in range(6)
    }
    answers = {f"{A}robots.txt": robots(f"Sitemap: {A}0.xml"), **chain}
    crawl, _, refused = crawl_of(tmp_path / "c", answers, max_nesting=nesting)
    assert {url for url in asked(crawl.log) if url.endswith(".xml")} == {
        f"{A}{level}.xml" for level in range(levels)
    }
    assert refused == {Reason.SITEMAP_LIMIT: 1}


def test_a_host_has_a_number_of_sitemaps_to_spend(tmp_path: Path) -> None:
    lines = "\n".join(f"Sitemap: {A}{n}.xml" for n in range(3))
    answers: dict[str, Answer] = {
        f"{A}robots.txt": robots(lines),
        f"{A}0.xml": index(*(f"{A}more-{n}.xml" for n in range(20))),
    }
    crawl, _, refused = crawl_of(tmp_path / "c", answers, max_files=5)
    assert len({url for url in asked(crawl.log) if url.endswith(".xml")}) == 5
    assert refused == {Reason.SITEMAP_LIMIT: 18}


def test_a_host_has_a_number_of_listed_urls_to_spend(tmp_path: Path) -> None:
    answers: dict[str, Answer] = {f"{A}robots.txt": robots(f"Sitemap: {A}0.xml\nSitemap: {A}1.xml")}
    answers |= {f"{A}{n}.xml": urlset(*(f"{A}{n}-{m}" for m in range(6))) for n in range(2)}
    crawl, _, refused = crawl_of(tmp_path / "c", answers, max_urls=8)
    assert len({url for url in asked(crawl.log) if "-" in url}) == 8
    assert refused == {Reason.SITEMAP_LIMIT: 4}


def test_a_sitemap_may_be_larger_than_a_page(tmp_path: Path) -> None:
    big = urlset(*(f"{A}{n}?{'x' * 300}" for n in range(100)), f"{A}last")
    answers = {
        f"{A}robots.txt": robots("Sitemap: /map.xml"),
        f"{A}map.xml": big,
        A: page(text="y" * len(big.body)),
    }
    fetch = FetchSection(body_bytes=20_000)
    crawl, _ = scripted_crawl(
        tmp_path / "c",
        answers,
        msgspec.structs.replace(config(ScopeRule.ANY, SitemapSection()), fetch=fetch),
    )
    crawl.run([A])
    rows = {row.url: row for row in stored_rows(crawl.folder)}
    assert (rows[A].truncated, rows[A].body_bytes) == ("length", 20_000)
    assert (rows[f"{A}map.xml"].truncated, rows[f"{A}map.xml"].body_bytes) == ("", len(big.body))
    assert f"{A}last" in asked(crawl.log)


def test_reading_a_sitemap_again_costs_nothing_of_that(tmp_path: Path) -> None:
    def grows(earlier: int, _: Mapping[str, str]) -> Response:
        return urlset(*(f"{A}p{n}" for n in range(6 + earlier)))

    answers: dict[str, Answer] = {
        f"{A}robots.txt": robots(f"Sitemap: {A}map.xml"),
        f"{A}map.xml": grows,
    }
    crawl, web, _ = crawl_of(tmp_path / "c", answers, max_urls=8, max_files=1)
    crawl.now += 8 * 86_400
    crawl.run()
    assert web.asked[f"{A}map.xml"] == 2
    assert f"{A}p6" in asked(crawl.log)


def test_an_index_that_lists_itself_ends(tmp_path: Path) -> None:
    answers = {
        f"{A}robots.txt": robots(f"Sitemap: {A}0.xml"),
        f"{A}0.xml": index(f"{A}0.xml", f"{A}1.xml"),
        f"{A}1.xml": index(f"{A}0.xml"),
    }
    crawl, web, _ = crawl_of(tmp_path / "c", answers)
    assert (web.asked[f"{A}0.xml"], web.asked[f"{A}1.xml"]) == (1, 1)
    assert outcomes(crawl)[f"{A}1.xml"][1] is Reason.NONE


# -- what it says


def test_priority_change_frequency_and_last_change_decide_what_is_fetched_first(
    tmp_path: Path,
) -> None:
    entries = {
        "plain": "",
        "important": "<priority>1.0</priority>",
        "often": "<changefreq>hourly</changefreq>",
        "seldom": "<changefreq>yearly</changefreq>",
        "lately": "<lastmod>2026-09-20</lastmod>",
        "long-ago": "<lastmod>1999-01-01</lastmod>",
    }
    listed = urlset(*(f"<loc>{A}{name}</loc>{said}" for name, said in entries.items()))
    # A and the sitemap
    settings = msgspec.structs.replace(
        config(ScopeRule.ANY, SitemapSection()), limits=LimitSection(max_pages=2)
    )
    crawl, _ = scripted_crawl(
        tmp_path / "c",
        {A: page(), f"{A}robots.txt": robots("Sitemap: /map.xml"), f"{A}map.xml": listed},
        settings,
    )
    crawl.run([A])
    priority = priorities(crawl)
    assert priority["/important"] > priority["/plain"]
    assert priority["/often"] > priority["/plain"] > priority["/seldom"]
    assert priority["/lately"] > priority["/plain"] > priority["/long-ago"]


def test_a_newer_lastmod_brings_a_page_forward_and_a_sitemap_that_always_says_now_gains_little(
    tmp_path: Path,
) -> None:
    """Eleven weeks, day by day; the sitemap is fetched every other day, as it changes. ``/news``
    changes at days 25 and 50 and the sitemap says so, ``/silent`` at the same days without a word,
    ``/liar`` never and has another date every day.
    """
    day, changed = 0, {"news": 0, "silent": 0}

    def moment(days: float) -> str:
        return datetime.fromtimestamp(crawl.clock.wall() - days * 86_400, UTC).isoformat(
            timespec="seconds"
        )

    def listing(*_: object) -> Response:
        news = f"<loc>{A}news</loc><lastmod>{moment(day - changed['news'] + 0.01)}</lastmod>"
        return urlset(
            news,
            f"<loc>{A}silent</loc>",
            f"<loc>{A}liar</loc><lastmod>{moment(0)}</lastmod>",
            f"{A}day{day}",
        )

    def text(name: str) -> Answer:
        return lambda *_: page(text=f"{name} {changed.get(name, 0)}")

    answers: dict[str, Answer] = {
        f"{A}robots.txt": robots(f"Sitemap: {A}map.xml"),
        f"{A}map.xml": listing,
    }
    answers |= {f"{A}{name}": text(name) for name in ("news", "silent", "liar")}
    refetch = RefetchSection(
        rule=RefetchRule.ADAPTIVE, first_s=4 * 86_400, min_s=2 * 86_400, max_s=60 * 86_400
    )
    crawl, web = scripted_crawl(
        tmp_path / "c", {A: page(), **answers}, quick_config(refetch=refetch)
    )
    fetched_on: dict[str, list[int]] = {name: [] for name in ("news", "silent", "liar")}
    for day in range(75):
        if day in (25, 50):
            changed.update(news=day, silent=day)
        before = dict(web.asked)
        crawl.run([A] if day == 0 else [])
        for name, days in fetched_on.items():
            days += [day] * (web.asked[f"{A}{name}"] - before.get(f"{A}{name}", 0))
        crawl.now = (day + 1) * 86_400.0
    are_balanced(crawl)
    wait = {
        name: [min(on for on in days if on >= at) - at for at in (25, 50)]
        for name, days in fetched_on.items()
        if name != "liar"
    }
    assert max(wait["news"]) <= 3 < wait["silent"][0]
    assert len(fetched_on["liar"]) <= len(fetched_on["silent"]) + 4
    assert all(
        later - earlier >= 2 for days in fetched_on.values() for earlier, later in pairwise(days)
    )
