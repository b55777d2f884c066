"""A small web server for a crawl that a browser watches: it notes when each request came.

It is the server of all names. Tests look at the requests to ``HOST``; another host keeps the crawl
from ending while that one is paused.
``/`` links to the pages. ``/hostile`` has a script that would mark whatever runs it. ``/missing``
is answered by 404 until ``is_repaired`` is set. robots.txt disallows ``/private``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "shop.example"
PAGES = 300  # so many that some wait whenever a test looks
SCRIPT = "<script>window.wasRun = true; document.title = 'taken over'; alert(1)</script>"
_ROBOTS = b"User-agent: *\nDisallow: /private\n"


class WatchedSite:
    """The requests to ``HOST`` so far, as pairs of time (monotonic) and path."""

    def __init__(self) -> None:
        self.requests: list[tuple[float, str]] = []
        self.is_repaired = False
        self._came = threading.Condition()

    def note(self, path: str) -> None:
        with self._came:
            self.requests.append((time.monotonic(), path))
            self._came.notify_all()

    def times(self, since: float = 0.0) -> list[float]:
        """When pages were asked for, robots.txt left out."""
        return [at for at, path in self.requests if at >= since and path != "/robots.txt"]

    def await_request(self, path: str = "", since: float = 0.0, patience_s: float = 120.0) -> float:
        """Wait for a request for a path, or for any page; gives its time."""

        def found() -> float:
            return next(
                (
                    at
                    for at, each in self.requests
                    if at >= since and each != "/robots.txt" and path in ("", each)
                ),
                0.0,
            )

        with self._came:
            assert self._came.wait_for(lambda: found() > 0, patience_s), (path, self.requests[-5:])
        return found()

    def await_silence(self, seconds: float, patience_s: float = 120.0) -> None:
        """Wait until no request came for so long."""
        deadline = time.monotonic() + patience_s
        with self._came:
            while self._came.wait(seconds):
                assert time.monotonic() < deadline, "requests still come"

    def body(self, path: str, is_watched: bool) -> tuple[int, str]:
        """Status and text; ``is_watched``: it was asked of ``HOST``."""
        if path == "/":
            links = "".join(f"<a href='/page{n}'>page {n}</a> " for n in range(PAGES))
            more = "<a href='/hostile'>h</a><a href='/missing'>m</a><a href='/private/x'>p</a>"
            # Of two hosts with the same page, the second one would have a duplicate.
            return 200, f"<title>Home</title>{more if is_watched else ''}{links}"
        if path == "/hostile":
            anchor = "<a href='/page1'>&lt;img src=x onerror=alert(2)&gt;</a>"
            text = "&lt;script&gt;window.wasRun = true&lt;/script&gt; as text"
            return (
                200,
                f"<title>&lt;script&gt;t&lt;/script&gt;</title>{SCRIPT}<p>{text}</p>{anchor}",
            )
        if path == "/missing":
            return (200, "<p>It is here again.</p>") if self.is_repaired else (404, "nothing")
        return 200, f"<title>{path}</title><p>The page {path} with some words of its own.</p>"


@contextmanager
def watched_site() -> Iterator[tuple[WatchedSite, int]]:
    """A site, and its port on loopback."""
    site = WatchedSite()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            is_watched = self.headers["Host"].startswith(HOST)
            if is_watched:
                site.note(self.path)
            status, text = site.body(self.path, is_watched)
            body, kind = text.encode(), "text/html; charset=utf-8"
            if self.path == "/robots.txt":
                status, body, kind = 200, _ROBOTS, "text/plain"
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield site, server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
