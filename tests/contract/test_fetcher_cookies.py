"""Cookies over real sockets: nobody's without a jar, a site's own with one, bounded, and never
those of another site.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lycosa.base.config.sections import FetchSection
from lycosa.base.model.fetched import FetchKind, FetchRequest
from lycosa.base.system.clock import SystemClock
from lycosa.base.urls.identity import Sites
from lycosa.stages.fetch.cookies import SITE_BYTES, SITE_COOKIES, CookieJars
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.http_client import CurlFetcher, RequestHooks
from raw_server import RawServer, Talk, World, always, saying

_EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def setting(*cookies: str) -> bytes:
    lines = "".join(f"Set-Cookie: {cookie}\r\n" for cookie in cookies)
    return f"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{lines}\r\n".encode("latin-1")


class Site:
    """One server under many names, and a fetcher with jars."""

    def __init__(self, server: RawServer, folder: Path, max_bytes: int = 1_000_000) -> None:
        self.server = server
        self.jars = CookieJars(Sites().site_of, max_bytes)
        self.fetcher = CurlFetcher(
            FetchSection(),
            "lycosa/0.1",
            "",
            Guard(["127.0.0.0/8"]),
            SystemClock(),
            folder,
            RequestHooks(self.jars),
        )

    async def get(self, host: str, path: str = "/", kind: FetchKind = FetchKind.PAGE) -> str:
        """What the Cookie header of the request said; it is in the stored request too."""
        url = f"http://{host}:{self.server.port}{path}"
        fetched = await asyncio.wait_for(
            self.fetcher.fetch(FetchRequest(url, "127.0.0.1", kind)), 5
        )
        assert fetched.request_block == self.server.requests[-1]
        return _cookie(fetched.request_block)


def _cookie(request: bytes) -> str:
    return next(
        (
            line[8:]
            for line in request.decode("latin-1").split("\r\n")
            if line.startswith("Cookie: ")
        ),
        "",
    )


async def site(world: World, tmp_path: Path, talk: Talk, max_bytes: int = 1_000_000) -> Site:
    return Site(await world.serve(talk), tmp_path, max_bytes)


async def test_without_a_jar_no_cookie_is_kept(world: World) -> None:
    server = await world.serve(always(setting("a=1")))
    fetcher = world.fetcher()
    for _ in range(2):
        await fetcher.fetch(FetchRequest(f"http://www.example.org:{server.port}/", "127.0.0.1"))
    assert [_cookie(request) for request in server.requests] == ["", ""]


async def test_cookies_go_back_to_the_site_that_set_them(world: World, tmp_path: Path) -> None:
    own = await site(
        world, tmp_path, saying(setting("a=1", "b=2; Domain=example.org; HttpOnly"), *[_EMPTY] * 4)
    )
    assert await own.get("www.example.org") == ""
    assert await own.get("www.example.org") == "a=1; b=2"
    assert await own.get("shop.example.org") == "b=2"
    assert await own.get("www.example.com") == ""
    assert await own.get("notexample.org") == ""
    await own.fetcher.close()


async def test_robots_txt_is_asked_for_without_cookies_and_sets_none(
    world: World, tmp_path: Path
) -> None:
    own = await site(world, tmp_path, saying(setting("a=1"), setting("b=2"), _EMPTY))
    await own.get("www.example.org")
    assert await own.get("www.example.org", "/robots.txt", FetchKind.ROBOTS) == ""
    assert await own.get("www.example.org") == "a=1"
    await own.fetcher.close()


@pytest.mark.parametrize(
    ("host", "cookie"),
    [
        ("www.example.org", "a=1; Domain=org"),
        ("www.example.co.uk", "a=1; Domain=co.uk"),
        ("me.github.io", "a=1; Domain=github.io"),  # the private section: two users are two sites
        ("www.example.org", "a=1; Domain=example.com"),
        ("www.example.org", "a=1; Domain=shop.example.org"),
        ("www.example.org", "a=1; Secure"),
        ("www.example.org", "a=1; Path=/other"),
        ("www.example.org", "a=1; Max-Age=0"),
        ("www.example.org", "a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
        ("www.example.org", "__Secure-a=1"),
        ("www.example.org", "__Host-a=1; Path=/; Secure"),
        ("www.example.org", "a=1\t2"),
        ("www.example.org", "a=" + "x" * 5000),
    ],
)
async def test_a_cookie_that_does_not_belong_is_not_sent(
    world: World, tmp_path: Path, host: str, cookie: str
) -> None:
    own = await site(world, tmp_path, saying(setting(cookie), _EMPTY, _EMPTY))
    await own.get(host)
    assert await own.get(host) == ""
    assert await own.get(f"shop.{host.partition('.')[2]}") == ""
    await own.fetcher.close()


async def test_a_cookie_is_replaced_in_its_place_and_deleted(world: World, tmp_path: Path) -> None:
    answers = [setting("a=1", "b=1", "c=1"), setting("a=2"), setting("b=; Max-Age=0"), _EMPTY]
    own = await site(world, tmp_path, saying(*answers))
    sent = [await own.get("www.example.org") for _ in answers]
    assert sent == ["", "a=1; b=1; c=1", "a=2; b=1; c=1", "a=2; c=1"]
    await own.fetcher.close()


async def test_two_hosts_of_a_site_at_once_both_leave_their_cookies(
    world: World, tmp_path: Path
) -> None:
    both = asyncio.Barrier(2)

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        request = await server.read_request(reader)
        name = request.split(b"Host: ")[1].split(b".")[0].decode()
        await both.wait()
        writer.write(setting(f"{name}=1; Domain=example.org"))
        await writer.drain()

    own = await site(world, tmp_path, talk)
    urls = [f"http://{name}.example.org:{own.server.port}/" for name in ("one", "two")]
    await asyncio.gather(*(own.fetcher.fetch(FetchRequest(url, "127.0.0.1")) for url in urls))
    assert own.jars.snapshot()[:2] == (1, 2)
    await own.fetcher.close()


async def test_a_jar_is_bounded(world: World, tmp_path: Path) -> None:
    rounds = [setting(*(f"n{40 * turn + i}=1" for i in range(40))) for turn in range(5)]
    large = [
        setting(*(f"big{10 * turn + i}=" + "x" * 4000 for i in range(10))) for turn in range(4)
    ]
    own = await site(world, tmp_path, saying(*rounds, *large))
    for _ in rounds:
        await own.get("www.example.org")
    assert own.jars.snapshot().cookies == SITE_COOKIES
    for _ in large:
        await own.get("www.example.org")
    assert 0 < own.jars.snapshot().size_bytes <= SITE_BYTES
    await own.fetcher.close()


async def test_all_jars_together_are_bounded_and_the_site_asked_longest_ago_goes_first(
    world: World, tmp_path: Path
) -> None:
    own = await site(world, tmp_path, always(setting("a=" + "x" * 900)), max_bytes=4000)
    for number in (0, 1, 2, 0, 3, 4):
        await own.get(f"www.example{number}.org")
    assert own.jars.snapshot().size_bytes <= 4000
    assert await own.get("www.example1.org") == ""
    assert await own.get("www.example4.org") != ""
    await own.fetcher.close()
