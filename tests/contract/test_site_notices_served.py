"""A notice of a site that reaches a running crawl by HTTP: the key is fetched, then its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import httpx

from api_crawl import served_folder
from lycosa.synthetic import Response
from serving import served

KEY = "a1b2c3d4e5"


class Site:
    """Two pages that change at each request, a key file, and ``others``."""

    def __init__(self, others: int = 0) -> None:
        self.asked: Counter[str] = Counter()
        self._links = "".join(f'<a href="/{number}">more</a>' for number in range(others))

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        path = "/" + url.split("/", 3)[3]
        self.asked[path] += 1
        if path == "/robots.txt":
            return Response(404, [], b"", 0.0)
        if path == f"/{KEY}.txt":
            return Response(200, [("Content-Type", "text/plain")], KEY.encode(), 0.0)
        text = f'<title>{path}</title>{self.asked[path]} <a href="/page">page</a>{self._links}'
        return Response(200, [("Content-Type", "text/html")], text.encode(), 0.0)


def test_a_notice_has_a_known_page_fetched_and_adds_none(tmp_path: Path) -> None:
    site = Site()
    options = ("indexnow.accept=true", "politeness.delay_s=0.1s", "refetch.min_s=1s")
    with served(site) as port:
        seed = f"http://site.example:{port}/"
        given = [each for value in options for each in ("--set", value)]
        with served_folder(tmp_path / "c", [seed], *given) as crawl:
            crawl.await_answer("/api/v1/stats", lambda answer: answer.json()["captures"] >= 2)
            urls = [f"{seed}page", f"{seed}unknown"]
            notice = {"host": f"site.example:{port}", "key": KEY, "urlList": urls}

            def is_fetched_again(answer: httpx.Response) -> bool:
                # A notice of the second of the fetch says nothing new, so it is sent again.
                assert httpx.post(f"{crawl.url}/indexnow", json=notice).status_code == 202
                return site.asked["/page"] >= 2

            crawl.await_answer("/api/v1/stats", is_fetched_again)
            answer = crawl.await_answer(f"/api/v1/hosts/site.example:{port}", lambda _: True)
    assert site.asked[f"/{KEY}.txt"] == 1
    assert site.asked["/unknown"] == 0
    assert [each["source"] for each in answer.json()["signals"]] == ["indexnow"]
