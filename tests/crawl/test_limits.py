"""Limits of a whole crawl: pages, bytes, depth, budgets, traps, and when it is over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from judging import (
    are_balanced,
    asked,
    host_states,
    is_polite,
    new_folder,
    outcomes,
    quick_config,
    stored_rows,
)
from lycosa.base.config.sections import (
    BudgetSection,
    FetchSection,
    FrontierSection,
    LimitSection,
    ParseSection,
    PolitenessSection,
    ScopeRule,
    ScopeSection,
)
from lycosa.base.model.end import End
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.visit_state import HostState
from lycosa.synthetic import ExpectedOutcome, Misbehaviour, OracleRules, SyntheticWeb, WebPlan
from lycosa.worker.assemble import Assembled
from scripted import Names, error, first, page, robots, scripted_crawl
from virtual_crawl import VirtualCrawl

A, B = "http://a.example/", "http://b.test/"


# -- pages and bytes


@pytest.mark.parametrize("limit", [1, 2, 7, 40])
def test_max_pages_is_exact(limit: int, tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=limit, hosts=8, pages=12, cross_links=0.3, error_rate=0.1))
    crawl = VirtualCrawl(
        new_folder(tmp_path / "c"), web, quick_config(limits=LimitSection(max_pages=limit))
    )
    run = crawl.run([web.seed_url(0), web.seed_url(1), web.seed_url(2)])
    assert run.end is End.LIMIT
    assert are_balanced(crawl).captures == limit
    assert len([row for row in stored_rows(crawl.folder) if row.kind is FetchKind.PAGE]) == limit


def test_max_pages_holds_over_runs_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=2, hosts=4, pages=8))
    crawl = VirtualCrawl(
        new_folder(tmp_path / "c"), web, quick_config(limits=LimitSection(max_pages=5))
    )
    for _ in range(3):
        assert crawl.run([web.seed_url(0)]).end is End.LIMIT
        assert are_balanced(crawl).captures == 5
    crawl.config = quick_config()
    assert crawl.run().end is End.FINISHED
    assert set(asked(crawl.log)) == web.survey([web.seed_url(0)]).requested


def test_failures_give_their_permits_back(tmp_path: Path) -> None:
    names = [f"http://h{n}.s{n}.example/" for n in range(8)]
    answers = {url: first(2, error(500), page(url + "x")) for url in names} | {
        url + "x": page() for url in names
    }
    crawl, _ = scripted_crawl(
        tmp_path / "c", answers, quick_config(limits=LimitSection(max_pages=10))
    )
    assert crawl.run(names).end is End.LIMIT
    assert are_balanced(crawl).captures == 10


def test_a_worker_without_permits_waits_for_what_is_in_flight_without_spinning(
    tmp_path: Path,
) -> None:
    """One slow page holds the last permit while hundreds of hosts are ready: the loop must rest,
    not turn.
    """
    names = [f"http://h{n}.s{n}.example/" for n in range(300)]
    answers = {url: page() for url in names} | {A: page(latency_s=25.0)}
    config = quick_config(
        limits=LimitSection(max_pages=1),
        politeness=PolitenessSection(delay_s=0.0, address_delay_s=0.0, adaptive_factor=0.0),
        fetch=FetchSection(slots=64),
    )
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config, Names(latency_s=0.0))
    turns = 0

    def count_turns(assembled: Assembled) -> None:
        step = assembled.worker._step

        def counting() -> End | None:
            nonlocal turns
            turns += 1
            return step()

        assembled.worker._step = counting  # type: ignore[method-assign]

    assert crawl.run([A, *names], meanwhile=count_turns).end is End.LIMIT
    assert are_balanced(crawl).captures == 1
    assert turns < 1500


def test_max_bytes_ends_the_crawl_within_what_was_in_flight(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=3, hosts=6, pages=20, page_bytes=5000))
    crawl = VirtualCrawl(
        new_folder(tmp_path / "c"), web, quick_config(limits=LimitSection(max_bytes=100_000))
    )
    assert crawl.run([web.seed_url(0)]).end is End.LIMIT
    assert 100_000 <= are_balanced(crawl).body_bytes < 100_000 + 6 * 20_000


# -- depth


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_depth_is_exact_on_a_tree(depth: int, tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=4, hosts=1, pages=60, links=6, cross_links=0.0))
    crawl = VirtualCrawl(
        new_folder(tmp_path / "c"),
        web,
        quick_config(scope=ScopeSection(rule=ScopeRule.ANY, max_depth=depth)),
    )
    crawl.run([web.seed_url(0)])
    truth = web.survey([web.seed_url(0)], OracleRules(max_depth=depth))
    assert set(asked(crawl.log)) == truth.requested


@pytest.mark.parametrize("seed", range(3))
def test_no_url_deeper_than_the_limit_is_asked_for_and_few_are_missed(
    seed: int, tmp_path: Path
) -> None:
    """A page that was fetched before a shorter way to it was found keeps its depth, so its links
    may be one too deep.
    """
    web = SyntheticWeb(WebPlan(seed=seed, hosts=8, pages=20, cross_links=0.3, links=6))
    crawl = VirtualCrawl(
        new_folder(tmp_path / "c"),
        web,
        quick_config(scope=ScopeSection(rule=ScopeRule.ANY, max_depth=3)),
    )
    crawl.run([web.seed_url(0)])
    truth = web.survey([web.seed_url(0)], OracleRules(max_depth=3))
    assert set(asked(crawl.log)) <= truth.requested
    assert len(set(asked(crawl.log))) >= 0.9 * len(truth.requested)


def test_a_url_refused_for_depth_is_admitted_when_it_is_found_nearer(tmp_path: Path) -> None:
    answers = {
        A: page("/1", f"{B}slow"),
        f"{A}1": page("/2"),
        f"{A}2": page("/deep"),
        f"{A}deep": page(),
    }
    answers |= {f"{B}slow": page(f"{A}deep", latency_s=20.0)}
    crawl, _ = scripted_crawl(
        tmp_path / "c", answers, quick_config(scope=ScopeSection(rule=ScopeRule.ANY, max_depth=2))
    )
    run = crawl.run([A])
    assert f"{A}deep" in asked(crawl.log)
    assert run.counters.rule_refusals[Reason.TOO_DEEP] == 1


def test_a_queued_url_found_nearer_takes_the_smaller_depth(tmp_path: Path) -> None:
    answers = {
        A: page("/1", f"{B}slow"),
        f"{A}1": page("/2"),
        f"{A}2": page(*[f"/pad{n}" for n in range(30)], "/x"),
    }
    answers |= {f"{A}x": page("/y"), f"{A}y": page(), f"{B}slow": page(f"{A}x", latency_s=10.0)}
    crawl, _ = scripted_crawl(
        tmp_path / "c", answers, quick_config(scope=ScopeSection(rule=ScopeRule.ANY, max_depth=3))
    )
    crawl.run([A])
    assert f"{A}y" in asked(crawl.log)
    assert next(row.depth for row in stored_rows(crawl.folder) if row.url == f"{A}x") == 2


# -- budgets


def test_a_host_over_its_page_budget_is_parked_and_goes_on_when_the_budget_is_raised(
    tmp_path: Path,
) -> None:
    answers = {A: page(*[f"/{n}" for n in range(10)])} | {f"{A}{n}": page() for n in range(10)}
    crawl, _ = scripted_crawl(
        tmp_path / "c", answers, quick_config(budgets=BudgetSection(host_pages=4, park_s=1000.0))
    )
    assert crawl.run([A]).end is End.FINISHED
    host = host_states(crawl)["a.example"]
    assert (host.state, host.reason) == (HostState.PARKED, Reason.HOST_PAGE_BUDGET)
    counters = are_balanced(crawl)
    assert (counters.captures, counters.count_in(UrlState.PARKED)) == (4, 7)
    crawl.config = quick_config(budgets=BudgetSection(host_pages=8, park_s=1000.0))
    crawl.now += 1100
    crawl.run()
    assert are_balanced(crawl).captures == 8
    crawl.config = quick_config()
    crawl.now += 90_000
    crawl.run()
    assert are_balanced(crawl).captures == 11
    assert host_states(crawl)["a.example"].state is HostState.EXHAUSTED


def test_a_site_over_its_budget_parks_all_its_hosts(tmp_path: Path) -> None:
    hosts = [f"http://h{n}.a.example/" for n in range(3)]
    answers = {url + str(n): page() for url in hosts for n in range(5)} | {
        url: page(*[f"/{n}" for n in range(5)]) for url in hosts
    }
    crawl, _ = scripted_crawl(
        tmp_path / "c", answers, quick_config(budgets=BudgetSection(site_pages=6, park_s=1000.0))
    )
    crawl.run(hosts)
    counters = are_balanced(crawl)
    assert 6 <= counters.captures <= 6 + 2
    assert {host.state for host in host_states(crawl).values()} == {HostState.PARKED}


def test_a_host_that_brings_urls_too_fast_has_them_parked_and_fetched_later(tmp_path: Path) -> None:
    """The first 10,000 are free, so the page links to more than that."""
    links = [f"/{n}" for n in range(10_050)]
    config = quick_config(
        budgets=BudgetSection(discovery_per_page=1),
        limits=LimitSection(max_pages=30),
        politeness=PolitenessSection(delay_s=0.0, address_delay_s=0.0, adaptive_factor=0.0),
    )
    crawl, _ = scripted_crawl(tmp_path / "c", {A: page(*links)}, config)
    crawl.run([A])
    counters = are_balanced(crawl)
    assert counters.discovered == 10_051
    assert counters.count_in(UrlState.PARKED) == 49


def test_time_spent_on_a_host_is_bounded(tmp_path: Path) -> None:
    answers = {A: page(*[f"/{n}" for n in range(10)])} | {
        f"{A}{n}": page(latency_s=4.0) for n in range(10)
    }
    crawl, _ = scripted_crawl(
        tmp_path / "c",
        answers,
        quick_config(budgets=BudgetSection(host_time_s=10.0, park_s=5000.0)),
    )
    crawl.run([A])
    assert host_states(crawl)["a.example"].reason is Reason.HOST_TIME_BUDGET
    assert are_balanced(crawl).captures == 4


# -- the end


def test_a_crawl_waits_for_what_is_due_within_the_finish_wait(tmp_path: Path) -> None:
    answers = {A: page("/x"), f"{A}x": first(1, error(429, ("Retry-After", "500")), page())}
    crawl, _ = scripted_crawl(tmp_path / "c", answers)
    assert crawl.run([A]).duration_s > 500
    crawl, _ = scripted_crawl(
        tmp_path / "d",
        answers,
        quick_config(frontier=FrontierSection(partitions=3, finish_wait_s=60.0)),
    )
    run = crawl.run([A])
    assert run.end is End.FINISHED and run.duration_s < 60
    assert run.counters.count_in(UrlState.QUEUED) == 1


def test_a_stop_finishes_what_is_in_flight_and_starts_nothing(tmp_path: Path) -> None:
    answers = {A: page("/1", "/2", latency_s=10.0), f"{A}1": page(), f"{A}2": page()}
    crawl, _ = scripted_crawl(tmp_path / "c", answers)

    def stop_soon(assembled: Assembled) -> None:
        asyncio.get_running_loop().call_later(5.0, assembled.worker.stop)

    assert crawl.run([A], meanwhile=stop_soon).end is End.STOPPED
    assert asked(crawl.log) == [A]
    assert outcomes(crawl)[A][0] is UrlState.FETCHED
    assert crawl.run().end is End.FINISHED
    assert sorted(asked(crawl.log)) == sorted(answers)


def test_breaking_off_leaves_what_was_in_flight_queued(tmp_path: Path) -> None:
    answers = {
        A: page("/1", "/2"),
        f"{A}1": page(latency_s=10.0),
        f"{A}2": page(),
        B: page(latency_s=20.0),
    }
    crawl, web = scripted_crawl(tmp_path / "c", answers)

    def break_off_soon(assembled: Assembled) -> None:
        asyncio.get_running_loop().call_later(6.0, assembled.worker.break_off)

    run = crawl.run([A, B], meanwhile=break_off_soon)
    assert run.end is End.STOPPED and run.duration_s < 7
    assert are_balanced(crawl).count_in(UrlState.QUEUED) == 3
    assert crawl.run().end is End.FINISHED
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    assert web.asked[f"{A}1"] == 2
    is_polite(crawl.log, crawl.config.politeness)


def test_breaking_off_while_a_robots_txt_is_on_its_way_loses_nothing(tmp_path: Path) -> None:
    slow = robots("User-agent: *\nDisallow: /no")
    slow = type(slow)(slow.status, slow.headers, slow.body, 10.0)
    crawl, _ = scripted_crawl(tmp_path / "c", {A: page("/no"), f"{A}robots.txt": slow})

    def break_off_soon(assembled: Assembled) -> None:
        asyncio.get_running_loop().call_later(5.0, assembled.worker.break_off)

    crawl.run([A], meanwhile=break_off_soon)
    crawl.run()
    assert asked(crawl.log) == [A]
    are_balanced(crawl)
    is_polite(crawl.log, crawl.config.politeness)


def test_a_crawl_without_seeds_ends_at_once(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", {})
    run = crawl.run()
    assert run.end is End.FINISHED and run.duration_s < 2
    assert are_balanced(crawl).discovered == 0


@pytest.mark.parametrize("seconds", [-86_400.0, -30.0, 30.0, 86_400.0])
def test_a_wall_clock_that_is_set_presses_nobody(seconds: float, tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=7, hosts=6, pages=8, cross_links=0.3, error_rate=0.1))
    crawl = VirtualCrawl(new_folder(tmp_path / "c"), web, quick_config())

    def jump_soon(assembled: Assembled) -> None:
        asyncio.get_running_loop().call_later(8.0, crawl.clock.jump, seconds)

    crawl.run([web.seed_url(0)], meanwhile=jump_soon)
    crawl.run()
    assert set(asked(crawl.log)) <= web.survey([web.seed_url(0)]).requested
    assert len(set(asked(crawl.log))) > 30
    are_balanced(crawl)
    is_polite(crawl.log, crawl.config.politeness)


# -- traps


@pytest.mark.parametrize(
    "name", [each.value for each in Misbehaviour if each.outcome is ExpectedOutcome.ENDLESS]
)
def test_an_endless_space_costs_its_host_a_bounded_number_of_requests(
    name: str, tmp_path: Path
) -> None:
    web = SyntheticWeb(WebPlan(seed=5, hosts=2, pages=4))
    config = quick_config(
        limits=LimitSection(max_pages=400),
        budgets=BudgetSection(host_pages=60, park_s=5000.0),
        politeness=PolitenessSection(delay_s=0.1, address_delay_s=0.0, adaptive_factor=0.0),
    )
    crawl = VirtualCrawl(new_folder(tmp_path / "c"), web, config)
    run = crawl.run([web.seed_url(0), f"{web.seed_url(0)}bad/{name}", web.seed_url(1)])
    assert run.end is End.FINISHED
    assert (
        set(asked(crawl.log))
        >= web.survey([web.seed_url(1)], OracleRules(scope=lambda url: "h000001" in url)).requested
    )
    assert len(asked(crawl.log)) <= 2 * 60
    are_balanced(crawl)


@pytest.mark.parametrize(
    ("outcome", "states"),
    [
        (ExpectedOutcome.PAGE, {UrlState.FETCHED}),
        (ExpectedOutcome.OTHER, {UrlState.FETCHED}),
        (ExpectedOutcome.REDIRECT, {UrlState.REDIRECTED}),
        (ExpectedOutcome.ERROR, {UrlState.FAILED, UrlState.REDIRECTED}),
        (ExpectedOutcome.FAILURE, {UrlState.FAILED}),
        (ExpectedOutcome.CHOICE, {UrlState.FETCHED, UrlState.FAILED}),
    ],
)
def test_no_misbehaviour_stops_a_crawl(
    outcome: ExpectedOutcome, states: set[UrlState], tmp_path: Path
) -> None:
    """Every kind of trouble beside ordinary pages, each at a host of its own: these all come, and
    the trouble comes to what the table of misbehaviours says.
    """
    names = [each.value for each in Misbehaviour if each.outcome is outcome]
    web = SyntheticWeb(WebPlan(seed=6, hosts=len(names), pages=4))
    config = quick_config(
        politeness=PolitenessSection(backoff_s=2.0, max_backoff_s=20.0),
        parse=ParseSection(language=False, max_links=100),  # of two thousand on one page
    )
    crawl = VirtualCrawl(new_folder(tmp_path / "c"), web, config)
    seeds = [web.seed_url(number) for number in range(len(names))]
    bad = {f"{seed}bad/{name}": name for seed, name in zip(seeds, names, strict=True)}
    assert crawl.run([*seeds, *bad]).end is End.FINISHED
    found = outcomes(crawl)
    assert [url for url in web.reachable(seeds) if found[url][0] is not UrlState.FETCHED] == []
    assert {name: found[url] for url, name in bad.items() if found[url][0] not in states} == {}
    are_balanced(crawl)
    stored_rows(crawl.folder)
