"""Sites that frameworks and documentation tools have built: files in folders, and a server for them.

A folder has a folder for each site. ``pages.txt`` there lists the paths of its pages, one a line;
without it these are its HTML files. In a site with ``pages.txt``, a path that is no file and has no
suffix is answered with ``index.html``, as servers of single-page applications do.
"""

from __future__ import annotations

import mimetypes
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import NamedTuple
from urllib.parse import unquote

from free_ports import free_port

_LISTED = "pages.txt"
_KINDS = {
    "": "application/octet-stream",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
}


class BuiltFile(NamedTuple):
    """What a path of a site is answered with."""

    body: bytes
    kind: str


class BuiltSite:
    """One site; ``paths`` are those of its pages."""

    def __init__(self, folder: Path) -> None:
        self.name, self._folder = folder.name, folder.resolve()
        listed = folder / _LISTED
        self._is_application = listed.exists()
        if self._is_application:
            self.paths = listed.read_text().split()
        else:
            found = sorted(folder.rglob("*.html"))
            self.paths = [f"/{each.relative_to(folder).as_posix()}" for each in found]

    def find(self, path: str) -> BuiltFile | None:
        """The answer to a path, ``None`` if there is no such file."""
        file = (self._folder / unquote(path.partition("?")[0]).lstrip("/")).resolve()
        if not file.is_relative_to(self._folder) or file.name == _LISTED:
            return None
        if file.is_dir():
            file /= "index.html"
        if not file.is_file() and self._is_application and not PurePosixPath(path).suffix:
            file = self._folder / "index.html"
        if not file.is_file():
            return None
        kind = _KINDS.get(file.suffix) or mimetypes.guess_type(file.name)[0] or _KINDS[""]
        return BuiltFile(file.read_bytes(), kind)


def built_sites(folder: Path) -> list[BuiltSite]:
    """The sites of a folder, by name."""
    return [BuiltSite(each) for each in sorted(folder.iterdir()) if each.is_dir()]


class SiteServer:
    """Serves each site at an address of its own (127.0.1.1, 127.0.1.2 ...) while it is entered.

    ``bases`` has their addresses by name, ``asked`` counts requests by URL.
    """

    def __init__(self, sites: list[BuiltSite]) -> None:
        addresses = [f"127.0.1.{number + 1}" for number in range(len(sites))]
        port = free_port(addresses)
        self.bases = {
            site.name: f"http://{address}:{port}"
            for site, address in zip(sites, addresses, strict=True)
        }
        self.asked: Counter[str] = Counter()
        self._servers = [
            _server(address, port, site, self.asked)
            for site, address in zip(sites, addresses, strict=True)
        ]

    def __enter__(self) -> SiteServer:
        for each in self._servers:
            threading.Thread(target=each.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._servers:
            each.shutdown()
            each.server_close()


def _server(address: str, port: int, site: BuiltSite, asked: Counter[str]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked[f"http://{address}:{port}{self.path}"] += 1
            found = site.find(self.path)
            self.send_response(200 if found else 404)
            body = found.body if found else b"<p>There is no such page."
            self.send_header("Content-Type", found.kind if found else _KINDS[".html"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a browser that went away

    return Server((address, port), Handler)
