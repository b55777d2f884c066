"""The site that crawlers are measured on: HTML documentation of Debian packages, or made pages,
served by a real nginx on loopback.

nginx's access log judges who fetched what: each run of a crawler is a stretch of it.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

DOCS = {
    "java": Path("/usr/share/doc/openjdk-17-jre-headless/api"),
    "python": Path("/usr/share/doc/python3.11/html"),
    "pg": Path("/usr/share/doc/postgresql-doc-15/html"),
}
"""Debian packages openjdk-17-doc, python3.11-doc and postgresql-doc-15: 11,832 pages of 28 KB on
average, 53 KB without the small ones.
"""

_PAGE_LINKS = 190
_WORDS = 2300  # with the links some 53 KB of HTML, 17 KB of them text

_CONFIGURATION = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  types {{ text/html html; text/css css; application/javascript js; image/png png; image/svg+xml svg; }}
  default_type application/octet-stream;
  client_body_temp_path {folder}/cb; proxy_temp_path {folder}/pt; fastcgi_temp_path {folder}/ft;
  uwsgi_temp_path {folder}/ut; scgi_temp_path {folder}/st;
  log_format pages '$status $ssl_session_reused $sent_http_content_type {host}$request_uri';
  access_log {folder}/access.log pages;
  {keepalive}
  {gzip}
  server {{ {server} disable_symlinks off; }}
}}
"""


def available_docs() -> list[str]:
    """Names of the documentation that is installed here."""
    return [name for name, folder in DOCS.items() if (folder / "index.html").is_file()]


def make_docs_site(root: Path, names: Iterable[str]) -> None:
    """Links the documentation into ``root`` below an index page."""
    root.mkdir(parents=True)
    links = []
    for name in names:
        (root / name).symlink_to(DOCS[name])
        links.append(f'<a href="{name}/index.html">{name}</a>')
    (root / "index.html").write_text(
        f"<html><head><title>docs</title></head><body>{' '.join(links)}</body></html>"
    )


def make_pages_site(root: Path, pages: int, seed: int = 1) -> None:
    """Writes ``pages`` pages of about 53 KB with 190 links each, of which some leave the site;
    every page is reachable.
    """
    chance = random.Random(seed)
    words = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 11)))
        for _ in range(20_000)
    ]
    root.mkdir(parents=True)
    for number in range(pages):
        # a tree of five children, so that none is missed
        targets = [min(5 * number + step, pages - 1) for step in range(1, 6)]
        targets += chance.choices(range(pages), k=_PAGE_LINKS - 15)
        items = [_item(f"{_name(t)}#s{t}", chance.choice(words)) for t in targets]
        items += [
            _item(f"https://other{t}.example/{chance.choice(words)}", "elsewhere")
            for t in range(10)
        ]
        paragraphs = []
        for part in range(40):
            text = " ".join(chance.choices(words, k=_WORDS // 40))
            near = "".join(items[part * 4 : part * 4 + 4])
            paragraphs.append(
                f'<section id="s{part}"'
                f' class="section"><h2>{words[part]}</h2><p>{text}</p><ul>{near}</ul></section>'
            )
        body = f"<nav>{''.join(items[160:])}</nav>{''.join(paragraphs)}"
        head = (
            f'<meta charset="utf-8"><title>Page {number}</title><meta name="description"'
            f' content="{words[number % 20_000]}">'
        )
        path = root / _name(number).lstrip("/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{body}</body></html>'
        )


def _item(url: str, text: str) -> str:
    return f'<li class="item"><a href="{url}" title="Page"><code>{text}</code></a></li>'


def _name(number: int) -> str:
    return f"/{number % 97}/page-{number}.html" if number else "/index.html"


class Nginx:
    """Serves a folder on a free port of 127.0.0.1; a context manager.

    With ``tls`` it makes its ``certificate`` for that address. ``keeps`` says whether it keeps
    connections. With ``gzip`` a ``.gz`` file beside a page is sent in its stead.
    """

    def __init__(
        self, root: Path, folder: Path, gzip: bool = True, *, tls: bool = False, keeps: bool = True
    ) -> None:
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
        if program is None:
            raise FileNotFoundError("nginx is not installed")
        self._program, self._root, self._folder, self._gzip = program, root, folder, gzip
        self._tls, self._keeps = tls, keeps
        self.certificate = folder / "cert.pem"
        # requests on a TLS session that was resumed, of those that the last call of
        # pages_since_last_call counted
        self.resumed = 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._read = 0

    @property
    def url(self) -> str:
        """The index page."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/"

    def __enter__(self) -> Nginx:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o755)
        configuration = self._folder / "nginx.conf"
        configuration.write_text(self._text())
        command = [
            self._program,
            "-p",
            str(self._folder),
            "-c",
            str(configuration),
            "-e",
            str(self._folder / "error.log"),
        ]
        self._process = subprocess.Popen(command)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"nginx did not start: {(self._folder / 'error.log').read_text()}")

    def _text(self) -> str:
        gzip = (
            "gzip on; gzip_static on; gzip_types text/css application/javascript;"
            if self._gzip
            else "gzip off;"
        )
        server = f"listen 127.0.0.1:{self.port}{self._secured(['127.0.0.1'])} root {self._root};"
        return self._configuration(gzip, server, "")

    def _configuration(self, gzip: str, server: str, host: str) -> str:
        keepalive = "keepalive_requests 1000000;" if self._keeps else "keepalive_timeout 0;"
        return _CONFIGURATION.format(
            folder=self._folder, gzip=gzip, server=server, host=host, keepalive=keepalive
        )

    def _secured(self, addresses: list[str]) -> str:
        """The end of a ``listen``, with a fresh certificate for these addresses when there is
        TLS.
        """
        if not self._tls:
            return ";"
        names = ",".join(f"IP:{address}" for address in addresses)
        key = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            str(self._folder / "key.pem"),
        ]
        what = [
            "-x509",
            "-days",
            "2",
            "-subj",
            "/CN=bench",
            "-addext",
            f"subjectAltName={names}",
            "-out",
            str(self.certificate),
        ]
        subprocess.run(["openssl", "req", *key, *what], check=True, capture_output=True)
        # The versions and the cache of sessions as busy sites have them: older releases of nginx
        # begin with less.
        usual = "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:bench:5m;"
        return (
            f" ssl; ssl_certificate {self.certificate}; ssl_certificate_key {self._folder}/key.pem;"
            f" {usual}"
        )

    def cpu_s(self) -> float:
        """User and system time of the process that serves, so far."""
        ticks = 0
        for child in (
            Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        ):
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()

    def pages_since_last_call(self) -> tuple[set[str], int]:
        """Paths of the HTML pages that were answered with 200 since the last call, and the
        number of all requests.
        """
        with (self._folder / "access.log").open() as log:
            log.seek(self._read)
            lines = log.readlines()
            self._read = log.tell()
        pages = set()
        self.resumed = 0
        for line in lines:
            status, is_resumed, media_type, path = line.rstrip("\n").split(" ", 3)
            self.resumed += is_resumed == "r"
            if status == "200" and media_type.startswith("text/html"):
                pages.add(path)
        return pages, len(lines)
