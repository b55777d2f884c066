"""A web of a few URLs whose answers a test writes down, and a crawl of it in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from judging import new_folder, quick_config
from lycosa.base.config.sections import Config
from lycosa.base.ports import ResolveError
from lycosa.base.reasons import Reason
from lycosa.synthetic import Response, SyntheticWeb, WebPlan
from virtual_crawl import VirtualCrawl

HTML = ("Content-Type", "text/html; charset=utf-8")
Answer = Response | Callable[[int, Mapping[str, str]], Response]
"""An answer, or a function of how often the URL was asked for before and of the request's
headers.
"""


def page(
    *links: str, text: str = "", headers: Sequence[tuple[str, str]] = (), latency_s: float = 0.05
) -> Response:
    """An HTML page with links; its text is its links unless given."""
    body = "".join(f'<a href="{link}">{link}</a>\n' for link in links)
    return Response(
        200, [HTML, *headers], f"<html><body>{text}{body}</body></html>".encode(), latency_s
    )


def moved(to: str, status: int = 302) -> Response:
    return Response(status, [("Location", to)], b"", 0.05)


def error(status: int, *headers: tuple[str, str]) -> Response:
    return Response(status, [HTML, *headers], b"<p>no", 0.05)


def first(count: int, before: Response, after: Response) -> Answer:
    """``before`` for the first ``count`` requests, then ``after``."""
    return lambda earlier, _: before if earlier < count else after


def robots(text: str) -> Response:
    return Response(200, [("Content-Type", "text/plain")], text.encode(), 0.02)


class ScriptedWeb:
    """Answers by URL; robots.txt that is not written down is absent, as is everything else."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.asked: Counter[str] = Counter()
        self.headers: dict[str, list[Mapping[str, str]]] = {}

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        earlier = self.asked[url]
        self.asked[url] += 1
        self.headers.setdefault(url, []).append(headers)
        answer = self.answers.get(url)
        if answer is None:
            return Response(404, [HTML], b"<p>nothing", 0.02)
        return answer if isinstance(answer, Response) else answer(earlier, headers)


class Names:
    """Names by table: addresses, or the reason why there are none. Others resolve to an address
    of their own, after ``latency_s``.
    """

    def __init__(
        self, known: Mapping[str, Sequence[str] | Reason] | None = None, latency_s: float = 0.02
    ) -> None:
        self.known = dict(known or {})
        self.latency_s = latency_s
        self.asked: Counter[str] = Counter()
        self._own: dict[str, str] = {}

    async def resolve(self, name: str) -> Sequence[str]:
        self.asked[name] += 1
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        found = self.known.get(name)
        if isinstance(found, Reason):
            raise ResolveError(name, found, "scripted")
        return found or [self._own.setdefault(name, f"198.18.1.{len(self._own) + 1}")]

    async def close(self) -> None:
        return None


def scripted_crawl(
    folder: Path,
    answers: Mapping[str, Answer],
    config: Config | None = None,
    names: Names | None = None,
) -> tuple[VirtualCrawl, ScriptedWeb]:
    """A crawl of such a web, and the web."""
    web = ScriptedWeb(answers)
    crawl = VirtualCrawl(new_folder(folder), SyntheticWeb(WebPlan()), config or quick_config())
    crawl.answers, crawl.resolver = web, names or Names()
    crawl.longest_s = 20_000
    return crawl, web
