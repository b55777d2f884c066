"""The synthetic web: a response for every URL, computed at the request.

``respond`` is a function of URL, time and request headers. The only state is a counter for URLs
whose response depends on the number of earlier requests (429 at first, then a page). So a web of
any size needs no memory, and two crawls of the same plan get the same web, in any process.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from email.utils import formatdate, parsedate_to_datetime
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from lycosa.synthetic import misbehaviours, oracle, synthetic_robots
from lycosa.synthetic.bad_answers import MisbehaviourRequest
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.synthetic_hosts import Hosts, host_name, number, share
from lycosa.synthetic.synthetic_pages import Pages, Sketch

_HTML = ("Content-Type", "text/html; charset=utf-8")
_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


class Responder(Protocol):
    """Anything that the server and the in-process fetcher can serve."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response: ...


class UrlParts(msgspec.Struct, frozen=True, gc=False):
    """The parts of a URL: host number, ``:port`` or empty, path, query."""

    host: int
    port: str
    path: str
    query: str

    @property
    def origin(self) -> str:
        """Scheme and authority."""
        return f"http://{host_name(self.host)}{self.port}"


def _text(status: int, text: str, kind: str = "text/plain; charset=utf-8") -> Response:
    return Response(status, [("Content-Type", kind)], text.encode())


class SyntheticWeb:
    """The web of a plan."""

    def __init__(self, plan: WebPlan) -> None:
        _check_names(plan)
        self.plan = plan
        self.hosts = Hosts(plan)
        self.pages = Pages(self.hosts)
        self._requests: dict[str, int] = {}

    def seed_url(self, host: int = 0, port: int = 80) -> str:
        """The front page of a host."""
        return f"http://{host_name(host)}{'' if port == 80 else f':{port}'}/"

    def place(self, url: str) -> UrlParts | None:
        """The parts of a URL, ``None`` outside this web."""
        parts = urlsplit(url)
        host = self.hosts.find(parts.hostname or "")
        if host is None or parts.scheme != "http":
            return None
        port = parts.netloc.partition(":")[2]
        return UrlParts(host, f":{port}" if port else "", parts.path or "/", parts.query)

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        """The response to a GET at a time (seconds since 1970).

        The request's ``headers`` have names in lower case.
        """
        place = self.place(url)
        if place is None:
            return _text(404, "No such host on this web.\n")
        response = self._answer(place, url, at, headers)
        latency = self.hosts.latency_s(place.host) * (
            0.5 + share(self.plan.seed, "latency", url, int(at))
        )
        fields = [("Date", formatdate(at, usegmt=True)), ("Server", "synthetic"), *response.headers]
        return Response(
            response.status,
            fields,
            response.body,
            latency + response.latency_s,
            response.behaviour,
            response.chunked,
        )

    def _answer(self, place: UrlParts, url: str, at: float, headers: Mapping[str, str]) -> Response:
        if place.path.startswith("/bad/"):
            visit = MisbehaviourRequest(
                place.origin, query=place.query, earlier=self._count(url), at=at
            )
            found = misbehaviours.misbehaviour_answer(place.path, visit)
        elif place.path.startswith(("/robots", "/static/", "/sitemap.xml", "/feed.xml")):
            found = self._file(place, url)
        else:
            found = self._page(place, url, at, headers)
        return found or _text(
            404, "<!DOCTYPE html><title>Not found</title><p>There is no such page.", _HTML[1]
        )

    def _count(self, url: str) -> int:
        earlier = self._requests.get(url, 0)
        self._requests[url] = earlier + 1
        return earlier

    def _file(self, place: UrlParts, url: str) -> Response | None:
        if place.path == "/static/style.css":
            return _text(200, "body { margin: 2em auto; max-width: 40em }\n", "text/css")
        if place.path == "/static/logo.png":
            return Response(200, [("Content-Type", "image/png")], _PNG)
        if place.path == "/sitemap.xml" and self.plan.sitemaps:
            entries = "".join(
                f"<url><loc>{place.origin}{path}</loc></url>\n"
                for path in self._all_paths(place.host)
            )
            text = (
                '<?xml version="1.0" encoding="UTF-8"?>\n<urlset'
                f' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}</urlset>\n'
            )
            return _text(200, text, "application/xml")
        if place.path == "/feed.xml" and self.plan.feeds:
            entries = "".join(
                f"<item><title>News</title><link>{place.origin}{path}</link></item>\n"
                for path in self._newest_paths(place.host)
            )
            head = (
                f"<title>News</title><link>{place.origin}/</link><description>What is"
                " new</description>"
            )
            text = (
                '<?xml version="1.0" encoding="UTF-8"?>\n<rss'
                f' version="2.0"><channel>{head}\n{entries}</channel></rss>\n'
            )
            return _text(200, text, "application/rss+xml")
        variant = synthetic_robots.RobotsVariant(self.hosts.robots_variant(place.host))
        earlier = self._count(url) if variant is synthetic_robots.RobotsVariant.FLAKY else 0
        # Every second host's file is on the far hub; the others' redirect there via the near hub.
        near, far = (f"http://{host_name(hub)}{place.port}" for hub in self.hosts.hubs())
        kept = synthetic_robots.kept_for_another(place.path, far)
        if kept is not None:
            return kept
        elsewhere = (
            f"{far}/robots-of-{place.host}.txt"
            if place.host % 2
            else f"{near}/robots-by-{place.host}.txt"
        )
        return synthetic_robots.robots_answer(
            variant,
            place.path,
            earlier,
            f"{place.origin}/sitemap.xml" if self.plan.sitemaps else "",
            elsewhere,
        )

    def _all_paths(self, host: int) -> list[str]:
        return [
            self.pages.path(host, page) for page in range(min(50_000, self.hosts.page_count(host)))
        ]

    def _newest_paths(self, host: int) -> list[str]:
        count = self.hosts.page_count(host)
        return [self.pages.path(host, page) for page in range(max(0, count - 20), count)]

    def _page(
        self, place: UrlParts, url: str, at: float, headers: Mapping[str, str]
    ) -> Response | None:
        page = self.pages.find(place.host, place.path)
        if page is None or place.query not in ("", "view=print"):
            return None
        if self._fails(url):
            return _text(503, "<!DOCTYPE html><title>Sorry</title><p>Out of order.", _HTML[1])
        sketch = self._sketch_page(place, page)
        if sketch.location:
            return Response(sketch.status, [_HTML, ("Location", sketch.location)], b"<p>Moved.\n")
        if not sketch.html:
            return (
                None
                if sketch.status == 404
                else _text(sketch.status, "<p>Gone for good.\n", _HTML[1])
            )
        version, modified = self.pages.version(place.host, page, at)
        look = number(self.plan.seed, "answer", url)
        fields = [_HTML]
        if look & 3:  # one page in four has no validators
            etag = f'"{number(self.plan.seed, "etag", url, version):016x}"'
            fields += [("ETag", etag), ("Last-Modified", formatdate(modified, usegmt=True))]
            if _is_unchanged(headers, etag, modified):
                return Response(304, fields[1:])
        body = self.pages.body(place.host, page, sketch, at)
        if (look >> 8 & 0xFFFF) / 65536 < self.plan.gzip and "gzip" in headers.get(
            "accept-encoding", ""
        ):
            fields += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
            body = _pack(body)
        return Response(
            200, fields, body, chunked=(look >> 24 & 0xFFFF) / 65536 < self.plan.chunked
        )

    def _fails(self, url: str) -> bool:
        """Whether this request gets a temporary error.

        Only the first two requests of a URL can, so three tries always suffice.
        """
        if not self.plan.error_rate:
            return False
        earlier = self._count(url)
        return earlier < 2 and share(self.plan.seed, "error", url, earlier) < self.plan.error_rate

    def _sketch_page(self, place: UrlParts, page: int) -> Sketch:
        make = self.pages.variant if place.query else self.pages.sketch
        return make(place.host, page, place.port)

    def sketch(self, url: str) -> Sketch:
        """What a correct crawler finds at a URL after temporary errors, without the bytes."""
        place = self.place(url)
        if place is None:
            return Sketch(status=404)
        if place.path.startswith("/bad/"):
            return misbehaviours.sketch(place.path, place.origin)
        page = self.pages.find(place.host, place.path)
        if page is not None and place.query in ("", "view=print"):
            return self._sketch_page(place, page)
        if place.path in ("/feed.xml", "/sitemap.xml"):
            found = self._file(place, url)
            return Sketch(status=found.status if found else 404)
        return Sketch(status=200 if place.path.startswith("/static/") else 404)

    def feed_entries(self, url: str) -> list[str]:
        """The URLs in a feed or a sitemap of this web."""
        place = self.place(url)
        if place is None or self.sketch(url).status != 200:
            return []
        paths = {"/feed.xml": self._newest_paths, "/sitemap.xml": self._all_paths}.get(place.path)
        # a feed also links to its site
        front = [f"{place.origin}/"] if place.path == "/feed.xml" else []
        return front + [place.origin + path for path in paths(place.host)] if paths else []

    def sitemap_of(self, url: str) -> str:
        """The sitemap named in the robots.txt of a URL's host, or the empty string."""
        place = self.place(url)
        if place is None or not self.plan.sitemaps:
            return ""
        variant = synthetic_robots.RobotsVariant(self.hosts.robots_variant(place.host))
        return f"{place.origin}/sitemap.xml" if synthetic_robots.has_sitemap_line(variant) else ""

    def verdict(self, url: str) -> oracle.Obstacle:
        """Whether the host answers at all, and whether its robots.txt allows a URL."""
        place = self.place(url)
        if place is None or self.hosts.is_dead(place.host):
            return oracle.Obstacle.UNREACHABLE
        variant = synthetic_robots.RobotsVariant(self.hosts.robots_variant(place.host))
        if not variant.is_reachable:
            return oracle.Obstacle.UNREACHABLE
        path = f"{place.path}?{place.query}" if place.query else place.path
        return (
            oracle.Obstacle.ALLOWED
            if synthetic_robots.may_fetch(variant, path)
            else oracle.Obstacle.DISALLOWED
        )

    def survey(self, seeds: Iterable[str], rules: oracle.OracleRules | None = None) -> oracle.Truth:
        """The required results of a correct crawl from these seeds."""
        return oracle.survey(self, seeds, rules or oracle.OracleRules())

    def reachable(self, seeds: Iterable[str], rules: oracle.OracleRules | None = None) -> set[str]:
        """The URLs that a correct crawl fetches as pages (status 200, HTML)."""
        return set(self.survey(seeds, rules).pages)


def _pack(body: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def _is_unchanged(headers: Mapping[str, str], etag: str, modified: float) -> bool:
    """RFC 9110 section 13.2.2: If-None-Match decides if present, otherwise If-Modified-Since."""
    known = headers.get("if-none-match", "")
    if known:
        return known.strip() == "*" or etag in (
            entry.strip().removeprefix("W/") for entry in known.split(",")
        )
    since = headers.get("if-modified-since", "")
    try:
        return bool(since) and int(modified) <= parsedate_to_datetime(since).timestamp()
    except ValueError:
        return False


def _check_names(plan: WebPlan) -> None:
    for name in plan.misbehaviours:
        if name not in misbehaviours.TABLE:
            raise ValueError(f"no misbehaviour is called {name!r}")
    for name in plan.robots_variants:
        synthetic_robots.RobotsVariant(name)
