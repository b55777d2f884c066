"""Hosts whose validators (ETag, Last-Modified) do not tell whether a page has changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from crawling import HTML, crawl_folder
from judging import quick_config
from lycosa.base.config.sections import Config, FrontierSection, RefetchRule, RefetchSection
from lycosa.base.model.host_memory import ValidatorCounts
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.crawl_audit import AuditedCrawl, audit_crawl
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.synthetic import Response

DAY = 86_400.0
A = "http://a.example/"
MANY = {number for number in range(1, 40) if number % 4}
WORDS = " ".join(f"word{number}" for number in range(60))


class Site:
    """One host. ``changed`` pages have another text than at first. ``answer`` decides by the
    request's headers, the text's version and the number of the page what its validators are.
    """

    def __init__(self, pages: int, style: str) -> None:
        self.pages, self.style = pages, style
        self.changed: set[int] = set()
        self.sent: list[tuple[str, int, bool]] = []

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        if not url.startswith(f"{A}p") and url != A:
            return Response(404, [HTML], b"<p>nothing")
        number = 0 if url == A else int(url.removeprefix(f"{A}p"))
        version = int(number in self.changed)
        tag, modified = self._validators(number, version, len(self.sent))
        fields = [HTML, *((("ETag", tag),) if tag else ())]
        fields += [("Last-Modified", modified)] if modified else []
        asked_tag = headers.get("if-none-match", "")
        since = headers.get("if-modified-since", "")
        is_same = asked_tag == tag if asked_tag else bool(since) and since == modified
        if self.style == "always 304" and (asked_tag or since):
            is_same = True
        self.sent.append((url, 304 if is_same else 200, bool(asked_tag or since)))
        if is_same:
            # the tag of the present text would show that this is no answer to the question
            return Response(304, [] if self.style == "always 304" else fields, b"")
        links = "".join(f'<a href="/p{each}">x</a>' for each in range(1, self.pages))
        text = f"{WORDS} page {number} version {version}" + " changed" * (40 * version)
        body = f"<!DOCTYPE html><title>{number}</title><p>{text}</p>{links if not number else ''}"
        return Response(200, fields, body.encode())

    def _validators(self, number: int, version: int, request: int) -> tuple[str, str]:
        past = "Sat, 01 Mar 2025 10:00:0{} GMT"
        if self.style in ("constant tag", "always 304"):
            return '"all"' if self.style == "constant tag" else f'"{number}-{version}"', ""
        if self.style == "tag of each request":
            return f'"{request}"', past.format(version)
        return f'"{number}-{version}"', past.format(version)

    def take(self) -> list[tuple[str, int, bool]]:
        """The requests since the last call: URL, status, whether it was conditional."""
        sent, self.sent = self.sent, []
        return sent


def config(**refetch: object) -> Config:
    section = RefetchSection(
        rule=RefetchRule.ADAPTIVE,
        first_s=5 * DAY,
        min_s=5 * DAY,
        max_s=5 * DAY,
        soft_gone=False,
        **refetch,  # type: ignore[arg-type]
    )
    return quick_config(
        frontier=FrontierSection(partitions=1, finish_wait_s=3600.0), refetch=section
    )


def run(folder: Path, web: Site, number: int, given: Config | None = None) -> None:
    crawl_folder(folder, web, [] if number else [A], given or config(), start=number * 6 * DAY)
    report = audit_crawl(AuditedCrawl(read_folder(folder).source, is_running=False))
    assert report.is_clean, report.first_breaches()


def counts(folder: Path) -> ValidatorCounts:
    (host,) = (each.record for each in read_folder(folder).hosts() if each.record.host in A)
    assert host.validators is not None
    return host.validators


def versions(folder: Path, pages: int) -> list[bool]:
    """Of each page, whether its record is of the changed text, by how often it has changed."""
    reader = read_folder(folder)
    found = []
    for number in range(1, pages):
        entry = reader.find_url(f"{A}p{number}")
        assert entry is not None and entry.record.history is not None
        assert entry.state is UrlState.FETCHED
        found.append(entry.record.history.changes > 0)
    return found


def test_all_changes_are_found_behind_a_tag_that_is_always_the_same(tmp_path: Path) -> None:
    folder, web = tmp_path / "c", Site(40, "constant tag")
    run(folder, web, 0)
    web.changed = MANY
    web.take()
    run(folder, web, 1, config(check_every=5))
    assert versions(folder, 40) == [number in web.changed for number in range(1, 40)]
    assert counts(folder).hidden >= 1 and not counts(folder).doubted
    reader = read_folder(folder)
    saved = load_saved_settings(reader)
    facts = explain(reader, saved, f"{A}p1", 2e9).to_json()["facts"]
    assert facts["validators"]["sent"] == [] and not facts["host_validators"]["believed"]
    status = crawl_status(reader, saved, 2e9)
    assert status.hosts_distrusted == 1 and status.validators["hidden"] == counts(folder).hidden
    web.take()
    run(folder, web, 2)
    conditional = [each for each in web.take() if each[2]]
    assert len(conditional) < 6  # one in fifty tries whether they are right again


def test_all_changes_are_found_at_a_host_that_always_says_304(tmp_path: Path) -> None:
    folder, web = tmp_path / "c", Site(40, "always 304")
    run(folder, web, 0)
    web.changed = MANY
    run(folder, web, 1, config(check_every=5))
    assert versions(folder, 40) == [number in web.changed for number in range(1, 40)]


def test_true_validators_are_believed_and_checked_now_and_then(tmp_path: Path) -> None:
    folder, web = tmp_path / "c", Site(40, "true")
    run(folder, web, 0)
    web.changed = {3, 4, 5, 6}
    web.take()
    run(folder, web, 1)
    assert versions(folder, 40) == [number in web.changed for number in range(1, 40)]
    sent = web.take()
    bodies = [url for url, status, _ in sent if status == 200]
    assert len(bodies) <= 4 + 6 and sum(status == 304 for _, status, _ in sent) == 36
    found = counts(folder)
    assert (found.hidden, found.revealed, found.agreed) == (0, 4, len(bodies) - 4)


def test_nothing_is_checked_when_that_is_switched_off(tmp_path: Path) -> None:
    folder, web = tmp_path / "c", Site(40, "true")
    for number in range(2):
        web.take()
        run(folder, web, number, config(check_every=0))
    assert [each[1:] for each in web.take()] == [(304, True)] * 40


def test_a_tag_of_each_request_gives_way_to_last_modified(tmp_path: Path) -> None:
    """A server ignores If-Modified-Since beside If-None-Match, so the page would always come."""
    folder, web = tmp_path / "c", Site(30, "tag of each request")
    run(folder, web, 0)
    web.take()
    for number in range(1, 4):
        run(folder, web, number)
        sent = web.take()
    assert sum(status == 304 for _, status, _ in sent) >= 27, sent
    assert counts(folder).other_tags > 2 and counts(folder).hidden == 0


def test_a_304_that_answers_another_question_is_asked_again_without_validators(
    tmp_path: Path,
) -> None:
    class Confused(Site):
        def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
            if url == f"{A}p1" and "if-none-match" in headers:
                self.sent.append((url, 304, True))
                return Response(304, [("ETag", '"of another page"')], b"")
            return super().respond(url, at, headers)

    folder, web = tmp_path / "c", Confused(3, "true")
    run(folder, web, 0)
    web.changed = {1}
    web.take()
    run(folder, web, 1)
    assert [each[1:] for each in web.take() if each[0] == f"{A}p1"] == [(304, True), (200, False)]
    assert versions(folder, 3) == [True, False] and counts(folder).unasked == 1


def test_a_304_without_a_condition_is_no_capture(tmp_path: Path) -> None:
    class Wrong(Site):
        def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
            if url == f"{A}p1":
                self.sent.append((url, 304, False))
                return Response(304, [], b"")
            return super().respond(url, at, headers)

    folder, web = tmp_path / "c", Wrong(2, "true")
    run(folder, web, 0)
    entry = read_folder(folder).find_url(f"{A}p1")
    assert entry is not None and len(web.take()) == 2
    assert (entry.state, entry.record.reason) == (UrlState.FAILED, Reason.MALFORMED_RESPONSE)
    assert counts(folder).unasked == 1
