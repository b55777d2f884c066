"""Whole crawls that render pages, with a renderer that has no browser."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import Pages, crawl_folder, page, robots
from lycosa.base.calls import Call, CallReply, RendersLent, RenderVerdict, TakeRenders
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.end import End
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.stages.frontier.render_rows import MOST_LOSSES
from lycosa.state.store.journal_rows import JournalRow, remarks_of
from lycosa.synthetic import Faults, Response
from lycosa.worker.assemble import Assembled
from rendering import Renderers, rendering, script, shell
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


def test_nothing_is_rendered_by_default(tmp_path: Path) -> None:
    web = Pages(app())
    crawl_folder(tmp_path / "crawl", web, [f"{SITE}/"])
    assert web.asked == [f"{SITE}/robots.txt", f"{SITE}/"]
