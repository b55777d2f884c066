"""Whole crawls that render pages, with a renderer that has no browser."""

from __future__ import annotations

from pathlib import Path

from crawling import Pages, crawl_folder, page, robots
from lycosa.base.calls import RenderVerdict
from lycosa.base.model.end import End
from lycosa.synthetic import Response
from rendering import Renderers, rendering, script, shell

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
