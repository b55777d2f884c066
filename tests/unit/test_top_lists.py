"""Which hosts and sites status lists and in what order, and what explain says of their budgets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crawling import Names, Pages, crawl_folder, page
from judging import quick_config
from lycosa.base.config.sections import BudgetSection
from lycosa.base.reasons import Reason
from lycosa.cli import status as status_command
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.explain.facts import Explanation
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.inspect.top_lists import HostLine, Order, Top
from lycosa.synthetic import VIRTUAL_EPOCH

A = "http://a.example/"
FARM = [f"http://h{n}.farm.test/" for n in range(5)]
WEB = {
    A: page(*[f"/{n}" for n in range(8)], *FARM),
    **{f"{A}{n}": page() for n in range(8)},
    **{url: page(A) for url in FARM},
    "http://b.example/": page(A, *[f"/gone{n}" for n in range(3)]),
}
CONFIG = quick_config(
    budgets=BudgetSection(site_pages=2, pages_per_linking_site=1, site_hosts=2, park_s=50_000.0)
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists") / "c"
    names = Names({"dead.example": Reason.DNS_FAILED})
    crawl_folder(
        folder,
        Pages(WEB),
        [A, "http://b.example/", "http://dead.example/"],
        CONFIG,
        resolver=lambda clock: names,
    )
    return folder


def asked(folder: Path, url: str, now: float = VIRTUAL_EPOCH + 100) -> Explanation:
    reader = read_folder(folder)
    return explain(reader, load_saved_settings(reader), url, now)


def facts(answer: Explanation) -> dict[str, Any]:
    return answer.to_json()["facts"]


def line(
    host: str, waiting: int = 0, parked: int = 0, wait_s: float = 0.0, errors: int = 0
) -> HostLine:
    return HostLine(host, "ready", waiting, parked, 0, 0, 1.0, wait_s, 0.0, "", "", errors)


@pytest.mark.parametrize(
    ("by", "names"), [(Order.QUEUE, "cb"), (Order.ERRORS, "ab"), (Order.WAIT, "ba")]
)
def test_a_list_keeps_the_first_by_its_order(by: Order, names: str) -> None:
    top = Top[HostLine](2, by)
    for each in (
        line("a", 1, 0, 5.0, 9),
        line("b", 2, 1, 7.0, 3),
        line("c", 0, 4, 1.0, 0),
        line("d"),
    ):
        top.add_line(each, each.host)
    assert "".join(each.host for each in top.lines()) == names
    empty = Top[HostLine](0, by)
    empty.add_line(line("a"), "a")
    assert empty.lines() == []


def test_sites_are_listed_with_their_pages_budget_and_who_links(finished: Path) -> None:
    reader = read_folder(finished)
    status = crawl_status(reader, load_saved_settings(reader), VIRTUAL_EPOCH + 100, sites=10)
    sites = {each.site: each for each in status.sites}
    assert (
        sites["a.example"].pages,
        sites["a.example"].most_pages,
        sites["a.example"].linking_sites,
    ) == (4, 4, 2)
    assert (
        sites["a.example"].waiting,
        sites["a.example"].parked,
        sites["a.example"].hosts_parked,
    ) == (0, 5, 1)
    assert (
        sites["farm.test"].hosts,
        sites["farm.test"].hosts_parked,
        sites["farm.test"].pages,
    ) == (3, 3, 2)
    assert 49_000 < sites["farm.test"].wait_s < 51_000
    assert status.states["parked"] == sum(each.parked for each in status.sites)
    assert status.hosts_by_state["parked"] == 5


def test_hosts_with_errors_are_listed_although_nothing_waits_there(finished: Path) -> None:
    reader = read_folder(finished)
    status = crawl_status(reader, load_saved_settings(reader), VIRTUAL_EPOCH + 100, by=Order.ERRORS)
    assert [(each.host, each.errors) for each in status.hosts[:2]] == [
        ("dead.example", 7),
        ("b.example", 1),
    ]
    assert {each.errors for each in status.hosts[2:]} == {0}


def test_status_prints_sites_and_takes_the_order(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status_command.run(read_folder(finished), 5, 5, "wait", as_json=False)
    text = capsys.readouterr().out
    assert "linking sites" in text and "farm.test" in text and "budgets.site_hosts = 2 of 2" in text
    status_command.run(read_folder(finished), 1, 1, "queue", as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert [each["host"] for each in told["hosts"]] == ["a.example"] and [
        each["site"] for each in told["sites"]
    ] == ["a.example"]


def test_a_url_over_its_sites_pages_gives_rule_value_and_what_earned_them(finished: Path) -> None:
    parked = [
        answer for n in range(8) if (answer := asked(finished, f"{A}{n}")).verdict == "parked"
    ]
    assert len(parked) == 5
    told = facts(parked[0])
    assert (told["reason"], told["rule"]) == ("site_page_budget", "budgets.site_pages")
    assert told["value"] == "4 of 4 (2 and 1 for each of 2 linking sites)"
    assert (told["site_pages"], told["site_pages_most"], told["linking_sites"]) == (4, 4, 2)
    assert told["budget_now"] == "budgets.site_pages = 4 of 4 (2 and 1 for each of 2 linking sites)"


def test_a_url_on_a_host_too_many_gives_rule_and_value(finished: Path) -> None:
    parked = [answer for url in FARM if (answer := asked(finished, url)).verdict == "parked"]
    assert len(parked) == 3
    told = facts(parked[0])
    assert (told["reason"], told["rule"], told["value"], told["site_hosts"]) == (
        "site_host_budget",
        "budgets.site_hosts",
        "2 of 2",
        2,
    )
    assert "its budget of visited hosts" in parked[0].headline


def test_a_url_never_seen_is_judged_by_the_budget_of_today(finished: Path) -> None:
    answer = asked(finished, f"{A}new")
    assert answer.verdict == "never_seen" and "would be parked" in answer.headline
    assert facts(answer)["rule"] == "budgets.site_pages"
