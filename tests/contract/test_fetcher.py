"""The fetcher against servers that misbehave, over real sockets on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.clock import SystemClock
from lycosa.config import FetchSection
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import Guard
from lycosa.fetch.headers import build_user_agent
from lycosa.model.fetched import Fetched, FetchRequest, Limits
from lycosa.reasons import Reason

Talk = Callable[["RawServer", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SHORT = Limits(connect_s=0.3, first_byte_s=0.2, total_s=0.6, min_bytes_per_s=0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class RawServer:
    """Says what ``talk`` says, and remembers what it was asked."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.connections = 0
        self.requests: list[bytes] = []
        self.closed_by_client = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)

    async def start(self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.server = await asyncio.start_server(self._serve, host, 0, ssl=tls, limit=1 << 20)
        self.port = self.server.sockets[0].getsockname()[1]
        self.tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def read_request(self, reader: asyncio.StreamReader) -> bytes:
        request = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(request)
        self.arrived.release()
        return request

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        try:
            await self._talk(self, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            self.closed_by_client.set()
        except asyncio.CancelledError:
            writer.transport.abort()  # the test is over
        finally:
            self.tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError, TimeoutError, asyncio.CancelledError):
                await writer.wait_closed()


def saying(*answers: bytes, keep_open: bool = False) -> Talk:
    """Reads a request, says the next of ``answers``, and so on; then closes, or waits until the client does."""

    async def talk(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await server.read_request(reader)
            writer.write(answer)
            await writer.drain()
        if keep_open:
            await reader.read()
            server.closed_by_client.set()

    return talk


def always(answer: bytes) -> Talk:
    """The same answer to every request, on kept connections."""

    async def talk(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await server.read_request(reader)
            writer.write(answer)
            await writer.drain()

    return talk


def dripping(head: bytes, drip: bytes) -> Talk:
    """Says ``head``, then ``drip`` without end, a little at a time."""

    async def talk(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_request(reader)
        writer.write(head)
        while True:
            writer.write(drip)
            await writer.drain()
            await asyncio.sleep(0.02)

    return talk


def flooding(head: bytes, flood: bytes) -> Talk:
    """Says ``head``, then ``flood`` without end, as fast as it goes."""

    async def talk(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_request(reader)
        writer.write(head)
        while True:
            writer.write(flood)
            await writer.drain()

    return talk


class World:
    """A fetcher and the servers of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._servers: list[RawServer] = []
        self._fetchers: list[CurlFetcher] = []

    async def serve(self, talk: Talk, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> RawServer:
        server = RawServer(talk)
        await server.start(host, tls)
        self._servers.append(server)
        return server

    def fetcher(self, allowed: tuple[str, ...] = ("127.0.0.0/8", "::1"), contact: str = "", **settings: object) -> CurlFetcher:
        agent = build_user_agent("lycosa", "0.1", contact)
        section = FetchSection(**settings)  # type: ignore[arg-type]
        fetcher = CurlFetcher(section, agent, contact, Guard(allowed), SystemClock(), self.folder / "spool")
        self._fetchers.append(fetcher)
        return fetcher

    async def get(self, talk: Talk, limits: Limits = SHORT, **settings: object) -> Fetched:
        """One page of a server that says ``talk``."""
        server = await self.serve(talk)
        fetched = await asyncio.wait_for(self.fetcher(**settings).fetch(to(server, limits=limits)), 5)  # type: ignore[arg-type]
        assert fetched.truncated == "" or fetched.header_block
        return fetched

    def spooled(self) -> list[Path]:
        folder = self.folder / "spool"
        return sorted(folder.iterdir()) if folder.exists() else []

    async def close(self) -> None:
        for fetcher in self._fetchers:
            await fetcher.close()
        for server in self._servers:
            await server.stop()


def to(server: RawServer, path: str = "/", scheme: str = "http", limits: Limits = SHORT, **more: str) -> FetchRequest:
    return FetchRequest(f"{scheme}://www.example.org:{server.port}{path}", more.pop("address", "127.0.0.1"), limits=limits, **more)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    yield world
    await world.close()


# What is sent


async def test_the_request_block_is_what_the_server_received(world: World) -> None:
    server = await world.serve(always(OK))
    fetcher = world.fetcher(contact="bot@example.org", accept_language="en")
    fetched = await fetcher.fetch(to(server, "/a?b=c", etag='W/"x\xe9"', last_modified="Tue, 15 Nov 1994 12:45:26 GMT"))
    assert fetched.reason is Reason.NONE
    assert [fetched.request_block] == server.requests
    assert fetched.request_block.decode("latin-1").split("\r\n") == [
        "GET /a?b=c HTTP/1.1",
        f"Host: www.example.org:{server.port}",
        "User-Agent: lycosa/0.1 (+bot@example.org)",
        "From: bot@example.org",
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Accept-Language: en",
        "Accept-Encoding: gzip, br, zstd, deflate",
        'If-None-Match: W/"x\xe9"',
        "If-Modified-Since: Tue, 15 Nov 1994 12:45:26 GMT",
        "",
        "",
    ]


async def test_a_condition_does_not_stick_to_the_next_request(world: World) -> None:
    server = await world.serve(always(OK))
    fetcher = world.fetcher()
    await fetcher.fetch(to(server, etag='"x"'))
    await fetcher.fetch(to(server))
    assert b"If-None-Match" in server.requests[0]
    assert b"If-None-Match" not in server.requests[1]


async def test_a_validator_with_a_line_break_is_not_sent(world: World) -> None:
    server = await world.serve(always(OK))
    await world.fetcher().fetch(to(server, etag='"x"\r\nX-Evil: 1'))
    assert b"Evil" not in server.requests[0]


@pytest.mark.parametrize(
    "path",
    [
        "/a/../b/./c",
        "//x//",
        "/%3a%3A%zz",
        "/a;b,c'(d)!$&*+",
        '/"<>^`{|}',
        "/?a=b&&c=?/",
        "/a?b=/../",
        "/a%20b+c",
        "/~user/",
        "/a\\b",
        "?x",
    ],
)
async def test_the_url_is_sent_as_it_is(world: World, path: str) -> None:
    server = await world.serve(always(OK))
    await world.fetcher().fetch(to(server, path))
    expected = path if path.startswith("/") else f"/{path}"
    assert server.requests[0].split(b" HTTP/1.1\r\n")[0].decode() == f"GET {expected}"


async def test_a_fragment_and_a_user_name_are_not_sent(world: World) -> None:
    server = await world.serve(always(OK))
    await world.fetcher().fetch(FetchRequest(f"http://user:secret@example.org:{server.port}/a#b", "127.0.0.1", limits=SHORT))
    assert server.requests[0].startswith(b"GET /a HTTP/1.1\r\nHost: example.org:")
    assert b"Authorization" not in server.requests[0]


async def test_any_visible_path_arrives_unchanged(world: World) -> None:
    server = await world.serve(always(OK))
    fetcher = world.fetcher()
    loop = asyncio.get_running_loop()
    paths: list[str] = []
    characters = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#"), max_size=40)

    @settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(characters)
    def collect(path: str) -> None:
        paths.append(f"/{path}")

    await loop.run_in_executor(None, collect)
    for path in paths:
        fetched = await fetcher.fetch(to(server, path))
        assert fetched.reason is Reason.NONE
        assert server.requests[-1].split(b"\r\n")[0].decode() == f"GET {path} HTTP/1.1"
        assert fetched.request_block == server.requests[-1]


async def test_the_environment_offers_no_proxy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
    assert (await world.get(saying(OK))).status == 200


async def test_redirects_are_answers_and_cookies_are_not_kept(world: World) -> None:
    server = await world.serve(always(b"HTTP/1.1 302 Found\r\nLocation: /b\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"))
    fetcher = world.fetcher()
    for _ in range(2):
        fetched = await fetcher.fetch(to(server))
        assert (fetched.status, fetched.header("location")) == (302, "/b")
    assert len(server.requests) == 2
    assert b"Cookie" not in server.requests[1]


async def test_the_name_is_never_resolved(world: World) -> None:
    server = await world.serve(always(OK))
    fetched = await world.fetcher().fetch(FetchRequest(f"http://no.such.name.invalid:{server.port}/", "127.0.0.1", limits=SHORT))
    assert (fetched.status, fetched.address) == (200, "127.0.0.1")


async def test_the_same_name_can_be_pinned_to_another_address(world: World) -> None:
    server = await world.serve(always(OK), host="0.0.0.0")
    fetcher = world.fetcher()
    addresses = [(await fetcher.fetch(to(server, address=address))).address for address in ("127.0.0.1", "127.0.0.2", "127.0.0.1")]
    assert addresses == ["127.0.0.1", "127.0.0.2", "127.0.0.1"]
    assert server.connections == 2


async def test_an_ipv6_address_is_connected_to(world: World) -> None:
    server = await world.serve(always(OK), host="::1")
    fetched = await world.fetcher().fetch(to(server, address="::1"))
    assert (fetched.status, fetched.address) == (200, "::1")


async def test_an_address_in_the_url_works(world: World) -> None:
    server = await world.serve(always(OK), host="::1")
    fetched = await world.fetcher().fetch(FetchRequest(f"http://[::1]:{server.port}/", "::1", limits=SHORT))
    assert fetched.status == 200
    assert f"Host: [::1]:{server.port}".encode() in server.requests[0]


# What comes back


HEAD = (
    b"HTTP/1.1 200  Very   OK \r\n"
    b"sErVeR:   nginx  \r\n"
    b"X-Dup: 1\r\nx-dup:2\r\n"
    b"X-Latin: caf\xe9\r\n"
    b"X Bad Name : 3\r\n"
    b"X-Empty:\r\n"
    b"Content-Length: 5\r\n\r\n"
)


async def test_the_header_block_is_byte_for_byte(world: World) -> None:
    fetched = await world.get(saying(HEAD + b"hello"))
    assert fetched.header_block == HEAD
    assert (fetched.status, fetched.body, fetched.body_bytes, fetched.reason) == (200, b"hello", 5, Reason.NONE)
    assert fetched.header("x-latin") == "caf\xe9"


@pytest.mark.parametrize(
    ("head", "protocol"),
    [
        (b"HTTP/1.1 404\r\n\r\n", "http/1.1"),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "http/1.0"),
        (b"HTTP/1.1 404 \r\n\r\n", "http/1.1"),
        (b"HTTP/1.1 404 x\nA: b\n\n", "http/1.1"),
        (b"HTTP/1.1 404 \xff\xfe\r\n\r\n", "http/1.1"),
    ],
)
async def test_status_lines_as_servers_write_them(world: World, head: bytes, protocol: str) -> None:
    fetched = await world.get(saying(head + b"gone"))
    assert (fetched.status, fetched.header_block, fetched.body, fetched.protocol) == (404, head, b"gone", protocol)


async def test_chunks_are_joined_and_trailers_left_out(world: World) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n"
    fetched = await world.get(saying(head + b"3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: y\r\n\r\n"))
    assert (fetched.header_block, fetched.body, fetched.reason) == (head, b"abcde", Reason.NONE)


async def test_the_content_encoding_is_not_undone(world: World) -> None:
    fetched = await world.get(saying(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\n\x1f\x8brest"))
    assert fetched.body == b"\x1f\x8brest"


@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3])
async def test_interim_answers_are_dropped(world: World, interim: bytes) -> None:
    fetched = await world.get(saying(interim + OK))
    assert fetched.header_block == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    assert (fetched.status, fetched.body) == (200, b"hello")


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 99\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"]
)
async def test_an_answer_without_a_body_is_whole(world: World, head: bytes) -> None:
    fetched = await world.get(saying(head, keep_open=True))
    assert (fetched.reason, fetched.header_block, fetched.body, fetched.truncated) == (Reason.NONE, head, b"", "")


async def test_a_body_longer_than_declared_ends_where_declared(world: World) -> None:
    fetched = await world.get(saying(OK + b" and more"))
    assert (fetched.body, fetched.reason) == (b"hello", Reason.NONE)


async def test_times_are_told(world: World) -> None:
    fetched = await world.get(saying(OK))
    assert 0 < fetched.first_byte_s <= fetched.duration_s < 1
    assert abs(fetched.started - datetime.now(UTC).timestamp()) < 5


# Connections


async def test_a_connection_is_kept(world: World) -> None:
    server = await world.serve(always(OK))
    fetcher = world.fetcher()
    for _ in range(5):
        assert (await fetcher.fetch(to(server))).status == 200
    assert server.connections == 1
    assert fetcher.snapshot().connections_made == 1


async def test_no_connection_is_kept_when_none_may_be(world: World) -> None:
    server = await world.serve(always(OK))
    fetcher = world.fetcher(connections=0)
    for _ in range(2):
        await fetcher.fetch(to(server))
    assert server.connections == 2


async def test_idle_connections_are_capped(world: World) -> None:
    servers = [await world.serve(saying(OK, keep_open=True)) for _ in range(4)]
    fetcher = world.fetcher(connections=2)
    for server in servers:
        await fetcher.fetch(to(server))
    async with asyncio.timeout(3):
        await servers[0].closed_by_client.wait()


async def test_a_kept_connection_that_died_is_replaced(world: World) -> None:
    server = await world.serve(saying(OK))
    fetcher = world.fetcher()
    for _ in range(3):
        fetched = await fetcher.fetch(to(server))
        assert (fetched.status, fetched.request_block) == (200, server.requests[-1])


async def test_many_at_once_all_return(world: World) -> None:
    server = await world.serve(always(OK))
    fetcher = world.fetcher()
    requests = (FetchRequest(f"http://h{number}.example:{server.port}/", "127.0.0.1") for number in range(100))
    statuses = [fetched.status for fetched in await asyncio.gather(*map(fetcher.fetch, requests))]
    assert statuses == [200] * 100
    assert fetcher.snapshot().open_transfers == 0


# The guard


async def test_a_forbidden_address_is_not_connected_to(world: World) -> None:
    server = await world.serve(always(OK))
    fetched = await world.fetcher(allowed=()).fetch(to(server))
    assert fetched.reason is Reason.ADDRESS_FORBIDDEN
    assert "loopback" in fetched.detail
    assert server.connections == 0


class ConnectedGuard(Guard):
    """Lets the pinned address pass and refuses the connected one, as when something in between rewrites addresses."""

    def __init__(self) -> None:
        super().__init__([])
        self._is_asked_again = False

    def refusal(self, address: str) -> str | None:
        was_asked, self._is_asked_again = self._is_asked_again, True
        return super().refusal(address) if was_asked else None


class BrokenGuard(ConnectedGuard):
    """Fails inside libcurl's callback."""

    def refusal(self, address: str) -> str | None:
        was_asked, self._is_asked_again = self._is_asked_again, True
        if was_asked:
            raise LookupError("broken guard")
        return None


@pytest.mark.parametrize(("guard", "reason"), [(ConnectedGuard, Reason.ADDRESS_FORBIDDEN), (BrokenGuard, Reason.INTERNAL)])
async def test_the_connected_address_is_vetoed_before_the_request_is_sent(
    world: World, tmp_path: Path, guard: type[ConnectedGuard], reason: Reason
) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(_: RawServer, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await heard.put(await reader.read())

    server = await world.serve(listen)
    fetcher = CurlFetcher(FetchSection(), "lycosa/0.1", "", guard(), SystemClock(), tmp_path)
    async with asyncio.timeout(5):
        fetched = await fetcher.fetch(to(server))
        await fetcher.close()
        assert await heard.get() == b""
    assert fetched.reason is reason
    assert fetched.status == 0


# Limits


async def test_a_long_body_is_cut_and_kept(world: World) -> None:
    limits = Limits(body_bytes=100_000)
    fetched = await world.get(flooding(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 30_000), limits)
    assert (fetched.reason, fetched.truncated, fetched.body_bytes) == (Reason.BODY_TRUNCATED, "length", 100_000)
    assert fetched.body == b"x" * 100_000


async def test_a_body_of_just_the_limit_is_whole(world: World) -> None:
    fetched = await world.get(saying(OK), Limits(body_bytes=5))
    assert (fetched.reason, fetched.body) == (Reason.NONE, b"hello")


async def test_a_server_that_never_answers_runs_into_the_first_byte_limit(world: World) -> None:
    fetched = await world.get(saying(b"", keep_open=True))
    assert (fetched.reason, fetched.status) == (Reason.FIRST_BYTE_TIMEOUT, 0)
    assert 0.2 <= fetched.duration_s < 0.5


async def test_a_status_line_that_drips_runs_into_the_first_byte_limit(world: World) -> None:
    fetched = await world.get(dripping(b"HTTP/1.1 200 ", b"O"))
    assert fetched.reason is Reason.FIRST_BYTE_TIMEOUT


async def test_a_body_that_drips_runs_into_the_total_limit_and_is_kept(world: World) -> None:
    fetched = await world.get(dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x"))
    assert (fetched.reason, fetched.truncated, fetched.status) == (Reason.TOTAL_TIMEOUT, "time", 200)
    assert 5 <= fetched.body_bytes == len(fetched.body)
    assert 0.6 <= fetched.duration_s < 1.0


async def test_a_body_below_the_minimum_speed_is_given_up_and_kept(world: World) -> None:
    limits = Limits(first_byte_s=5, total_s=10, min_bytes_per_s=10_000, min_speed_window_s=0.2)
    fetched = await world.get(dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x"), limits)
    assert (fetched.reason, fetched.truncated) == (Reason.TOO_SLOW, "time")
    assert fetched.duration_s < 1


async def test_waiting_for_the_first_byte_is_not_slowness(world: World) -> None:
    limits = Limits(first_byte_s=0.5, min_bytes_per_s=10_000, min_speed_window_s=0.1)
    fetched = await world.get(saying(b"", keep_open=True), limits)
    assert fetched.reason is Reason.FIRST_BYTE_TIMEOUT


async def test_a_body_above_the_minimum_speed_is_left_alone(world: World) -> None:
    limits = Limits(total_s=0.6, min_bytes_per_s=1000, min_speed_window_s=0.1)
    fetched = await world.get(dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000), limits)
    assert fetched.reason is Reason.TOTAL_TIMEOUT


@pytest.mark.parametrize(
    ("head", "flood"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Long: " + b"x" * 8000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 10_000),
        (b"", b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 1000),
    ],
    ids=["long lines", "many lines", "one endless line", "endless interim answers", "endless trailers"],
)
async def test_endless_headers_are_cut_off(world: World, head: bytes, flood: bytes) -> None:
    fetched = await world.get(flooding(head, flood), Limits(total_s=4))
    assert fetched.reason in (Reason.HEADERS_TOO_LARGE, Reason.MALFORMED_RESPONSE)
    assert fetched.duration_s < 3


async def test_many_headers_within_the_limit_are_kept(world: World) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 900 + b"X-Long: " + b"x" * 90_000 + b"\r\nContent-Length: 0\r\n\r\n"
    fetched = await world.get(saying(head))
    assert (fetched.reason, fetched.header_block) == (Reason.NONE, head)


@pytest.mark.parametrize(("limits", "lines"), [(Limits(header_count=10), 11), (Limits(header_bytes=100), 20)])
async def test_headers_beyond_the_limits_are_refused(world: World, limits: Limits, lines: int) -> None:
    fetched = await world.get(saying(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * lines + b"\r\n"), limits)
    assert (fetched.reason, fetched.status, fetched.header_block) == (Reason.HEADERS_TOO_LARGE, 0, b"")
    whole = await world.get(saying(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10 + b"\r\n"), limits)
    assert whole.reason is Reason.NONE


# Broken answers


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", Reason.EMPTY_RESPONSE),
        (b"<html>no HTTP at all</html>", Reason.MALFORMED_RESPONSE),
        (b"HTTP/9.9 200 OK\r\n\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/1.1 -12 OK\r\n\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nX: y\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/1.1 200 O", Reason.EMPTY_RESPONSE),
        (b"SSH-2.0-OpenSSH_9.9\r\n", Reason.MALFORMED_RESPONSE),
    ],
)
async def test_what_is_not_http_is_no_response(world: World, answer: bytes, reason: Reason) -> None:
    fetched = await world.get(saying(answer))
    assert (fetched.reason, fetched.status, fetched.header_block, fetched.body) == (reason, 0, b"", b"")
    assert fetched.detail


@pytest.mark.parametrize(
    ("framing", "body", "kept"),
    [
        (b"Content-Length: 10", b"hello", b"hello"),
        (b"Content-Length: 10", b"", b""),
        (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n", b"hello"),
        (b"Transfer-Encoding: chunked", b"5\r\nhel", b"hel"),
        (b"Transfer-Encoding: chunked", b"", b""),
    ],
)
async def test_a_body_that_breaks_off_is_kept(world: World, framing: bytes, body: bytes, kept: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n"
    fetched = await world.get(saying(head + body))
    assert (fetched.reason, fetched.truncated) == (Reason.CONNECTION_LOST, "disconnect")
    assert (fetched.status, fetched.header_block, fetched.body) == (200, head, kept)


async def test_broken_chunks_are_malformed_and_what_came_before_is_kept(world: World) -> None:
    fetched = await world.get(saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"))
    assert (fetched.reason, fetched.body, fetched.truncated) == (Reason.MALFORMED_RESPONSE, b"abc", "disconnect")


async def test_a_reset_before_the_answer_is_a_lost_connection(world: World) -> None:
    async def reset(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_request(reader)
        writer.transport.abort()

    fetched = await world.get(reset)
    assert fetched.reason in (Reason.CONNECTION_LOST, Reason.EMPTY_RESPONSE)


async def test_a_close_before_the_request_is_read_is_told(world: World) -> None:
    async def close(_: RawServer, __: asyncio.StreamReader, ___: asyncio.StreamWriter) -> None:
        return

    assert (await world.get(close)).reason in (Reason.CONNECTION_LOST, Reason.EMPTY_RESPONSE)


async def test_a_closed_port_refuses(world: World) -> None:
    server = await world.serve(always(OK))
    await server.stop()
    fetched = await world.fetcher().fetch(to(server))
    assert fetched.reason is Reason.CONNECT_REFUSED
    assert "refused" in fetched.detail.lower() or "connect" in fetched.detail.lower()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://exa mple.org/", Reason.UNPARSABLE),
        ("http:///", Reason.UNPARSABLE),
        ("", Reason.UNPARSABLE),
        ("http://h/\u20ac", Reason.UNPARSABLE),
        ("ftp://h/", Reason.SCHEME),
    ],
)
async def test_a_url_that_cannot_be_sent_is_told(world: World, url: str, reason: Reason) -> None:
    fetched = await world.fetcher().fetch(FetchRequest(url, "127.0.0.1"))
    assert (fetched.reason, fetched.status) == (reason, 0)


# TLS


AUTHORITY = trustme.CA()


def server_tls(issued: trustme.LeafCert, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


@pytest.fixture
def ca_file(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(str(path))
    return str(path)


async def test_a_good_certificate_is_accepted_by_name(world: World, ca_file: str) -> None:
    server = await world.serve(always(OK), tls=server_tls(AUTHORITY.issue_cert("www.example.org")))
    fetcher = world.fetcher(ca_file=ca_file)
    for _ in range(2):
        fetched = await fetcher.fetch(to(server, scheme="https"))
        assert (fetched.reason, fetched.status, fetched.tls, fetched.protocol) == (Reason.NONE, 200, "TLSv1.3", "http/1.1")
    assert server.connections == 1


def expired() -> trustme.LeafCert:
    return AUTHORITY.issue_cert("www.example.org", not_after=datetime.now(UTC) - timedelta(days=1))


@pytest.mark.parametrize(
    "issue", [lambda: AUTHORITY.issue_cert("other.example"), expired, lambda: trustme.CA().issue_cert("www.example.org")]
)
async def test_a_bad_certificate_is_refused_and_accepted_when_told_so(
    world: World, ca_file: str, issue: Callable[[], trustme.LeafCert]
) -> None:
    server = await world.serve(always(OK), tls=server_tls(issue()))
    fetched = await world.fetcher(ca_file=ca_file).fetch(to(server, scheme="https"))
    assert (fetched.reason, fetched.status) == (Reason.TLS_FAILED, 0)
    assert server.requests == []
    assert (await world.fetcher(verify_tls=False).fetch(to(server, scheme="https"))).status == 200


async def test_a_server_without_tls_fails_it(world: World) -> None:
    server = await world.serve(always(OK))
    fetched = await world.fetcher().fetch(to(server, scheme="https", limits=SHORT))
    assert fetched.reason in (Reason.TLS_FAILED, Reason.CONNECT_TIMEOUT)


async def test_a_handshake_that_stalls_is_a_connect_timeout(world: World) -> None:
    async def stall(_: RawServer, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await reader.read()

    server = await world.serve(stall)
    fetched = await world.fetcher().fetch(to(server, scheme="https"))
    assert fetched.reason is Reason.CONNECT_TIMEOUT
    assert fetched.duration_s < 0.6


async def test_tls_sessions_are_resumed(world: World, ca_file: str) -> None:
    resumed: list[bool] = []

    async def talk(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        await saying(OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))(server, reader, writer)

    server = await world.serve(talk, tls=server_tls(AUTHORITY.issue_cert("www.example.org")))
    fetcher = world.fetcher(ca_file=ca_file)
    for _ in range(3):
        assert (await fetcher.fetch(to(server, scheme="https"))).status == 200
    assert resumed == [False, True, True]


def test_a_missing_ca_file_is_told_at_once(world: World) -> None:
    with pytest.raises(ValueError, match="no such file"):
        world.fetcher(ca_file="/nowhere/ca.pem")


async def speak_http2(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    config = pytest.importorskip("h2.config").H2Configuration(client_side=False)
    connection = pytest.importorskip("h2.connection").H2Connection(config)
    request_received = pytest.importorskip("h2.events").RequestReceived
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    while data := await reader.read(65536):
        for event in connection.receive_data(data):
            if isinstance(event, request_received):
                server.requests.append(dict(event.headers)[b":path"])
                connection.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/plain"), ("x-a", "caf\xe9")])
                connection.send_data(event.stream_id, b"hello", end_stream=True)
        writer.write(connection.data_to_send())


async def test_http2_is_spoken_where_offered(world: World, ca_file: str) -> None:
    pytest.importorskip("h2")
    server = await world.serve(speak_http2, tls=server_tls(AUTHORITY.issue_cert("www.example.org"), ("h2", "http/1.1")))
    fetcher = world.fetcher(ca_file=ca_file)
    for path in ("/a/../b", "/c"):
        fetched = await fetcher.fetch(to(server, path, scheme="https"))
        assert (fetched.status, fetched.protocol, fetched.body, fetched.reason) == (200, "h2", b"hello", Reason.NONE)
        assert fetched.header_block.startswith(b"HTTP/2 200 \r\ncontent-type: text/plain\r\n")
        assert fetched.request_block.startswith(f"GET {path} HTTP/2\r\n".encode())
    assert (server.connections, server.requests) == (1, [b"/a/../b", b"/c"])


async def test_http2_is_not_spoken_when_it_is_off(world: World, ca_file: str) -> None:
    server = await world.serve(always(OK), tls=server_tls(AUTHORITY.issue_cert("www.example.org"), ("h2", "http/1.1")))
    fetched = await world.fetcher(ca_file=ca_file, http2=False).fetch(to(server, scheme="https"))
    assert (fetched.status, fetched.protocol) == (200, "http/1.1")


# Spooling, cancelling, closing


async def test_a_large_body_is_spooled(world: World) -> None:
    body = bytes(range(256)) * 1000
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    fetched = await world.get(saying(head + body), Limits(spool_bytes=100_000))
    assert (fetched.body, fetched.body_bytes, fetched.reason) == (b"", len(body), Reason.NONE)
    assert [Path(fetched.spool)] == world.spooled()
    assert world.spooled()[0].read_bytes() == body


async def test_open_transfers_share_a_budget_of_memory(world: World) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 900001\r\n\r\n"

    async def talk(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_request(reader)
        writer.write(head + b"x" * 900_000)
        await finish.wait()
        writer.write(b"x")

    finish = asyncio.Event()
    server = await world.serve(talk)
    fetcher = world.fetcher(open_bytes=1_000_000)
    requests = (FetchRequest(f"http://h{number}.example:{server.port}/", "127.0.0.1") for number in range(5))
    tasks = [asyncio.ensure_future(fetcher.fetch(request)) for request in requests]
    async with asyncio.timeout(5):
        while fetcher.snapshot().spooled < 4:
            assert fetcher.snapshot().open_bytes <= 1_000_000
            await asyncio.sleep(0)
    finish.set()
    done = await asyncio.gather(*tasks)
    assert all(fetched.reason is Reason.NONE and fetched.body_bytes == 900_001 for fetched in done)
    assert sum(bool(fetched.spool) for fetched in done) >= 4
    assert fetcher.snapshot() == fetcher.snapshot().__class__(0, 0, 0, 5, 5)


async def test_a_spool_that_cannot_be_written_is_our_failure(world: World) -> None:
    (world.folder / "spool").write_text("in the way")
    server = await world.serve(always(b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n" + b"x" * 3000))
    fetcher = world.fetcher()
    fetched = await fetcher.fetch(to(server, limits=Limits(spool_bytes=1024)))
    assert (fetched.reason, fetched.status, fetched.spool, fetched.body) == (Reason.INTERNAL, 0, "", b"")
    assert "spool" in fetched.detail
    assert (await fetcher.fetch(to(server))).status == 200


async def test_cancelling_ends_the_transfer_and_deletes_the_spool(world: World) -> None:
    server = await world.serve(flooding(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 10_000))
    fetcher = world.fetcher()
    task = asyncio.ensure_future(fetcher.fetch(to(server, limits=Limits(spool_bytes=50_000, body_bytes=1 << 40))))
    async with asyncio.timeout(5):
        while not world.spooled():  # noqa: ASYNC110  a folder sends no events
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.closed_by_client.wait()
    assert world.spooled() == []
    assert (fetcher.snapshot().open_transfers, fetcher.snapshot().open_bytes, fetcher.snapshot().spooled) == (0, 0, 0)
    other = await world.serve(always(OK))
    assert (await fetcher.fetch(to(other))).status == 200


async def test_cancelling_many_leaves_nothing_open(world: World) -> None:
    server = await world.serve(saying(b"", keep_open=True))
    fetcher = world.fetcher()
    requests = [FetchRequest(f"http://h{number}.example:{server.port}/", "127.0.0.1") for number in range(50)]
    tasks = [asyncio.ensure_future(fetcher.fetch(request)) for request in requests]
    async with asyncio.timeout(5):
        for _ in tasks:
            await server.arrived.acquire()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
    assert fetcher.snapshot().open_transfers == 0


async def test_closing_ends_open_transfers(world: World) -> None:
    server = await world.serve(saying(b"", keep_open=True))
    fetcher = world.fetcher()
    task = asyncio.ensure_future(fetcher.fetch(to(server, limits=Limits())))
    async with asyncio.timeout(5):
        await server.arrived.acquire()
        await fetcher.close()
        fetched = await task
        await fetcher.close()
    assert (fetched.reason, fetched.status) == (Reason.INTERNAL, 0)
    assert (await fetcher.fetch(to(server))).reason is Reason.INTERNAL
    assert "open_transfers=0" in repr(fetcher)
