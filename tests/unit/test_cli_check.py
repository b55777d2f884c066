"""``lycosa check``: URLs, scopes and robots.txt judged without a crawl."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.cli.main import main
from lycosa.inspect.url_check import check_robots
from lycosa.stages.politeness.robots_cache import RobotsRecord
from lycosa.state.kv.table_records import encode_record, robots_key
from sample_crawl import HOST, SampleCrawl
from store_samples import capture, fetched, head

FILE = b"""User-agent: *
Disallow: /private
Allow: /private/open
Crawl-delay: 2.5
Sitemap: https://e.org/s.xml

User-agent: other
Disallow: /
"""


def check(capsys: pytest.CaptureFixture[str], *args: object, code: int = 0) -> list[dict[str, Any]]:
    assert main(["check", *map(str, args), "--json"]) == code
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def robots_txt(tmp_path: Path) -> Path:
    path = tmp_path / "robots.txt"
    path.write_bytes(FILE)
    return path


# URLs


def test_a_url_is_shown_with_all_that_it_is_to_a_crawl(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = check(capsys, "url", "HTTP://WWW.Example.ORG:80/a/../b?utm_source=x&c=1#f")
    url = "http://www.example.org/b?c=1"
    assert found["canonical"] == url
    assert (found["host"], found["site"], found["surt"]) == (
        "www.example.org",
        "example.org",
        "org,example)/b?c=1",
    )
    assert found["url_hash"] == hashlib.sha256(url.encode()).hexdigest()[:16]
    assert found["host_hash"] == hashlib.sha256(b"www.example.org").hexdigest()[:16]
    assert (0 <= found["partition"] < 16, found["scope"]["verdict"], found["traps"]["verdict"]) == (
        True,
        "not judged",
        "in",
    )


def test_settings_of_the_canonical_form_are_applied(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = check(
        capsys,
        "url",
        "http://e.org/?b=1&a=2",
        "--set",
        "canonical.sort_query=true",
        "--set",
        "frontier.partitions=1",
    )
    assert (found["canonical"], found["partition"]) == ("http://e.org/?a=2&b=1", 0)


def test_a_relative_url_needs_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        check(capsys, "url", "b", "--base", "http://e.org/x/a")[0]["canonical"]
        == "http://e.org/x/b"
    )
    (found,) = check(capsys, "url", "b", code=2)
    assert (found["error"], found["would_be_crawled"]) == (
        "unparsable: a relative reference without a base",
        False,
    )


def test_a_trap_is_named_with_rule_and_value(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = check(capsys, "url", "http://e.org/" + "a/" * 9)
    assert (found["traps"]["verdict"], found["traps"]["reason"], found["traps"]["rule"]) == (
        "out",
        "repeating_segments",
        "traps.max_repeats",
    )
    assert found["would_be_crawled"] is False


def test_an_exclude_pattern_refuses_without_seeds_too(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = check(capsys, "url", "http://e.org/private/x", "--exclude", "/private/")
    assert (found["scope"]["verdict"], found["scope"]["reason"], found["scope"]["value"]) == (
        "out",
        "excluded",
        "/private/",
    )


def test_for_people_there_is_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "url", "http://e.org", "http://f.org/", "--seed", "http://e.org/"]) == 0
    out = capsys.readouterr().out
    assert "canonical  http://e.org/\n" in out and "\n\ngiven      http://f.org/\n" in out
    assert (
        "scope      out: out_of_scope: outside the crawl's scope (scope.rule = host: f.org)" in out
    )


# Scope


@pytest.mark.parametrize(
    ("options", "url", "verdict"),
    [
        ((), "http://e.org/x", "in"),
        ((), "http://www.e.org/x", "out"),
        (("--scope", "site"), "http://www.e.org/x", "in"),
        (("--scope", "prefix"), "http://e.org/docs/a/b", "in"),
        (("--scope", "prefix"), "http://e.org/other", "out"),
        (("--scope", "any"), "http://f.net/", "in"),
        (("--include", "x$"), "http://e.org/y", "out"),
        (("--max-depth", "1", "--depth", "2"), "http://e.org/x", "out"),
        (("--max-depth", "2", "--depth", "2"), "http://e.org/x", "in"),
    ],
)
def test_scope_is_judged_from_the_seeds(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], url: str, verdict: str
) -> None:
    (found,) = check(capsys, "scope", "--seed", "http://e.org/docs/", *options, url)
    assert found["scope"]["verdict"] == verdict


def test_surt_files_count_as_for_a_crawl(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    surts = tmp_path / "wanted.surts"
    surts.write_text("+http://(org,f,\n-http://(org,f,)/old/\n")
    options = ("--seed", "http://e.org/", "--scope", "surt", "--surts", str(surts))
    urls = ("http://f.org/a", "http://f.org/old/a", "http://e.org/a")
    verdicts = [each["scope"]["verdict"] for each in check(capsys, "scope", *options, *urls)]
    assert verdicts == ["in", "out", "out"]
    assert main(["check", "scope", *options[:4], "--surts", str(tmp_path / "none"), *urls]) == 2
    assert "none: No such file or directory" in capsys.readouterr().err


def test_the_scope_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "check",
                "scope",
                "--seed",
                "http://e.org/",
                "http://e.org/a",
                "http://f.org/",
                "http://e.org/2099/01/",
                "nonsense",
            ]
        )
        == 2
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# in scope: pages on the hosts of the seeds, http or https"
    assert [line.split()[:2] for line in lines if not line.startswith("#")] == [
        ["in", "http://e.org/a"],
        ["out", "http://f.org/"],
        ["out", "http://e.org/2099/01/"],
        ["error", "nonsense"],
    ]


def test_a_seed_that_is_no_url_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "scope", "--seed", "nonsense", "http://e.org/"]) == 2
    assert (
        capsys.readouterr().err
        == "lycosa: 'nonsense': a relative reference without a base; give an absolute http or https"
        " URL\n"
    )


# robots.txt


def test_a_robots_file_is_judged_offline_with_line_and_rule(
    robots_txt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    no, yes, other = check(
        capsys,
        "robots",
        "--robots",
        robots_txt,
        "https://e.org/private/",
        "https://e.org/private/open",
        "https://e.org/other",
    )
    assert (no["verdict"], no["line"], no["rule"], no["group"]) == (
        "disallowed",
        2,
        "Disallow: /private",
        "*",
    )
    assert (yes["verdict"], yes["line"]) == ("allowed", 3)
    assert (other["verdict"], other["line"], other["why"]) == ("allowed", 0, "no rule matches")
    assert (no["crawl_delay_s"], no["sitemaps"], no["source"]) == (
        2.5,
        ["https://e.org/s.xml"],
        str(robots_txt),
    )


def test_what_a_robots_file_states_about_use_is_told_for_what_it_allows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "robots.txt"
    file.write_text("User-agent: *\nDisallow: /private\nContent-Signal: ai-train=no\n")
    urls = ("https://e.org/", "https://e.org/private")
    yes, no = check(capsys, "robots", "--robots", file, *urls)
    assert yes["stated"] == ["robots.txt line 3: Content-Signal: ai-train=no"]
    assert no["stated"] == []
    assert main(["check", "robots", "--robots", str(file), urls[0]]) == 0
    line = "stated   robots.txt line 3: Content-Signal: ai-train=no\n"
    assert line in capsys.readouterr().out


def test_another_agent_may_be_asked_for(
    robots_txt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = check(capsys, "robots", "--robots", robots_txt, "--agent", "Other", "https://e.org/")
    assert (found["verdict"], found["group"], found["line"]) == ("disallowed", "other", 8)
    (found,) = check(
        capsys, "robots", "--robots", robots_txt, "--set", "agent.product=other", "https://e.org/"
    )
    assert found["verdict"] == "disallowed"


def test_for_people_a_verdict_is_a_few_lines(
    robots_txt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "robots", "--robots", str(robots_txt), "https://e.org/private/"]) == 0
    out = capsys.readouterr().out
    assert (
        "verdict      disallowed for lycosa: the longest matching rule decides (RFC 9309"
        " 2.2.2)\n" in out
    )
    assert "rule         line 2: Disallow: /private\n" in out and "crawl-delay  2.5s\n" in out


def test_a_file_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "robots", "--robots", str(tmp_path / "none"), "https://e.org/"]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_a_host_whose_file_cannot_be_had_waits() -> None:
    record = RobotsRecord(
        first_failure=100.0,
        failures=2,
        next_try=1000.0,
        error=Reason.CONNECT_REFUSED,
        detail="192.0.2.1:443",
    )
    found = check_robots("https://e.org/", "lycosa", record, "a crawl", 500.0)
    assert (
        found.verdict,
        "the connection was refused by 192.0.2.1:443 (2 times)" in found.why,
    ) == ("waits", True)


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[SampleCrawl]:
    made = SampleCrawl(tmp_path / "crawl")
    yield made
    made.close()


def test_a_crawl_is_asked_for_what_it_remembers(
    crawl: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = check(capsys, "robots", "--dir", crawl.folder, f"https://{HOST}/private/x")
    assert (found["verdict"], found["line"], found["crawl_delay_s"]) == ("disallowed", 2, 2)
    assert found["source"].startswith(
        f"https://{HOST}/robots.txt, fetched 2026-09-21T14:13:20Z by the crawl in "
    )


def test_an_origin_that_a_crawl_has_not_asked_is_told(
    crawl: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "robots", "--dir", str(crawl.folder), f"http://{HOST}/"]) == 5
    assert f"has not fetched http://{HOST}/robots.txt yet" in capsys.readouterr().err


def test_for_another_agent_the_stored_file_is_read_again(
    crawl: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("robots", "--dir", crawl.folder, "--agent", "other", f"https://{HOST}/x")
    assert main(["check", *map(str, arguments)]) == 5
    assert "has no stored file" in capsys.readouterr().err
    answer = fetched(
        f"https://{HOST}/robots.txt", FILE, header_block=head("Content-Type: text/plain")
    )
    crawl.store.append_capture(capture(answer, kind=FetchKind.ROBOTS, parsed=None))
    crawl.commit([])
    (found,) = check(capsys, *arguments)
    assert (found["verdict"], found["line"]) == ("disallowed", 8)


def test_a_crawl_that_found_no_file_allows(
    crawl: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl.commit(
        [
            (
                robots_key(hash8(HOST), True),
                encode_record(RobotsRecord(status=404, fetched=1.0, expires=2.0)),
            )
        ]
    )
    (found,) = check(capsys, "robots", "--dir", crawl.folder, f"https://{HOST}/private/x")
    assert (found["verdict"], "there is no robots.txt (status 404)" in found["why"]) == (
        "allowed",
        True,
    )
