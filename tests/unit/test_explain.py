"""What explain says of a URL in every state that it can be in, after a crawl of a web made for
it.
"""

from __future__ import annotations

import ast
import random
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import QUICK, Names, Pages, crawl_folder, html, moved, page, robots
from lycosa.base.config.sections import BudgetSection, ScopeRule, ScopeSection, SitemapSection
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.explain.facts import Explanation
from lycosa.inspect.explain.unknown_url import stage_of
from lycosa.inspect.saved_settings import SettingsUnreadable, load_saved_settings
from lycosa.inspect.top_lists import host_line
from lycosa.stages.admit import traps
from lycosa.stages.admit.refusal import Refusal
from lycosa.synthetic import VIRTUAL_EPOCH, Response

A = "http://a.test"


def prose(seed: int, words: int = 1500, odd: str = "") -> str:
    chance = random.Random(seed)
    return " ".join([odd, *(f"word{chance.randrange(4000)}" for _ in range(words))])


WEB = {
    f"{A}/robots.txt": robots("User-agent: lycosa", "Allow: /secret/open", "# nothing here", "Disallow: /secret/", "Crawl-delay: 2"),
    f"{A}/": page(
        "/one", "/two", "/near", "/old", "/secret/x", "/secret/open", "/gone", "/broken", "/loop/1", "http://other.test/",
        "/a/a/a/a/a/a", "/private/x", "/shorturl", "http://limits.test/", head='<link rel="stylesheet" href="/style.css">',
    ),
    f"{A}/one": html(f"<title>One</title><p>{prose(1)}"),
    f"{A}/two": html(f"<title>One</title><p>{prose(1)}"),
    f"{A}/near": html(f"<title>One</title><p>{prose(1, odd='another')}"),
    f"{A}/old": moved("/older"),
    f"{A}/older": moved("/one"),
    f"{A}/secret/open": page(text="Open to all"),
    f"{A}/broken": html("<p>Out of order", 503),
    f"{A}/loop/1": moved("/loop/1"),
    "http://ring.test/": moved("/ring/1"),
    "http://ring.test/ring/1": moved("/ring/2"),
    "http://ring.test/ring/2": moved("/ring/1"),
    f"{A}/shorturl": moved("http://other.test/far"),
    "http://many.test/": page(*(f"/{number}" for number in range(12))),
    **{f"http://many.test/{number}": page() for number in range(12)},
}  # fmt: skip
SEEDS = [f"{A}/", "http://many.test/", "http://dead.test/", "http://ring.test/"]
CONFIG = msgspec.structs.replace(
    QUICK,
    scope=ScopeSection(exclude=("/private/",)),
    budgets=BudgetSection(host_pages=9, park_s=1e6),
)
NOW = VIRTUAL_EPOCH + 4000
FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain") / "finished"
    budget = msgspec.structs.replace(CONFIG, budgets=BudgetSection(host_pages=12, park_s=80_000))
    crawl_folder(
        folder,
        Pages(WEB),
        SEEDS,
        budget,
        resolver=lambda clock: Names({"dead.test": Reason.DNS_NO_SUCH_NAME}),
    )
    return folder


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain") / "stopped"
    pages = {**WEB, "http://busy.test/": [html("<p>Slow down", 503)]}
    crawl_folder(folder, Pages(pages), [*SEEDS, "http://busy.test/"], CONFIG, stop_after_s=4.0)
    return folder


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl whose page was there in the first round and is not in the second."""
    folder = tmp_path_factory.mktemp("explain") / "later"
    web = Pages({f"{A}/": page("/flees"), f"{A}/flees": [page(text="here"), html("", 404)]})
    for number in range(2):
        start = number * 8 * 86_400.0
        crawl_folder(folder, web, [] if number else [f"{A}/"], CONFIG, start=start)
    return folder


def ask(folder: Path, url: str, now: float = NOW) -> Explanation:
    reader = read_folder(folder)
    return explain(reader, load_saved_settings(reader), url, now)


def facts(answer: Explanation) -> dict[str, Any]:
    found: dict[str, Any] = answer.to_json()["facts"]
    return found


def test_a_fetched_page_says_when_where_and_by_which_robots_line(finished: Path) -> None:
    answer = ask(finished, f"{A}/secret/open")
    found = facts(answer)
    assert answer.verdict == "fetched" and "status 200" in answer.headline
    assert (found["robots_line"], found["robots_rule"], found["robots_group"]) == (
        2,
        "Allow: /secret/open",
        "lycosa",
    )
    assert found["robots"] == "allowed" and len(found["robots_version"]) == 32
    assert found["warc"].startswith("warc/") and (finished / found["warc"]).exists()
    with (finished / found["warc"]).open("rb") as file:
        file.seek(found["offset"])
        assert file.read(2) == b"\x1f\x8b"
    assert (found["fetch_number"], found["found_on"], found["depth"], found["found_as"]) == (
        1,
        f"{A}/",
        1,
        "a",
    )
    assert found["digest"].startswith("sha1:") and found["refetch_at"] > NOW


def test_no_line_of_robots_txt_is_named_where_no_rule_matched(finished: Path) -> None:
    answer = ask(finished, f"{A}/one")
    assert "robots_line" not in facts(answer)
    assert "no rule matched" in {fact.key: fact.text for fact in answer.facts}["robots"]


def test_any_spelling_and_the_hash_find_the_same_url(finished: Path) -> None:
    wanted = ask(finished, f"{A}/one").to_json() | {"asked": ""}
    by_hash = hash8(f"{A}/one").hex()
    for spelling in (
        "a.test/one",
        "HTTP://A.TEST:80/x/../one#part",
        f"{A}/one?utm_source=x",
        by_hash,
        by_hash.upper(),
    ):
        assert ask(finished, spelling).to_json() | {"asked": ""} == wanted


def test_a_duplicate_names_its_original(finished: Path) -> None:
    both = {ask(finished, f"{A}/one").verdict, ask(finished, f"{A}/two").verdict}
    assert both == {"fetched", "duplicate"}
    answer = next(
        a
        for a in (ask(finished, f"{A}/one"), ask(finished, f"{A}/two"))
        if a.verdict == "duplicate"
    )
    assert facts(answer)["duplicate_of"] in (f"{A}/one", f"{A}/two")
    assert facts(answer)["record_type"] == "revisit"


def test_a_near_duplicate_names_the_other_and_the_distance(finished: Path) -> None:
    answer = ask(finished, f"{A}/near")
    assert answer.verdict == "near_duplicate"
    assert facts(answer)["near_duplicate_of"] in (f"{A}/one", f"{A}/two")
    assert 0 <= facts(answer)["distance_bits"] <= 3


def test_a_redirect_gives_its_chain(finished: Path) -> None:
    answer = ask(finished, f"{A}/old")
    assert answer.verdict == "redirected" and f"{A}/older" in answer.headline
    assert facts(answer)["chain"] == [f"{A}/older", f"{A}/one"]
    assert "not admitted" in next(
        fact.text for fact in ask(finished, f"{A}/shorturl").facts if fact.key == "chain"
    )


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (f"{A}/loop/1", "redirects to itself"),
        ("http://ring.test/ring/1", "in a loop"),
        ("http://ring.test/", "in a loop"),
    ],
)
def test_a_redirect_that_leads_back_is_called_a_loop(finished: Path, url: str, told: str) -> None:
    answer = ask(finished, url)
    assert (
        answer.verdict == "redirected"
        and told in answer.headline
        and facts(answer)["redirect_loop"] is True
    )
    assert "redirect_loop" not in facts(ask(finished, f"{A}/old"))


def test_links_that_stand_in_the_open_journal_alone_are_found(
    finished: Path, tmp_path: Path
) -> None:
    """As between two commits of a running crawl: the tables of links are not there yet."""
    folder = tmp_path / "c"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "links")
    requisite = ask(folder, f"{A}/style.css")
    assert (requisite.verdict, facts(requisite)["rule"], facts(requisite)["found_as"]) == (
        "refused_by_scope",
        "scope.requisites",
        facts(ask(finished, f"{A}/style.css"))["found_as"],
    )
    assert requisite.headline.startswith("Its links were refused")
    assert (
        ask(folder, "http://other.test/").headline == ask(finished, "http://other.test/").headline
    )
    assert ask(folder, f"{A}/nowhere").headline.startswith("It was never found")
    for path in (folder / "journal").iterdir():
        path.unlink()
    answer = ask(folder, f"{A}/style.css")
    assert (
        "links to it were not all searched (the links of 1 segment cannot be read)"
        in answer.headline
    )


def test_a_refusal_by_robots_names_file_line_and_rule(finished: Path) -> None:
    answer = ask(finished, f"{A}/secret/x")
    found = facts(answer)
    assert (
        answer.verdict == "refused_by_robots"
        and "line 4" in answer.headline
        and "Disallow: /secret/" in answer.headline
    )
    assert found["robots_version"] in found["detail"]
    assert found["robots_fetched"] >= VIRTUAL_EPOCH
    assert ask(finished, f"{A}/secret/never-linked").verdict == "refused_by_robots"


def test_refusals_by_pure_rules_are_judged_again_as_they_were_found(finished: Path) -> None:
    scope = ask(finished, "http://other.test/")
    assert (scope.verdict, facts(scope)["rule"], facts(scope)["found_on"]) == (
        "refused_by_scope",
        "scope.rule = host",
        f"{A}/",
    )
    trap = ask(finished, f"{A}/a/a/a/a/a/a")
    assert (trap.verdict, facts(trap)["rule"]) == ("refused_by_trap", "traps.max_repeats")
    excluded = ask(finished, f"{A}/private/x")
    assert (excluded.verdict, facts(excluded)["rule"], facts(excluded)["value"]) == (
        "refused_by_scope",
        "scope.exclude[0]",
        "/private/",
    )
    requisite = ask(finished, f"{A}/style.css")
    assert (requisite.verdict, facts(requisite)["rule"]) == ("refused_by_scope", "scope.requisites")


TRAPS = {
    Reason.URL_TOO_LONG: f"{A}/{'x' * 3000}",
    Reason.PATH_TOO_DEEP: A + "".join(f"/{n}" for n in range(100)),
    Reason.REPEATING_SEGMENTS: f"{A}/b/b/b/b/b/b",
    Reason.TOO_MANY_PARAMETERS: f"{A}/?" + "&".join(f"p{n}=1" for n in range(100)),
    Reason.SESSION_ID: f"{A}/(S(lit3py55t21z5v55vlm25s55))/x",
    Reason.FAR_CALENDAR: f"{A}/calendar/2525/01/01",
}


def test_every_trap_is_called_one(finished: Path) -> None:
    source = ast.parse(Path(traps.__file__).read_text())
    given = {
        Reason[node.attr]
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute) and node.attr in Reason.__members__
    }
    assert given == set(TRAPS), "add an example of each trap reason to TRAPS"
    for reason, url in TRAPS.items():
        answer = ask(finished, url)
        assert (answer.verdict, facts(answer)["reason"]) == ("refused_by_trap", reason.label)
        assert facts(answer)["rule"].startswith("traps.")


@pytest.mark.parametrize("state", UrlState)
def test_each_state_of_a_url_has_an_explanation_a_count_and_a_document(
    finished: Path, stopped: Path, later: Path, state: UrlState
) -> None:
    """A state that these crawls do not lead to needs a page of ``WEB`` that does."""
    found = [
        (folder, entry.url)
        for folder in (finished, stopped, later)
        for entry in read_folder(folder).urls()
        if entry.state is state
    ]
    assert found
    folder, url = found[0]
    answer = ask(folder, url)
    assert facts(answer)["state"] == state.label and answer.verdict and answer.headline
    counters = [view.counters() for view in read_folder(folder).partition_views()]
    assert sum(each.count_in(state) for each in counters) > 0
    rows = re.findall(r"(?m)^\| `state` \| (.*) \|$", FORMATS.read_text("utf-8"))
    assert any(f"`{state.label}`" in row for row in rows)


@pytest.mark.parametrize("reason", Reason)
def test_what_refused_a_url_is_told_by_the_rule_and_not_by_the_number_of_the_reason(
    reason: Reason,
) -> None:
    assert stage_of(Refusal(reason, "traps.max_replies", "5 of 4")) == "trap"
    assert stage_of(Refusal(reason, "scope.exclude[0]", "x")) == "scope"


def test_what_a_sitemap_may_not_list_is_refused_by_name(tmp_path: Path) -> None:
    def sitemap(*urls: str) -> Response:
        inner = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
        return Response(200, [("Content-Type", "text/xml")], f"<urlset>{inner}</urlset>".encode())

    web = {
        f"{A}/robots.txt": robots(f"Sitemap: {A}/maps/1.xml"),
        f"{A}/": page("/shop/map.xml"),
        f"{A}/maps/1.xml": sitemap(f"{A}/a", "http://other.test/b"),
        f"{A}/shop/map.xml": sitemap(f"{A}/shop/c", f"{A}/d", f"{A}/shop/e"),
    }
    config = msgspec.structs.replace(
        QUICK, scope=ScopeSection(rule=ScopeRule.ANY), sitemaps=SitemapSection(max_urls=2)
    )
    crawl_folder(tmp_path / "c", Pages(web), [f"{A}/"], config)
    foreign = ask(tmp_path / "c", "http://other.test/b")
    assert (foreign.verdict, facts(foreign)["reason"]) == ("refused_by_scope", "sitemap_foreign")
    assert facts(foreign)["value"] == f"{A}/maps/1.xml, named in the robots.txt of a.test"
    elsewhere = ask(tmp_path / "c", f"{A}/d")
    assert (facts(elsewhere)["reason"], facts(elsewhere)["found_on"]) == (
        "sitemap_foreign",
        f"{A}/shop/map.xml",
    )
    others = [
        facts(ask(tmp_path / "c", f"{A}/{name}"))["reason"] for name in ("a", "shop/c", "shop/e")
    ]
    assert sorted(others) == ["http_client_error", "http_client_error", "sitemap_limit"]


def test_a_dead_letter_gives_its_reason_and_every_request(finished: Path) -> None:
    answer = ask(finished, f"{A}/broken")
    assert answer.verdict == "failed" and "5xx" in answer.headline
    tried = facts(answer)["attempts"]
    assert len(tried) == 4 and all(each["status"] == 503 for each in tried)
    assert [each["at"] for each in tried] == sorted(each["at"] for each in tried)
    told = {fact.key: fact.text for fact in answer.facts}["attempts"].split("; ")
    assert len(told) == 4 and all(": status 503 from " in each for each in told)
    assert "tries" not in facts(answer)  # one that disagreed with the attempts was given
    gone = ask(finished, f"{A}/gone")
    assert (
        gone.verdict == "failed"
        and facts(gone)["status"] == 404
        and facts(gone)["reason"] == "http_client_error"
    )


def test_a_page_that_is_gone_says_when_it_is_looked_at_again(later: Path) -> None:
    answer = ask(later, f"{A}/flees")
    assert answer.verdict == "gone" and "is looked at again at" in answer.headline
    assert facts(answer)["status"] == 404 and facts(answer)["refetch_at"] > 0


def test_a_host_that_was_given_up_answers_for_its_urls(finished: Path) -> None:
    answer = ask(finished, "http://dead.test/")
    assert answer.verdict == "retired" and "does not exist" in answer.headline
    assert facts(answer)["host_state"] == "retired"


def test_a_parked_url_gives_rule_value_and_when_it_is_looked_at_again(finished: Path) -> None:
    parked = [
        number
        for number in range(12)
        if ask(finished, f"http://many.test/{number}").verdict == "parked"
    ]
    assert parked, "the page budget of the host is smaller than its pages"
    answer = ask(finished, f"http://many.test/{parked[0]}")
    assert "budgets.host_pages = 12 of 12" in answer.headline
    assert facts(answer)["reason"] == "host_page_budget" and facts(answer)["looked_at_again"] > NOW


def test_urls_never_seen_are_told_what_would_become_of_them(finished: Path) -> None:
    admissible = ask(finished, "http://many.test/new")
    assert admissible.verdict == "never_seen" and "parked" in admissible.headline
    assert ask(
        finished, "https://a.test/one"
    ).verdict == "refused_by_robots" or "other_scheme" in facts(ask(finished, "https://a.test/one"))
    assert ask(finished, "ftp://a.test/").verdict == "not_a_url"
    assert ask(finished, "http://").verdict == "not_a_url"
    assert ask(finished, "0123456789abcdef").verdict == "unknown_hash"


def test_a_queued_url_gives_its_place_and_an_honest_estimate(stopped: Path) -> None:
    answers = [
        ask(stopped, f"http://many.test/{number}", VIRTUAL_EPOCH + 4) for number in range(12)
    ]
    waiting = [answer for answer in answers if answer.verdict == "queued"]
    places = sorted(facts(answer)["queue_before"] for answer in waiting)
    assert len(waiting) > 4 and places == list(range(len(waiting)))
    last = max(waiting, key=lambda answer: int(facts(answer)["queue_before"]))
    assert facts(last)["host_delay_s"] == pytest.approx(1.05, abs=0.01)
    assert facts(last)["estimate_s"] >= facts(last)["queue_before"] * 1.0
    assert f"{len(waiting) - 1} URLs of its host are before it" in last.headline
    first = next(answer for answer in waiting if not facts(answer)["queue_before"])
    assert first.headline == "It waits: it is the next URL of its host."


def test_a_crawl_delay_shows_in_the_estimate(stopped: Path) -> None:
    answer = next(
        a
        for path in WEB
        if path.startswith(A) and (a := ask(stopped, path, VIRTUAL_EPOCH + 4)).verdict == "queued"
    )
    assert facts(answer)["host_delay_s"] == pytest.approx(2.1, abs=0.01)


def test_a_url_that_waits_for_a_retry_says_why_and_until_when(stopped: Path) -> None:
    answer = ask(stopped, "http://busy.test/", VIRTUAL_EPOCH + 4)
    assert answer.verdict == "retrying" and "request 1 of 4" in answer.headline
    assert (
        facts(answer)["reason"] == "http_server_error" and facts(answer)["due_at"] > VIRTUAL_EPOCH
    )
    assert facts(answer)["host_delay_source"] == "backoff"


def test_a_host_whose_urls_wait_for_a_retry_is_told_apart_from_one_that_is_done(
    stopped: Path,
) -> None:
    reader = read_folder(stopped)
    entry = next(each for each in reader.hosts() if each.record.host == "busy.test")
    line = host_line(entry.record, load_saved_settings(reader).config, VIRTUAL_EPOCH + 4000)
    assert (line.state, line.waiting, line.retrying) == ("exhausted", 1, 1)
    assert line.reason


def test_settings_that_cannot_be_read_are_named(stopped: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(stopped, tmp_path / "stopped")
    reader = read_folder(folder)
    (folder / "settings.json").write_text('{"politeness": {"delay_s": "soon"}}')
    with pytest.raises(SettingsUnreadable, match=r"settings\.json.*delay_s"):
        load_saved_settings(reader)
