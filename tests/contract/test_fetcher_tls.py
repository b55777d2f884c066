"""The fetcher over TLS and HTTP/2, with certificates good and bad."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from lycosa.base.reasons import Reason
from raw_server import OK, SHORT, RawServer, World, always, saying, to
from tls_server import AUTHORITY, server_tls


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
        assert (fetched.reason, fetched.status, fetched.tls, fetched.protocol) == (
            Reason.NONE,
            200,
            "TLSv1.3",
            "http/1.1",
        )
    assert server.connections == 1


async def test_the_request_block_is_what_the_server_received_over_tls(
    world: World, ca_file: str
) -> None:
    """On a new connection and on a kept one, with validators, with a target that nothing may
    respell.
    """
    server = await world.serve(always(OK), tls=server_tls(AUTHORITY.issue_cert("www.example.org")))
    fetcher = world.fetcher(ca_file=ca_file, contact="bot@example.org")
    for path in ("/", "/a/../b%2f%7e?x=[1]|{2}", "/caf%C3%A9?q"):
        fetched = await fetcher.fetch(
            to(
                server,
                path,
                scheme="https",
                etag='W/"1"',
                last_modified="Mon, 01 Jan 2024 00:00:00 GMT",
            )
        )
        assert fetched.request_block == server.requests[-1]
        assert fetched.request_block.startswith(f"GET {path} HTTP/1.1\r\n".encode())
    assert (len(server.requests), server.connections) == (3, 1)


def expired() -> trustme.LeafCert:
    return AUTHORITY.issue_cert("www.example.org", not_after=datetime.now(UTC) - timedelta(days=1))


@pytest.mark.parametrize(
    "issue",
    [
        lambda: AUTHORITY.issue_cert("other.example"),
        expired,
        lambda: trustme.CA().issue_cert("www.example.org"),
    ],
)
async def test_a_bad_certificate_is_refused_and_accepted_when_told_so(
    world: World, ca_file: str, issue: Callable[[], trustme.LeafCert]
) -> None:
    server = await world.serve(always(OK), tls=server_tls(issue()))
    fetched = await world.fetcher(ca_file=ca_file).fetch(to(server, scheme="https"))
    assert (fetched.reason, fetched.status) == (Reason.TLS_FAILED, 0)
    assert server.requests == []
    assert (await world.fetcher(verify_tls=False).fetch(to(server, scheme="https"))).status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_server_that_demands_a_certificate_fails_it(
    world: World, ca_file: str, version: ssl.TLSVersion
) -> None:
    """In TLS 1.3 the refusal comes after the client's handshake, when it reads the answer."""
    context = server_tls(AUTHORITY.issue_cert("www.example.org"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version

    async def refuse(
        _: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Send the alert, which asyncio's own TLS does not, and wait until the client closes."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        is_open = True
        while is_open:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(65_536))
            except ssl.SSLError:
                writer.write(outgoing.read())
                is_open = False
        await reader.read()

    server = await world.serve(refuse)
    fetched = await world.fetcher(ca_file=ca_file).fetch(to(server, scheme="https"))
    assert (fetched.reason, fetched.status) == (Reason.TLS_FAILED, 0)
    assert "alert" in fetched.detail


async def test_a_server_without_tls_fails_it(world: World) -> None:
    server = await world.serve(always(OK))
    fetched = await world.fetcher().fetch(to(server, scheme="https", limits=SHORT))
    assert fetched.reason in (Reason.TLS_FAILED, Reason.CONNECT_TIMEOUT)


async def test_a_handshake_that_stalls_is_a_connect_timeout(world: World) -> None:
    async def stall(_: RawServer, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await reader.read()

    server = await world.serve(stall)
    fetched = await world.fetcher().fetch(to(server, scheme="https", limits=SHORT))
    assert fetched.reason is Reason.CONNECT_TIMEOUT


async def test_tls_sessions_are_resumed(world: World, ca_file: str) -> None:
    resumed: list[bool] = []

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
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


async def speak_http2(
    server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    config = pytest.importorskip("h2.config").H2Configuration(client_side=False)
    connection = pytest.importorskip("h2.connection").H2Connection(config)
    request_received = pytest.importorskip("h2.events").RequestReceived
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    while data := await reader.read(65536):
        for event in connection.receive_data(data):
            if isinstance(event, request_received):
                server.requests.append(dict(event.headers)[b":path"])
                connection.send_headers(
                    event.stream_id,
                    [(":status", "200"), ("content-type", "text/plain"), ("x-a", "caf\xe9")],
                )
                connection.send_data(event.stream_id, b"hello", end_stream=True)
        writer.write(connection.data_to_send())


async def test_http2_is_spoken_where_offered(world: World, ca_file: str) -> None:
    pytest.importorskip("h2")
    server = await world.serve(
        speak_http2, tls=server_tls(AUTHORITY.issue_cert("www.example.org"), ("h2", "http/1.1"))
    )
    fetcher = world.fetcher(ca_file=ca_file)
    for path in ("/a/../b", "/c"):
        fetched = await fetcher.fetch(to(server, path, scheme="https"))
        assert (fetched.status, fetched.protocol, fetched.body, fetched.reason) == (
            200,
            "h2",
            b"hello",
            Reason.NONE,
        )
        assert fetched.header_block.startswith(b"HTTP/2 200 \r\ncontent-type: text/plain\r\n")
        assert fetched.request_block.startswith(f"GET {path} HTTP/2\r\n".encode())
    assert (server.connections, server.requests) == (1, [b"/a/../b", b"/c"])


async def test_http2_is_not_spoken_when_it_is_off(world: World, ca_file: str) -> None:
    server = await world.serve(
        always(OK), tls=server_tls(AUTHORITY.issue_cert("www.example.org"), ("h2", "http/1.1"))
    )
    fetched = await world.fetcher(ca_file=ca_file, http2=False).fetch(to(server, scheme="https"))
    assert (fetched.status, fetched.protocol) == (200, "http/1.1")
