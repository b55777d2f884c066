"""Licences that captures name (RSL): fetched once a crawl if the settings ask for it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from dying import Dying, copied
from judging import are_balanced, host_states, is_polite, outcomes, quick_config, stored_rows
from lycosa.base.config.sections import (
    AgentSection,
    Config,
    FrontierSection,
    PolitenessSection,
    RefetchRule,
    RefetchSection,
    ScopeRule,
    ScopeSection,
)
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.moves.captured_rows import found_in
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.state.store.journal_rows import JournalRow
from lycosa.synthetic import Crash, Response
from lycosa.worker.intake.licenses import MAX_SITE_LICENSES
from scripted import HTML, Answer, error, first, moved, page, robots, scripted_crawl
from several_workers import run_workers
from virtual_crawl import VirtualCrawl, in_memory

VICTIM = "http://rsl.test/"
LICENSE = f"{VICTIM}license.xml"
TERMS = Response(
    200,
    [("Content-Type", "application/rsl+xml")],
    b'<rsl xmlns="https://rslstandard.org/rsl"/>',
    0.1,
)
DAY_S = 86_400.0


def settings(is_on: bool = True, **sections: object) -> Config:
    """Only the seeds' hosts are in scope; one delay for all hosts."""
    plain: dict[str, object] = {
        "agent": AgentSection(fetch_licenses=is_on),
        "scope": ScopeSection(rule=ScopeRule.HOST),
        "frontier": FrontierSection(partitions=8, bands=4, head=6),
        "politeness": PolitenessSection(delay_s=1.0, jitter=0.0, adaptive_factor=0.0),
    }
    return quick_config(**{**plain, **sections})


def hosts(number: int) -> list[str]:
    return [f"http://s{n}.example/" for n in range(number)]


def naming(number: int, license: str = LICENSE) -> dict[str, Answer]:
    """Hosts with two pages, whose robots.txt names a licence (``{n}``: the host's number)."""
    web: dict[str, Answer] = {}
    for n, host in enumerate(hosts(number)):
        named = license.replace("{n}", str(n))
        web |= {
            f"{host}robots.txt": robots(f"License: {named}\nUser-agent: *\nDisallow: /no"),
            host: page("/2", text=f"{n}"),
            f"{host}2": page(text=f"second {n}"),
        }
    return web


def requests_of(crawl: VirtualCrawl, host: str = "rsl.test") -> list[str]:
    return [each.path for each in crawl.log.exchanges if each.host == host]


def licenses(crawl: VirtualCrawl) -> list[JournalRow]:
    return [row for row in stored_rows(crawl.folder) if row.link_kind is LinkKind.LICENSE]


def is_clean(crawl: VirtualCrawl) -> None:
    is_polite(crawl.log, crawl.config.politeness)
    are_balanced(crawl)
    report = audit(crawl.folder)
    assert report.is_clean, report.first_breaches()


def test_by_default_the_address_is_kept_and_nothing_is_requested(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", {**naming(2), LICENSE: TERMS}, settings(False))
    crawl.run(hosts(2))
    rows = [row for row in stored_rows(crawl.folder) if row.kind is FetchKind.PAGE]
    assert {row.preferences.license for row in rows} == {LICENSE} and len(rows) == 4
    assert crawl.log.hosts() == {"s0.example", "s1.example"}


@pytest.mark.parametrize(
    ("number", "workers"),
    [
        (60, 1),
        (60, 3),
        pytest.param(1000, 1, marks=pytest.mark.long),
        pytest.param(1000, 3, marks=pytest.mark.long),
    ],
)
def test_many_hosts_that_name_one_license_cause_one_request(
    number: int, workers: int, tmp_path: Path
) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", {**naming(number), LICENSE: TERMS}, settings())
    run_workers(crawl, workers, hosts(number))
    assert requests_of(crawl) == ["/robots.txt", "/license.xml"]
    (row,) = licenses(crawl)
    assert (row.url, row.kind, row.status, row.depth) == (LICENSE, FetchKind.PAGE, 200, 0)
    assert row.via in {f"{host}{path}" for host in hosts(number) for path in ("", "2")}
    assert (
        sum(row.preferences.license == LICENSE for row in stored_rows(crawl.folder)) >= 2 * number
    )
    is_clean(crawl)


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        (f"{VICTIM}{{n}}.xml", 1),
        pytest.param(f"{VICTIM}{{n}}.xml", 3, marks=pytest.mark.long),
        pytest.param("http://x{n}.rsl.test/license.xml", 1, marks=pytest.mark.long),
        ("http://x{n}.rsl.test/license.xml", 3),
    ],
)
def test_a_site_has_a_maximum_of_licenses_whatever_its_hosts_are_called(
    name: str, workers: int, tmp_path: Path
) -> None:
    number = MAX_SITE_LICENSES + 30
    web = naming(number, name)
    web |= {name.replace("{n}", str(n)): TERMS for n in range(number)}
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    run_workers(crawl, workers, hosts(number))
    asked = [
        (each.host, each.path)
        for each in crawl.log.exchanges
        if each.host.endswith("rsl.test") and each.path != "/robots.txt"
    ]
    assert len(asked) == MAX_SITE_LICENSES == len(set(asked))
    assert sum(
        each.refused.get(Reason.LICENSE_LIMIT, 0) for each in host_states(crawl).values()
    ) >= (30 if "{n}.rsl" not in name else 0)
    is_clean(crawl)


def test_it_is_a_url_like_any_other_for_robots_txt_scope_and_limits(tmp_path: Path) -> None:
    forbidden = {f"{VICTIM}robots.txt": robots("User-agent: *\nDisallow: /license")}
    crawl, _ = scripted_crawl(
        tmp_path / "robots", {**naming(1), LICENSE: TERMS, **forbidden}, settings()
    )
    crawl.run(hosts(1))
    assert requests_of(crawl) == ["/robots.txt"]
    assert outcomes(crawl)[LICENSE] == (UrlState.REFUSED, Reason.ROBOTS_DISALLOWED)
    excluded = ScopeSection(rule=ScopeRule.HOST, exclude=("^http://rsl[.]test/",))
    crawl, _ = scripted_crawl(
        tmp_path / "scope", {**naming(1), LICENSE: TERMS}, settings(scope=excluded)
    )
    crawl.run(hosts(1))
    assert requests_of(crawl) == []
    assert host_states(crawl)["s0.example"].refused == {Reason.EXCLUDED: 1}
    is_clean(crawl)


@pytest.mark.parametrize("way", ["header", "markup", "relative"])
def test_headers_and_markup_name_licenses_too(way: str, tmp_path: Path) -> None:
    host = hosts(1)[0]
    target = "/terms.xml" if way == "relative" else LICENSE
    if way == "header":
        link = ("Link", f'<{target}>; rel="license"; type="application/rsl+xml"')
        front = page(headers=[link])
    else:
        head = f'<head><link rel="license" type="application/rsl+xml" href="{target}"></head>'
        front = Response(200, [HTML], f"<html>{head}<body>a".encode(), 0.05)
    named = f"{host}terms.xml" if way == "relative" else LICENSE
    crawl, _ = scripted_crawl(tmp_path / "c", {host: front, named: TERMS}, settings())
    crawl.run([host])
    assert [row.url for row in licenses(crawl)] == [named]
    assert crawl.log.urls().count(named) == 1
    is_clean(crawl)


def test_it_is_never_fetched_again_and_its_links_are_not_followed(tmp_path: Path) -> None:
    config = settings(refetch=RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=DAY_S))
    terms = page(f"{hosts(1)[0]}in-scope", "/more", headers=[("Link", f"<{VICTIM}2>; rel=license")])
    crawl, _ = scripted_crawl(tmp_path / "c", {**naming(2), LICENSE: terms}, config)
    crawl.run(hosts(2))
    crawl.now += 10 * DAY_S
    crawl.run([])
    assert crawl.log.urls().count(hosts(2)[0]) == 2
    assert requests_of(crawl) == ["/robots.txt", "/license.xml"]
    assert f"{hosts(1)[0]}in-scope" not in crawl.log.urls()
    is_clean(crawl)


def test_a_redirect_is_followed_to_any_host_and_failures_are_retried(tmp_path: Path) -> None:
    there = "http://other.test/terms.xml"
    web = {**naming(3), LICENSE: moved(there), there: first(1, error(503), TERMS)}
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    crawl.run(hosts(3))
    assert requests_of(crawl) == ["/robots.txt", "/license.xml"]
    assert requests_of(crawl, "other.test") == ["/robots.txt", "/terms.xml", "/terms.xml"]
    assert {row.url: row.status for row in licenses(crawl)} == {LICENSE: 302, there: 200}
    is_clean(crawl)


@pytest.mark.parametrize("seed", range(6))
def test_it_is_requested_once_although_workers_die(seed: int, tmp_path: Path) -> None:
    chance, stores = random.Random(seed), MemoryTables()
    number = 20
    web = {**naming(number), LICENSE: TERMS}
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    crawl.open_table = in_memory(stores)
    deaths = 0
    for _ in range(5):
        image = tmp_path / "image"
        workers, at = chance.choice((1, 2, 4)), chance.randrange(40, 500)
        try:
            run_workers(
                crawl, workers, hosts(number), Dying(copied(crawl, image), random.Random(at), at)
            )
        except Crash:
            deaths += 1
            stores.crash()
            shutil.rmtree(crawl.folder)
            image.rename(crawl.folder)
            are_balanced(crawl)
    run_workers(crawl, 2, hosts(number))
    assert deaths >= 1
    assert [row.url for row in licenses(crawl)] == [LICENSE]
    # a death repeats at most the request that was in flight
    assert 1 <= requests_of(crawl).count("/license.xml") <= 1 + deaths
    is_polite(crawl.log, crawl.config.politeness)
    are_balanced(crawl)


def test_the_captures_of_a_license_that_moved_have_their_chain(tmp_path: Path) -> None:
    hop, there = "http://hop.test/l.xml", "http://there.test/l.xml"
    web = {**naming(1), LICENSE: moved(hop), hop: moved(there), there: TERMS}
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    crawl.run(hosts(1))
    rows = {row.url: row for row in licenses(crawl)}
    chains = {url: row.chain for url, row in rows.items()}
    assert chains == {LICENSE: (), hop: (LICENSE,), there: (LICENSE, hop)}
    # A crawl that is rescued from these rows limits further redirects as this one does.
    found = {url: (each.hops, each.chain) for url, row in rows.items() if (each := found_in(row))}
    assert found == {LICENSE: (0, ()), hop: (1, ()), there: (2, (LICENSE,))}
    is_clean(crawl)


def test_a_relative_address_in_robots_txt_is_one_license_of_the_site(tmp_path: Path) -> None:
    (host,) = hosts(1)
    pages = [f"/{folder}/1" for folder in "abc"]
    web = {
        f"{host}robots.txt": robots("License: rsl.xml\nUser-agent: *\nDisallow: /no"),
        host: page(*pages),
        f"{host}rsl.xml": TERMS,
        **{f"{host[:-1]}{path}": page(text=path) for path in pages[:2]},
        # an address in a header is relative to its page
        f"{host}c/1": page(text="c", headers=[("Link", '<own.xml>; rel="license"')]),
        f"{host}c/own.xml": TERMS,
    }
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    crawl.run([host])
    assert {row.url for row in licenses(crawl)} == {f"{host}rsl.xml", f"{host}c/own.xml"}
    assert requests_of(crawl, "s0.example").count("/rsl.xml") == 1
    is_clean(crawl)


def test_who_calls_a_page_of_the_crawl_a_licence_keeps_no_link_from_it(tmp_path: Path) -> None:
    host, other = hosts(2)
    web = {**naming(1, f"{other}front"), other: page("/front", latency_s=20.0)}
    web |= {f"{other}front": page("/deep"), f"{other}deep": page()}
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    crawl.run([host, other])
    assert [row.url for row in licenses(crawl)] == [f"{other}front"]
    assert requests_of(crawl, "s1.example") == ["/robots.txt", "/", "/front", "/deep"]
    is_clean(crawl)
