"""A server that takes the requests of webhooks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Keeps requests, and answers each with what ``status`` says."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status: Callable[[int], int] = lambda number: 204
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.accepted: list[Any] = []

    def take(self, headers: dict[str, str], body: bytes) -> int:
        self.requests.append((headers, body))
        status = self.status(len(self.requests))
        if status < 300:
            self.accepted += json.loads(body)["data"]["changes"]
        return status


@contextmanager
def receiver(host: str = "127.0.0.1") -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = given.take({name.lower(): v for name, v in self.headers.items()}, body)
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", f"{given.url}elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    given = Receiver(f"http://{host}:{server.server_address[1]}/")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield given
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
