"""Whole crawls with requisites: what pages load is fetched, from where the settings say, and what is
missing is known with the reason.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from crawling import HTML, QUICK, Pages, crawl_folder, html, moved, robots
from lycosa.base.config.sections import (
    BudgetSection,
    Config,
    RequisiteScope,
    ScopeSection,
)
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.completeness import Completeness, completeness
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.synthetic import Response

SITE = "http://www.a.test"
SUB = "http://static.a.test"
CDN = "http://cdn.b.test"


def sheet(text: str) -> Response:
    return Response(200, [("Content-Type", "text/css")], text.encode())


def data(kind: str = "image/png") -> Response:
    return Response(200, [("Content-Type", kind)], b"\x89PNG\r\n\x1a\n")


PAGES = {
    f"{SITE}/": html(
        f"<title>Home</title><link rel=stylesheet href={SUB}/s.css><a href=/next>next page</a>"
        f"<p>{'words of a page ' * 30}</p><img src=/own.png><iframe src={CDN}/frame></iframe>"
    ),
    f"{SITE}/next": html(f"<p>{'other words here ' * 30}</p><img src={CDN}/moved.png>"),
    f"{SITE}/own.png": data(),
    f"{SUB}/s.css": sheet(f"@import '{CDN}/i.css';a{{b:url(bg.png)}}"),
    f"{SUB}/bg.png": data(),
    f"{CDN}/i.css": sheet("@font-face{src:url(f.woff2)}a{b:url(gone.png)}"),
    f"{CDN}/f.woff2": data("font/woff2"),
    f"{CDN}/moved.png": moved("/now.png"),
    f"{CDN}/now.png": data(),
    f"{CDN}/frame": html("<p>framed</p><img src=in-frame.png><a href=/away>a page</a>"),
    f"{CDN}/in-frame.png": data(),
}


def config(budgets: BudgetSection | None = None, **scope: object) -> Config:
    section = ScopeSection(**{"requisites": True, **scope})  # type: ignore[arg-type]
    return msgspec.structs.replace(QUICK, scope=section, budgets=budgets or BudgetSection())


def crawled(folder: Path, settings: Config, pages: dict[str, Response] | None = None) -> set[str]:
    """The URLs that were requested, but for robots.txt; the audit found nothing wrong."""
    web = Pages(pages or PAGES)
    crawl_folder(folder, web, [f"{SITE}/"], settings)
    report = audit(folder)
    assert report.first_breaches() == []
    return {url for url in web.asked if not url.endswith("/robots.txt")}


def state_of(folder: Path) -> Completeness:
    reader = read_folder(folder)
    return completeness(reader, load_saved_settings(reader))


def test_everything_that_pages_load_is_fetched_and_links_of_frames_are_not(tmp_path: Path) -> None:
    asked = crawled(tmp_path / "crawl", config(max_depth=1))
    assert asked == {*PAGES, f"{CDN}/gone.png"}
    found = state_of(tmp_path / "crawl")
    # the home page, the next one and the document in the frame
    assert (found.pages, found.complete, found.requisites, found.stored) == (3, 2, 10, 9)
    assert [(each.reason, each.requisites, each.pages) for each in found.missing] == [
        ("http_client_error", 1, 1)
    ]
    assert [msgspec.structs.astuple(each) for each in found.incomplete] == [
        (f"{SITE}/", 1, f"{CDN}/gone.png", "http_client_error")
    ]


@pytest.mark.parametrize(
    ("allowed", "missing"),
    [
        (RequisiteScope.SITE, {f"{CDN}/i.css", f"{CDN}/frame", f"{CDN}/moved.png"}),
        (RequisiteScope.HOST, {f"{SUB}/s.css", f"{CDN}/frame", f"{CDN}/moved.png"}),
    ],
)
def test_requisites_come_from_the_site_or_the_host_of_the_document(
    tmp_path: Path, allowed: RequisiteScope, missing: set[str]
) -> None:
    folder = tmp_path / "crawl"
    asked = crawled(folder, config(requisites_from=allowed))
    own = {SITE, SUB} if allowed is RequisiteScope.SITE else {SITE}
    assert asked == {url for url in PAGES if url.rpartition("/")[0] in own}
    found = state_of(folder)
    assert found.complete == 0 and sum(each.requisites for each in found.missing) == len(missing)
    assert {each.reason for each in found.missing} == {"requisite_elsewhere"}
    reader = read_folder(folder)
    answer = explain(reader, load_saved_settings(reader), next(iter(missing)), 1e6)
    assert "scope.requisites_from" in answer.headline


def test_without_requisites_the_status_says_what_the_pages_would_need(tmp_path: Path) -> None:
    asked = crawled(tmp_path / "crawl", config(requisites=False))
    assert asked == {f"{SITE}/", f"{SITE}/next"}
    found = state_of(tmp_path / "crawl")
    assert (found.pages, found.complete, found.requisites, found.stored) == (2, 0, 3, 0)
    assert [each.reason for each in found.missing] == ["requisite"]


def test_a_chain_of_imports_without_an_end_stops(tmp_path: Path) -> None:
    pages = {f"{SITE}/": html(f"<p>{'words ' * 80}</p><link rel=stylesheet href={CDN}/0.css>")}
    pages |= {f"{CDN}/{n}.css": sheet(f"@import '{n + 1}.css'") for n in range(30)}
    asked = crawled(tmp_path / "crawl", config(requisites_depth=4), pages)
    assert asked == {f"{SITE}/", *(f"{CDN}/{n}.css" for n in range(4))}
    reader = read_folder(tmp_path / "crawl")
    answer = explain(reader, load_saved_settings(reader), f"{CDN}/4.css", 1e6)
    assert "scope.requisites_depth" in answer.headline
    assert [each.reason for each in state_of(tmp_path / "crawl").missing] == ["requisite_limit"]


def test_a_page_and_its_host_bring_a_bounded_number_of_requisites(tmp_path: Path) -> None:
    images = "".join(f"<img src={CDN}/{n}.png><img src=/{n}.png>" for n in range(10))
    pages = {f"{SITE}/": html(f"<p>{'words ' * 80}</p>{images}")}
    pages |= {f"{host}/{n}.png": data() for host in (SITE, CDN) for n in range(10)}
    budgets = BudgetSection(page_requisites=14, host_requisites=5)
    asked = crawled(tmp_path / "crawl", config(budgets), pages)
    assert sum(url.startswith(CDN) for url in asked) == 5
    assert sum(url.startswith(SITE) for url in asked) == 1 + 7
    reader = read_folder(tmp_path / "crawl")
    status = crawl_status(reader, load_saved_settings(reader), 0.0)
    assert [(each.reason, each.count) for each in status.refusals] == [("requisite_limit", 8)]


def test_an_error_page_in_place_of_an_image_brings_nothing(tmp_path: Path) -> None:
    pages = {
        f"{SITE}/": html(f"<p>{'words ' * 80}</p><img src={CDN}/x.png>"),
        f"{CDN}/x.png": html("<p>Sorry.</p><img src=logo.png><link rel=stylesheet href=s.css>"),
    }
    assert crawled(tmp_path / "crawl", config(), pages) == set(pages)


def test_robots_txt_of_their_hosts_holds_and_pages_that_need_scripts_are_counted(
    tmp_path: Path,
) -> None:
    shell = f"<div id=root></div><script src={CDN}/app.js></script>"
    pages = {
        f"{SITE}/": html(f"<title>App</title>{shell}<a href=/b>b</a>"),
        f"{SITE}/b": html(f"<title>B</title>{shell}"),
        f"{CDN}/robots.txt": robots("User-agent: *", "Disallow: /"),
    }
    assert crawled(tmp_path / "crawl", config(), pages) == {f"{SITE}/", f"{SITE}/b"}
    found = state_of(tmp_path / "crawl")
    assert [(each.reason, each.pages) for each in found.missing] == [("robots_disallowed", 2)]
    reader = read_folder(tmp_path / "crawl")
    status = crawl_status(reader, load_saved_settings(reader), 0.0)
    assert [(each.host, each.captures) for each in status.scripted_hosts] == [("www.a.test", 2)]
    assert status.scripted == 2 and HTML


def test_what_one_page_may_not_have_another_may(tmp_path: Path) -> None:
    """A find that was refused does not hide the same URL where other rules apply to it."""
    other, error = "http://www.b.test", html(f"<p>no file <a href={SITE}/help>Help</a>")
    pages = {
        f"{SITE}/": html(
            f"<a href={CDN}/frame>x</a><img src={other}/own.png><img src={CDN}/none.png>"
            "<form method=post action=/form></form><a href=/next>next</a>"
        ),
        f"{SITE}/next": html("<p>more"),
        f"{CDN}/none.png": error,
        f"{CDN}/frame": html("<p>framed"),
        f"{SITE}/form": html("<p>a form"),
        f"{other}/own.png": data(),
        f"{other}/": moved("/home"),
        f"{other}/home": html(
            f"<iframe src={CDN}/frame></iframe><a href={SITE}/form>x</a><img src=/own.png>"
        ),
    }
    for allowed in (RequisiteScope.ANY, RequisiteScope.SITE):
        folder, web = tmp_path / allowed.value, Pages(pages)
        crawl_folder(folder, web, [f"{SITE}/", f"{other}/"], config(requisites_from=allowed))
        assert audit(folder).first_breaches() == []
        left = {f"{CDN}/none.png"} if allowed is RequisiteScope.SITE else set()
        assert {url for url in web.asked if not url.endswith("/robots.txt")} == {*pages} - left
        if not left:
            reader = read_folder(folder)
            answer = explain(reader, load_saved_settings(reader), f"{SITE}/help", 1e6)
            assert "outside the crawl's scope" in answer.headline
