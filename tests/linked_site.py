"""A site with one of each thing that can be wrong with a link, and the other sites it links to.

One server on loopback answers for all hosts of ``.test`` by the Host header. ``SITE`` is the site
that is checked; what each page is for is said next to it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, dict[str, str], str]

_HTML = "text/html; charset=utf-8"


def page(body: str, status: int = 200) -> Answer:
    return status, {"Content-Type": _HTML}, f"<!doctype html><title>t</title>\n{body}"


def moved(to: str, status: int = 302) -> Answer:
    return status, {"Location": to}, ""


def plain(status: int, body: str = "", kind: str = "text/plain") -> Answer:
    return status, {"Content-Type": kind}, body


LONG = "<p>filler text</p>\n" * 8000  # 152 kB: beyond the cut of other sites

ANSWERS: dict[str, dict[str, Answer]] = {
    "site.test": {
        "/robots.txt": plain(
            200,
            "User-agent: *\nDisallow: /private\n\nSitemap: {own}/map.xml\n"
            "Sitemap: {own}/no-map.xml\nSitemap: {own}/second\n",
        ),
        "/map.xml": plain(
            200,
            '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
            "<url><loc>{own}/</loc></url><url><loc>{own}/second</loc></url>"
            "<url><loc>{own}/orphan</loc></url><url><loc>{own}/listed-and-gone</loc></url>"
            "</urlset>",
            "application/xml",
        ),
        "/": page(
            '<h1 id="title">Home</h1><a name="named">here</a>\n'
            '<a href="/second">second</a>\n'
            '<a href="/gone">a page that is gone</a>\n'  # line 4
            '<a href="/server-error">fails</a>\n'
            '<a href="/old">moved for good</a>\n'
            '<a href="/loop-a">loops</a>\n'
            '<a href="/to-gone">redirect to a page that is gone</a>\n'
            '<a href="/private/page">robots forbid it</a>\n'
            '<a href="#title">fine</a> <a href="#named">fine</a> <a href="#top">fine</a>\n'
            '<a href="#nowhere">no such place</a>\n'
            '<a href="/second#part">fine</a> <a href="/second#lost">lost</a>\n'
            '<a href="/second#:~:text=words">fine</a>\n'
            '<a href="mailto:a@b.example">mail</a> <a href="tel:+123">call</a>\n'
            '<a href="javascript:void(0)">run</a> <a href="http://exa mple/">no URL</a>\n'
            '<a href="htp://site.test/">typo</a>\n'
            '<img src="/fine.png"> <img src="/missing.png">\n'
            '<script src="/missing.js"></script><link rel="stylesheet" href="/style.css">\n'
            '<a href="http://other.test{port}/">other</a>\n'
            '<a href="http://other.test{port}/missing">other, missing</a>\n'
            '<a href="http://other.test{port}/long#end">far down</a>\n'
            '<a href="http://other.test{port}/long#not-there">not there</a>\n'
            '<a href="http://busy.test{port}/">busy</a>\n'
            '<a href="http://other.test{port}/login">login</a>\n'
            '<a href="http://closed.test{port}/forbidden">robots of the other site</a>\n'
            '<a href="http://site.test:1/">no server</a>\n'
            '<a href="http://down.test{port}/">down for an hour</a>\n'
        ),
        "/second": page('<p id="part">part</p><a href="/">home</a><a href="/gone">gone</a>'),
        "/orphan": page('<a href="/">home</a>'),
        "/old": moved("/older", 301),
        "/older": moved("/new", 308),
        "/new": page("new"),
        "/loop-a": moved("/loop-b"),
        "/loop-b": moved("/loop-a"),
        "/to-gone": moved("/gone"),
        "/server-error": plain(500, "oops"),
        "/fine.png": plain(200, "png", "image/png"),
        "/style.css": plain(200, "b { background: url(/missing-too.png) }", "text/css"),
    },
    "other.test": {
        "/": page('<a href="/not-followed">own link</a><img src="/not-loaded.png">'),
        "/long": page(LONG + '<p id="end">end</p>'),
        "/login": plain(403),
    },
    "busy.test": {"/": plain(429)},
    "down.test": {"/": (503, {"Retry-After": "3600"}, "")},
    "closed.test": {"/robots.txt": plain(200, "User-agent: *\nDisallow: /forbidden\n")},
}


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that the crawler cuts is no error."""


class LinkedSite:
    """The server; ``asked`` counts requests by host and path, ``sent`` bytes of bodies."""

    def __init__(self, answers: dict[str, dict[str, Answer]] | None = None) -> None:
        self.answers = ANSWERS if answers is None else answers
        self.asked: Counter[tuple[str, str]] = Counter()
        self.server = _Server(("127.0.0.1", 0), self._handler())
        self.port = self.server.server_address[1]
        self.own = f"http://site.test:{self.port}"

    def answer(self, host: str, path: str) -> Answer:
        self.asked[host, path] += 1
        status, headers, body = self.answers.get(host, {}).get(path, plain(404, "not here"))
        places = {"{own}": self.own, "{port}": f":{self.port}"}
        for name, value in places.items():
            body = body.replace(name, value)
        return status, headers, body

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                host = self.headers.get("Host", "").partition(":")[0]
                status, headers, body = site.answer(host, self.path)
                content = body.encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                try:
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True  # the crawler has read enough

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@contextmanager
def linked_site(answers: dict[str, dict[str, Answer]] | None = None) -> Iterator[LinkedSite]:
    """The server in a thread."""
    site = LinkedSite(answers)
    thread = threading.Thread(target=site.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        thread.join()
        site.server.server_close()
