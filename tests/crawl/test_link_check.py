"""``lycosa check links``, the whole command, on a site with one of each thing that can be wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostile_documents import DOCUMENTS
from linked_site import LinkedSite, linked_site, page
from lycosa.cli.main import main

FAST = (
    *("--resolve", "*.test=127.0.0.1", "--allow-address", "127.0.0.0/8", "--delay", "0"),
    *("--set", "politeness.delay_s=0"),
    *("--set", "politeness.address_delay_s=0", "--set", "politeness.adaptive_factor=0"),
    *("--set", "politeness.jitter=0", "--set", "politeness.address_table=crawl"),
    *("--set", "frontier.finish_wait_s=1", "--set", "retry.first_s=0"),
    *("--set", "frontier.partitions=1"),
)
CONTACT = ("--contact", "owner@example.org")


class Checked:
    """The site, the folder of its check, and the report of the first run."""

    def __init__(self, site: LinkedSite, folder: Path) -> None:
        self.site, self.folder = site, folder

    def run(self, *more: object, code: int = 7) -> dict[str, Any]:
        """Run the command, and return its JSON report."""
        file = self.folder.parent / "report.json"
        arguments = [self.site.own + "/", "--dir", self.folder, "--output", file, *FAST, *more]
        assert main(["check", "links", *map(str, arguments)]) == code
        report: dict[str, Any] = json.loads(file.read_bytes())
        return report

    def short(self, url: str) -> str:
        return url.removeprefix(self.site.own).replace(f":{self.site.port}", "")

    def found(self, report: dict[str, Any]) -> set[tuple[str, str, str, int]]:
        """Rule, page, target and line of all findings, without the names that a run chooses."""
        return {
            (
                each["rule"],
                self.short(each["page"]),
                self.short(each["target"]),
                each.get("line", 0),
            )
            for each in report["findings"]
        }


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checked]:
    with linked_site() as site:
        yield Checked(site, tmp_path_factory.mktemp("links") / "check")


def test_a_run_finds_all_and_the_next_one_only_what_is_new(checked: Checked) -> None:
    report = checked.run(*CONTACT)
    assert checked.found(report) == {
        ("not-found", "/", "/gone", 4),
        ("http-error", "/", "/server-error", 5),
        ("redirect-permanent", "/", "/old", 6),
        ("redirect-loop", "/", "/loop-a", 7),
        ("redirect-broken", "/", "/to-gone", 8),
        ("robots", "/", "/private/page", 9),
        ("fragment-missing", "/", "/#nowhere", 11),
        ("fragment-missing", "/", "/second#lost", 12),
        ("invalid-url", "/", "http://exa mple/", 15),
        ("invalid-url", "/", "htp://site.test/", 16),
        ("not-found", "/", "/missing.png", 17),
        ("not-found", "/", "/missing.js", 18),
        ("not-found", "/", "http://other.test/missing", 20),
        ("fragment-missing", "/", "http://other.test/long#not-there", 22),
        ("access-denied", "/", "http://other.test/login", 24),
        ("robots", "/", "http://closed.test/forbidden", 25),
        ("unreachable", "/", "http://site.test:1/", 26),
        ("later", "/", "http://busy.test/", 23),
        ("later", "/", "http://down.test/", 27),
        ("not-found", "/robots.txt", "/no-map.xml", 0),
        ("no-sitemap", "/robots.txt", "/second", 0),
        ("not-found", "/second", "/gone", 2),
        ("not-found", "/style.css", "/missing-too.png", 0),
        ("not-found", "/map.xml", "/listed-and-gone", 0),
        ("sitemap-orphan", "/map.xml", "/orphan", 0),
        ("not-in-sitemap", "/new", "/new", 0),
    }
    assert report["counts"]["skipped"] == {"mailto": 1, "tel": 1, "javascript": 1}
    asked = checked.site.asked
    # pages of other sites are asked for once, and nothing that they link to or load
    others = {key: number for key, number in asked.items() if key[0] != "site.test"}
    assert {path for host, path in others if host == "other.test"} == {
        *("/robots.txt", "/", "/missing", "/long", "/login")
    }
    assert all(number == 1 for key, number in others.items() if key[1] != "/robots.txt")
    assert ("closed.test", "/forbidden") not in asked
    assert ("site.test", "/private/page") not in asked
    # the second run: answers about other sites are used again, the site is fetched again
    before = dict(asked)
    again = checked.run(*CONTACT, "--since", "last", code=0)
    assert again["findings"] == []
    assert again["known"] == len(report["findings"])
    assert asked["other.test", "/missing"] == before["other.test", "/missing"]
    assert asked["site.test", "/second"] == before["site.test", "/second"] + 1
    # a link that breaks is new
    checked.site.answers["site.test"]["/second"] = page('<p id="part"><a href="/new-gone">x</a>')
    newer = checked.run("--no-external", "--since", "last")
    assert checked.found(newer) == {("not-found", "/second", "/new-gone", 2)}
    # the whole folder of the check counts, which has the answers about other sites already
    limits = ("--max-disk", "1KB", "--until", "2099-12-31T18:00")
    stopped = checked.run("--no-external", "--fail-on", "never", *limits, code=3)["stopped"]
    assert "limits.max_disk_bytes = 1000" in stopped


def test_an_existing_crawl_is_reported_without_a_request(
    checked: Checked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = tmp_path / "crawl"
    options = [*FAST, "--max-pages", "4"]
    assert main(["crawl", f"{checked.site.own}/", "--dir", str(crawl), *options]) == 3
    before = checked.site.asked.total()
    assert main(["check", "links", str(crawl), "--no-fetch", "--format", "json", *FAST]) in (0, 7)
    report = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert checked.site.asked.total() == before
    rules = {each["rule"] for each in report["findings"]}
    assert {"not-checked", "fragment-missing", "invalid-url"} <= rules


def test_a_page_that_ends_its_parser_is_reported_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = DOCUMENTS["html-formatting-list"]("").body.decode()
    answers = {
        "/": page('<a href="/hook-segfault">a</a>\n<a href="/slow#place">b</a>'),
        "/hook-segfault": page('<a href="/gone">c</a>'),
        "/slow": page(f'<a href="/gone-too">d</a>{slow}'),
    }
    short = ("--set", "parse.deadline_s=0.05")
    with linked_site({"site.test": answers}) as site:
        crawl, file = tmp_path / "crawl", tmp_path / "report.json"
        assert main(["crawl", f"{site.own}/", "--dir", str(crawl), *FAST]) == 0
        monkeypatch.setenv("LYCOSA_TEST_HOOKS", "1")
        arguments = [str(crawl), "--no-fetch", "--output", str(file), *FAST, *short]
        assert main(["check", "links", *arguments]) == 7
        found = json.loads(file.read_bytes())["findings"]
    killed, late = "the parser crashed or was killed", "more processor time than the limit"
    whys = {(each["rule"], each["target"].removeprefix(site.own)): each["why"] for each in found}
    assert killed in whys["not-checked", "/hook-segfault"]
    assert late in whys["not-checked", "/slow"]
    assert late in whys["not-checked", "/slow#place"]
    # links that the crawl knows count all the same
    assert {("not-found", "/gone"), ("not-found", "/gone-too")} <= set(whys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["http://site.test/"], "add --contact"),
        (["http://site.test/", "--no-external", "--severity", "x=error"], "no rule 'x'"),
        (["http://site.test/", "--no-external", "--severity", "robots=bad"], "robots=error"),
        (["http://site.test/", "--no-external", "--allow-status", "4x"], "'4x' is no status"),
        (["http://site.test/", "--no-external", "--output", "report.doc"], "--format"),
        (["http://site.test/", "--no-external", "--output", "no/such/r.json"], "no folder"),
        (["http://site.test/", "--no-external", "--since", "2026-01-31"], "no report up to"),
        (["http://site.test/", "--no-external", "--since", "tuesday"], "neither a file nor a time"),
        (["http://site.test/", "--no-external", "--since", "2099-01-31"], "in the future"),
        (["http://site.test/", "--no-external", "--until", "2020-01-31T18:00"], "is in the past"),
        (["http://site.test/", "--no-external", "--reuse", "long"], "--reuse"),
        (["http://site.test/", "--no-external", "--ignore", "(x"], "scope.exclude"),
        (["http://site.test/", "--no-external", "--no-fetch"], "has no check yet"),
        (["ftp://site.test/", "--no-external"], "the scheme 'ftp' is not crawled"),
        (["http://site.test/", "--output", "r.csv", "--output", "./r.csv"], "given twice"),
        (["."], "neither a crawl nor"),
        (["http://site.test/", "."], "give one folder alone"),
    ],
)
def test_bad_options_are_refused_before_a_request(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "links", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "link-checks" / "site.test" / "pages").exists()
