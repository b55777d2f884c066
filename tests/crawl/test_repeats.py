"""Crawls of servers that drop requests: what a server received is what the attempt log says, and
each request waited for the delay.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from http2_server import Shed, shedding
from lycosa.state.attempts import read_attempts
from raw_server import RawServer, Talk
from tls_server import AUTHORITY, server_tls

DELAY_S, CUT_S = 0.3, 0.002
PAGE = b'<html><body><a href="/a">a</a> <a href="/b">b</a> <a href="/c">c</a></body></html>'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (
    len(PAGE),
    PAGE,
)


class TimedServer(RawServer):
    """Notes when each request came."""

    def __init__(self, talk: Talk) -> None:
        super().__init__(talk)
        self.requests = self.log = _Log()


class _Log(list[bytes]):
    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def append(self, request: bytes) -> None:
        super().append(request.split()[1] if request.startswith(b"GET ") else request)
        self.times.append(time.monotonic())


@contextmanager
def serving(talk: Talk, protocols: tuple[str, ...] = ()) -> Iterator[TimedServer]:
    """The server on a loop of its own."""
    loop, server = asyncio.new_event_loop(), TimedServer(talk)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    tls = server_tls(AUTHORITY.issue_cert("www.example.org"), protocols) if protocols else None
    try:
        asyncio.run_coroutine_threadsafe(server.start(tls=tls), loop).result(60)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def crawl(folder: Path, url: str, *arguments: str) -> str:
    """What the crawl says; it ends by itself."""
    command = [
        sys.executable,
        "-m",
        "lycosa",
        "crawl",
        url,
        "--dir",
        str(folder),
        "--delay",
        f"{DELAY_S}s",
    ]
    settings = [
        "retry.first_s=0.1",
        "politeness.address_delay_s=0",
        "politeness.jitter=0",
        *arguments,
    ]
    options = [word for setting in settings for word in ("--set", setting)]
    done = subprocess.run(
        [*command, *options, "--resolve", "*=127.0.0.1", "--allow-address", "127.0.0.0/8"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout + done.stderr


def judge(folder: Path, server: TimedServer, said: str) -> None:
    """The attempt log has what the server received, in its order, with the delay between."""
    attempts = [
        f"/{each.url.split('/', 3)[3]}".encode()
        for each in sorted(read_attempts(folder / "log"), key=lambda each: each.started)
    ]
    assert attempts == list(server.log), said
    gaps = [later - earlier for earlier, later in pairwise(server.log.times)]
    assert min(gaps) >= DELAY_S - CUT_S, (gaps, list(server.log))
    audit = subprocess.run(
        [sys.executable, "-m", "lycosa", "audit", str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert audit.returncode == 0, audit.stdout


@pytest.mark.parametrize("shed", [Shed.RST_REFUSED, Shed.GOAWAY_UNPROCESSED, Shed.CLOSE])
def test_an_http2_server_that_sheds_load_gets_one_request_a_delay(
    tmp_path: Path, shed: Shed
) -> None:
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.cert_pem.bytes())
    with serving(shedding(shed), ("h2", "http/1.1")) as server:
        url = f"https://www.example.org:{server.port}/shed"
        settings = (
            f"fetch.ca_file={tmp_path / 'ca.pem'}",
            "politeness.backoff_s=1",
            "politeness.max_backoff_s=2",
        )
        said = crawl(tmp_path / "crawl", url, *settings)
    assert server.log.count(b"/shed") >= 2, said
    judge(tmp_path / "crawl", server, said)
    if shed is not Shed.CLOSE:  # refused: as after 503
        assert server.log.times[-1] - server.log.times[-2] >= 1 - CUT_S


async def _closes_at_each_second(
    server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    await server.read_request(reader)
    writer.write(ANSWER)
    await writer.drain()
    await server.read_request(reader)


def test_an_http1_server_that_closes_kept_connections_gets_one_request_a_delay(
    tmp_path: Path,
) -> None:
    with serving(_closes_at_each_second) as server:
        said = crawl(tmp_path / "crawl", f"http://www.example.org:{server.port}/")
    assert set(server.log) >= {b"/robots.txt", b"/", b"/a", b"/b", b"/c"}, said
    # one was asked for twice: robots.txt was the first on its connection, and / the second
    assert len(server.log) == 6, list(server.log)
    judge(tmp_path / "crawl", server, said)
