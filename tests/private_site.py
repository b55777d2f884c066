"""A web server with a host that wants a login and one that does not, for crawls with request rules."""

from __future__ import annotations

import base64
import io
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pyarrow.parquet as pq

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LOGIN, KEY, COOKIE = "hedda:Zk7-a", "Zk7-b", "Zk7-c"
BASIC = "Basic " + base64.b64encode(LOGIN.encode()).decode()
SECRETS = (b"Zk7-", base64.b64encode(LOGIN.encode()))


class Asked(NamedTuple):
    """One request, as the server saw it. ``named`` are the names of its headers."""

    host: str
    path: str
    named: frozenset[str]
    status: int


class PrivateSites(ThreadingHTTPServer):
    """``in.test`` wants the login and the key; it and ``out.test`` have ``pages`` pages each, which
    have validators and link to each other.
    """

    daemon_threads = True

    def __init__(self, pages: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages, self.asked = pages, list[Asked]()
        self.news = threading.Condition()

    def await_that(self, is_so: Callable[[], bool], longest_s: float = 180.0) -> None:
        """Wait until something holds that requests can change."""
        with self.news:
            assert self.news.wait_for(is_so, longest_s), self.asked

    def await_asked(self, number: int) -> None:
        """Wait for so many requests in all."""
        self.await_that(lambda: len(self.asked) >= number)

    def of(self, host: str) -> list[Asked]:
        """The requests of one host; of both without a name."""
        return [each for each in self.asked if host in ("", each.host)]

    @property
    def first(self) -> tuple[str, str]:
        """The first pages of both hosts."""
        return f"http://in.test:{self.server_port}/", f"http://out.test:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PrivateSites

    def do_GET(self) -> None:
        host = self.headers["Host"].partition(":")[0]
        tag = f'"v1-{host}{self.path}"'
        status, body = 200, self._page(host)
        sent = self.headers.get
        if host == "in.test" and (sent("Authorization"), sent("X-Key")) != (BASIC, KEY):
            status, body = 401, "<title>Login</title>"
        elif self.path == "/robots.txt":
            status, body = 404, ""
        elif sent("If-None-Match") == tag:
            status, body = 304, ""
        data = body.encode()
        self.send_response(status)
        self.send_header("ETag", tag)
        if status != 304:
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        with self.server.news:
            names = frozenset(each.lower() for each in self.headers)
            self.server.asked.append(Asked(host, self.path, names, status))
            self.server.news.notify_all()

    def _page(self, host: str) -> str:
        links = "".join(f"<a href=/p{number}>n</a>" for number in range(self.server.pages))
        if host == "in.test":
            links += f"<a href={self.server.first[1]}>out</a>"
        words = (
            f"marker-{host.partition('.')[0]} of {self.path}: enough words to be a page of its own"
        )
        return f"<title>{host}{self.path}</title><p>{words}</p>{links if self.path == '/' else ''}"

    def log_message(self, *_: object) -> None:
        """The server keeps what it was asked."""


@contextmanager
def private_sites(pages: int) -> Iterator[PrivateSites]:
    """The server, while it runs."""
    with PrivateSites(pages) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def plain(data: bytes) -> Iterable[bytes]:
    """Data as it is, and what its compressed parts hold, one after the other; Parquet as its rows."""
    yield data
    if data[:4] == b"PAR1":
        yield repr(pq.read_table(io.BytesIO(data)).to_pylist()).encode()
    while data[:3] == b"\x1f\x8b\x08" or data[:4] == b"\x28\xb5\x2f\xfd":
        part: Any = zlib.decompressobj(31) if data[0] == 0x1F else zstd.ZstdDecompressor()
        yield part.decompress(data)
        data = part.unused_data
