"""A site whose answers have every form that a record must keep, on real sockets, which remembers
each byte that it was asked and said.

Paths that begin with ``/same-`` have one body; those with an ETag answer 304 when it is sent back.
The request and the answer are kept side by side, so that a record can be held against both.
"""

from __future__ import annotations

import gzip
import socket
import socketserver
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

import brotli
from backports import zstd

TAG = b'ETag: "1"'
HTML = b"Content-Type: text/html; charset=utf-8"
BODY_LIMIT = 400_000  # for crawls of this site: a longer body is cut


class Exchange(NamedTuple):
    """What was asked, and what was said: header block, and the body without its transfer coding."""

    request: bytes
    head: bytes
    payload: bytes

    @property
    def status(self) -> int:
        return int(self.head.split(None, 2)[1])


class Answer(NamedTuple):
    """An answer: header fields, body, and how the body is framed (length, chunked, close or
    none).
    """

    fields: Sequence[bytes]
    payload: bytes
    framing: str = "length"
    status: bytes = b"HTTP/1.1 200 OK"

    def head(self) -> bytes:
        """The header block."""
        framing = {
            "length": [b"Content-Length: %d" % len(self.payload)],
            "chunked": [b"Transfer-Encoding: chunked"],
        }
        return b"\r\n".join((self.status, *self.fields, *framing.get(self.framing, []), b"", b""))

    def body(self) -> bytes:
        """The body as it goes over the wire."""
        if self.framing != "chunked":
            return self.payload
        cuts = range(0, len(self.payload), 1 + len(self.payload) // 3)
        chunks = (self.payload[cut : cut + 1 + len(self.payload) // 3] for cut in cuts)
        return (
            b"".join(b"%x;name=value\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
            + b"0\r\nX-Trailer: late\r\n\r\n"
        )


def text(number: int, size: int = 3000) -> bytes:
    """A page of its own: words by number, so that none is nearly another."""
    words = Random(number)
    return (
        b"<p>"
        + " ".join(f"w{words.randrange(10**9)}" for _ in range(size // 10)).encode()
        + b"</p>"
    )


def answers() -> dict[str, Answer]:
    """The site, by target as it is asked for."""
    same = text(99)
    large = Random(7).randbytes(200_000)
    png = b"\x89PNG\r\n\x1a\n" + Random(8).randbytes(70_000)
    mime = b"Content-Type: application/octet-stream"
    coded = {
        "gzip": gzip.compress,
        "br": brotli.compress,
        "zstd": zstd.compress,
        "deflate": zlib.compress,
    }
    pages = {
        "/plain": Answer([HTML, TAG], text(1)),
        "/chunked": Answer([HTML, TAG], text(2), "chunked"),
        "/chunked-with-length": Answer([HTML, TAG, b"Content-Length: 0"], text(14), "chunked"),
        "/chunked-with-lengths": Answer(
            [b"content-length: 7", HTML, b"Content-Length: 7"], text(15), "chunked"
        ),
        "/close": Answer([HTML, b"Connection: close"], text(3), "close"),
        "/http10": Answer([HTML], text(4), "close", b"HTTP/1.0 200 OK"),
        "/no-reason": Answer([HTML], text(5), status=b"HTTP/1.1 200"),
        "/empty": Answer([HTML], b""),
        "/no-content": Answer([b"X-Note: nothing"], b"", "none", b"HTTP/1.1 204 No Content"),
        "/missing": Answer([HTML], text(6), status=b"HTTP/1.1 404 Not Found"),
        "/moved": Answer([b"Location: /n\xc3\xa9w"], b"", status=b"HTTP/1.1 301 Moved"),
        "/latin": Answer([HTML, b"X-Coffee: caf\xe9", b"Server: a, b", b"server: c"], text(7)),
        "/n%C3%A9w": Answer([HTML], text(8)),
        "/stra%C3%9Fe?ort=M%C3%BCnchen&x=%E6%97%A5": Answer([HTML], text(9)),
        "/a%20b/~c?d=e%2Ff&g=h;i": Answer([HTML], text(10)),
        "/Upper/CASE?Z=1&a=2": Answer([HTML], text(11)),
        "/image.png": Answer([b"Content-Type: image/png"], png),
        "/archive.tar.gz": Answer([b"Content-Type: application/gzip"], gzip.compress(large)),
        "/large": Answer([mime], large),
        "/cut": Answer([mime, TAG], large * 3, "chunked"),
        "/lies-gzip": Answer([HTML, b"Content-Encoding: gzip"], text(12)),
        "/cut-gzip": Answer([HTML, b"Content-Encoding: gzip"], gzip.compress(text(13))[:-20]),
        "/same-1": Answer([HTML, TAG, b"X-Other: 1"], same),
        "/same-2": Answer([HTML, TAG, b"X-Other: 2"], same, "chunked"),
        "/same-3": Answer([HTML, b"X-Other: 3"], same),
        "/same-gzip-1": Answer(
            [HTML, TAG, b"Content-Encoding: gzip"], gzip.compress(text(98), mtime=1)
        ),
        "/same-gzip-2": Answer(
            [HTML, b"Content-Encoding: gzip"], gzip.compress(text(98), mtime=1), "chunked"
        ),
        "/empty-1": Answer([HTML, TAG], b""),
    }
    for at, (name, encode) in enumerate(coded.items()):
        fields = [HTML, TAG, b"Content-Encoding: " + name.encode()]
        pages[f"/{name}"] = Answer(fields, encode(text(20 + at, 30_000)))
        pages[f"/{name}-chunked"] = Answer(fields, encode(text(30 + at, 300_000)), "chunked")
    links = "".join(f'<a href="{target}">{at}</a>\n' for at, target in enumerate(pages))
    return {
        "/": Answer([HTML, TAG], links.encode()),
        "/robots.txt": Answer([b"Content-Type: text/plain"], b"User-agent: *\n"),
        **pages,
    }


class ArchiveSite:
    """The site on one or more loopback addresses with one port."""

    def __init__(self, port: int, addresses: Sequence[str]) -> None:
        self.port, self.addresses = port, tuple(addresses)
        self.answers = answers()
        self.exchanges: dict[str, list[Exchange]] = {}  # by URL

    @property
    def seeds(self) -> list[str]:
        return [f"http://{address}:{self.port}/" for address in self.addresses]

    def talk(self, address: str, request: bytes, connection: socket.socket) -> bool:
        """Answers a request; whether the connection is kept."""
        target = request.split(b" ", 2)[1].decode()
        answer = self.answers.get(target) or Answer(
            [HTML], b"<p>nothing", status=b"HTTP/1.1 404 Not Found"
        )
        if TAG in answer.fields and b'\r\nIf-None-Match: "1"\r\n' in request:
            answer = Answer([TAG], b"", "none", b"HTTP/1.1 304 Not Modified")
        url = f"http://{address}:{self.port}{target}"
        self.exchanges.setdefault(url, []).append(Exchange(request, answer.head(), answer.payload))
        connection.sendall(answer.head() + answer.body())
        return answer.framing != "close"


@contextmanager
def archive_site(*addresses: str) -> Iterator[ArchiveSite]:
    """Serves it."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(20)
            buffer, kept = b"", True
            while kept:
                while b"\r\n\r\n" not in buffer:
                    try:
                        received = self.request.recv(65_536)
                    except (TimeoutError, ConnectionError):
                        return
                    if not received:
                        return
                    buffer += received
                request, _, buffer = buffer.partition(b"\r\n\r\n")
                try:
                    kept = site.talk(
                        self.server.server_address[0], request + b"\r\n\r\n", self.request
                    )
                except ConnectionError:
                    return  # who asked has enough

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    servers = [Server((addresses[0], 0), Handler)]
    port = servers[0].server_address[1]
    servers += [Server((address, port), Handler) for address in addresses[1:]]
    site = ArchiveSite(port, addresses)
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield site
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join(60)
