"""Budgets that shape a broad crawl: what a site may take grows with the sites that link to it,
and nothing is lost on the way.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import crawling
from judging import (
    are_balanced,
    asked,
    host_states,
    hosts_of,
    is_balanced,
    is_polite,
    outcomes,
    quick_config,
    tables,
)
from lycosa.base.config.sections import BudgetSection
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.admit.linking_sites import linking_sites
from lycosa.stages.frontier.visit_state import HostState
from lycosa.state.folder.names import table_folder
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.kv.table_records import linking_key
from lycosa.synthetic import Faults
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH
from scripted import Answer, moved, page, scripted_crawl
from virtual_crawl import VirtualCrawl

A = "http://a.example/"

B, C, D = "http://b.test/", "http://c.test/", "http://d.test/"


def big_site(pages: int = 12) -> dict[str, Answer]:
    """A site whose first page links to all others, which link back and forth within it."""
    return {A: page(*[f"/{n}" for n in range(pages)])} | {
        f"{A}{n}": page("/", f"/{(n + 1) % pages}") for n in range(pages)
    }


def linking(crawl: VirtualCrawl, site: str) -> int:
    """How many sites link to one, by the committed state of whoever owns it."""
    with tables(crawl) as opened:
        records = [
            record for table in opened if (record := table.get(linking_key(site))) is not None
        ]
    assert len(records) <= 1
    return linking_sites(records[0]) if records else 0


def captured(crawl: VirtualCrawl, host: str) -> int:
    return host_states(crawl)[host].usage.captures


STAR = BudgetSection(site_pages=4, pages_per_linking_site=3, park_s=300.0)


def test_a_parked_site_gains_pages_when_others_link_to_it_later_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    """B and C answer slowly, so the site is parked before they link to it; D links to a page of
    it that is known since long.
    """
    answers = big_site() | {B: page(A, latency_s=20.0), C: page(f"{A}3", latency_s=22.0)}
    answers |= {D: page(f"{D}1", latency_s=20.0), f"{D}1": page(f"{A}5", latency_s=25.0)}
    crawl, _ = scripted_crawl(tmp_path / "c", answers, quick_config(budgets=STAR))
    run = crawl.run([A, B, C, D])
    assert run.duration_s > 300
    assert linking(crawl, "a.example") == 3
    assert captured(crawl, "a.example") == 4 + 3 * 3
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    assert are_balanced(crawl).discovered == len(answers)
    is_polite(crawl.log, crawl.config.politeness)


def test_what_is_beyond_the_grown_budget_stays_parked_until_the_budget_is_raised(
    tmp_path: Path,
) -> None:
    answers = big_site() | {B: page(A, latency_s=20.0)}
    crawl, _ = scripted_crawl(tmp_path / "c", answers, quick_config(budgets=STAR))
    crawl.run([A, B])
    counters = are_balanced(crawl)
    assert (
        captured(crawl, "a.example"),
        counters.count_in(UrlState.PARKED),
        counters.hosts_parked,
    ) == (
        7,
        6,
        1,
    )
    host = host_states(crawl)["a.example"]
    assert (host.state, host.reason) == (HostState.PARKED, Reason.SITE_PAGE_BUDGET)
    assert host.detail == "budgets.site_pages = 7 of 7 (4 and 3 for each of 1 linking sites)"
    crawl.config = quick_config()
    crawl.now += 90_000
    crawl.run()
    assert captured(crawl, "a.example") == 13
    assert are_balanced(crawl).count_in(UrlState.PARKED) == 0


def test_links_within_a_site_earn_nothing_and_a_site_counts_once(tmp_path: Path) -> None:
    """Subdomains of the site itself, redirects to it, and a site that links from many pages and
    hosts.
    """
    answers = big_site() | {
        "http://sub.a.example/": page(A),
        "http://farm.b.test/": page(A, f"{A}1"),
    }
    answers |= {f"http://h{n}.b.test/": page(f"{A}{n}") for n in range(4)} | {C: moved(A)}
    crawl, _ = scripted_crawl(tmp_path / "c", answers, quick_config())
    crawl.config = quick_config(budgets=BudgetSection(site_pages=100, pages_per_linking_site=1))
    crawl.run(list(answers))
    assert linking(crawl, "a.example") == 1
    assert linking(crawl, "b.test") == 0


def test_a_link_to_a_page_that_was_met_a_moment_ago_still_counts(tmp_path: Path) -> None:
    """All link to the same page: the memory of what was met lately must not swallow who links."""
    names = [f"http://s{n}.test/" for n in range(30)]
    answers = {A: page()} | {url: page(A) for url in names}
    crawl, _ = scripted_crawl(
        tmp_path / "c",
        answers,
        quick_config(budgets=BudgetSection(site_pages=1, pages_per_linking_site=1)),
    )
    crawl.run([A, *names])
    assert linking(crawl, "a.example") == 30


def test_who_links_is_not_kept_unless_it_earns_pages(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(
        tmp_path / "c", big_site() | {B: page(A)}, quick_config(budgets=BudgetSection(site_pages=5))
    )
    crawl.run([A, B])
    assert linking(crawl, "a.example") == 0


def test_a_parked_host_is_looked_at_again_at_doubling_intervals_that_begin_anew_after_a_page(
    tmp_path: Path,
) -> None:
    budgets = BudgetSection(site_pages=4, pages_per_linking_site=3, park_s=1000.0)
    crawl, web = scripted_crawl(tmp_path / "c", big_site(), quick_config(budgets=budgets))
    parked_at = 0.0
    crawl.run([A])
    for wait_s in (1000, 2000, 4000, 8000):
        host = host_states(crawl)["a.example"]
        assert host.state is HostState.PARKED
        assert wait_s - 2 <= host.parked_until - VIRTUAL_EPOCH - parked_at <= wait_s + 20
        parked_at = crawl.now = host.parked_until - VIRTUAL_EPOCH + 1.0
        crawl.run()
    web.answers[B] = page(A)
    crawl.run([B])
    assert captured(crawl, "a.example") == 4
    parked_at = crawl.now = host_states(crawl)["a.example"].parked_until - VIRTUAL_EPOCH + 1.0
    crawl.run()
    host = host_states(crawl)["a.example"]
    assert (host.usage.captures, host.state, host.parks) == (7, HostState.PARKED, 1)
    assert 998 <= host.parked_until - VIRTUAL_EPOCH - parked_at <= 1030


@pytest.mark.parametrize("seed", range(3))
def test_crashes_neither_lose_nor_double_what_linking_sites_earn(seed: int, tmp_path: Path) -> None:
    names = [f"http://s{n}.test/" for n in range(12)]
    answers = {A: crawling.page(*[f"/{n}" for n in range(40)])} | {
        f"{A}{n}": crawling.page() for n in range(40)
    }
    answers |= {url: crawling.page(f"{A}{n}", A) for n, url in enumerate(names)}
    web, chance, folder = crawling.Pages(answers), random.Random(seed), tmp_path / "c"
    config = quick_config(
        seed=seed, budgets=BudgetSection(site_pages=4, pages_per_linking_site=2, park_s=300.0)
    )
    crashes = 0
    for run in range(8):
        faults = Faults(chance, crash_at=chance.randrange(20, 120)) if run < 5 else None
        crashes += (
            crawling.crawl_folder(
                folder, web, [A, *names], config, start=run * 90_000.0, faults=faults
            )
            is None
        )
    assert crashes >= 2
    opened = [rocks_opener(8 << 20, 4 << 20)(table_folder(folder, number)) for number in range(3)]
    try:
        for table in opened:
            is_balanced(table)
        record = next(
            record
            for table in opened
            if (record := table.get(linking_key("a.example"))) is not None
        )
        assert linking_sites(record) == 12
        assert (
            sum(
                host.usage.captures
                for table in opened
                for host in hosts_of(table).values()
                if host.host == "a.example"
            )
            == 4 + 12 * 2
        )
    finally:
        for table in opened:
            table.close()


# -- hosts of a site


def test_a_site_is_visited_at_as_many_hosts_as_it_may_have_and_the_others_wait(
    tmp_path: Path,
) -> None:
    hosts = [f"http://h{n}.a.example/" for n in range(9)]
    answers: dict[str, Answer] = (
        {url: page("/x", *hosts) for url in hosts}
        | {f"{url}x": page() for url in hosts}
        | {B: page(*hosts)}
    )
    config = quick_config(budgets=BudgetSection(site_hosts=3, park_s=1000.0))
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config)
    crawl.run([hosts[0], B])
    states = host_states(crawl)
    visited = {
        name for name, host in states.items() if name.endswith("a.example") and host.usage.captures
    }
    assert len(visited) == 3 and "h0.a.example" in visited
    assert {url.split("/")[2] for url in crawl.log.urls()} == visited | {"b.test"}
    waiting = [host for name, host in states.items() if name not in visited and name != "b.test"]
    assert {(host.state, host.reason, host.detail) for host in waiting} == {
        (HostState.PARKED, Reason.SITE_HOST_BUDGET, "budgets.site_hosts = 3 of 3")
    }
    counters = are_balanced(crawl)
    assert (counters.count_in(UrlState.PARKED), counters.count_in(UrlState.FETCHED)) == (6, 7)
    crawl.config = quick_config(budgets=BudgetSection(site_hosts=5, park_s=1000.0))
    crawl.now += 90_000
    crawl.run()
    assert (
        sum(
            host.usage.captures > 0 for name, host in host_states(crawl).items() if name != "b.test"
        )
        == 5
    )
    crawl.config = quick_config()
    crawl.now += 90_000
    crawl.run()
    assert set(asked(crawl.log)) == set(answers)
    assert are_balanced(crawl).count_in(UrlState.PARKED) == 0


def test_hosts_of_other_sites_do_not_count(tmp_path: Path) -> None:
    hosts = [f"http://www.s{n}.example/" for n in range(6)]
    crawl, _ = scripted_crawl(
        tmp_path / "c",
        {url: page() for url in hosts},
        quick_config(budgets=BudgetSection(site_hosts=1)),
    )
    crawl.run(hosts)
    assert set(asked(crawl.log)) == set(hosts)
