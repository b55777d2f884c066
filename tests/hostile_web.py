"""The hostile web: one host for each attack, next to an ordinary synthetic web.

Host ``NAME.hostile.example`` answers ``/`` with the attack of that name. For attacks by robots.txt
and sitemaps the front page is ordinary and the attack is in that file.
``closes-everywhere-FRAMING`` links to one URL for every byte after which its server closes. A crawl
should exclude ``/never/``, the target of the documents' links, to meet each attack once.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from hostile_documents import BOMBS, DOCUMENTS, QUEUED, ROBOTS, SITEMAPS, html
from hostile_wire import PROGRAMS, closing_after, framings
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.synthetic_web import Responder

DOMAIN = ".hostile.example"
_CLOSES = "closes-everywhere-"
_REDIRECTS = ("redirects-to-itself", "redirects-over-hosts", "redirects-for-ever")
QUEUED_URLS = 600
_FIXED = ("/", "/robots.txt", "/sitemap.xml")
_NOT_FOUND = Response(404, [("Content-Type", "text/plain")], b"Not found.\n")


def names() -> list[str]:
    """The names of all attacks, as in their host names."""
    closes = [f"{_CLOSES}{framing}" for framing in framings()]
    return [*BOMBS, *PROGRAMS, *_REDIRECTS, *closes, *DOCUMENTS, *ROBOTS, *SITEMAPS]


class HostileWeb:
    """Attacks on hosts below ``DOMAIN``; ``ordinary`` answers for all other hosts."""

    def __init__(self, ordinary: Responder) -> None:
        self._ordinary = ordinary
        self._made: dict[str, Response] = {}

    def __repr__(self) -> str:
        return f"HostileWeb({len(names())} attacks beside {self._ordinary!r})"

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        """The answer to a GET."""
        parts = urlsplit(url)
        host, colon, port = parts.netloc.partition(":")
        if not host.endswith(DOMAIN):
            return self._ordinary.respond(url, at, headers)
        answer = self._made.get(url)
        if answer is None:
            answer = _answer(
                host.removesuffix(DOMAIN), parts.path, f"http://{parts.netloc}", colon + port
            )
            if parts.path in _FIXED:
                self._made[url] = answer
        return answer

    def prepare(self, port: int) -> None:
        """Make all attacks beforehand, which takes seconds.

        A server that makes an attack at its first request is busy for that long.
        """
        for name in names():
            for path in _FIXED:
                self.respond(f"http://{name}{DOMAIN}:{port}{path}", 0.0, {})


def _answer(name: str, path: str, origin: str, port: str) -> Response:
    if path == "/robots.txt":
        return _robots(name, origin)
    if path.startswith("/sitemap") and name in SITEMAPS:
        return SITEMAPS[name](origin)
    if path.startswith("/after/") and name.startswith(_CLOSES):
        framing, number = name.removeprefix(_CLOSES), int(path.removeprefix("/after/"))
        return Response(200, [], program=closing_after(framing, number))
    return _front(name, origin, port) if path == "/" else _NOT_FOUND


def _robots(name: str, origin: str) -> Response:
    if name in ROBOTS:
        return ROBOTS[name](origin)
    line = f"Sitemap: {origin}/sitemap.xml\n" if name in SITEMAPS else ""
    return Response(
        200, [("Content-Type", "text/plain")], f"User-agent: *\nAllow: /\n{line}".encode()
    )


def _front(name: str, origin: str, port: str) -> Response:
    make = BOMBS.get(name) or DOCUMENTS.get(name)
    if make is not None:
        return make(origin)
    if name in PROGRAMS:
        return Response(200, [], program=PROGRAMS[name])
    if name.startswith(_CLOSES):
        whole = len(framings()[name.removeprefix(_CLOSES)])
        return html("".join(f"<a href=/after/{i}>{i}</a> " for i in range(whole)), title=name)(
            origin
        )
    if name in QUEUED:
        return html(
            "".join(f"<a href={QUEUED[name](i)}>{i}</a> " for i in range(QUEUED_URLS)), title=name
        )(origin)
    if name.rpartition(".")[2] in _REDIRECTS:
        return Response(302, [("Location", _target(name, port))])
    return html(f"<p>The front page of {name}, where nothing is wrong.</p>" * 5, title=name)(origin)


def _target(name: str, port: str) -> str:
    """The next redirect: to itself, around four hosts, or to the next of endless hosts."""
    before, dot, base = name.rpartition(".")
    turn = int(before.removeprefix("turn-")) if dot else 0
    if base == "redirects-to-itself":
        return "/"
    if base == "redirects-over-hosts" and turn == 3:
        return f"http://{base}{DOMAIN}{port}/"
    return f"http://turn-{turn + 1}.{base}{DOMAIN}{port}/"
