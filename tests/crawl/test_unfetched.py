"""Why URLs of an ended crawl were not fetched, as the summary and programs are told."""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec
import pytest

from crawling import QUICK, Names, Pages, crawl_folder, html, moved, page, robots
from lycosa.base.config.sections import (
    RefetchRule,
    RefetchSection,
    RetrySection,
    ScopeRule,
    ScopeSection,
)
from lycosa.base.reasons import Reason
from lycosa.cli.main import main
from lycosa.inspect.unfetched import Unfetched, failed_seeds, unfetched_of

A, B = "http://a.example/", "http://b.example/"
ANY = msgspec.structs.replace(QUICK, scope=ScopeSection(rule=ScopeRule.ANY))


def unfetched(folder: Path) -> tuple[Unfetched, list[str]]:
    now = time.time()
    found = unfetched_of(folder, now)
    return found, found.lines("my crawl", now)


def test_a_host_whose_robots_txt_fails_is_named_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    web = Pages({A: page(B), B: page(), f"{B}robots.txt": html("no", status=500)})
    crawl_folder(folder, web, [A], ANY, stop_after_s=30)
    found, (line,) = unfetched(folder)
    assert line.startswith(
        "waiting: 1 URL at b.example: robots.txt: the server failed (5xx), status 500 (once)"
    )
    assert "; the next try is due in " in line
    assert found.may_pass and not found.has_lost


def test_retired_hosts_are_named_with_a_command_that_brings_them_back(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    config = msgspec.structs.replace(ANY, retry=RetrySection(dns_tries=1, away_s=0.0))
    web = Pages({A: page(B, f"{B}2", "http://c.example/", "http://d.example/")})
    names = {
        "b.example": Reason.DNS_TIMEOUT,
        "c.example": Reason.DNS_TIMEOUT,
        "d.example": Reason.DNS_NO_SUCH_NAME,
    }
    crawl_folder(folder, web, [A], config, resolver=lambda _: Names(names))
    found, lines = unfetched(folder)
    assert lines == [
        "retired: 3 URLs at 2 hosts: the name servers did not answer: b.example (2), c.example (1);"
        " to try again: lycosa host resume 'my crawl' b.example",
        "retired: 1 URL at d.example: the host name does not exist (d.example: as the test says)",
    ]
    assert found.has_lost


def test_a_crawl_that_fetched_everything_has_nothing_to_say(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    crawl_folder(folder, Pages({A: page("/x"), f"{A}x": page()}), [A])
    assert unfetched(folder) == (Unfetched(), [])
    assert failed_seeds(folder) == []


def test_a_seed_that_robots_txt_disallows_is_told_in_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    web = Pages({f"{A}robots.txt": robots("User-agent: *", "Disallow: /")})
    crawl_folder(folder, web, [A])
    (line,) = failed_seeds(folder)
    assert line.startswith(f"{A}: robots.txt disallows it")
    assert line.endswith("only the owner of the site can change that")


def test_the_documented_query_lists_loops_of_redirects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    web = Pages(
        {
            A: page("/loop", "/into", "/old"),
            f"{A}loop": moved(f"{A}pool"),
            f"{A}pool": moved(f"{A}loop"),
            f"{A}into": moved(f"{A}loop"),
            f"{A}old": moved(f"{A}new"),
            f"{A}new": page(),
        }
    )
    crawl_folder(folder, web, [A])
    text = Path(__file__).parents[2].joinpath("docs", "operations.md").read_text("utf-8")
    (query,) = re.findall(r'lycosa sql example "(WITH RECURSIVE [^"]+)"', text)
    assert main(["sql", str(folder), query, "--format", "csv"]) == 0
    found = capsys.readouterr().out.split()
    assert set(found) == {"url,steps", f"{A}loop,2", f"{A}pool,2"}


def documented_queries() -> list[str]:
    """The queries of the section about nightly runs."""
    text = Path(__file__).parents[2].joinpath("docs", "operations.md").read_text("utf-8")
    section = text[text.index("**Every night.**") : text.index("**Seeds** are read")]
    return re.findall(r'lycosa sql example "([^"]+)"', section)


def test_the_documented_queries_tell_what_a_nightly_run_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, night = (
        tmp_path / "c",
        RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=72_000, min_s=72_000, max_s=72_000),
    )
    config = msgspec.structs.replace(ANY, refetch=night)
    web = Pages(
        {
            A: [page("/same", "/other"), page("/same", "/other", "/new")],
            f"{A}same": page(text="the same every night"),
            f"{A}other": [page(text="first"), page(text="second")],
            f"{A}new": page(text="new"),
        }
    )
    crawl_folder(folder, web, [A], config)
    crawl_folder(folder, web, [], config, start=86_400.0)
    changed, new = documented_queries()
    for query, urls in ((changed, {A, f"{A}other"}), (new, {f"{A}new"})):
        assert main(["sql", str(folder), query, "--format", "csv"]) == 0  # of the last real day
        assert capsys.readouterr().out.split() == ["url"]
        of_the_night = query.replace("now()", "(SELECT max(fetch_time) FROM pages)")
        of_the_night = of_the_night.replace("INTERVAL 1 DAY", "INTERVAL 1 HOUR")
        assert main(["sql", str(folder), of_the_night, "--format", "csv"]) == 0
        assert set(capsys.readouterr().out.split()[1:]) == urls
