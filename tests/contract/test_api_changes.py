"""``GET /changes`` and the page of two captures, over a crawl that refetches its pages all the time,
is killed, and continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api_crawl import ApiCrawl, served_folder
from crawling import HTML, page
from lycosa.synthetic import Response
from serving import served

GONE = Response(404, [HTML], b"<p>There is nothing here any more.")
SETTINGS = (
    *("--set", "politeness.delay_s=50ms", "--set", "politeness.jitter=0"),
    *("--set", "refetch.first_s=1", "--set", "refetch.min_s=1", "--set", "refetch.max_s=1"),
    *("--set", "refetch.gone_first_s=1", "--set", "store.segment_age_s=2"),
    *("--api-rate", "9999"),
)


class Site:
    """A page that changes twice, one that stays, one that goes away and comes back."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.is_changed = False

    def respond(self, url: str, at: float, headers: object) -> Response:
        path = "/" + url.split("/", 3)[3]
        self.asked[path] = self.asked.get(path, 0) + 1
        return {
            "/": page("/changes", "/stays", "/flees", text="the start"),
            "/changes": page(text="price 21.90" if self.is_changed else "price 19.90"),
            "/stays": page(text="it stays"),
            "/flees": GONE if self.is_changed else page(text="here"),
        }.get(path, Response(404, [HTML], b"nothing"))


class Reader:
    """A client that keeps the cursor. ``told`` are the changes by path, in order."""

    def __init__(self) -> None:
        self.cursor, self.told = "", dict[str, list[str]]()

    def read(self, crawl: ApiCrawl, limit: int = 2) -> None:
        while True:
            answer = httpx.get(
                f"{crawl.url}/api/v1/changes", params={"since": self.cursor, "limit": limit}
            )
            assert answer.status_code == 200, answer.text
            found = answer.json()
            assert len(found["rows"]) <= limit
            for row in found["rows"]:
                self.told.setdefault("/" + row["url"].split("/", 3)[3], []).append(row["change"])
            self.cursor = found["cursor"]
            if not found["has_more"] and not found["silent"]:
                return

    def read_until(self, crawl: ApiCrawl, path: str, last: str, times: int = 1) -> None:
        """Until the last change of a path is this one, and has been told so often."""

        def is_there(answer: httpx.Response) -> bool:
            if answer.status_code == 200:
                self.read(crawl)
            told = self.told.get(path, [""])
            return told[-1] == last and told.count(last) >= times

        crawl.await_answer("/api/v1/stats", is_there)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[Site, Path, list[str]]]:
    site = Site()
    with served(site) as port:
        yield site, tmp_path / "c", [f"http://127.0.0.1:{port}/"]


def test_a_client_with_a_cursor_is_told_each_change_once_across_a_kill(
    started: tuple[Site, Path, list[str]],
) -> None:
    site, folder, seeds = started
    reader = Reader()
    with served_folder(folder, seeds, *SETTINGS) as crawl:
        reader.read_until(crawl, "/flees", "new")
        site.is_changed = True
        reader.read_until(crawl, "/flees", "gone")
        reader.read_until(crawl, "/changes", "changed")
        url = f"{seeds[0]}changes"
        shown = crawl.await_answer(
            f"/captures/diff?url={url}", lambda each: each.status_code == 200
        ).text
        assert "<del>price 19.90</del>" in shown and "<ins>price 21.90</ins>" in shown
        assert (
            "/captures/diff?"
            in crawl.await_answer(f"/captures?url={url}", lambda each: "compare" in each.text).text
        )
        assert "what changed last" in httpx.get(f"{crawl.url}/urls?url={url}").text
        crawl.kill()
    with served_folder(folder, [], *SETTINGS) as crawl:
        site.is_changed = False
        reader.read_until(crawl, "/flees", "back")
        reader.read_until(crawl, "/changes", "changed", times=2)
        reader.read(crawl)
        assert reader.told == {
            "/": ["new"],
            "/stays": ["new"],
            "/changes": ["new", "changed", "changed"],
            "/flees": ["new", "gone", "back"],
        }
        refused(crawl)
        restricted(crawl, seeds[0])


def refused(crawl: ApiCrawl) -> None:
    for since, told in {
        "yesterday": "neither a cursor of changes nor a time",
        "changes/00000000/0:0.1": "cursor of the crawl 00000000",
        "changes/x": "no cursor of changes",
    }.items():
        answer = httpx.get(f"{crawl.url}/api/v1/changes", params={"since": since})
        assert answer.status_code == 422 and told in answer.json()["detail"], answer.text
    wrong = httpx.get(f"{crawl.url}/api/v1/changes", params={"change": "same"})
    assert wrong.status_code == 422


def restricted(crawl: ApiCrawl, seed: str) -> None:
    def rows(**params: object) -> list[str]:
        answer = httpx.get(f"{crawl.url}/api/v1/changes", params=params)  # type: ignore[arg-type]
        return [row["change"] for row in answer.json()["rows"]]

    assert set(rows(change="gone,back")) == {"gone", "back"}
    assert rows(host="other.example") == []
    assert len(rows(host=seed.split("/")[2])) == len(rows())
    assert rows(since="2100-01-01") == []
