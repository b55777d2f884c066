"""The sites of the documents, as a program: it serves them and runs a script next to them.

``python document_sites.py FOLDER SCRIPT`` serves every host at ports 80 and 443 of loopback, in a
network namespace that has nothing else if one is possible, and runs ``SCRIPT`` by bash in
``FOLDER``. Names of hosts, and the authority of their certificates, are given to ``lycosa`` by
environment variables, so commands are those of the document. After the command ``tomorrow`` the
sites have changed, and the clock of each Python program is a day later.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import os
import random
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import zlib
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme

from pdf_files import pdf_file
from s3_server import s3_program

HTML = "text/html; charset=utf-8"
_MENU = '<nav><a href="/">Home</a> <a href="/about">About</a> <a href="/docs/">Manual</a></nav>'
_TOPICS = ("install", "start", "watch", "resume", "export", "archive", "limits", "politeness")
_NOUNS = [
    "bridge",
    "river",
    "council",
    "school",
    "engine",
    "garden",
    "market",
    "teacher",
    "winter",
    "letter",
    "window",
    "village",
    "station",
    "mountain",
    "farmer",
    "doctor",
    "picture",
    "harbour",
    "library",
    "kitchen",
    "summer",
    "forest",
    "machine",
    "captain",
    "theatre",
    "hospital",
    "island",
    "painter",
    "factory",
    "museum",
    "orchard",
    "railway",
    "sailor",
    "tower",
    "valley",
    "workshop",
    "bakery",
    "chapel",
    "lantern",
    "meadow",
    "quarry",
    "stable",
    "tunnel",
    "vineyard",
    "warehouse",
    "archive",
    "basket",
    "carpet",
    "drawer",
]
_VERBS = [
    "opened",
    "closed",
    "repaired",
    "painted",
    "visited",
    "moved",
    "described",
    "measured",
    "bought",
    "sold",
]
PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde"
    + b"\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82"
)


def page(title: str, body: str, head: str = "") -> bytes:
    """A page with a menu, a main part and a footer."""
    return (
        f'<!DOCTYPE html><html lang="en"><head><title>{title}</title><link rel="stylesheet"'
        f' href="/style.css">{head}</head><body>{_MENU}<main><article><h1>{title}</h1>{body}'
        "</article></main><footer>Contact and imprint</footer></body></html>"
    ).encode()


def words(topic: str) -> str:
    """Some paragraphs about a topic; two topics have different ones."""
    choice = random.Random(topic)
    return "".join(
        f"<p>On {choice.choice(('Monday', 'Friday', 'Sunday'))} the {choice.choice(_NOUNS)} near the"
        f" {choice.choice(_NOUNS)} was {choice.choice(_VERBS)}, because the"
        f" {choice.choice(_NOUNS)} of the {topic} had been {choice.choice(_VERBS)} by the people who"
        f" live next to the {choice.choice(_NOUNS)}.</p>"
        for _ in range(8)
    )


def links(*paths: str) -> str:
    return "".join(
        f'<p><a href="{each}">{each.rstrip("/").rpartition("/")[2]}</a></p>' for each in paths
    )


@cache
def _pdf(text: str) -> bytes:
    return pdf_file([[text]])


def example_org(path: str, is_next_day: bool) -> tuple[int, str, bytes] | None:
    """A small manual with PDF files, one broken link and one page that moved."""
    manual = [f"/docs/{each}" for each in _TOPICS]
    if is_next_day:
        manual = [*manual[1:], "/docs/news"]
    if path == "/":
        more = links(
            "/about", "/docs/", "/files/", "/old", "/docs/missing", "https://example.net/gone"
        )
        return 200, HTML, page("Example", '<img src="/logo.png" alt="">' + words("work") + more)
    if path == "/about":
        return 200, HTML, page("About us", words("company"))
    if path == "/docs/":
        return 200, HTML, page("Manual", words("manual") + links(*manual, "/docs/print/start"))
    if path == "/files/":
        return 200, HTML, page("Files", links("/files/report.pdf", "/files/prices.pdf"))
    if path in ("/files/report.pdf", "/files/prices.pdf"):
        return 200, "application/pdf", _pdf(f"The file {path} has a page of text.")
    if path in manual:
        topic = path.rpartition("/")[2]
        changed = "<p>This paragraph was added today.</p>" * is_next_day
        return (
            200,
            HTML,
            page(f"How to {topic}", words(topic) + (changed if topic == "start" else "")),
        )
    if path == "/docs/print/start":
        return 200, HTML, page("How to start", words("start") + "<p>Print view.</p>")
    return None


def shop_example(path: str, is_next_day: bool) -> tuple[int, str, bytes] | None:
    """A shop with two categories; a lamp becomes cheaper."""
    if path == "/":
        return 200, HTML, page("Shop", links("/category/lamps", "/category/chairs"))
    goods = {
        "lamps": (("1", "Desk lamp", 19.5), ("2", "Floor lamp", 80)),
        "chairs": (("3", "Chair", 45),),
    }
    for category, products in goods.items():
        if path == f"/category/{category}":
            return 200, HTML, page(category, links(*(f"/product/{each}" for each, *_ in products)))
        for number, name, price in products:
            if path == f"/product/{number}":
                price = 17.0 if is_next_day and number == "1" else price
                box = f'<article class="product"><h2>{name}</h2><meta itemprop="price" content="{price}"></article>'
                return 200, HTML, page(name, box)
    return None


def news_example(path: str, is_next_day: bool) -> tuple[int, str, bytes] | None:
    """A newspaper with a news sitemap; each day has new stories, and an old one is corrected."""
    stories = [f"/2026/11/0{day}/{topic}" for day in range(1, 4) for topic in ("bridge", "school")]
    stories += ["/2026/11/04/bridge", "/2026/11/04/mayor"] if is_next_day else []
    if path == "/":
        return 200, HTML, page("The News", links(*reversed(stories)))
    if path == "/sitemap.xml":
        rows = "".join(f"<url><loc>https://news.example{each}</loc></url>" for each in stories)
        return (
            200,
            "application/xml",
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'.encode(),
        )
    if path in stories:
        _, year, month, day, topic = path.split("/")
        date = f'<meta property="article:published_time" content="{year}-{month}-{day}">'
        changed = "<p>Correction: it begins in May.</p>" * (is_next_day and path == stories[0])
        return (
            200,
            HTML,
            page(f"The {topic}, day {day}", words(f"{topic} of day {day}") + changed, date),
        )
    return None


_SITES = {"shop.example": shop_example, "news.example": news_example}
_LOGINS = tuple(
    "Basic " + base64.b64encode(each).decode()
    for each in (b"hedda:correct horse", b"reader:PASSWORD")
)
_LOCKED = {
    "intranet.example": ("Authorization", _LOGINS),
    "wiki.intranet.example": ("Authorization", _LOGINS),
    "api.example": ("Authorization", ("Bearer TOKEN",)),
    "stage.example": ("X-Access-Key", ("KEY",)),
    "forum.example": ("Cookie", ("session=1",)),
}
"""What a request to a host needs: a header and its values. All else is answered by 401."""
_SHARED = {
    "/style.css": (200, "text/css", b"body { font-family: sans-serif }"),
    "/logo.png": (200, "image/png", PNG),
    "/robots.txt": (200, "text/plain", b"User-agent: *\nDisallow: /private/\n"),
}


def answer(host: str, path: str, is_next_day: bool) -> tuple[int, str, bytes]:
    """Status, type and body. Hosts without pages of their own have a home page only."""
    path = path.partition("?")[0]
    if path in _SHARED:
        return _SHARED[path]
    site = _SITES.get(host.removeprefix("www."))
    if site is None and host.endswith(("example.org", "127.0.0.1")):
        site = example_org
    found = site(path, is_next_day) if site else None
    if found is None and site is None and path == "/":
        found = 200, HTML, page(host, words(host))
    return found or (404, HTML, page("Not found", "<p>There is no such page.</p>"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    day = Path("tomorrow")

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").partition(":")[0]
        if self.path == "/old":
            self._send(301, "text/plain", b"", {"Location": "/about"})
            return
        if host in _LOCKED and self.headers.get(_LOCKED[host][0]) not in _LOCKED[host][1]:
            self._send(401, "text/plain", b"", {"WWW-Authenticate": 'Basic realm="documents"'})
            return
        status, kind, body = answer(host, self.path, self.day.exists())
        tag = f'"{zlib.crc32(body):08x}"'
        if self.headers.get("If-None-Match") == tag:
            self._send(304, kind, b"", {"ETag": tag})
            return
        more = {"ETag": tag}
        if kind.startswith("text/html") and "gzip" in self.headers.get("Accept-Encoding", ""):
            body, more["Content-Encoding"] = gzip.compress(body, mtime=0), "gzip"
        self._send(status, kind, body, more)

    do_HEAD = do_GET

    def _send(self, status: int, kind: str, body: bytes, more: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext | None = None

    def get_request(self) -> tuple[object, object]:  # type: ignore[override]
        connection, address = self.socket.accept()
        if self.context is not None:
            connection = self.context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that closes its connection


HOSTS = (
    "example.org", "*.example.org", "shop.example", "*.shop.example", "news.example",
    "*.news.example", "example.net", "*.example.net", "a.example", "b.example", "app.example",
    *_LOCKED,
)  # fmt: skip


def serve(folder: Path) -> Path:
    """Serve all hosts from now on; gives the file with the authority of their certificates."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*HOSTS).configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    for port in (80, 443, 8000):
        server = _Server(("127.0.0.1", port), _Handler)
        server.context = context if port == 443 else None
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return folder / "authority.pem"


_CLOCK = """
import os, time
if os.path.exists({day!r}):
    time.time = lambda real=time.time: real() + 86400
    time.time_ns = lambda real=time.time_ns: real() + 86400 * 10**9
"""


def environment(folder: Path, authority: Path) -> dict[str, str]:
    """What a command gets: names of hosts, and delays that do not matter on loopback."""
    home = folder / "home"
    home.mkdir()
    (home / "sitecustomize.py").write_text(_CLOCK.format(day=str(_Handler.day)))
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(home),
        "PYTHONPATH": str(home),
        "ROOT": str(Path(__file__).parents[1]),
        "SERVICES_CACHE": os.environ.get(
            "SERVICES_CACHE", str(Path.home() / ".cache/lycosa-services")
        ),
        "S3_PROGRAM": str(s3_program()),
        "TOMORROW": str(_Handler.day),
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        "CURL_CA_BUNDLE": str(authority),
        "LYCOSA_RUNTIME_DIR": str(home),
        "LYCOSA_DNS__PINS": '["*=127.0.0.1"]',
        "LYCOSA_FETCH__ALLOW_ADDRESSES": '["127.0.0.0/8"]',
        "LYCOSA_FETCH__CA_FILE": str(authority),
        "LYCOSA_POLITENESS__DELAY_S": "0.01",
        "LYCOSA_POLITENESS__ADAPTIVE_FACTOR": "0",
        "LYCOSA_FRONTIER__FINISH_WAIT_S": "60",
        "LYCOSA_POLITENESS__ADDRESS_DELAY_S": "0",
    }


def main(folder: Path, script: str) -> int:
    """Run the script of a page; gives its exit code."""
    if shutil.which("ip"):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False, capture_output=True)
    _Handler.day = folder / "tomorrow"
    try:
        authority = serve(folder)
    except PermissionError as error:
        print(f"cannot serve at port 80: {error}", file=sys.stderr)
        return 77
    (folder / "work").mkdir()
    shell = subprocess.Popen(
        ["bash", script], cwd=folder / "work", env=environment(folder, authority),
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return shell.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):  # what runs in the background of the page
            os.killpg(shell.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
