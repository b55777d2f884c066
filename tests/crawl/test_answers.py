"""What single answers lead to in a whole crawl: redirects, errors, waits, duplicates, revisits."""

from __future__ import annotations

from pathlib import Path

import pytest

from judging import are_balanced, asked, host_states, is_polite, outcomes, quick_config, stored_rows
from lycosa.base.config.sections import (
    FrontierSection,
    RefetchSection,
    RetrySection,
    ScopeRule,
    ScopeSection,
)
from lycosa.base.model.capture import Original
from lycosa.base.model.end import End
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.visit_state import HostState
from lycosa.synthetic import Response
from scripted import HTML, Names, error, first, moved, page, robots, scripted_crawl

A, B, C = "http://a.example/", "http://b.example/", "http://c.test/"


# -- redirects


def test_a_chain_of_redirects_is_followed_to_its_end(tmp_path: Path) -> None:
    chain = {f"{A}{n}": moved(f"/{n + 1}") for n in range(5)} | {f"{A}5": page()}
    crawl, _ = scripted_crawl(tmp_path / "c", {A: page("/0"), **chain})
    crawl.run([A])
    found = outcomes(crawl)
    assert [found[f"{A}{n}"][0] for n in range(6)] == [UrlState.REDIRECTED] * 5 + [UrlState.FETCHED]


@pytest.mark.parametrize(
    ("sent", "asked_for"),
    [
        (b"/n\xc3\xa9w", "/n%C3%A9w"),
        (b"/n\xe9w", "/n%E9w"),
        (b"/?q=\xe6\x97\xa5", "/?q=%E6%97%A5"),
        (b"/\xff%20\xfe", "/%FF%20%FE"),
    ],
)
def test_a_redirect_that_was_not_escaped_is_asked_for_with_its_own_bytes(
    tmp_path: Path, sent: bytes, asked_for: str
) -> None:
    target = A.rstrip("/") + asked_for
    crawl, _ = scripted_crawl(tmp_path / "c", {A: moved(sent.decode("latin-1")), target: page()})
    crawl.run([A])
    assert outcomes(crawl)[target] == (UrlState.FETCHED, Reason.NONE)
    (row,) = [row for row in stored_rows(crawl.folder) if row.url == A]
    assert row.location == target


def test_a_longer_chain_of_redirects_ends_as_a_dead_letter(tmp_path: Path) -> None:
    chain = {f"{A}{n}": moved(f"/{n + 1}") for n in range(9)}
    crawl, web = scripted_crawl(tmp_path / "c", {A: page("/0"), **chain})
    crawl.run([A])
    found = outcomes(crawl)
    assert found[f"{A}5"] == (UrlState.FAILED, Reason.TOO_MANY_REDIRECTS)
    assert f"{A}6" not in found and not web.asked[f"{A}6"]


def test_redirects_in_a_circle_end(tmp_path: Path) -> None:
    crawl, web = scripted_crawl(
        tmp_path / "c",
        {
            A: page("/x", "/self"),
            f"{A}x": moved("/y"),
            f"{A}y": moved("/x"),
            f"{A}self": moved("/self"),
        },
    )
    assert crawl.run([A]).end is End.FINISHED
    assert max(web.asked.values()) == 1
    assert {outcomes(crawl)[A + name][0] for name in ("x", "y", "self")} == {UrlState.REDIRECTED}


def test_the_target_of_a_seeds_redirect_joins_the_scope(tmp_path: Path) -> None:
    config = quick_config(scope=ScopeSection(rule=ScopeRule.HOST))
    crawl, _ = scripted_crawl(
        tmp_path / "c",
        {A: moved(B), B: moved(C), C: page("/more", A, B + "no"), f"{C}more": page()},
        config,
    )
    crawl.run([A])
    assert set(asked(crawl.log)) == {A, B, C, f"{C}more", f"{B}no"}


def test_the_target_of_another_pages_redirect_does_not_join_the_scope(tmp_path: Path) -> None:
    config = quick_config(scope=ScopeSection(rule=ScopeRule.HOST))
    crawl, _ = scripted_crawl(tmp_path / "c", {A: page("/x"), f"{A}x": moved(B), B: page()}, config)
    run = crawl.run([A])
    assert set(asked(crawl.log)) == {A, f"{A}x"}
    assert run.counters.rule_refusals == {Reason.OUT_OF_SCOPE: 1}


def test_the_joined_scope_outlives_the_run(tmp_path: Path) -> None:
    config = quick_config(scope=ScopeSection(rule=ScopeRule.HOST))
    answers = {
        A: moved(B),
        B: page("/late"),
        f"{B}late": first(1, error(503, ("Retry-After", "3000")), page("/later")),
        f"{B}later": page(),
    }
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config)
    crawl.run([A])
    assert f"{B}later" not in asked(crawl.log)
    crawl.now += 4000
    crawl.run()
    assert f"{B}later" in asked(crawl.log)


@pytest.mark.parametrize(
    "location",
    ["", "http://", "ftp://a.example/", "javascript:alert(1)", "http://a.example:99999/"],
)
def test_a_redirect_to_nowhere_is_a_dead_letter(location: str, tmp_path: Path) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", {A: page("/x"), f"{A}x": moved(location)})
    crawl.run([A])
    assert outcomes(crawl)[f"{A}x"][0] is UrlState.FAILED
    assert web.asked[f"{A}x"] == 1
    are_balanced(crawl)


# -- errors and waits


def test_a_passing_error_is_tried_again_until_it_passes(tmp_path: Path) -> None:
    crawl, web = scripted_crawl(
        tmp_path / "c", {A: page("/x"), f"{A}x": first(3, error(500), page())}
    )
    crawl.run([A])
    assert web.asked[f"{A}x"] == 4
    assert outcomes(crawl)[f"{A}x"] == (UrlState.FETCHED, Reason.NONE)


def test_an_error_that_stays_is_a_dead_letter_and_stored(tmp_path: Path) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", {A: page("/x"), f"{A}x": error(500)})
    crawl.run([A])
    assert web.asked[f"{A}x"] == 4
    assert outcomes(crawl)[f"{A}x"] == (UrlState.FAILED, Reason.HTTP_SERVER_ERROR)
    assert [row.status for row in stored_rows(crawl.folder) if row.url == f"{A}x"] == [500]


def test_what_is_not_parsed_has_a_media_type_too(tmp_path: Path) -> None:
    answers = {
        A: page("/x", "/old"),
        f"{A}x": error(404),
        f"{A}old": Response(301, [("Location", "/new"), HTML], b"<p>moved", 0.05),
    }
    crawl, _ = scripted_crawl(
        tmp_path / "c", {**answers, f"{A}robots.txt": robots("User-agent: *"), f"{A}new": page()}
    )
    crawl.run([A])
    found = {
        row.url.removeprefix(A): (row.status, row.media_type_detected)
        for row in stored_rows(crawl.folder)
    }
    html = "text/html"
    assert found == {
        "robots.txt": (200, "text/plain"),
        "": (200, html),
        "x": (404, html),
        "old": (301, html),
        "new": (200, html),
    }


def test_missing_pages_are_asked_for_once(tmp_path: Path) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", {A: page("/gone")})
    crawl.run([A])
    assert web.asked[f"{A}gone"] == 1
    assert outcomes(crawl)[f"{A}gone"] == (UrlState.FAILED, Reason.HTTP_CLIENT_ERROR)


def test_retry_after_is_kept_for_the_whole_host(tmp_path: Path) -> None:
    answers = {
        A: page("/x", "/y"),
        f"{A}x": first(1, error(429, ("Retry-After", "120")), page()),
        f"{A}y": page(),
    }
    crawl, _ = scripted_crawl(tmp_path / "c", answers)
    crawl.run([A])
    waits = crawl.log.gaps("a.example")
    assert max(waits) >= 120
    assert (
        outcomes(crawl)[f"{A}x"][0] is UrlState.FETCHED
        and outcomes(crawl)[f"{A}y"][0] is UrlState.FETCHED
    )


def test_a_refusal_without_words_backs_off_and_doubles(tmp_path: Path) -> None:
    crawl, web = scripted_crawl(
        tmp_path / "c", {A: page("/x"), f"{A}x": first(2, error(429), page())}
    )
    crawl.run([A])
    waits = sorted(crawl.log.gaps("a.example"))
    assert web.asked[f"{A}x"] == 3
    assert waits[-1] >= 60 and 30 <= waits[-2] < 60


def test_a_wait_beyond_the_finish_is_reported_and_kept_for_the_next_run(tmp_path: Path) -> None:
    answers = {
        A: page("/x", "/y"),
        f"{A}x": first(1, error(503, ("Retry-After", "7200")), page()),
        f"{A}y": page(),
    }
    crawl, _ = scripted_crawl(tmp_path / "c", answers)
    run = crawl.run([A])
    assert run.end is End.FINISHED and run.duration_s < 30
    assert host_states(crawl)["a.example"].state is HostState.SNOOZED
    assert are_balanced(crawl).count_in(UrlState.QUEUED) == 2
    early = crawl.run()
    assert early.duration_s < 30 and len(asked(crawl.log)) == 2
    crawl.now += 8000  # jitter adds up to a tenth
    crawl.run()
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    assert max(crawl.log.gaps("a.example")) >= 7200


def test_a_host_that_does_not_answer_is_retired_and_a_seed_brings_it_back(tmp_path: Path) -> None:
    names = Names({"b.example": Reason.DNS_NO_SUCH_NAME})
    crawl, _ = scripted_crawl(
        tmp_path / "c", {A: page(B, f"{B}x"), B: page(), f"{B}x": page()}, names=names
    )
    crawl.run([A])
    assert are_balanced(crawl).count_in(UrlState.RETIRED) == 2
    names.known.clear()
    crawl.now += 3600
    crawl.run([B])
    assert are_balanced(crawl).count_in(UrlState.FETCHED) == 3


def test_a_new_seed_brings_a_retired_host_back(tmp_path: Path) -> None:
    names = Names({"b.example": Reason.DNS_NO_SUCH_NAME})
    crawl, _ = scripted_crawl(
        tmp_path / "c", {A: page(B), B: page(), f"{B}new": page()}, names=names
    )
    crawl.run([A])
    names.known.clear()
    crawl.now += 3600
    crawl.run([f"{B}new"])
    assert are_balanced(crawl).count_in(UrlState.FETCHED) == 3


def test_a_name_that_fails_for_a_while_is_asked_again(tmp_path: Path) -> None:
    names = Names({"b.example": Reason.DNS_TIMEOUT})
    config = quick_config(retry=RetrySection(away_s=60.0))
    crawl, _ = scripted_crawl(tmp_path / "c", {A: page(B), B: page()}, config, names)
    crawl.run([A])
    assert names.asked["b.example"] >= 3
    assert host_states(crawl)["b.example"].state is HostState.RETIRED


def test_links_found_while_the_hosts_only_url_is_in_the_parser_are_fetched(tmp_path: Path) -> None:
    """The host leaves the workbench with its last URL leased; what is found then lines it up
    again.
    """
    answers = {A: page(B), B: page(f"{A}x", latency_s=5.0), f"{A}x": page(f"{B}y"), f"{B}y": page()}
    crawl, _ = scripted_crawl(tmp_path / "c", answers)
    crawl.run([A, B])
    assert set(asked(crawl.log)) == set(answers)
    are_balanced(crawl)


# -- content


def test_the_same_body_is_stored_once_and_then_pointed_at(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(
        tmp_path / "c",
        {A: page("/x", "/y"), f"{A}x": page(text="same"), f"{A}y": page(text="same")},
    )
    crawl.run([A])
    rows = {row.url: row for row in stored_rows(crawl.folder)}
    kinds = sorted(rows[A + name].revisit for name in ("x", "y"))
    assert kinds == ["", "identical-payload-digest"]
    assert sorted(outcomes(crawl)[A + name][1] for name in ("x", "y")) == [
        Reason.NONE,
        Reason.DUPLICATE,
    ]


def test_a_page_that_did_not_change_in_a_week_becomes_a_revisit(tmp_path: Path) -> None:
    def answer(earlier: int, headers: object) -> Response:
        assert isinstance(headers, dict)
        if headers.get("if-none-match") == '"1"':
            return Response(304, [("ETag", '"1"')])
        return page("/x", headers=[("ETag", '"1"')])

    crawl, web = scripted_crawl(
        tmp_path / "c",
        {A: answer, f"{A}x": lambda earlier, _: page(text=f"version {earlier}")},
        quick_config(refetch=RefetchSection(soft_gone=False)),
    )
    crawl.run([A])
    crawl.now += 8 * 86400
    run = crawl.run()
    assert run.end is End.FINISHED
    assert (web.asked[A], web.asked[f"{A}x"]) == (2, 2)
    rows = [row for row in stored_rows(crawl.folder) if row.kind is FetchKind.PAGE]
    assert [(row.fetch_number, row.status, row.revisit) for row in rows if row.url == A] == [
        (1, 200, ""),
        (2, 304, "server-not-modified"),
    ]
    assert [(row.fetch_number, row.revisit) for row in rows if row.url == f"{A}x"] == [
        (1, ""),
        (2, ""),
    ]
    original = next(row for row in rows if row.url == A and row.revisit).original
    assert original is not None and original.record_id == next(
        row.record_id for row in rows if row.url == A and not row.revisit
    )
    assert outcomes(crawl)[A] == (UrlState.FETCHED, Reason.NOT_MODIFIED)
    are_balanced(crawl)


def test_an_unchanged_duplicate_points_at_the_capture_that_has_its_body(tmp_path: Path) -> None:
    """And not at its own last capture, which is a revisit; also when it is asked a third time."""

    def answer(earlier: int, headers: object) -> Response:
        assert isinstance(headers, dict)
        return (
            Response(304, [("ETag", '"1"')])
            if headers.get("if-none-match") == '"1"'
            else page(text="same", headers=[("ETag", '"1"')])
        )

    crawl, web = scripted_crawl(
        tmp_path / "c", {A: page("/x", "/y"), f"{A}x": answer, f"{A}y": answer}
    )
    crawl.run([A])
    for _ in range(2):
        crawl.now += 30 * 86400
        crawl.run()
    rows = [row for row in stored_rows(crawl.folder) if row.url in (f"{A}x", f"{A}y")]
    (stored,) = [row for row in rows if not row.revisit]
    assert {web.asked[f"{A}x"], web.asked[f"{A}y"]} == {3}
    assert (
        sorted(row.revisit for row in rows if row is not stored)
        == ["identical-payload-digest"] + ["server-not-modified"] * 4
    )
    assert {row.original for row in rows if row.revisit} == {
        Original(stored.url, stored.date_us, stored.record_id)
    }


def test_a_month_of_refetching_asks_less_where_less_changes(tmp_path: Path) -> None:
    answers = {
        A: page("/still", "/news"),
        f"{A}still": page(text="always the same"),
        f"{A}news": lambda earlier, _: page(text=f"edition {earlier}"),
    }
    crawl, web = scripted_crawl(tmp_path / "c", answers)
    crawl.run([A])
    for _ in range(20):
        crawl.now += 3 * 86400
        crawl.run()
    assert web.asked[f"{A}news"] > 2 * web.asked[f"{A}still"] > 4
    are_balanced(crawl)
    stored_rows(crawl.folder)


# -- robots.txt


def test_nothing_is_asked_of_a_host_whose_robots_txt_cannot_be_had(tmp_path: Path) -> None:
    crawl, web = scripted_crawl(
        tmp_path / "c",
        {A: page("/x"), f"{A}robots.txt": first(3, error(500), robots("")), f"{A}x": page()},
    )
    crawl.run([A])
    assert web.asked[f"{A}robots.txt"] == 4
    assert set(asked(crawl.log)) == {A, f"{A}x"}
    first_page = next(each for each in crawl.log.exchanges if each.path == "/")
    assert first_page.start >= 60 + 120 + 240


def test_a_crawl_delay_holds_from_the_robots_txt_that_asks_for_it(tmp_path: Path) -> None:
    lines = "User-agent: *\nCrawl-delay: 5"
    crawl, _ = scripted_crawl(
        tmp_path / "c", {A: page("/x"), f"{A}x": page(), f"{A}robots.txt": robots(lines)}
    )
    crawl.run([A])
    gaps = crawl.log.gaps("a.example")
    assert len(gaps) == 2 and min(gaps) >= 5


def test_a_robots_txt_that_fails_for_long_leaves_the_urls_waiting(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", {A: page("/x"), f"{A}robots.txt": error(503)})
    run = crawl.run([A])
    assert run.end is End.FINISHED
    assert not asked(crawl.log)
    assert outcomes(crawl)[A][0] is UrlState.QUEUED
    host = host_states(crawl)["a.example"]
    assert (host.state, host.reason) == (HostState.SNOOZED, Reason.ROBOTS_UNREACHABLE)


def test_robots_txt_may_stand_on_another_host(tmp_path: Path) -> None:
    answers = {
        A: page("/no", "/yes"),
        f"{A}robots.txt": moved(f"{B}r"),
        f"{B}r": robots("User-agent: *\nDisallow: /no"),
        f"{A}yes": page(),
    }
    crawl, _ = scripted_crawl(tmp_path / "c", answers)
    crawl.run([A])
    assert set(asked(crawl.log)) == {A, f"{A}yes", f"{B}r"}
    assert outcomes(crawl)[f"{A}no"] == (UrlState.REFUSED, Reason.ROBOTS_DISALLOWED)


def test_two_hosts_whose_robots_txt_point_at_each_other_do_not_wait_for_ever(
    tmp_path: Path,
) -> None:
    answers = {
        A: page(),
        B: page(),
        f"{A}robots.txt": moved(f"{B}r"),
        f"{B}robots.txt": moved(f"{A}r"),
        f"{A}r": robots(""),
        f"{B}r": robots(""),
    }
    crawl, _ = scripted_crawl(tmp_path / "c", answers)
    crawl.run([A, B])
    assert {A, B} <= set(asked(crawl.log))
    assert crawl.now < 3600
    is_polite(crawl.log, crawl.config.politeness)


def test_a_ring_of_hosts_borrows_without_pressing_anyone(tmp_path: Path) -> None:
    names = [f"http://h{n}.s{n}.example/" for n in range(6)]
    answers = {
        f"{url}robots.txt": moved(f"{names[(n + 1) % 6]}robots.txt") for n, url in enumerate(names)
    }
    crawl, _ = scripted_crawl(tmp_path / "c", {**answers, **{url: page(*names) for url in names}})
    run = crawl.run(names)
    assert run.end is End.FINISHED
    assert set(asked(crawl.log)) == set(names)
    is_polite(crawl.log, crawl.config.politeness)


def test_a_host_that_is_asked_for_anothers_robots_txt_keeps_its_own_delay(tmp_path: Path) -> None:
    """Many hosts send us to one for their robots.txt, while it is crawled itself, and across a
    restart.
    """
    names = [f"http://h{n}.s{n}.example/" for n in range(8)]
    answers = {f"{url}robots.txt": moved(f"{A}r{n}") for n, url in enumerate(names)}
    pages = {f"{A}{n}": page() for n in range(20)}
    config = quick_config()
    crawl, _ = scripted_crawl(
        tmp_path / "c",
        {**answers, **{url: page() for url in names}, **pages, A: page(*pages)},
        config,
    )
    crawl.run([A, *names[:4]], meanwhile=lambda assembled: stop_after(assembled, 6.0))
    crawl.run(names[4:])
    assert set(asked(crawl.log)) >= {A, *names, *pages}
    is_polite(crawl.log, config.politeness)


def stop_after(assembled: object, seconds: float) -> None:
    import asyncio

    asyncio.get_running_loop().call_later(seconds, assembled.worker.stop)  # type: ignore[attr-defined]


def test_a_host_asked_to_wait_for_hours_does_not_hold_up_whose_robots_txt_it_has(
    tmp_path: Path,
) -> None:
    answers = {
        B: error(429, ("Retry-After", "20000")),
        A: page(),
        f"{A}robots.txt": moved(f"{B}r"),
        f"{B}r": robots(""),
    }
    crawl, _ = scripted_crawl(tmp_path / "c", {**answers, C: page(A, latency_s=10.0)})
    run = crawl.run([B, C])
    assert run.end is End.FINISHED
    assert run.duration_s < 3600


@pytest.mark.parametrize(
    "lines",
    [
        "Sitemap: not a url at all\nSitemap: http://[\nSitemap: //\nSitemap: \x00",
        "Sitemap: http://user:pa ss@/x\nSitemap: http://a.example:99999999/",
        "User-agent: *\nDisallow: %%%\nAllow: \xff\nCrawl-delay: 1e999",
    ],
)
def test_no_robots_txt_stops_a_crawl(lines: str, tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(
        tmp_path / "c", {A: page("/x"), f"{A}x": page(), f"{A}robots.txt": robots(lines)}
    )
    assert crawl.run([A]).end is End.FINISHED
    assert {A, f"{A}x"} <= set(asked(crawl.log))


@pytest.mark.parametrize(
    "location", ["", "http://[", "ftp://x.example/", "/robots.txt", "http://nowhere.test/"]
)
def test_no_redirect_of_a_robots_txt_stops_a_crawl(location: str, tmp_path: Path) -> None:
    names = Names({"nowhere.test": Reason.DNS_NO_SUCH_NAME})
    crawl, web = scripted_crawl(
        tmp_path / "c", {A: page(), f"{A}robots.txt": moved(location)}, names=names
    )
    assert crawl.run([A]).end is End.FINISHED
    assert web.asked[f"{A}robots.txt"] <= 6
    are_balanced(crawl)


def test_disallowed_urls_are_refused_in_bulk_without_a_request(tmp_path: Path) -> None:
    links = [f"/no/{n}" for n in range(1500)]
    crawl, _ = scripted_crawl(
        tmp_path / "c",
        {
            A: page(*links, "/yes"),
            f"{A}yes": page(),
            f"{A}robots.txt": robots("User-agent: *\nDisallow: /no/"),
        },
    )
    run = crawl.run([A])
    assert set(asked(crawl.log)) == {A, f"{A}yes"}
    assert run.counters.count_in(UrlState.REFUSED) == 1500
    are_balanced(crawl)


def test_a_sitemap_on_another_host_is_read_when_it_is_in_scope(tmp_path: Path) -> None:
    sitemap = Response(
        200,
        [("Content-Type", "application/xml")],
        b"<urlset"
        b' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://a.example/hidden</loc></url></urlset>',
    )
    answers = {
        A: page(),
        f"{A}robots.txt": robots(f"Sitemap: {B}map.xml"),
        f"{B}map.xml": sitemap,
        f"{A}hidden": page(),
    }
    crawl, _ = scripted_crawl(tmp_path / "c", answers)
    crawl.run([A])
    assert set(asked(crawl.log)) == {A, f"{B}map.xml", f"{A}hidden"}


# -- hosts and addresses


def test_hosts_of_one_address_share_its_delay_and_slots(tmp_path: Path) -> None:
    names = [f"h{n}.s{n}.example" for n in range(12)]
    answers = {
        f"http://{name}/{path}": page("/1", "/2", latency_s=3.0)
        for name in names
        for path in ("", "1", "2")
    }
    crawl, _ = scripted_crawl(
        tmp_path / "c", answers, names=Names({name: ["198.18.9.9"] for name in names})
    )
    crawl.run([f"http://{name}/" for name in names])
    assert set(asked(crawl.log)) == set(answers)
    is_polite(crawl.log, crawl.config.politeness)
    assert crawl.log.max_parallel("198.18.9.9") == 4


def test_a_small_workbench_of_hosts_that_wait_does_not_starve_the_others(tmp_path: Path) -> None:
    """Hosts that were asked to wait for hours must not keep their places."""
    waiting = [f"http://h{n}.s{n}.example/" for n in range(4)]
    free = [f"http://h{n}.s{n}.example/" for n in range(4, 12)]
    answers = {url: first(1, error(429, ("Retry-After", "20000")), page()) for url in waiting} | {
        url: page() for url in free
    }
    config = quick_config(frontier=FrontierSection(partitions=3, bands=4, head=6, workbench=4))
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config)
    run = crawl.run([*waiting, *free])
    assert set(asked(crawl.log)) == {*waiting, *free}
    assert run.end is End.FINISHED and run.duration_s < 1000


def test_hosts_found_while_the_workbench_is_full_of_waiting_ones_are_fetched_at_once(
    tmp_path: Path,
) -> None:
    """The bench is full of hosts that wait for hours before the others are known."""
    waiting = [f"http://h{n}.s{n}.example/" for n in range(4)]
    free = [f"http://h{n}.s{n}.example/" for n in range(4, 24)]
    answers = {url: first(1, error(429, ("Retry-After", "20000")), page()) for url in waiting}
    answers |= {A: page(*free, latency_s=20.0)} | {url: page() for url in free}
    config = quick_config(frontier=FrontierSection(partitions=3, bands=4, head=6, workbench=4))
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config)
    run = crawl.run([A, *waiting])
    assert set(asked(crawl.log)) == set(answers)
    assert run.end is End.FINISHED and run.duration_s < 1000
    assert are_balanced(crawl).count_in(UrlState.QUEUED) == 4
    crawl.now += 30_000
    crawl.run()
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    is_polite(crawl.log, config.politeness)


def test_more_waiting_hosts_than_the_workbench_holds_do_not_keep_a_crawl_from_its_end(
    tmp_path: Path,
) -> None:
    waiting = [f"http://h{n}.s{n}.example/" for n in range(12)]
    answers = {
        url: first(1, error(429, ("Retry-After", str(5000 + 10 * n))), page())
        for n, url in enumerate(waiting)
    }
    config = quick_config(frontier=FrontierSection(partitions=3, bands=4, head=6, workbench=4))
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config)
    run = crawl.run(waiting)
    assert run.end is End.FINISHED and run.duration_s < 1000
    crawl.now += 4000
    crawl.run()
    assert are_balanced(crawl).count_in(UrlState.QUEUED) == 12
    crawl.now += 3000
    crawl.run()
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    is_polite(crawl.log, config.politeness)


def test_dead_letters_take_their_tries_and_their_waits(tmp_path: Path) -> None:
    config = quick_config(retry=RetrySection(tries=3, first_s=40.0))
    crawl, web = scripted_crawl(
        tmp_path / "c",
        {A: page("/x"), f"{A}x": Response(200, [HTML], b"", behaviour="closes-at-once")},
        config,
    )
    crawl.run([A])
    starts = [each.start for each in crawl.log.exchanges if each.path == "/x"]
    assert len(starts) == web.asked[f"{A}x"] == 3
    assert starts[1] - starts[0] >= 40 and starts[2] - starts[1] >= 80
    assert outcomes(crawl)[f"{A}x"] == (UrlState.FAILED, Reason.EMPTY_RESPONSE)


@pytest.mark.parametrize("order", [("1", "120"), ("120", "1"), ("soon", "120", "-5")])
def test_of_two_retry_after_fields_the_longest_counts(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    refusal = error(429, *(("Retry-After", value) for value in order))
    answers = {A: page("/x"), f"{A}x": first(1, refusal, page())}
    crawl, _ = scripted_crawl(tmp_path / "c", answers)
    crawl.run([A])
    times = [each.start for each in crawl.log.exchanges if each.path == "/x"]
    assert len(times) == 2 and 120 <= times[1] - times[0] < 140
