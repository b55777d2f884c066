"""What the fetcher sends, what it brings back, and how it keeps connections, over real sockets
on loopback.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import RetrySection
from lycosa.base.model.fetched import FetchRequest
from lycosa.base.reasons import Reason
from lycosa.stages.schedule.fetch_outcome import Meaning, judge_answer
from raw_server import OK, PATIENCE_S, PATIENT, World, always, saying, to


async def test_the_request_block_is_what_the_server_received(world: World) -> None:
    server = await world.serve(always(OK))
    fetcher = world.fetcher(contact="bot@example.org", accept_language="en")
    fetched = await fetcher.fetch(
        to(server, "/a?b=c", etag='W/"x\xe9"', last_modified="Tue, 15 Nov 1994 12:45:26 GMT")
    )
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
    await world.fetcher().fetch(
        FetchRequest(
            f"http://user:secret@example.org:{server.port}/a#b", "127.0.0.1", limits=PATIENT
        )
    )
    assert server.requests[0].startswith(b"GET /a HTTP/1.1\r\nHost: example.org:")
    assert b"Authorization" not in server.requests[0]


async def test_any_visible_path_arrives_unchanged(world: World) -> None:
    server = await world.serve(always(OK))
    fetcher = world.fetcher()
    loop = asyncio.get_running_loop()
    paths: list[str] = []
    characters = st.text(
        st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#"), max_size=40
    )

    @settings(
        deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(characters)
    def collect(path: str) -> None:
        paths.append(f"/{path}")

    await loop.run_in_executor(None, collect)
    for path in paths:
        fetched = await fetcher.fetch(to(server, path))
        assert fetched.reason is Reason.NONE
        assert server.requests[-1].split(b"\r\n")[0].decode() == f"GET {path} HTTP/1.1"
        assert fetched.request_block == server.requests[-1]


async def test_the_environment_offers_no_proxy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
    assert (await world.get(saying(OK))).status == 200


async def test_redirects_are_answers_and_cookies_are_not_kept(world: World) -> None:
    server = await world.serve(
        always(
            b"HTTP/1.1 302 Found\r\nLocation: /b\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
        )
    )
    fetcher = world.fetcher()
    for _ in range(2):
        fetched = await fetcher.fetch(to(server))
        assert (fetched.status, fetched.header("location")) == (302, "/b")
    assert len(server.requests) == 2
    assert b"Cookie" not in server.requests[1]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (b"302 Found", Reason.BAD_REDIRECT),
        (b"308 Moved", Reason.BAD_REDIRECT),
        (b"200 OK", Reason.MALFORMED_RESPONSE),
    ],
)
async def test_an_answer_with_two_targets_is_kept_up_to_the_second(
    world: World, status: bytes, reason: Reason
) -> None:
    head = b"HTTP/1.1 " + status + b"\r\nX-A: b\r\nLocation: /b\r\n"
    fetched = await world.get(saying(head + b"Location: /c\r\nContent-Length: 5\r\n\r\nhello"))
    assert (fetched.status, fetched.reason, fetched.truncated) == (
        int(status[:3]),
        reason,
        "unspecified",
    )
    assert (fetched.header_block, fetched.body) == (head + b"\r\n", b"")
    if reason is Reason.BAD_REDIRECT:
        assert fetched.location == ""
    assert (
        judge_answer(fetched, tries=0, conditional=False, section=RetrySection()).meaning
        is Meaning.FAILED
    )


async def test_the_same_target_twice_is_one(world: World) -> None:
    fetched = await world.get(
        saying(b"HTTP/1.1 302 F\r\nLocation: /b\r\nlocation: /b\r\nContent-Length: 5\r\n\r\nhello")
    )
    assert (fetched.status, fetched.reason, fetched.location, fetched.body) == (
        302,
        Reason.NONE,
        "/b",
        b"hello",
    )


async def test_the_name_is_never_resolved(world: World) -> None:
    server = await world.serve(always(OK))
    fetched = await world.fetcher().fetch(
        FetchRequest(f"http://no.such.name.invalid:{server.port}/", "127.0.0.1", limits=PATIENT)
    )
    assert (fetched.status, fetched.address) == (200, "127.0.0.1")


async def test_the_same_name_can_be_pinned_to_another_address(world: World) -> None:
    server = await world.serve(always(OK), host="0.0.0.0")
    fetcher = world.fetcher()
    addresses = [
        (await fetcher.fetch(to(server, address=address))).address
        for address in ("127.0.0.1", "127.0.0.2", "127.0.0.1")
    ]
    assert addresses == ["127.0.0.1", "127.0.0.2", "127.0.0.1"]
    assert server.connections == 2


async def test_an_ipv6_address_is_connected_to(world: World) -> None:
    server = await world.serve(always(OK), host="::1")
    fetched = await world.fetcher().fetch(to(server, address="::1"))
    assert (fetched.status, fetched.address) == (200, "::1")


async def test_an_address_in_the_url_works(world: World) -> None:
    server = await world.serve(always(OK), host="::1")
    fetched = await world.fetcher().fetch(
        FetchRequest(f"http://[::1]:{server.port}/", "::1", limits=PATIENT)
    )
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
    assert (fetched.status, fetched.body, fetched.body_bytes, fetched.reason) == (
        200,
        b"hello",
        5,
        Reason.NONE,
    )
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
    assert (fetched.status, fetched.header_block, fetched.body, fetched.protocol) == (
        404,
        head,
        b"gone",
        protocol,
    )


async def test_chunks_are_joined_and_trailers_left_out(world: World) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n"
    fetched = await world.get(
        saying(head + b"3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: y\r\n\r\n")
    )
    assert (fetched.header_block, fetched.body, fetched.reason) == (head, b"abcde", Reason.NONE)


async def test_the_content_encoding_is_not_undone(world: World) -> None:
    fetched = await world.get(
        saying(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\n\x1f\x8brest"
        )
    )
    assert fetched.body == b"\x1f\x8brest"


@pytest.mark.parametrize(
    "interim",
    [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3],
)
async def test_interim_answers_are_dropped(world: World, interim: bytes) -> None:
    fetched = await world.get(saying(interim + OK))
    assert fetched.header_block == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    assert (fetched.status, fetched.body) == (200, b"hello")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 99\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ],
)
async def test_an_answer_without_a_body_is_whole(world: World, head: bytes) -> None:
    fetched = await world.get(saying(head, keep_open=True))
    assert (fetched.reason, fetched.header_block, fetched.body, fetched.truncated) == (
        Reason.NONE,
        head,
        b"",
        "",
    )


async def test_a_body_longer_than_declared_ends_where_declared(world: World) -> None:
    fetched = await world.get(saying(OK + b" and more"))
    assert (fetched.body, fetched.reason) == (b"hello", Reason.NONE)


async def test_times_are_told(world: World) -> None:
    fetched = await world.get(saying(OK))
    assert 0 < fetched.first_byte_s <= fetched.duration_s < PATIENCE_S
    assert abs(fetched.started - datetime.now(UTC).timestamp()) < PATIENCE_S


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
    async with asyncio.timeout(PATIENCE_S):
        await servers[0].closed_by_client.wait()


async def test_a_kept_connection_that_died_is_replaced(world: World) -> None:
    server = await world.serve(saying(OK))
    fetcher = world.fetcher()
    for _ in range(3):
        fetched = await fetcher.fetch(to(server))
        assert (fetched.status, fetched.request_block) == (200, server.requests[-1])
        async with asyncio.timeout(PATIENCE_S):
            await server.closed.acquire()  # the next request comes after a pause
    assert (server.connections, len(server.requests)) == (3, 3)


async def test_many_at_once_all_return(world: World) -> None:
    server = await world.serve(always(OK))
    fetcher = world.fetcher()
    requests = (
        FetchRequest(f"http://h{number}.example:{server.port}/", "127.0.0.1")
        for number in range(100)
    )
    statuses = [fetched.status for fetched in await asyncio.gather(*map(fetcher.fetch, requests))]
    assert statuses == [200] * 100
    assert fetcher.snapshot().open_transfers == 0
