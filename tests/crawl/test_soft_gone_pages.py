"""Pages that vanish from hosts which never say 404, in whole crawls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from crawling import HTML, crawl_folder, moved, robots
from judging import quick_config
from lycosa.base.config.sections import (
    Config,
    FrontierSection,
    LimitSection,
    RefetchRule,
    RefetchSection,
)
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.crawl_audit import AuditedCrawl, audit_crawl
from lycosa.inspect.committed_state import UrlEntry, read_folder
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.synthetic import Response

DAY = 86_400.0
A = "http://a.example/"
SORRY = " ".join(f"sorry{number}" for number in range(60))
PAGES = ("one", "two", "three")


class Site:
    """``sorry`` is the answer for paths that do not exist; ``away`` are pages that are gone."""

    def __init__(self, sorry: Response, rules: Response | None = None) -> None:
        self.sorry, self.rules = sorry, rules
        self.away: set[str] = set()
        self.asked: list[str] = []

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        path = url.removeprefix(A)
        if path == "robots.txt":
            return self.rules or Response(404, [HTML], b"")
        self.asked.append(path)
        if path in self.away or path not in ("", *PAGES):
            return self.sorry
        links = "".join(f'<a href="/{each}">{each}</a>' for each in PAGES) if not path else ""
        words = " ".join(f"{path}{number}" for number in range(60))
        return Response(200, [HTML], f"<!DOCTYPE html><p>{words}</p>{links}".encode())

    def take(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


def soft(text: str = SORRY, status: int = 200) -> Response:
    return Response(status, [HTML], f"<!DOCTYPE html><p>{text}</p>".encode())


def run(
    folder: Path,
    web: Site,
    number: int,
    most: int = 0,
    seeds: list[str] | None = None,
    **refetch: object,
) -> None:
    config = quick_config(
        frontier=FrontierSection(partitions=1, finish_wait_s=3600.0),
        limits=LimitSection(max_pages=most),
        refetch=RefetchSection(
            rule=RefetchRule.ADAPTIVE,
            first_s=5 * DAY,
            min_s=5 * DAY,
            max_s=5 * DAY,
            gone_first_s=5 * DAY,
            **refetch,  # type: ignore[arg-type]
        ),
    )
    assert isinstance(config, Config)
    crawl_folder(folder, web, seeds or ([] if number else [A]), config, start=number * 6 * DAY)
    report = audit_crawl(AuditedCrawl(read_folder(folder).source, is_running=False))
    assert report.is_clean, report.first_breaches()


def found(folder: Path, path: str) -> UrlEntry:
    entry = read_folder(folder).find_url(A + path)
    assert entry is not None
    return entry


def changes(folder: Path, path: str) -> list[str]:
    source = read_folder(folder).source
    rows = [row for each in source.list_segments() for row in source.read_rows(each)]
    mine = sorted((row.date_us, row.change.label) for row in rows if row.url == A + path)
    return [label for _, label in mine]


def probes(asked: list[str]) -> list[str]:
    return [path for path in asked if path.startswith("no-such-page-")]


def test_a_page_that_answers_like_a_missing_path_is_gone_and_comes_back(tmp_path: Path) -> None:
    folder, web = tmp_path / "c", Site(soft())
    run(folder, web, 0)
    assert not probes(web.take())
    web.away = {"one"}
    run(folder, web, 1)
    asked = web.take()
    assert len(probes(asked)) == 1 and asked.count("one") == 2  # the second time to be sure
    entry = found(folder, "one")
    assert (entry.state, entry.record.reason) == (UrlState.GONE, Reason.SOFT_GONE)
    assert changes(folder, "one") == ["new", "none", "gone"]
    reader = read_folder(folder)
    answer = explain(reader, load_saved_settings(reader), f"{A}one", 2e9)
    assert answer.verdict == "gone" and "do not exist" in answer.headline
    web.away = {"one", "two"}
    run(folder, web, 2)
    asked = web.take()  # by now it is known how the host answers
    assert len(probes(asked)) <= 1 and asked.count("two") == 1 and asked.count("one") == 1
    assert found(folder, "two").state is UrlState.GONE
    assert changes(folder, "one") == ["new", "none", "gone", "none"]
    due = found(folder, "one").record
    assert due.history is not None and due.history.interval_s == 15 * DAY  # it grows
    web.away = {"one"}
    run(folder, web, 3)
    assert found(folder, "two").state is UrlState.FETCHED
    assert changes(folder, "two") == ["new", "same", "gone", "back"]


def test_a_page_that_is_redirected_as_missing_paths_are_is_gone(tmp_path: Path) -> None:
    folder, web = tmp_path / "c", Site(moved(A, 302))
    run(folder, web, 0)
    web.away = {"one"}
    run(folder, web, 1)
    entry = found(folder, "one")
    assert (entry.state, entry.record.reason) == (UrlState.GONE, Reason.SOFT_GONE)
    assert changes(folder, "one")[-1] == "gone"
    assert found(folder, "").state is UrlState.FETCHED


def test_nothing_is_judged_at_a_host_that_says_404_and_it_is_asked_once(tmp_path: Path) -> None:
    class Honest(Site):
        def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
            answer = super().respond(url, at, headers)
            is_probe = probes([url.removeprefix(A)])
            return soft(status=404) if is_probe else answer

    folder, web = tmp_path / "c", Honest(soft())
    run(folder, web, 0)
    web.take()
    web.away = {"one"}
    run(folder, web, 1)
    assert len(probes(web.take())) == 1
    assert found(folder, "one").state is UrlState.FETCHED
    assert changes(folder, "one") == ["new", "none", "changed"]
    web.away = {"one", "two", "three"}
    run(folder, web, 2)
    asked = web.take()
    assert not probes(asked) and asked.count("two") == 1
    assert changes(folder, "two")[-1] == "changed"


def test_robots_and_the_settings_forbid_the_question(tmp_path: Path) -> None:
    for name, rules, on in (
        ("robots", robots("User-agent: *", "Disallow: /no-such-page"), True),
        ("off", None, False),
    ):
        folder, web = tmp_path / name, Site(soft(), rules)
        run(folder, web, 0, soft_gone=on)
        web.away = {"one"}
        run(folder, web, 1, soft_gone=on)
        assert not probes(web.take())
        assert found(folder, "one").state is UrlState.FETCHED
        assert changes(folder, "one")[-1] == "changed"


def test_a_limit_that_ends_the_run_lets_the_request_for_a_missing_path_end(tmp_path: Path) -> None:
    """Another host reaches the limit meanwhile. The answer is no record, but it is used."""

    class Slow(Site):
        def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
            if not url.startswith(A):
                return Response(404 if url.endswith("robots.txt") else 200, [HTML], b"<p>other")
            latency_s = 25.0 if probes([url.removeprefix(A)]) else 0.0
            return msgspec.structs.replace(super().respond(url, at, headers), latency_s=latency_s)

    folder, web = tmp_path / "c", Slow(soft())
    run(folder, web, 0)
    web.away = {"one"}
    run(folder, web, 1, 9, [f"http://b.example/{number}" for number in range(9)])
    (probe,) = probes(web.take())
    attempts = (folder / "log" / "attempts-w000-000002.log").read_text().splitlines()
    (number,) = (line.split("\t")[1] for line in attempts if line.endswith(probe))
    (end,) = (line for line in attempts if line.startswith(f"E\t{number}\t"))
    assert "\t200\t25000000\t" in end and attempts[-1].startswith("S")
    reader = read_folder(folder)
    answer = explain(reader, load_saved_settings(reader), A + probe, 2e9)
    assert "only the log of attempts has that request" in answer.headline
    run(folder, web, 2, 99)
    assert found(folder, "one").state is UrlState.GONE and not probes(web.take())
