"""Whole crawls with ``parse.links = all`` of sites whose comments hold thousands of URLs: what the
server was asked for proves the bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from crawling import HTML, QUICK, crawl_folder, html, moved, page
from lycosa.base.config.sections import Config, LinkRule, ParseSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.cli.main import main
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.synthetic import Crash, Faults, Response

SITE = "http://site.test"
PAGES = 60
ALL = msgspec.structs.replace(QUICK, parse=ParseSection(language=False, links=LinkRule.ALL))


class CommentSite:
    """Ordinary pages in a chain; the comment of each holds a part of 10,000 URLs below ``/old/``.

    ``answer`` is what the server says to them.
    """

    def __init__(self, answer: Response | None) -> None:
        self._answer, self.asked = answer, list[str]()

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        path = url.removeprefix(SITE)
        self.asked.append(path)
        if path.startswith("/old/") and self._answer is not None:
            return self._answer
        number = int(path.removeprefix("/page") or 0) if path.startswith("/page") else -1
        if path == "/" or 0 <= number < PAGES:
            number = max(number, 0)
            share = 10_000 // PAGES
            old = " ".join(
                f"/old/item-{chr(97 + at % 26)}{at}.html"
                for at in range(number * share, (number + 1) * share)
            )
            text = f"number {number} " * 20
            return page(f"/page{number + 1}", text=text, head=f"<!-- {old} /old/x?id={number} -->")
        return Response(404, [HTML], b"<p>There is nothing here.")

    @property
    def guessed(self) -> list[str]:
        return [path for path in self.asked if path.startswith("/old/")]


def crawl(folder: Path, web: CommentSite, config: Config = ALL, **given: object) -> None:
    crawl_folder(folder, web, [SITE + "/"], config, **given)  # type: ignore[arg-type]


def check_bounds(web: CommentSite) -> None:
    """At each moment at most one of twenty requests was a guess, and none of them had a query."""
    guesses = 0
    for number, path in enumerate(web.asked, 1):
        guesses += path.startswith("/old/")
        assert guesses <= number * 0.05, (number, path)
    assert not any("?" in path for path in web.asked)
    assert len(web.asked) == len(set(web.asked))


def test_guesses_get_one_of_twenty_requests_and_a_stop_begins_where_ten_miss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, away = CommentSite(html("<p>An old page.")), CommentSite(None)
    crawl(tmp_path / "there", there)
    check_bounds(there)
    assert len(there.guessed) >= 3, "they exist, so each turn goes to one"
    crawl(
        tmp_path / "away",
        away,
        msgspec.structs.replace(
            ALL, budgets=msgspec.structs.replace(ALL.budgets, speculative_share=0.5)
        ),
    )
    assert len(away.guessed) == 10
    records = [each.record for each in read_folder(tmp_path / "away").urls()]
    guesses = [each for each in records if each.kind is LinkKind.SPECULATIVE]
    assert {each.state for each in guesses} == {UrlState.FAILED, UrlState.REFUSED}
    stopped = [each for each in guesses if each.state is UrlState.REFUSED]
    assert {each.reason for each in stopped} == {Reason.SPECULATIVE_MISSES}
    url = next(
        each.url
        for each in read_folder(tmp_path / "away").urls()
        if each.record.reason is Reason.SPECULATIVE_MISSES
    )
    assert main(["explain", str(tmp_path / "away"), url]) == 0
    assert "It is refused: found only as a text" in capsys.readouterr().out
    for folder in (tmp_path / "there", tmp_path / "away"):
        report = audit(folder)
        assert report.is_clean, report.first_breaches()
    waits = next(
        each
        for each in read_folder(tmp_path / "there").urls()
        if each.record.reason is Reason.SPECULATIVE
    )
    assert main(["explain", str(tmp_path / "there"), waits.url]) == 0
    told = capsys.readouterr().out
    assert "It is parked: found only as a text that looks like a URL" in told
    assert "budgets.speculative_share" in told


def test_without_the_setting_no_comment_is_read(tmp_path: Path) -> None:
    web = CommentSite(html("<p>An old page."))
    config = msgspec.structs.replace(
        ALL, parse=ParseSection(language=False, links=LinkRule.DOCUMENT)
    )
    crawl(tmp_path / "crawl", web, config, stop_after_s=60.0)
    assert not web.guessed
    assert not [e for e in read_folder(tmp_path / "crawl").urls() if "/old/" in e.url]


def test_a_server_that_redirects_all_guesses_gains_nothing(tmp_path: Path) -> None:
    web = CommentSite(moved("/login?next=old"))
    crawl(tmp_path / "crawl", web)
    check_bounds(web)
    assert web.guessed


def test_a_guess_that_is_linked_is_an_ordinary_url(tmp_path: Path) -> None:
    pages = {
        "/": page("/1", head="<!-- /hidden/treasure.html /hidden/nothing.html -->"),
        "/1": page("/hidden/treasure.html"),
        "/hidden/treasure.html": page(text="gold"),
    }

    class Web:
        def __init__(self) -> None:
            self.asked: list[str] = []

        def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
            path = url.removeprefix(SITE)
            self.asked.append(path)
            return pages.get(path, html("", 404))

    web = Web()
    crawl(tmp_path / "crawl", web)  # type: ignore[arg-type]
    assert web.asked == ["/robots.txt", "/", "/1", "/hidden/treasure.html"]
    found = {e.url.removeprefix(SITE): e.record for e in read_folder(tmp_path / "crawl").urls()}
    assert found["/hidden/treasure.html"].kind is LinkKind.A
    assert found["/hidden/nothing.html"].state is UrlState.PARKED
    report = audit(tmp_path / "crawl")
    assert report.is_clean, report.first_breaches()


def test_the_bounds_hold_across_a_crash(tmp_path: Path) -> None:
    class Later(Faults):
        def __init__(self) -> None:
            self.left = 400

        def reach(self, point: str) -> None:
            self.left -= 1
            if not self.left:
                raise Crash(point)

    web = CommentSite(html("<p>An old page."))
    crawl(tmp_path / "crawl", web, faults=Later())
    before = len(web.asked)
    crawl(tmp_path / "crawl", web, start=1000.0)
    assert len(web.asked) > before
    # What was in flight at the crash may be requested twice.
    assert len(web.guessed) <= len(web.asked) * 0.05 + 1
    report = audit(tmp_path / "crawl")
    assert report.is_clean, report.first_breaches()
