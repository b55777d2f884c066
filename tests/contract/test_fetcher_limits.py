"""The fetcher's guard and limits, and what it makes of broken answers, over real sockets on
loopback.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lycosa.base.config.sections import FetchSection
from lycosa.base.model.fetched import FetchRequest, Limits
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.stages.fetch.body import FREE_CHUNKS
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.http_client import CurlFetcher
from raw_server import OK, PATIENCE_S, RawServer, World, always, dripping, flooding, saying, to

EARLY = Limits(first_byte_s=0.2, min_bytes_per_s=0)


async def test_a_forbidden_address_is_not_connected_to(world: World) -> None:
    server = await world.serve(always(OK))
    fetched = await world.fetcher(allowed=()).fetch(to(server))
    assert fetched.reason is Reason.ADDRESS_FORBIDDEN
    assert "loopback" in fetched.detail
    assert server.connections == 0


class ConnectedGuard(Guard):
    """Lets the pinned address pass and refuses the connected one, as when something in between
    rewrites addresses.
    """

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


@pytest.mark.parametrize(
    ("guard", "reason"),
    [(ConnectedGuard, Reason.ADDRESS_FORBIDDEN), (BrokenGuard, Reason.INTERNAL)],
)
async def test_the_connected_address_is_vetoed_before_the_request_is_sent(
    world: World, tmp_path: Path, guard: type[ConnectedGuard], reason: Reason
) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(_: RawServer, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await heard.put(await reader.read())

    server = await world.serve(listen)
    fetcher = CurlFetcher(FetchSection(), "lycosa/0.1", "", guard(), SystemClock(), tmp_path)
    async with asyncio.timeout(PATIENCE_S):
        fetched = await fetcher.fetch(to(server))
        await fetcher.close()
        assert await heard.get() == b""
    assert fetched.reason is reason
    assert fetched.status == 0


# Limits


async def test_a_long_body_is_cut_and_kept(world: World) -> None:
    limits = Limits(body_bytes=100_000)
    fetched = await world.get(flooding(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 30_000), limits)
    assert (fetched.reason, fetched.truncated, fetched.body_bytes) == (
        Reason.BODY_TRUNCATED,
        "length",
        100_000,
    )
    assert fetched.body == b"x" * 100_000


async def test_a_body_that_comes_byte_by_byte_is_cut_and_kept(world: World) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    fetched = await world.get(flooding(head, b"1\r\nx\r\n" * 5000), Limits(spool_bytes=40_000))
    assert (fetched.reason, fetched.truncated, fetched.detail) == (
        Reason.BODY_TRUNCATED,
        "length",
        "a few bytes at a time",
    )
    assert FREE_CHUNKS <= fetched.body_bytes <= FREE_CHUNKS * 1.1
    assert [path.stat().st_size for path in world.spooled()] == [fetched.body_bytes]


async def test_a_body_in_many_small_chunks_is_whole(world: World) -> None:
    words = b"".join(
        b"%x\r\n%s\r\n" % (len(word), word) for word in [b"three", b"or", b"four"] * 5000
    )
    fetched = await world.get(
        saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + words + b"0\r\n\r\n")
    )
    assert (fetched.reason, fetched.body) == (Reason.NONE, b"threeorfour" * 5000)


async def test_a_body_of_just_the_limit_is_whole(world: World) -> None:
    fetched = await world.get(saying(OK), Limits(body_bytes=5))
    assert (fetched.reason, fetched.body) == (Reason.NONE, b"hello")


async def test_a_body_of_another_type_is_left_and_its_answer_kept(world: World) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 999999\r\n\r\n"
    fetched = await world.get(flooding(head, b"x" * 30_000), Limits(accepts=("image",)))
    assert (fetched.reason, fetched.truncated, fetched.body_bytes, fetched.status) == (
        Reason.TYPE_REFUSED,
        "unspecified",
        0,
        200,
    )
    assert fetched.header("content-length") == "999999"
    assert fetched.detail == "video/mp4"


async def test_media_have_a_limit_of_their_own_and_go_to_disk(world: World) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n"
    limits = Limits(body_bytes=1000, media_bytes=200_000, spool_bytes=50_000, accepts=("image",))
    fetched = await world.get(flooding(head, b"x" * 30_000), limits)
    assert (fetched.reason, fetched.body_bytes) == (Reason.BODY_TRUNCATED, 200_000)
    assert fetched.detail == "more than 200000 bytes"
    assert [path.stat().st_size for path in world.spooled()] == [200_000]
    page = await world.get(flooding(head.replace(b"image/png", b"text/html"), b"x" * 999), limits)
    assert (page.reason, page.body_bytes) == (Reason.BODY_TRUNCATED, 1000)


async def test_a_server_that_never_answers_runs_into_the_first_byte_limit(world: World) -> None:
    fetched = await world.get(saying(b"", keep_open=True), EARLY)
    assert (fetched.reason, fetched.status) == (Reason.FIRST_BYTE_TIMEOUT, 0)
    assert EARLY.first_byte_s <= fetched.duration_s < EARLY.total_s


async def test_a_status_line_that_drips_runs_into_the_first_byte_limit(world: World) -> None:
    fetched = await world.get(dripping(b"HTTP/1.1 200 ", b"O"), EARLY)
    assert fetched.reason is Reason.FIRST_BYTE_TIMEOUT


async def test_a_body_that_drips_runs_into_the_total_limit_and_is_kept(world: World) -> None:
    limits = Limits(total_s=1.0, min_bytes_per_s=0)
    fetched = await world.get(dripping(b"HTTP/1.1 200 OK\r\n\r\nhello", b"x"), limits)
    assert (fetched.reason, fetched.truncated, fetched.status) == (
        Reason.TOTAL_TIMEOUT,
        "time",
        200,
    )
    assert 5 <= fetched.body_bytes == len(fetched.body)
    assert limits.total_s <= fetched.duration_s < PATIENCE_S


async def test_a_body_below_the_minimum_speed_is_given_up_and_kept(world: World) -> None:
    limits = Limits(min_bytes_per_s=10_000, min_speed_window_s=0.2)
    fetched = await world.get(dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x"), limits)
    assert (fetched.reason, fetched.truncated) == (Reason.TOO_SLOW, "time")
    assert fetched.duration_s < limits.total_s


async def test_waiting_for_the_first_byte_is_not_slowness(world: World) -> None:
    limits = Limits(first_byte_s=0.5, min_bytes_per_s=10_000, min_speed_window_s=0.1)
    fetched = await world.get(saying(b"", keep_open=True), limits)
    assert fetched.reason is Reason.FIRST_BYTE_TIMEOUT


async def test_a_body_above_the_minimum_speed_is_left_alone(world: World) -> None:
    limits = Limits(total_s=1.5, min_bytes_per_s=1000, min_speed_window_s=0.6)
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
    ids=[
        "long lines",
        "many lines",
        "one endless line",
        "endless interim answers",
        "endless trailers",
    ],
)
async def test_endless_headers_are_cut_off(world: World, head: bytes, flood: bytes) -> None:
    fetched = await world.get(flooding(head, flood), Limits())
    assert fetched.reason in (Reason.HEADERS_TOO_LARGE, Reason.MALFORMED_RESPONSE)
    assert fetched.duration_s < Limits().total_s / 2


async def test_many_headers_within_the_limit_are_kept(world: World) -> None:
    head = (
        b"HTTP/1.1 200 OK\r\n"
        + b"X: y\r\n" * 900
        + b"X-Long: "
        + b"x" * 90_000
        + b"\r\nContent-Length: 0\r\n\r\n"
    )
    fetched = await world.get(saying(head))
    assert (fetched.reason, fetched.header_block) == (Reason.NONE, head)


@pytest.mark.parametrize(
    ("limits", "lines"), [(Limits(header_count=10), 11), (Limits(header_bytes=100), 20)]
)
async def test_headers_beyond_the_limits_are_refused(
    world: World, limits: Limits, lines: int
) -> None:
    fetched = await world.get(
        saying(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * lines + b"\r\n"), limits
    )
    assert (fetched.reason, fetched.status, fetched.header_block) == (
        Reason.HEADERS_TOO_LARGE,
        0,
        b"",
    )
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
        (b"HTTP/1.1 2000 OK\r\n\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/1.1 200OK\r\n\r\n", Reason.MALFORMED_RESPONSE),
        (b"http/1.1 200 OK\r\n\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/3 200 OK\r\n\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nX: y\r\n", Reason.MALFORMED_RESPONSE),
        (b"HTTP/1.1 200 O", Reason.EMPTY_RESPONSE),
        (b"SSH-2.0-OpenSSH_9.9\r\n", Reason.MALFORMED_RESPONSE),
    ],
)
async def test_what_is_not_http_is_no_response(world: World, answer: bytes, reason: Reason) -> None:
    fetched = await world.get(saying(answer))
    assert (fetched.reason, fetched.status, fetched.header_block, fetched.body) == (
        reason,
        0,
        b"",
        b"",
    )
    assert fetched.detail


@pytest.mark.parametrize(
    ("framing", "body", "kept"),
    [
        (b"Content-Length: 10", b"hello", b"hello"),
        (b"Content-Length: 10", b"", b""),
        (b"Content-Length: 99999999999999999999", b"hello", b"hello"),
        (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n", b"hello"),
        (b"Transfer-Encoding: chunked", b"5\r\nhel", b"hel"),
        (b"Transfer-Encoding: chunked", b"", b""),
    ],
)
async def test_a_body_that_breaks_off_is_kept(
    world: World, framing: bytes, body: bytes, kept: bytes
) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n"
    fetched = await world.get(saying(head + body))
    assert (fetched.reason, fetched.truncated) == (Reason.CONNECTION_LOST, "disconnect")
    assert (fetched.status, fetched.header_block, fetched.body) == (200, head, kept)


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 00000000000000000000005",
        b"Content-Length: 99999999999999999999\r\nTransfer-Encoding: chunked",
    ],
)
async def test_a_length_that_only_looks_great_is_none(world: World, framing: bytes) -> None:
    body = b"5\r\nhello\r\n0\r\n\r\n" if b"chunked" in framing else b"hello"
    fetched = await world.get(saying(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n" + body))
    assert (fetched.reason, fetched.body) == (Reason.NONE, b"hello")


async def test_broken_chunks_are_malformed_and_what_came_before_is_kept(world: World) -> None:
    fetched = await world.get(
        saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n")
    )
    assert (fetched.reason, fetched.body, fetched.truncated) == (
        Reason.MALFORMED_RESPONSE,
        b"abc",
        "disconnect",
    )


async def test_a_reset_before_the_answer_is_a_lost_connection(world: World) -> None:
    async def reset(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
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
