"""Pages: their kind, their links and their bytes.

All are functions of host number, page number and time. A page is first a ``Sketch`` (status, links,
directives), which the oracle walks without parsing HTML, and then bytes with the same content. Page
0 is ``/``. The others form a tree below it, so that every page is reachable unless a redirect, a
missing page or a nofollow is in between, and random links make the graph dense.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from enum import Enum
from functools import lru_cache

import msgspec
import xxhash

from lycosa.base.model.discovered import LinkKind
from lycosa.synthetic.synthetic_hosts import Hosts, host_name, number, share
from lycosa.synthetic.word_list import COMMON, SECTIONS, SLUGS, sentences, topic_words

_PATH = re.compile(r"/[a-z]+/[a-z]+-(\d{1,12})\.html")
_EPOCH = 1_600_000_000  # approximate last modification of pages that never change


class Species(Enum):
    """The kind of a page."""

    ORDINARY = "an ordinary page"
    REDIRECT = "redirects to an earlier page"
    GONE = "404 or 410"
    DUPLICATE = "the bytes of an earlier page"
    NEAR_DUPLICATE = "an earlier page with a few words changed"
    NOINDEX = "asks not to be indexed"
    NOFOLLOW = "asks that its links be not followed"


class Anchor(msgspec.Struct, frozen=True, gc=False):
    """A link: absolute URL without fragment, reference as written, kind, rel=nofollow."""

    url: str
    written: str
    kind: LinkKind = LinkKind.A
    nofollow: bool = False


class Sketch(msgspec.Struct, frozen=True):
    """A URL's response without its bytes.

    ``location`` is the absolute target of a redirect; ``html`` says that it is an HTML page with
    status 200; ``nofollow`` is the directive of the page; ``bad`` is the name of a misbehaviour.
    """

    status: int
    links: tuple[Anchor, ...] = ()
    location: str = ""
    html: bool = False
    noindex: bool = False
    nofollow: bool = False
    bad: str = ""


class Pages:
    """The ordinary pages of a web."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._plan = hosts.plan
        self._host_words = lru_cache(maxsize=256)(self._make_host_words)
        plan = hosts.plan
        shares = (
            plan.redirects,
            plan.gone,
            plan.duplicates,
            plan.near_duplicates,
            plan.noindex,
            plan.nofollow,
        )
        self._species = list(zip(list(Species)[1:], shares, strict=True))

    def path(self, host: int, page: int) -> str:
        if page == 0:
            return "/"
        draw = xxhash.xxh3_64_intdigest(b"%d/%d" % (host, page), self._plan.seed & 0xFFFFFFFF)
        return f"/{SECTIONS[draw & 7]}/{SLUGS[draw >> 8 & 31]}{SLUGS[draw >> 16 & 31]}-{page}.html"

    def find(self, host: int, path: str) -> int | None:
        """The page with this path, ``None`` when the host has none."""
        if path == "/":
            return 0
        match = _PATH.fullmatch(path)
        if not match:
            return None
        page = int(match[1])
        return (
            page
            if 0 < page < self._hosts.page_count(host) and self.path(host, page) == path
            else None
        )

    def species(self, host: int, page: int) -> Species:
        """The kind of the page. Page 0 is always ordinary."""
        if page == 0:
            return Species.ORDINARY
        draw = (
            xxhash.xxh3_64_intdigest(b"s%d/%d" % (host, page), self._plan.seed & 0xFFFFFFFF)
            * 2.0**-64
        )
        for species, part in self._species:
            if draw < part:
                return species
            draw -= part
        return Species.ORDINARY

    def original(self, host: int, page: int) -> int:
        """The ordinary page that a redirect or a duplicate refers to.

        It is the nearest one at or below half of the page's number.
        """
        page //= 2
        while self.species(host, page) is not Species.ORDINARY:
            page -= 1
        return page

    def sketch(self, host: int, page: int, port: str) -> Sketch:
        """The page's response; ``port`` is ``:8080`` or empty, and is used in every link."""
        species = self.species(host, page)
        base = f"http://{host_name(host)}{port}"
        if species is Species.REDIRECT:
            return Sketch(
                status=301 + page % 2, location=base + self.path(host, self.original(host, page))
            )
        if species is Species.GONE:
            return Sketch(status=404 if page % 2 else 410)
        source = (
            self.original(host, page)
            if species in (Species.DUPLICATE, Species.NEAR_DUPLICATE)
            else page
        )
        return Sketch(
            status=200,
            html=True,
            links=tuple(self._links(host, source, port)),
            noindex=species is Species.NOINDEX,
            nofollow=species is Species.NOFOLLOW,
        )

    def _links(self, host: int, page: int, port: str) -> list[Anchor]:
        plan, count = self._plan, self._hosts.page_count(host)
        chance = random.Random(number(plan.seed, "links", host, page))
        draw = chance.random
        wanted = max(1, int(plan.links * (0.5 + draw())))
        branches = max(2, plan.links // 3)
        # Links to the children in the tree come first: they make every page reachable.
        found = [
            self._local(host, child, port, draw)
            for child in range(page * branches + 1, min((page + 1) * branches + 1, count))
        ]
        # The front pages form a binary tree, so that every host is reachable from the first.
        if page == 0 and plan.cross_links > 0:
            found += [
                self._cross(other, 0, port)
                for other in (2 * host + 1, 2 * host + 2)
                if other < plan.hosts
            ]
        for _ in range(wanted - len(found)):
            if draw() < plan.cross_links:
                other = int(plan.hosts * draw() ** 2)
                found.append(
                    self._cross(other, int(self._hosts.page_count(other) * draw() ** 3), port)
                )
            else:
                found.append(self._local(host, int(count * draw() ** 2), port, draw))
        found += [
            self._bad(host, name, port)
            for name, rate in plan.misbehaviours.items()
            if draw() < rate
        ]
        if plan.feeds and page == 0:
            found.append(
                Anchor(f"http://{host_name(host)}{port}/feed.xml", "/feed.xml", LinkKind.ALTERNATE)
            )
        return found

    def _local(self, host: int, page: int, port: str, draw: Callable[[], float]) -> Anchor:
        path = self.path(host, page)
        look = draw()
        plan = self._plan
        if look < plan.variants:
            path += "?view=print"
        form = int(look * 4096) & 7  # low bits, independent of the shares compared above
        url = f"http://{host_name(host)}{port}{path}"
        written = (path, path, path, f"..{path}", f"..{path}", url, url[5:], path + "#more")[form]
        return Anchor(url, written, LinkKind.A, 1.0 - look < plan.nofollow_links)

    def _cross(self, host: int, page: int, port: str) -> Anchor:
        url = f"http://{host_name(host)}{port}{self.path(host, page)}"
        return Anchor(url, url)

    def _bad(self, host: int, name: str, port: str) -> Anchor:
        return Anchor(f"http://{host_name(host)}{port}/bad/{name}", f"/bad/{name}")

    def variant(self, host: int, page: int, port: str) -> Sketch:
        """``?view=print`` of a page: the same with a canonical link to the plain URL.

        Only ordinary pages have one.
        """
        if self.species(host, page) is not Species.ORDINARY:
            return Sketch(status=404)
        plain = self.sketch(host, page, port)
        url = f"http://{host_name(host)}{port}{self.path(host, page)}"
        return msgspec.structs.replace(
            plain, links=(*plain.links, Anchor(url, url, LinkKind.CANONICAL))
        )

    def version(self, host: int, page: int, at: float) -> tuple[int, float]:
        """How often the page has changed by ``at`` (seconds since 1970), and when last."""
        seed, rate = self._plan.seed, self._plan.changes_per_day
        if rate <= 0.0:
            return 0, float(_EPOCH + number(seed, "modified", host, page) % 100_000_000)
        interval = max(60.0, 86400.0 / rate * 2.0 * share(seed, "interval", host, page))
        phase = interval * share(seed, "phase", host, page)
        version = int((at - phase) // interval)
        return version, phase + version * interval

    def _make_host_words(self, host: int) -> list[str]:
        language = self._hosts.language(host)
        return (COMMON[language] * 3)[:128] + topic_words(
            random.Random(number(self._plan.seed, "words", host)), language, 64
        )

    def body(self, host: int, page: int, sketch: Sketch, at: float) -> bytes:
        """The HTML of a page (UTF-8)."""
        species = self.species(host, page)
        source = (
            self.original(host, page)
            if species in (Species.DUPLICATE, Species.NEAR_DUPLICATE)
            else page
        )
        language = self._hosts.language(host)
        chance = random.Random(number(self._plan.seed, "text", host, source))
        vocabulary = self._host_words(host) + topic_words(chance, language, 64)
        heading = " ".join(vocabulary[byte & 63 | 192] for byte in chance.randbytes(4)).capitalize()
        room = max(0, self._plan.page_bytes - 300 - 70 * len(sketch.links))
        text = sentences(chance, vocabulary, int(room * (0.5 + chance.random()) / 8.5))
        version, _ = self.version(host, source, at)
        if version:
            text += sentences(
                random.Random(number(self._plan.seed, "news", host, source, version)),
                vocabulary,
                24,
            )
        if species is Species.NEAR_DUPLICATE:
            text.append(f"{vocabulary[192 + page % 64].capitalize()} {page}.")
        return render(language, heading, text, sketch)


def render(language: str, title: str, text: list[str], sketch: Sketch) -> bytes:
    """An HTML document (UTF-8): head with directives, paragraphs of six sentences, links."""
    robots = ", ".join(
        word
        for word, is_set in (("noindex", sketch.noindex), ("nofollow", sketch.nofollow))
        if is_set
    )
    meta = f'<meta name="robots" content="{robots}">\n' if robots else ""
    extra = [link for link in sketch.links if link.kind is not LinkKind.A]
    for link in extra:
        feed = ' type="application/rss+xml"' if link.kind is LinkKind.ALTERNATE else ""
        meta += f'<link rel="{link.kind.name.lower()}"{feed} href="{link.written}">\n'
    paragraphs = "\n".join(f"<p>{' '.join(text[i : i + 6])}</p>" for i in range(0, len(text), 6))
    items = "\n".join(
        f"<li><a{' rel=nofollow' if link.nofollow else ''}"
        f' href="{link.written}">{link.written.rpartition("/")[2] or "Start"}</a></li>'
        for link in sketch.links
        if link.kind is LinkKind.A
    )
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta'
        f' charset="utf-8">\n<title>{title}</title>\n<meta name="description" content="{title}:'
        f' {" ".join(text[:1])}">\n{meta}<link rel="stylesheet"'
        f' href="/static/style.css">\n</head>\n<body>\n<h1>{title}</h1>\n<img'
        f' src="/static/logo.png" alt="">\n{paragraphs}\n<ul>\n{items}\n</ul>\n</body>\n</html>\n'
    ).encode()
