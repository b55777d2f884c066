"""Whole crawls that render pages, with a renderer that has no browser."""

from __future__ import annotations

from pathlib import Path

from crawling import Pages, crawl_folder, page, robots
from lycosa.base.calls import RenderVerdict
from lycosa.base.model.end import End
from lycosa.base.reasons import Reason
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.state.store.journal_rows import JournalRow, remarks_of
from lycosa.synthetic import Response
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
