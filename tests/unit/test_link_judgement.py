"""What answers mean for the links that lead to them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from lycosa.base.config.sections import CanonicalSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer
from lycosa.inspect.linked.link_findings import (
    RULES,
    LinkCounts,
    LinkFinding,
    LinkReport,
    Severity,
    by_page,
    new_since,
)
from lycosa.inspect.linked.link_judgement import LinkJudge, UrlAnswer
from lycosa.inspect.linked.link_survey import LinkSurvey
from lycosa.stages.parse.link_places import read_link_places

PAGE = "https://own.test/"
CANONICAL = Canonicalizer(CanonicalSection())
OK = UrlAnswer(UrlState.FETCHED, 200, is_page=True)
FAILED = UrlState.FAILED


def is_own(url: str) -> bool:
    return "own.test" in url


def findings(
    body: str,
    answers: dict[str, UrlAnswer],
    anchors: dict[str, frozenset[str]] | None = None,
    allowed: tuple[int, ...] = (),
    severities: dict[str, Severity] | None = None,
) -> list[LinkFinding]:
    survey = LinkSurvey()
    survey.add_page(PAGE, read_link_places(body.encode(), PAGE, CANONICAL))
    judge = LinkJudge({PAGE: OK, **answers}, is_own, allowed, severities)
    return judge.findings(survey, anchors or {})


def one(body: str, answer: UrlAnswer, url: str = "https://own.test/a") -> LinkFinding | None:
    found = findings(body, {url: answer})
    return found[0] if found else None


def moved(to: str, status: int = 301) -> UrlAnswer:
    return UrlAnswer(UrlState.REDIRECTED, status, Reason.REDIRECTED, redirect_to=to)


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (OK, ""),
        (UrlAnswer(UrlState.FETCHED, 304), ""),
        (UrlAnswer(FAILED, 404, Reason.HTTP_CLIENT_ERROR), "not-found"),
        (UrlAnswer(FAILED, 410, Reason.GONE), "not-found"),
        (UrlAnswer(UrlState.GONE, 404, Reason.GONE), "not-found"),
        (UrlAnswer(FAILED, 403, Reason.HTTP_CLIENT_ERROR), "access-denied"),
        (UrlAnswer(FAILED, 500, Reason.HTTP_SERVER_ERROR), "http-error"),
        (UrlAnswer(FAILED, 503, Reason.HTTP_SERVER_ERROR), "later"),
        (UrlAnswer(UrlState.QUEUED, 0, Reason.HTTP_TOO_MANY_REQUESTS), "later"),
        (UrlAnswer(FAILED, 429, Reason.HTTP_TOO_MANY_REQUESTS), "later"),
        (UrlAnswer(UrlState.RETIRED, 0, Reason.DNS_NO_SUCH_NAME), "unreachable"),
        (UrlAnswer(UrlState.RETIRED, 0, Reason.CONNECT_REFUSED), "unreachable"),
        (UrlAnswer(FAILED, 0, Reason.TLS_FAILED), "unreachable"),
        (UrlAnswer(FAILED, 0, Reason.FIRST_BYTE_TIMEOUT), "timeout"),
        (UrlAnswer(UrlState.RETIRED, 0, Reason.CONNECT_TIMEOUT), "timeout"),
        (UrlAnswer(UrlState.REFUSED, 0, Reason.ROBOTS_DISALLOWED), "robots"),
        (UrlAnswer(UrlState.QUEUED), "not-checked"),
        (UrlAnswer(UrlState.RETIRED, 0, Reason.ADDRESS_FORBIDDEN), "not-checked"),
        (UrlAnswer(FAILED, 0, Reason.TOO_MANY_REDIRECTS), "redirect-loop"),
    ],
)
def test_an_answer_has_a_rule(answer: UrlAnswer, rule: str) -> None:
    found = one("<a href=/a>a</a>", answer)
    assert (found.rule if found else "") == rule


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_busy_is_never_broken(status: int) -> None:
    for state in UrlState:
        for reason in Reason:
            found = one("<a href=/a>a</a>", UrlAnswer(state, status, reason))
            assert found is None or found.severity is Severity.UNCHECKED


def test_a_url_without_an_answer_was_not_checked() -> None:
    (found,) = findings("<a href=/a>a</a>", {})
    assert (found.rule, found.severity) == ("not-checked", Severity.UNCHECKED)


def test_a_finding_has_its_place_text_and_reason() -> None:
    answer = UrlAnswer(FAILED, 404, Reason.HTTP_CLIENT_ERROR)
    found = one("<p>\n<a href='a#x'>to a</a>", answer)
    assert found is not None
    assert (found.page, found.line, found.text, found.link) == (PAGE, 2, "to a", "a#x")
    assert (found.target, found.status, found.why) == ("https://own.test/a#x", 404, "not found")


def test_a_status_may_be_allowed() -> None:
    answer = UrlAnswer(FAILED, 403, Reason.HTTP_CLIENT_ERROR)
    assert findings("<a href=/a>a</a>", {"https://own.test/a": answer}, allowed=(403,)) == []


def test_a_severity_may_be_given_and_a_rule_switched_off() -> None:
    answers = {"https://own.test/a": UrlAnswer(FAILED, 404, Reason.HTTP_CLIENT_ERROR)}
    (found,) = findings("<a href=/a>a</a>", answers, severities={"not-found": Severity.WARNING})
    assert found.severity is Severity.WARNING
    assert findings("<a href=/a>a</a>", answers, severities={"not-found": Severity.OFF}) == []


def test_another_site_that_refuses_programs_is_a_warning() -> None:
    answer = UrlAnswer(FAILED, 403, Reason.HTTP_CLIENT_ERROR)
    found = one("<a href=https://x.test/>x</a>", answer, "https://x.test/")
    assert found is not None and found.severity is Severity.WARNING


# redirects

URL = "https://own.test/"


def chained(*steps: UrlAnswer) -> dict[str, UrlAnswer]:
    """Answers of /a, /b, /c, ..."""
    return {f"{URL}{'abcdefghijklmnop'[at]}": step for at, step in enumerate(steps)}


def test_a_permanent_redirect_names_the_new_url_and_its_chain() -> None:
    (found,) = findings("<a href=/a>a</a>", chained(moved(f"{URL}b"), moved(f"{URL}c", 302), OK))
    assert (found.rule, found.chain) == ("redirect-permanent", [f"{URL}b", f"{URL}c"])
    assert found.why == f"moved permanently to {URL}c"


def test_a_temporary_redirect_is_fine() -> None:
    assert findings("<a href=/a>a</a>", chained(moved(f"{URL}b", 302), OK)) == []


def test_a_redirect_to_https_says_so() -> None:
    answers = {"http://own.test/a": moved("https://own.test/a"), "https://own.test/a": OK}
    (found,) = findings("<a href=http://own.test/a>a</a>", answers)
    assert found.why == "moved permanently to the same page by https"


def test_a_redirect_to_a_page_that_is_gone_is_broken() -> None:
    gone = UrlAnswer(FAILED, 404, Reason.HTTP_CLIENT_ERROR)
    (found,) = findings("<a href=/a>a</a>", chained(moved(f"{URL}b", 302), gone))
    assert (found.rule, found.status) == ("redirect-broken", 404)
    assert found.why == f"redirects to {URL}b: not found"


@pytest.mark.parametrize("length", range(1, 5))
def test_a_circle_of_redirects_is_found(length: int) -> None:
    names = [f"{URL}{'abcde'[at]}" for at in range(length)]
    answers = {name: moved(names[(at + 1) % length], 302) for at, name in enumerate(names)}
    (found,) = findings("<a href=/a>a</a>", answers)
    assert (found.rule, found.why) == ("redirect-loop", "redirects in a circle")


def test_more_redirects_than_the_crawl_follows_are_too_many() -> None:
    end = UrlAnswer(FAILED, 302, Reason.TOO_MANY_REDIRECTS)
    (found,) = findings("<a href=/a>a</a>", chained(moved(f"{URL}b", 302), end))
    assert (found.rule, found.why) == ("redirect-loop", Reason.TOO_MANY_REDIRECTS.meaning)


def test_a_redirect_to_what_robots_forbid_was_not_checked() -> None:
    forbidden = UrlAnswer(UrlState.REFUSED, 0, Reason.ROBOTS_DISALLOWED)
    (found,) = findings("<a href=/a>a</a>", chained(moved(f"{URL}b"), forbidden))
    assert found.rule == "robots"


# places


def test_a_missing_place_of_an_own_page_is_an_error() -> None:
    (found,) = findings("<p id=x><a href='#x'>x</a><a href='#y'>y</a>", {})
    assert (found.rule, found.severity) == ("fragment-missing", Severity.ERROR)
    assert found.target == f"{PAGE}#y"


def test_a_missing_place_of_another_site_is_a_warning() -> None:
    x = "https://x.test/"
    (found,) = findings(f"<a href='{x}#y'>y</a>", {x: OK}, {x: frozenset("x")})
    assert (found.rule, found.severity) == ("fragment-missing", Severity.WARNING)


def test_a_place_behind_the_cut_was_not_checked() -> None:
    x = "https://x.test/"
    cut = OK._replace(is_cut=True)
    (found,) = findings(f"<a href='{x}#y'>y</a>", {x: cut}, {x: frozenset("x")})
    assert found.severity is Severity.UNCHECKED
    assert findings(f"<a href='{x}#x'>x</a>", {x: cut}, {x: frozenset("x")}) == []


def test_a_place_in_a_page_that_ended_the_parser_was_not_checked() -> None:
    x = "https://x.test/"
    (found,) = findings(f"<a href='{x}#y'>y</a>", {x: OK._replace(unread="it took too long")})
    assert (found.rule, found.severity) == ("not-checked", Severity.UNCHECKED)
    assert found.why == "#y was not looked for: it took too long"


def test_an_own_page_whose_links_were_not_read_is_reported() -> None:
    found = findings("<p>", {f"{URL}a": OK._replace(unread="it took too long")})
    assert [(each.rule, each.page) for each in found] == [("not-checked", f"{URL}a")]


def test_a_place_is_looked_for_where_the_redirect_leads() -> None:
    answers = chained(moved(f"{URL}b", 302), OK)
    (found,) = findings("<a href='/a#y'>y</a>", answers, {f"{URL}b": frozenset("x")})
    assert found.rule == "fragment-missing"


def test_a_file_that_is_no_page_has_no_places() -> None:
    pdf = UrlAnswer(UrlState.FETCHED, 200)
    assert findings("<a href='/a#page=2'>2</a>", chained(pdf)) == []


# sitemaps and https


def of_sitemap(indexable: set[str], answers: dict[str, UrlAnswer]) -> list[tuple[str, str]]:
    survey = LinkSurvey()
    survey.add_page(PAGE, read_link_places(b"<a href=/a>a</a>", PAGE, CANONICAL))
    listed = [(url, LinkKind.SITEMAP, "") for url in (PAGE, f"{URL}a", f"{URL}b", f"{URL}c")]
    survey.add_links(f"{URL}map.xml", listed)
    survey.indexable |= indexable
    found = LinkJudge({PAGE: OK, **answers}, is_own).findings(survey, {})
    return [(each.rule, each.target) for each in found]


def test_the_sitemap_is_compared_with_the_site() -> None:
    gone = UrlAnswer(FAILED, 404, Reason.HTTP_CLIENT_ERROR)
    indexable = {f"{URL}{name}" for name in ("a", "b", "d")}
    answers = chained(OK, OK, gone, OK)
    assert of_sitemap(indexable, answers) == [
        ("not-found", f"{URL}c"),
        ("sitemap-orphan", f"{URL}b"),
        ("not-in-sitemap", f"{URL}d"),
    ]


def test_a_sitemap_should_list_no_redirect() -> None:
    answers = chained(OK, moved(f"{URL}a", 302), OK)
    assert of_sitemap(set(), answers) == [("redirect-permanent", f"{URL}b")]


def test_a_page_of_https_that_loads_by_http_is_mixed() -> None:
    found = findings(
        "<img src=http://own.test/i><a href=http://own.test/i>i</a>", {"http://own.test/i": OK}
    )
    assert [each.rule for each in found] == ["mixed-content"]


# reports


def reported(*rules: str) -> LinkReport:
    found = [LinkFinding(rule, RULES[rule].own, PAGE, f"{URL}{rule}", "why") for rule in rules]
    return LinkReport(1, "lycosa/1", [PAGE], "t0", "t1", LinkCounts(1, 2, 2, 1, {}), found)


def test_only_what_is_new_is_left_of_a_later_report() -> None:
    new = new_since(reported("not-found", "timeout"), reported("timeout", "robots"))
    assert [each.rule for each in new.findings] == ["not-found"]
    assert (new.known, new.since) == (1, "t1")


def test_a_finding_that_moves_to_another_line_is_not_new() -> None:
    one = LinkFinding("timeout", Severity.ERROR, PAGE, URL, "why", line=3)
    other = LinkFinding("timeout", Severity.ERROR, PAGE, URL, "other words", line=9)
    assert one.key == other.key


def test_findings_of_a_page_are_in_the_order_of_its_lines() -> None:
    found = [LinkFinding("timeout", Severity.ERROR, PAGE, URL, "w", line=n) for n in (3, 1, 2)]
    assert [each.line for each in by_page(found)[PAGE]] == [1, 2, 3]


@given(
    some.dictionaries(
        some.integers(0, 7),
        some.one_of(
            some.integers(0, 9).map(lambda to: moved(f"{URL}{to}", 302)),
            some.sampled_from([OK, UrlAnswer(FAILED, 404, Reason.HTTP_CLIENT_ERROR)]),
        ),
    )
)
def test_every_link_ends_whatever_redirects_to_what(graph: dict[int, UrlAnswer]) -> None:
    answers = {f"{URL}{number}": answer for number, answer in graph.items()}
    judge = LinkJudge(answers, is_own)
    for number in range(10):
        found = judge.verdict(f"{URL}{number}")
        steps = [f"{URL}{number}", *found.chain]
        is_circle = len(set(steps)) < len(steps)
        assert (found.rule == "redirect-loop") == is_circle
        assert all(answers[one].redirect_to == other for one, other in pairwise(steps))
        end = answers.get(steps[-1])
        if not is_circle:
            assert (found.rule == "") == (end is OK)
            assert (found.rule == "not-checked") == (end is None)
