"""robots.txt asked of a real server on loopback: what it sends, where it redirects, and what is
not allowed.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from lycosa.base.config.sources import load_settings
from lycosa.base.ports import ResolveError
from lycosa.inspect.robots_source import NoRobots, of_server
from lycosa.inspect.url_check import check_robots
from lycosa.stages.politeness.robots_cache import RobotsRecord

FILE = b"User-agent: *\nDisallow: /private\n"
OPEN = ["fetch.allow_addresses=127.0.0.0/8", "dns.pins=*.test=127.0.0.1"]


class _Handler(BaseHTTPRequestHandler):
    """Answers by the name that was asked for."""

    agents: list[str]

    def do_GET(self) -> None:
        name = self.headers["Host"].partition(".")[0]
        self.server.agents.append(self.headers["User-Agent"])  # type: ignore[attr-defined]
        if name == "moved" or (name == "loop"):
            where = "http://plain.test" if name == "moved" else "http://loop.test"
            self._say(301, [("Location", f"{where}:{self.server.server_port}/robots.txt")])  # type: ignore[attr-defined]
        elif name == "zipped":
            self._say(200, [("Content-Encoding", "gzip")], gzip.compress(FILE))
        elif name == "broken":
            self._say(503, [])
        elif name == "none":
            self._say(404, [])
        else:
            self._say(200, [], FILE)

    def _say(self, status: int, fields: list[tuple[str, str]], body: bytes = b"") -> None:
        self.send_response(status)
        for key, value in [*fields, ("Content-Length", str(len(body)))]:
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadingHTTPServer]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    made.agents = []  # type: ignore[attr-defined]
    thread = Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def ask(
    server: ThreadingHTTPServer, name: str, settings: list[str] = OPEN
) -> tuple[RobotsRecord, str]:
    return of_server(
        f"http://{name}.test:{server.server_port}/private/x",
        "lycosa",
        load_settings(None, {}, settings).config,
    )


@pytest.mark.parametrize("name", ["plain", "moved", "zipped"])
def test_the_file_that_is_sent_decides(server: ThreadingHTTPServer, name: str) -> None:
    record, source = ask(server, name)
    found = check_robots(f"http://{name}.test/private/x", "lycosa", record, source, record.fetched)
    assert (found.verdict, found.line) == ("disallowed", 2)
    assert source.endswith("/robots.txt, fetched now with status 200")


@pytest.mark.parametrize(
    ("name", "verdict"), [("none", "allowed"), ("broken", "waits"), ("loop", "allowed")]
)
def test_an_answer_without_a_file_means_what_the_standard_says(
    server: ThreadingHTTPServer, name: str, verdict: str
) -> None:
    record, source = ask(server, name)
    now = record.fetched or record.first_failure
    assert (
        check_robots(f"http://{name}.test/private/x", "lycosa", record, source, now).verdict
        == verdict
    )


def test_the_server_is_told_who_asks(server: ThreadingHTTPServer) -> None:
    ask(server, "plain", [*OPEN, "agent.contact=me@example.org"])
    assert "me@example.org" in server.agents[-1]  # type: ignore[attr-defined]


def test_a_private_address_is_asked_only_when_allowed(server: ThreadingHTTPServer) -> None:
    with pytest.raises(NoRobots, match="the address is private or special"):
        ask(server, "plain", ["dns.pins=*.test=127.0.0.1"])


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(NoRobots, match="the connection was refused"):
        of_server("http://gone.test:1/", "lycosa", load_settings(None, {}, OPEN).config)


def test_a_name_without_address_is_told() -> None:
    with pytest.raises(ResolveError):
        of_server(
            "http://name.localhost.invalid/",
            "lycosa",
            load_settings(
                None, {}, [*OPEN, "dns.servers=127.0.0.1:1", "dns.timeout_s=0.1", "dns.tries=1"]
            ).config,
        )
