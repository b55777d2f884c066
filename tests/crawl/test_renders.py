"""Whole crawls that render pages, with a renderer that has no browser."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lycosa
from crawling import QUICK, Pages, crawl_folder, page, robots
from lycosa.base.calls import (
    Call,
    CallRefusal,
    CallReply,
    GivenVerdicts,
    OrderRenders,
    RendersLent,
    RenderVerdict,
    TakeRenders,
)
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.end import End
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of
from lycosa.feeds.extraction.extraction_versions import ExtractionKind
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.crawl_tables import CrawlTables
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.inspect.sql_query import ask, wanted_tables
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.stages.extract.code_source import load_code
from lycosa.stages.extract.inline_code import InlineCode
from lycosa.stages.frontier.render_rows import MOST_LOSSES
from lycosa.state.store.journal_rows import JournalRow, remarks_of
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.synthetic import Faults, Response
from lycosa.worker.assemble import Assembled
from lycosa.worker.extensions import Extensions
from rendering import Renderers, rendering, script, shell
from shop_crawl import code_to_run, extract
from store_samples import crawl_rows

SITE = "http://app.example"


def json(text: str) -> Response:
    return Response(200, [("Content-Type", "application/json")], text.encode())


def app() -> dict[str, Response]:
    """A page whose script imports another one, which asks for data and then for more."""
    return {
        f"{SITE}/robots.txt": robots("User-agent: *", "Disallow: /private"),
        f"{SITE}/": shell("/a.js"),
        f"{SITE}/a.js": script("import './b.js';", "text first"),
        f"{SITE}/b.js": script("load /data", "load /private/data", "import ./late.js"),
        f"{SITE}/data": json("some data"),
        f"{SITE}/late.js": script("link /found", "text last"),
        f"{SITE}/found": page(text="found by a script"),
    }


def test_what_scripts_ask_for_is_fetched_and_their_links_are_followed(tmp_path: Path) -> None:
    web, renderers = Pages(app()), Renderers()
    end = crawl_folder(tmp_path / "crawl", web, [f"{SITE}/"], rendering(), meanwhile=renderers)
    assert end is End.FINISHED
    assert f"{SITE}/found" in web.asked
    assert f"{SITE}/private/data" not in web.asked
    assert set(renderers.verdicts) == {RenderVerdict.TAKEN}
    assert all(web.asked.count(each) == 1 for each in app())
    last = [rendered for lent, rendered in renderers.given if lent.task.url == f"{SITE}/"][-1]
    assert "first" in last.html and "some data" in last.html and "last" in last.html


def test_what_waits_to_be_rendered_is_shown_with_what_it_waits_for(tmp_path: Path) -> None:
    """Nobody renders: the crawl ends, and the page waits for the next run."""
    folder = tmp_path / "crawl"
    crawl_folder(folder, Pages(app()), [f"{SITE}/"], rendering(wait_s=5.0))
    reader = read_folder(folder)
    status = crawl_status(reader, load_saved_settings(reader), reader.last_commit)
    assert (status.renders.due, status.renders.waiting) == (1, 0)
    assert status.renders.hosts == {"app.example": 1}
    assert status.rendered == {}


def test_renders_are_counted_by_how_they_ended_and_what_they_took(tmp_path: Path) -> None:
    folder, renderers, seen = tmp_path / "crawl", Renderers(), list[Assembled]()

    async def meanwhile(assembled: Assembled) -> None:
        seen.append(assembled)
        await renderers(assembled)

    crawl_folder(folder, Pages(app()), [f"{SITE}/"], rendering(), meanwhile=meanwhile)
    reader = read_folder(folder)
    status = crawl_status(reader, load_saved_settings(reader), reader.last_commit)
    assert sum(status.rendered.values()) == 2 and status.renders.due == 0
    (assembled,) = seen
    assert assembled.renders is not None
    counts = assembled.renders.counts
    assert counts.rounds.count == 2 < counts.round_times.count
    assert counts.wants >= 2


def test_a_full_queue_leaves_pages_as_they_are_and_says_so(tmp_path: Path) -> None:
    links = "".join(f'<a href="/{number}">x</a>' for number in range(6))
    web = {f"{SITE}/": shell("/a.js", links=links), f"{SITE}/a.js": script("text x")}
    web |= {f"{SITE}/{number}": shell("/a.js", text=str(number)) for number in range(6)}
    config = rendering(wait_s=5.0, queue=1)
    crawl_folder(tmp_path / "crawl", Pages(web), [f"{SITE}/"], config)
    reader = read_folder(tmp_path / "crawl")
    status = crawl_status(reader, load_saved_settings(reader), reader.last_commit)
    assert 1 <= status.renders.due <= 2
    crowded = Reason.RENDER_CROWDED_OUT
    rows = [row for row in crawl_rows(tmp_path / "crawl") if crowded in _reasons(row)]
    assert len(rows) == 7 - status.renders.due


def _reasons(row: JournalRow) -> list[Reason]:
    return [each.reason for each in remarks_of(row)]


def documents(renderers: Renderers) -> dict[str, str]:
    """The last document of each page."""
    return {lent.task.url: rendered.html for lent, rendered in renderers.given}


def test_what_a_page_loads_and_imports_costs_no_round(tmp_path: Path) -> None:
    renderers = Renderers()
    crawl_folder(tmp_path / "crawl", Pages(app()), [f"{SITE}/"], rendering(), meanwhile=renderers)
    wants = [
        [each.url for each in rendered.wants]
        for lent, rendered in renderers.given
        if lent.task.url == f"{SITE}/"
    ]
    assert wants == [[f"{SITE}/data", f"{SITE}/private/data", f"{SITE}/late.js"], []]


def test_a_crawl_that_dies_anywhere_has_the_same_renders_in_the_end(tmp_path: Path) -> None:
    whole = Renderers()
    crawl_folder(tmp_path / "whole", Pages(app()), [f"{SITE}/"], rendering(), meanwhile=whole)
    folder, web, found, deaths = tmp_path / "dying", Pages(app()), dict[str, str](), 0
    for number in range(40):
        renderers = Renderers()
        faults = Faults(random.Random(number), crash_at=number + 3, crash_point="commit:")
        end = crawl_folder(
            folder,
            web,
            [f"{SITE}/"],
            rendering(),
            start=1000.0 * number,
            faults=faults,
            meanwhile=renderers,
        )
        found |= documents(renderers)
        if end is not None:
            break
        deaths += 1
    assert deaths >= 3
    assert found == documents(whole)
    assert audit(folder).is_clean


def test_each_page_of_an_application_is_rendered_although_all_have_one_body(
    tmp_path: Path,
) -> None:
    web = Pages(
        {
            f"{SITE}/": shell("/a.js"),
            f"{SITE}/one": shell("/a.js"),
            f"{SITE}/a.js": script("link /one", "text shown"),
        }
    )
    renderers = Renderers()
    crawl_folder(tmp_path / "crawl", web, [f"{SITE}/"], rendering(), meanwhile=renderers)
    assert set(documents(renderers)) == {f"{SITE}/", f"{SITE}/one"}
    assert web.asked.count(f"{SITE}/a.js") == 1


def test_a_page_is_rendered_again_only_when_its_own_body_changed(tmp_path: Path) -> None:
    """Its script changes at each request, which is no reason."""
    scripts = [script(f"text {number}") for number in range(9)]
    pages = [shell("/a.js"), shell("/a.js"), shell("/a.js", text="changed")]
    web = Pages({f"{SITE}/": pages, f"{SITE}/a.js": scripts})
    refetch = RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=1000.0, min_s=1000.0, max_s=1000.0)
    config = msgspec.structs.replace(rendering(), refetch=refetch)
    rounds = []
    for number in range(3):
        renderers = Renderers()
        start = 10_000.0 * number
        crawl_folder(
            tmp_path / "crawl", web, [f"{SITE}/"], config, start=start, meanwhile=renderers
        )
        rounds.append(len(renderers.given))
    assert web.asked.count(f"{SITE}/") == 3
    assert rounds == [1, 0, 1]


def test_a_fetch_that_finds_the_same_body_keeps_the_text_of_its_render(tmp_path: Path) -> None:
    """Two pages of an application with one body; each is fetched twice, and rendered once."""
    folder, renderers = tmp_path / "crawl", Renderers()
    shown = script("link /one", "text", "text shown by scripts, in a line that is long enough")
    web = Pages({f"{SITE}/": shell("/a.js"), f"{SITE}/one": shell("/a.js"), f"{SITE}/a.js": shown})
    refetch = RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=1000.0, min_s=1000.0, max_s=1000.0)
    config = msgspec.structs.replace(rendering(), refetch=refetch)
    for start in (0.0, 10_000.0):
        crawl_folder(folder, web, [f"{SITE}/"], config, start=start, meanwhile=renderers)
    assert web.asked.count(f"{SITE}/") == web.asked.count(f"{SITE}/one") == 2
    assert sorted(documents(renderers)) == [f"{SITE}/", f"{SITE}/one"]
    pages = [page for page in lycosa.open(folder).pages() if page.media_type == "text/html"]
    assert sorted(page.url for page in pages) == sorted(2 * [f"{SITE}/", f"{SITE}/one"])
    assert all(page.text_from == "render" and "by scripts" in page.text for page in pages)
    assert [len(page.links) for page in pages] == 4 * [2]  # of the script, and from it
    statement = "SELECT url, text_from, text_characters > 10 FROM pages WHERE fetch_number > 0"
    with CrawlTables(read_folder(folder), wanted_tables(statement)) as tables:
        rows = [row for row in ask(tables, statement)[1] if not row[0].endswith(".js")]
    assert sorted(rows) == sorted(
        2 * [(f"{SITE}/", "render", True), (f"{SITE}/one", "render", True)]
    )
    with CrawlTables(read_folder(folder), ["texts"]) as tables:
        rows = list(ask(tables, "SELECT url, text_from FROM texts WHERE text_from = 'render'")[1])
    assert sorted(rows) == [(f"{SITE}/", "render"), (f"{SITE}/one", "render")]
    assert audit(folder).is_clean


def test_a_round_after_a_restart_gets_the_records_of_the_round_before(tmp_path: Path) -> None:
    """The script was fetched again between the rounds, and is another one now."""
    folder = tmp_path / "crawl"
    versions = [script("load /data", f"text version {number}") for number in range(3)]
    web = Pages({f"{SITE}/": shell("/a.js"), f"{SITE}/a.js": versions, f"{SITE}/data": json("d")})
    refetch = RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=1000.0, min_s=1000.0, max_s=1000.0)
    config = msgspec.structs.replace(rendering(wait_s=30.0), refetch=refetch)
    first, second = Renderers(), Renderers()
    first.most = 1
    crawl_folder(folder, web, [f"{SITE}/"], config, meanwhile=first)
    assert [lent.task.round for lent, _ in first.given] == [1]

    async def later(assembled: Assembled) -> None:
        async def begin() -> None:
            while web.asked.count(f"{SITE}/a.js") < 2:  # noqa: ASYNC110 (virtual time)
                await asyncio.sleep(1.0)
            await second(assembled)

        second.beginning = asyncio.create_task(begin())

    crawl_folder(folder, web, [], config, start=5000.0, meanwhile=later)
    assert [lent.task.round for lent, _ in second.given] == [2]
    assert web.asked.count(f"{SITE}/a.js") == 2
    assert "version 0" in documents(second)[f"{SITE}/"]
    assert audit(folder).is_clean


def test_pages_wait_for_a_renderer_of_a_later_run(tmp_path: Path) -> None:
    folder, web = tmp_path / "crawl", Pages(app())
    end = crawl_folder(folder, web, [f"{SITE}/"], rendering(wait_s=60.0))
    assert end is End.FINISHED
    assert f"{SITE}/found" not in web.asked
    renderers = Renderers()
    crawl_folder(
        folder, web, [f"{SITE}/"], rendering(wait_s=60.0), start=5000.0, meanwhile=renderers
    )
    assert f"{SITE}/found" in web.asked


@pytest.mark.parametrize("word", ["crash", "hang"])
def test_a_page_that_kills_browsers_is_given_up_after_three_rounds(
    word: str, tmp_path: Path
) -> None:
    web = Pages({f"{SITE}/": shell("/a.js"), f"{SITE}/a.js": script(word)})
    renderers = Renderers()
    folder = tmp_path / "crawl"
    end = crawl_folder(folder, web, [f"{SITE}/"], rendering(), meanwhile=renderers)
    assert end is End.FINISHED
    assert len(renderers.given) == 3
    assert audit(folder).is_clean


def test_a_page_that_kills_its_renderer_is_given_up_and_others_are_rendered(tmp_path: Path) -> None:
    pages = {f"{SITE}/": shell("/a.js", links='<a href="/deadly">x</a>')}
    web = Pages({**pages, f"{SITE}/a.js": script(), f"{SITE}/deadly": shell("/a.js")})
    renderers, killed = Renderers(), list[str]()

    async def with_deaths(assembled: Assembled) -> None:
        async def ask(partition: int, call: Call) -> CallReply:
            if isinstance(call, TakeRenders):
                call = msgspec.structs.replace(call, run=f"process {len(killed)}")
            reply = await assembled.calls.answer(partition, call)
            if not isinstance(reply, RendersLent):
                return reply
            deadly = [each for each in reply.renders if each.task.url.endswith("/deadly")]
            killed.extend(each.task.url for each in deadly)
            return reply if not deadly else RendersLent([])

        owner_of = assembled.intake.partition_of_host
        partition = next(iter(assembled.worker.frontier.partitions))
        tasks.append(asyncio.create_task(renderers.run(ask, owner_of, partition)))

    tasks: list[asyncio.Task[None]] = []
    folder = tmp_path / "crawl"
    assert (
        crawl_folder(folder, web, [f"{SITE}/"], rendering(), meanwhile=with_deaths) is End.FINISHED
    )
    assert len(killed) == MOST_LOSSES
    assert {each[0].task.url for each in renderers.given} == {f"{SITE}/"}
    assert audit(folder).is_clean


def facts_of(folder: Path, url: str) -> dict[str, Any]:
    reader = read_folder(folder)
    answer = explain(reader, load_saved_settings(reader), url, 1_760_000_000.0)
    facts: dict[str, Any] = answer.to_json()["facts"]
    return facts


def test_explain_tells_the_rounds_of_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    crawl_folder(folder, Pages(app()), [f"{SITE}/"], rendering(wait_s=60.0))
    waits = facts_of(folder, f"{SITE}/")["render_waits"]
    assert waits == {"round": 1, "waits_for": []}
    crawl_folder(folder, Pages(app()), [], rendering(), start=5000.0, meanwhile=Renderers())
    facts = facts_of(folder, f"{SITE}/")
    assert facts["rendered"]["end"] == "quiet"
    assert [each["wants"] for each in facts["render_rounds"]] == [3, 0]


def test_pages_are_rendered_from_the_moment_at_which_an_operator_says_so(tmp_path: Path) -> None:
    """``auto`` needs the judgement of the parser, which begins with the setting."""
    folder, web, renderers = tmp_path / "crawl", Pages(app()), Renderers()

    async def meanwhile(assembled: Assembled) -> None:
        assembled.live.follow(1, {"render.mode": "auto"})
        await renderers(assembled)

    end = crawl_folder(folder, web, [f"{SITE}/"], meanwhile=meanwhile)
    assert end is End.FINISHED
    assert f"{SITE}/found" in web.asked
    assert audit(folder).is_clean


def test_what_waits_stays_when_rendering_is_turned_off_and_keeps_no_crawl_from_its_end(
    tmp_path: Path,
) -> None:
    folder, web, renderers = tmp_path / "crawl", Pages(app()), Renderers()
    crawl_folder(folder, web, [f"{SITE}/"], rendering(wait_s=5.0))

    async def turned_off(assembled: Assembled) -> None:
        assembled.live.follow(1, {"render.mode": "never"})
        await renderers(assembled)

    crawl_folder(folder, web, [], rendering(), start=5000.0, meanwhile=turned_off)
    assert not renderers.given
    reader = read_folder(folder)
    status = crawl_status(reader, load_saved_settings(reader), reader.last_commit)
    assert status.renders.due == 1

    async def one_host_off(assembled: Assembled) -> None:
        assembled.live.follow(1, {"render.policies": '["app.example never"]'})
        await renderers(assembled)

    crawl_folder(folder, web, [], rendering(), start=10_000.0, meanwhile=one_host_off)
    assert not renderers.given
    assert facts_of(folder, f"{SITE}/")["rendered"]["end"] == "turned_off"
    assert audit(folder).is_clean


def test_nothing_is_rendered_by_default(tmp_path: Path) -> None:
    web = Pages(app())
    crawl_folder(tmp_path / "crawl", web, [f"{SITE}/"])
    assert web.asked == [f"{SITE}/robots.txt", f"{SITE}/"]


async def order(assembled: Assembled, *urls: str, call: str = "one") -> CallReply:
    number = assembled.intake.partition_of_host(host_of(urls[0]))
    return await assembled.calls.answer(number, OrderRenders(call, "ann", list(urls), "new shop"))


def verdicts_of(reply: CallReply) -> list[str]:
    assert isinstance(reply, GivenVerdicts), reply
    return [each.verdict.value for each in reply.verdicts]


def test_an_operator_lets_pages_be_rendered_again_from_what_is_stored(tmp_path: Path) -> None:
    folder, web, first = tmp_path / "crawl", Pages(app()), Renderers()
    crawl_folder(folder, web, [f"{SITE}/"], rendering(), meanwhile=first)
    asked, replies, renderers = list(web.asked), list[CallReply](), Renderers()

    async def meanwhile(assembled: Assembled) -> None:
        urls = [f"{SITE}/", f"{SITE}/a.js", f"{SITE}/unknown", "mailto:ann", f"{SITE}/private/data"]
        replies.append(await order(assembled, *urls))
        replies.append(await order(assembled, f"{SITE}/", call="two"))
        await renderers(assembled)

    crawl_folder(folder, web, [], rendering(), start=5000.0, meanwhile=meanwhile)
    kinds = ["accepted", "rejected", "not_known", "rejected", "rejected"]
    assert verdicts_of(replies[0]) == kinds and verdicts_of(replies[1]) == ["waiting"]
    reasons = [each.reason for each in replies[0].verdicts]  # type: ignore[union-attr]
    assert "no HTML page (text/javascript)" in reasons[1] and "no capture" in reasons[4]
    assert web.asked == asked, "what a render needs is stored already"
    assert [lent.task.url for lent, _ in renderers.given] == [f"{SITE}/"]
    assert documents(renderers)[f"{SITE}/"] == documents(first)[f"{SITE}/"]
    pages = [each for each in lycosa.open(folder).pages() if each.url == f"{SITE}/"]
    assert [each.text_from for each in pages] == ["render"]
    with CrawlTables(read_folder(folder), ["renders"]) as tables:
        rows = list(ask(tables, f"SELECT \"end\" FROM renders WHERE url = '{SITE}/'")[1])
    assert rows == [("quiet",), ("quiet",)]
    assert audit(folder).is_clean


def test_an_order_keeps_what_the_capture_says_about_its_use_and_its_links(tmp_path: Path) -> None:
    """They are in headers and robots.txt of that time, not in the markup."""
    answer = shell("/a.js")
    answer.headers.append(("X-Robots-Tag", "nofollow"))
    rules = robots("User-agent: *", "Allow: /", "Content-Signal: ai-train=no")
    web = Pages(
        {
            f"{SITE}/robots.txt": rules,
            f"{SITE}/": answer,
            f"{SITE}/a.js": script("link /found", "text shown by scripts"),
        }
    )
    folder, renderers = tmp_path / "crawl", Renderers()
    crawl_folder(folder, web, [f"{SITE}/"])

    async def meanwhile(assembled: Assembled) -> None:
        assert verdicts_of(await order(assembled, f"{SITE}/")) == ["accepted"]
        await renderers(assembled)

    crawl_folder(folder, web, [], rendering(), start=5000.0, meanwhile=meanwhile)
    assert len(renderers.given) == 1, "nofollow: nothing is fetched for the page"
    with CrawlTables(read_folder(folder), ["fetches", "renders"]) as tables:
        ((count,),) = ask(tables, "SELECT count(*) FROM renders")[1]
    (row,) = [row for segment in renders_of(folder) for row in segment]
    assert count == 1 and row.preferences.answers == {"ai-train": False} and row.nofollow
    assert f"{SITE}/found" not in web.asked


def renders_of(folder: Path) -> list[list[JournalRow]]:
    source = read_folder(folder).source
    return [list(source.read_rows(each, RENDER_LINE)) for each in source.list_segments()]


def test_no_page_is_rendered_on_order_where_rendering_is_off(tmp_path: Path) -> None:
    replies = list[CallReply]()

    async def meanwhile(assembled: Assembled) -> None:
        replies.append(await order(assembled, f"{SITE}/"))

    crawl_folder(tmp_path / "crawl", Pages(app()), [f"{SITE}/"], meanwhile=meanwhile)
    assert isinstance(replies[0], CallRefusal) and "render.mode" in replies[0].reason


def test_frames_give_their_text_and_their_links_to_the_page(tmp_path: Path) -> None:
    """Unless they say that they do not want that."""
    frames = (
        "frame /in/frame <p>text of a frame</p><a href=next>x</a>",
        "frame about:srcdoc <p>written by a script</p><a href=beside>x</a>",
        "frame /secret <meta name=robots content='noindex,nofollow'><p>no</p><a href=/no>x</a>",
        "frame /noai <meta name=robots content=noai><p>not to be learned</p>",
    )
    web = Pages({f"{SITE}/app/": shell("/a.js"), f"{SITE}/a.js": script("text own", *frames)})
    folder = tmp_path / "crawl"
    crawl_folder(folder, web, [f"{SITE}/app/"], rendering(), meanwhile=Renderers())
    assert {f"{SITE}/in/next", f"{SITE}/app/beside"} <= set(web.asked)
    assert f"{SITE}/no" not in web.asked
    (text,) = [each.text for each in lycosa.open(folder).pages() if each.url == f"{SITE}/app/"]
    assert text.split("\n") == ["own", "text of a frame", "x", "written by a script", "x"]
    assert audit(folder).is_clean


CODE = """
from collections.abc import Iterator
import lycosa

class Line(lycosa.Item, frozen=True):
    text: str
    is_rendered: bool

@lycosa.extract(Line, version=1)
def products(page: lycosa.Document) -> Iterator[Line]:
    for each in page.select("p"):
        yield Line(each.text, page.is_rendered)

@lycosa.links
def from_attributes(page: lycosa.Document) -> Iterator[str]:
    if page.is_rendered:
        yield "/of-code"
"""


def test_user_code_gets_the_document_after_its_scripts_ran(tmp_path: Path) -> None:
    """In the crawl, and in an extraction from what is stored."""
    folder, renderers, file = tmp_path / "crawl", Renderers(), tmp_path / "shop.py"
    file.write_text(CODE)
    names = ("products", "from_attributes")
    code = InlineCode([load_code(f"{file}:{name}") for name in names], QUICK.canonical)
    web = Pages(
        {
            f"{SITE}/": shell("/a.js", text="early"),
            f"{SITE}/a.js": script("text late"),
            f"{SITE}/of-code": page(text="found by code"),
        }
    )
    extensions = Extensions(code=code)
    crawl_folder(folder, web, [f"{SITE}/"], rendering(), meanwhile=renderers, extensions=extensions)
    assert f"{SITE}/of-code" in web.asked
    now = {
        f"{SITE}/": [("early", True), ("late", True)],
        f"{SITE}/of-code": [("found by code", True)],
    }
    of_pages = {f"{SITE}/": [("early", False)], f"{SITE}/of-code": [("found by code", False)]}
    assert items_of(folder, "items.products") == {url: of_pages[url] + now[url] for url in now}
    assert items_of(folder, "products") == now
    assert audit(folder).is_clean
    asked = list[GivenDocument]()
    _, own_ask = code_to_run(file)

    async def noted_ask(given: GivenDocument) -> ExtensionAnswer:
        asked.append(given)
        return await own_ask(given)

    report = extract(folder, file, ExtractionKind.AGAIN, noted_ask)
    assert not report.failures and {each.url for each in asked if each.is_rendered} == {*now}
    assert items_of(folder, "products") == now


def items_of(folder: Path, table: str) -> dict[str, list[tuple[str, bool]]]:
    found: dict[str, list[tuple[str, bool]]] = {}
    with CrawlTables(read_folder(folder), [table.removeprefix("items."), table]) as tables:
        statement = f"SELECT _url, text, is_rendered FROM {table} ORDER BY is_rendered, _item"
        for url, *values in ask(tables, statement)[1]:
            found.setdefault(url, []).append(tuple(values))
    return found
