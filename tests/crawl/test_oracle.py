"""Whole crawls of synthetic webs come to exactly what the web's own survey says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judging import (
    are_balanced,
    asked,
    host_states,
    is_polite,
    new_folder,
    no_disallowed,
    outcomes,
    quick_config,
    stored_rows,
)
from lycosa.base.config.sections import PolitenessSection, RetrySection, ScopeRule, ScopeSection
from lycosa.base.model.end import End
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.visit_state import HostState
from lycosa.synthetic import OracleRules, SyntheticWeb, WebPlan
from virtual_crawl import VirtualCrawl

PLANS: dict[str, dict[str, Any]] = {
    "plain": {},
    "zipf": {"distribution": "zipf", "pages": 12, "hosts": 14},
    "errors": {"error_rate": 0.3},
    "gone": {"gone": 0.1, "redirects": 0.15},
    "duplicates": {"duplicates": 0.2, "near_duplicates": 0.2},
    "variants": {"variants": 0.2, "noindex": 0.1, "nofollow": 0.1},
    "dead": {"dead_hosts": 0.4, "cross_links": 0.3},
    "robots": {"robots": 1.0, "hosts": 14, "pages": 12, "cross_links": 0.3},
    "robots-odd": {
        "robots": 1.0,
        "hosts": 14,
        "pages": 12,
        "cross_links": 0.3,
        "robots_variants": (
            "carriage-returns",
            "html",
            "empty",
            "redirect-loop",
            "flaky",
            "closed",
            "forbidden",
            "huge",
        ),
    },
    "sitemaps": {"sitemaps": True, "feeds": True},
    "encodings": {"gzip": 0.5, "chunked": 0.5},
}


def same_as_survey(
    crawl: VirtualCrawl, web: SyntheticWeb, rules: OracleRules | None = None
) -> None:
    """Requests, outcomes, counters, files and politeness, all against what the web knows of
    itself.
    """
    truth = web.survey([web.seed_url(0)], rules)
    requested = set(asked(crawl.log)) - {url for url in asked(crawl.log) if "/sitemap" in url}
    assert requested == truth.requested
    found = outcomes(crawl)
    assert {url for url, (state, _) in found.items() if state is UrlState.REDIRECTED} == set(
        truth.redirected
    )
    assert {
        url for url, (state, _) in found.items() if state is UrlState.REFUSED
    } == truth.disallowed
    assert {url for url, (state, _) in found.items() if state is UrlState.FAILED} == set(
        truth.failed
    )
    fetched = {
        url
        for url, (state, _) in found.items()
        if state is UrlState.FETCHED and "/sitemap" not in url
    }
    assert fetched == truth.pages | truth.others
    assert {url for url, (state, _) in found.items() if state not in _FINAL} == truth.unreachable
    are_balanced(crawl)
    is_polite(crawl.log, crawl.config.politeness)
    no_disallowed(web, crawl.log)
    rows = [
        row
        for row in stored_rows(crawl.folder)
        if row.kind is FetchKind.PAGE and "/sitemap" not in row.url
    ]
    assert {row.url for row in rows if row.status == 200} == truth.pages | truth.others


_FINAL = {UrlState.FETCHED, UrlState.REDIRECTED, UrlState.FAILED, UrlState.REFUSED}


@pytest.mark.parametrize("name", PLANS)
def test_a_crawl_comes_to_what_the_survey_says(name: str, tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(**{"seed": len(name), "hosts": 8, "pages": 12, **PLANS[name]}))
    crawl = VirtualCrawl(
        new_folder(tmp_path / "crawl"),
        web,
        quick_config(politeness=PolitenessSection(backoff_s=2.0, max_backoff_s=20.0)),
    )
    assert crawl.run([web.seed_url(0)]).end is End.FINISHED
    same_as_survey(crawl, web)


@pytest.mark.parametrize("rule", [ScopeRule.HOST, ScopeRule.SITE])
def test_scope_bounds_a_crawl_exactly(rule: ScopeRule, tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=3, hosts=9, pages=12, cross_links=0.3))
    crawl = VirtualCrawl(
        new_folder(tmp_path / "crawl"), web, quick_config(scope=ScopeSection(rule=rule))
    )
    crawl.run([web.seed_url(2)])
    end = "h000002.site000002.example" if rule is ScopeRule.HOST else ".site000002.example"
    truth = web.survey(
        [web.seed_url(2)], OracleRules(scope=lambda url: url.split("/")[2].endswith(end))
    )
    assert set(asked(crawl.log)) == truth.requested
    assert len(truth.pages) > (12 if rule is ScopeRule.SITE else 8)


def test_hosts_without_a_name_are_retired_with_their_urls(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=4, hosts=10, pages=5, cross_links=0.4, dead_hosts=0.5))
    crawl = VirtualCrawl(
        new_folder(tmp_path / "crawl"), web, quick_config(retry=RetrySection(away_s=60.0))
    )
    crawl.run([web.seed_url(0)])
    hosts = host_states(crawl)
    dead = {name for name in hosts if web.hosts.is_dead(int(name[1:7]))}
    assert dead
    for name in dead:
        assert hosts[name].state is HostState.RETIRED
        assert hosts[name].reason in (
            Reason.DNS_NO_SUCH_NAME,
            Reason.DNS_FAILED,
            Reason.DNS_TIMEOUT,
        )
    assert {name for name, host in hosts.items() if host.state is HostState.RETIRED} == dead


def test_a_second_run_of_a_finished_crawl_requests_nothing(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=5, hosts=4, pages=6))
    crawl = VirtualCrawl(new_folder(tmp_path / "crawl"), web, quick_config())
    crawl.run([web.seed_url(0)])
    before = len(crawl.log)
    again = crawl.run([web.seed_url(0)])
    assert (again.end, len(crawl.log)) == (End.FINISHED, before)
    assert again.duration_s < 10


def test_one_seed_gives_one_history(tmp_path: Path) -> None:
    histories = []
    for attempt in range(2):
        web = SyntheticWeb(WebPlan(seed=6, hosts=6, pages=10, error_rate=0.2, robots=0.5))
        crawl = VirtualCrawl(new_folder(tmp_path / str(attempt)), web, quick_config())
        crawl.run([web.seed_url(0)])
        histories.append(
            [(each.start, each.host, each.path, each.status) for each in crawl.log.exchanges]
        )
    assert histories[0] == histories[1]


def test_a_virtual_crawl_crawls_with_the_settings_of_an_ordinary_crawl(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=7, hosts=3, pages=5))
    crawl = VirtualCrawl(new_folder(tmp_path / "crawl"), web)
    run = crawl.run([web.seed_url(0), "ftp://nobody.example/", "http://"])
    assert run.end is End.FINISHED
    assert run.counters.pages == len(
        web.reachable([web.seed_url(0)], OracleRules(scope=lambda url: "h000000." in url))
    )
    assert [seed for seed, _ in run.refused] == ["ftp://nobody.example/", "http://"]
