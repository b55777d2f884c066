"""A site whose pages never end and hardly differ, and an honest site whose pages look alike.

``TrapSite`` has one folder for each ``Trap``. Its URLs pass the trap rules, which see one URL alone
(``stages.admit.traps``): dates are near, names of parameters are no known session ids. Each page is
a function of its URL. ``TemplateShop`` has product pages in one template: a long text that all
have, a name, a price, and a description of so many words. ``SeveralSites`` serves them
together with a synthetic web.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Mapping
from enum import Enum
from urllib.parse import urlsplit

import msgspec

from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.synthetic_hosts import number
from lycosa.synthetic.synthetic_web import Responder, SyntheticWeb
from lycosa.synthetic.word_list import sentences, topic_words

_HTML = ("Content-Type", "text/html; charset=utf-8")
_ARTICLES = 40  # articles of the site with session ids
_FACETS = {
    "colour": ("red", "blue", "green", "black", "white"),
    "size": ("s", "m", "l", "xl"),
    "sort": ("price", "name", "newest"),
    "view": ("grid", "list"),
    "show": ("12", "24", "48"),
}
_FIRST_DAY = datetime.date(2026, 1, 1)
_CHOOSING = frozenset({"colour", "size"})  # of the facets: the others only order and show
_DAYS = 3000  # from the first day on, within the years that the trap rule allows


class Trap(Enum):
    """A misbehaviour of the site; the value is its folder."""

    CALENDAR = "events"  # a page for each day, with links to the days around it
    FACETS = "shop"  # a page for each combination of filters and orders of one catalogue
    SESSION_IDS = "read"  # forty articles, under a new id in each link
    NEAR_COPIES = "offer"  # pages that differ in a number and a word, each with links to ten others


class TrapSite:
    """A responder for one host; ``traps`` are those that its front page links to."""

    def __init__(self, seed: int = 0, traps: tuple[Trap, ...] = tuple(Trap)) -> None:
        self._seed, self._traps = seed, traps
        chance = random.Random(number(seed, "trap"))
        self._vocabulary = topic_words(chance, "en", 400)
        self._words = {trap: " ".join(sentences(chance, self._vocabulary, 300)) for trap in Trap}
        self._articles = [
            " ".join(sentences(chance, self._vocabulary, 150)) for _ in range(_ARTICLES)
        ]
        self._items = [
            {name: chance.choice(values) for name, values in _FACETS.items()}
            | {"name": " ".join(chance.sample(self._vocabulary, 2))}
            for _ in range(60)
        ]

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        parts = urlsplit(url)
        _, folder, *rest = (*parts.path.split("/"), "")
        pages: dict[str, Callable[[str, str, str], Response]] = {
            Trap.CALENDAR.value: self._calendar,
            Trap.FACETS.value: self._facets,
            Trap.SESSION_IDS.value: self._session_ids,
            Trap.NEAR_COPIES.value: self._near_copies,
        }
        if parts.path == "/":
            starts = ["/events/2026-11-23", "/shop?view=grid", "/read/0?visit=0", "/offer/1"]
            links = [start for start, trap in zip(starts, Trap, strict=True) if trap in self._traps]
            return _document("Welcome", " ".join(self._articles[0].split()[:40]), links)
        page = pages.get(folder)
        if page is None or (not rest[0] and not parts.query):
            return Response(404, [_HTML], b"<p>There is nothing here.")
        return page(url, rest[0], parts.query)

    def _calendar(self, url: str, day: str, query: str) -> Response:
        try:
            date = datetime.date.fromisoformat(day)
        except ValueError:
            return Response(404, [_HTML], b"<p>No such day.")
        days = [date + datetime.timedelta(step) for step in (-365, -30, -7, -1, 1, 7, 30, 365)]
        near = [each for each in days if 0 <= (each - _FIRST_DAY).days < _DAYS]
        text = f"{date:%A, %d %B %Y}. {self._words[Trap.CALENDAR]} There are no events on this day."
        return _document("Events", text, [f"/events/{each}" for each in near])

    def _facets(self, url: str, _: str, query: str) -> Response:
        chosen = dict(each.partition("=")[::2] for each in query.split("&"))
        items = [
            each
            for each in self._items
            if all(each[name] == value for name, value in chosen.items() if name in _CHOOSING)
        ][:24]
        if chosen.get("sort") == "name":
            items.sort(key=lambda each: each["name"])
        names = ", ".join(each["name"] for each in items) or "No article has all that you want"
        links = [
            "/shop?"
            + "&amp;".join(f"{key}={each}" for key, each in {**chosen, name: value}.items())
            for name, values in _FACETS.items()
            for value in values
            if chosen.get(name) != value
        ]
        return _document("Shop", f"{names}. {self._words[Trap.FACETS]}", links)

    def _session_ids(self, url: str, article: str, query: str) -> Response:
        at = int(article) % _ARTICLES if article.isdigit() else 0
        chance = random.Random(number(self._seed, url))
        links = [
            f"/read/{chance.randrange(_ARTICLES)}?visit={chance.getrandbits(48):x}"
            for _ in range(12)
        ]
        return _document(f"Article {at}", self._articles[at], links)

    def _near_copies(self, url: str, offer: str, query: str) -> Response:
        chance = random.Random(number(self._seed, url))
        links = [f"/offer/{chance.randrange(10**9)}" for _ in range(10)]
        text = f"{chance.choice(self._vocabulary)} {offer}. {self._words[Trap.NEAR_COPIES]}"
        return _document("An offer", text, links)


class TemplateShop:
    """Product pages in one template, ``described`` with so many words; the text of all has 150."""

    def __init__(self, pages: int, described: int, seed: int = 0) -> None:
        self.pages = pages
        self._seed, self._described = seed, described
        chance = random.Random(number(seed, "shop", described))
        self._vocabulary = topic_words(chance, "en", 1200)
        self._template = " ".join(sentences(chance, self._vocabulary, 150))

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        name = urlsplit(url).path.rpartition("/")[2].removesuffix(".html")
        if name and not (name.isdigit() and int(name) < self.pages):
            return Response(404, [_HTML], b"<p>There is nothing here.")
        page = int(name or 0)
        chance = random.Random(number(self._seed, "product", page))
        title = " ".join(chance.sample(self._vocabulary, 3))
        price = f"{chance.randrange(100, 90_000) / 100:.2f} EUR"
        about = " ".join(chance.sample(self._vocabulary, self._described))
        links = [
            f"/product/{each % self.pages}.html"
            for each in (page + 1, page + 2, 2 * page + 1, 2 * page + 2, page * 7 + 3)
        ]
        return _document(title, f"{title}, {price}. {about}. {self._template}", links)


class SeveralSites:
    """A synthetic web, and responders for other hosts; each answer takes ``latency_s``."""

    def __init__(
        self, plan: WebPlan, sites: Mapping[str, Responder], latency_s: float = 0.1
    ) -> None:
        self.web, self.sites, self._latency_s = SyntheticWeb(plan), sites, latency_s

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        host = urlsplit(url).hostname or ""
        if urlsplit(url).path == "/robots.txt" and host in self.sites:
            return Response(404, [_HTML], b"", self._latency_s)
        found = self.sites.get(host, self.web).respond(url, at, headers)
        return msgspec.structs.replace(found, latency_s=self._latency_s)


def _document(title: str, text: str, links: list[str]) -> Response:
    anchors = "\n".join(f'<a href="{link}">more</a>' for link in links)
    body = f"<!DOCTYPE html>\n<title>{title}</title>\n<h1>{title}</h1>\n<p>{text}</p>\n{anchors}\n"
    return Response(200, [_HTML], body.encode())
