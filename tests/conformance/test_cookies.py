"""The cookie tests that browsers' makers and the IETF's HTTP state working group wrote, against the
real fetcher with a jar.

Each case is one site that sets cookies in one answer; the question is what the next request
carries. Cookies go by port to nobody, so the port of the test server stands for the cases' 8888.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from lycosa.base.config.sections import FetchSection
from lycosa.base.model.fetched import FetchRequest
from lycosa.base.system.clock import SystemClock
from lycosa.base.urls.identity import Sites
from lycosa.stages.fetch.cookies import CookieJars
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.http_client import CurlFetcher, RequestHooks

CASES = Path(__file__).parents[2].parent / "shared" / "data" / "http" / "http-state-cookies.jsonl"
_PAST = "the case was written when 2019 was the future: the cookie has expired"
_ZERO = (
    "a control character refuses the cookie, as the present draft of RFC 6265bis has it; the case"
    " cuts the value there"
)
_ORDER = (
    "libcurl sends longer names first where path and domain are of one length; RFC 6265 section 5.4"
    " forbids servers to rely on an order"
)
_SLASH = "libcurl takes a path with a slash at its end as the same path without it"
_DOMAINS = (
    "libcurl refuses a cookie for any foreign domain among several; RFC 6265 section 5.3 asks for"
    " the last one only"
)
KNOWN_MISSES = {
    "0002": _PAST,
    "comma0006": _PAST,
    "comma0007": _PAST,
    "0028": "the expected header is an error of the recording: a line break stands in it",
    "disabled-chromium0022": _ZERO,
    "disabled-chromium0023": _ZERO,
    "disabled-path0029": (
        "the case is disabled by its authors: the path is not that of the second request"
    ),
    "domain0019": _ORDER,
    "domain0023": _ORDER,
    "mozilla0008": _ORDER,
    "domain0035": _DOMAINS,
    "domain0036": _DOMAINS,
    "path0014": _SLASH,
    "path0032": _SLASH,
}

pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(
        not CASES.is_file(), reason="the shared HTTP data is not beside the checkout"
    ),
]


_SITES = Sites()


class _Site(asyncio.Protocol):
    """Sets the cookies of the case at the first request, and says nothing more at the second."""

    def __init__(self, cookies: list[str]) -> None:
        self._cookies = cookies

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        lines = (
            "".join(f"Set-Cookie: {cookie}\r\n" for cookie in self._cookies)
            if b"cookie-parser?" in data
            else ""
        )
        self._transport.write(
            f"HTTP/1.1 200 OK\r\n{lines}Content-Length: 0\r\n\r\n".encode("latin-1")
        )


def _sent(request: bytes) -> str:
    lines = request.decode("latin-1").split("\r\n")
    return "\n".join(line.partition(": ")[2] for line in lines if line.startswith("Cookie:"))


async def _second_request(case: dict[str, Any], folder: Path) -> str:
    server = await asyncio.get_running_loop().create_server(
        lambda: _Site(case["set_cookie"]), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    jars = CookieJars(_SITES.site_of, 1_000_000)
    fetcher = CurlFetcher(
        FetchSection(),
        "lycosa/0.1",
        "",
        Guard(["127.0.0.0/8"]),
        SystemClock(),
        folder,
        RequestHooks(jars),
    )
    first = f"http://home.example.org:{port}/cookie-parser?{case['id']}"
    then = urljoin(first, (case["location"] or [f"/cookie-parser-result?{case['id']}"])[0]).replace(
        ":8888", f":{port}"
    )
    try:
        await fetcher.fetch(FetchRequest(first, "127.0.0.1"))
        return _sent((await fetcher.fetch(FetchRequest(then, "127.0.0.1"))).request_block)
    finally:
        await fetcher.close()
        server.close()


async def test_http_state_cookies(tmp_path: Path) -> None:
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    misses = {}
    for case in cases:
        sent = await _second_request(case, tmp_path)
        if sent != case["expected_cookie"]:
            misses[case["id"]] = (
                f"{case['set_cookie']} sent {sent!r}, not {case['expected_cookie']!r}"
            )
    print(f"http/http-state-cookies: passed {len(cases) - len(misses)} of {len(cases)}")
    for name in sorted(misses):
        print(f"  {name}: {KNOWN_MISSES.get(name, misses[name])}")
    assert misses.keys() - KNOWN_MISSES.keys() == set()
    assert KNOWN_MISSES.keys() - misses.keys() == set()
