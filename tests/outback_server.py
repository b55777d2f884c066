"""A capture index on loopback that speaks OutbackCDX's API: CDX lines by POST, captures of a URL by
GET. ``JarServer`` is the real program, where the environment names its jar.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from lycosa.base.urls.surt import surt

JAR = os.environ.get("OUTBACKCDX_JAR", "")
"""The shaded jar of OutbackCDX, which needs Java 11."""
_LINE = re.compile(rb"\S+ \d{14} \S+ \S+ (?:\d{3}|-) \S+ \S+ \S+ (?:\d+|-) \d+ \S+")


class OutbackServer:
    """``lines`` are those that were given, by collection and URL key. ``broken`` is a status that
    all questions are answered with, ``slow`` holds them back until it is set.
    """

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], set[bytes]] = {}
        self.questions: list[str] = []
        self.posts = self.broken = 0
        self.slow: threading.Event | None = None
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.answer(self)

            def do_POST(self) -> None:
                owner.take(self)

            def log_message(self, *args: object) -> None:
                """Nothing is shown."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/web"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.questions.append(asked.get("url", ""))
        if self.slow is not None:
            self.slow.wait(30)
        if self.broken:
            self._send(handler, self.broken, b"broken\n")
            return
        found = sorted(self.lines.get((parts.path, surt(asked["url"])), ()))
        if asked.get("sort") == "reverse":
            found.reverse()
        self._send(handler, 200, b"".join(found[: int(asked.get("limit", "1000000"))]))

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.posts += 1
        if self.broken:
            self._send(handler, self.broken, b"broken\n")
            return
        added = 0
        for line in body.splitlines():
            if line.startswith(b" CDX"):
                continue
            if not _LINE.fullmatch(line):
                self._send(handler, 400, b"At line: " + line + b"\n")
                return
            key = handler.path, surt(line.split(b" ")[2].decode())
            self.lines.setdefault(key, set()).add(line + b"\n")
            added += 1
        self._send(handler, 200, f"Added {added} records\n".encode())

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        try:
            handler.send_response(status)
            handler.send_header("Content-Type", "text/plain")
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client did not wait

    @contextmanager
    def running(self) -> Iterator[OutbackServer]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            if self.slow is not None:
                self.slow.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


@contextmanager
def jar_server(folder: Path) -> Iterator[str]:
    """The URL of a collection of the real program."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "data").mkdir()
    command = ["java", "-Xmx256m", "-jar", JAR, "-b", "127.0.0.1", "-p", str(port), "-d"]
    process = subprocess.Popen(
        [*command, str(folder / "data")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        # its first line, when it listens
        assert process.stdout.readline().startswith(b"OutbackCDX"), "it does not start"
        yield f"http://127.0.0.1:{port}/web"
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
