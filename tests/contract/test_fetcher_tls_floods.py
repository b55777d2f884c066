"""Servers that send TLS handshake messages without end: they lose their connection, at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.base.model.fetched import FetchRequest, Limits
from lycosa.base.reasons import Reason
from lycosa.stages.fetch.handshake_limit import MAX_MESSAGES
from raw_server import OK, World, always, to
from tls_floods import AFTER, BEFORE, flooding
from tls_server import AUTHORITY, server_tls

LONG = Limits(connect_s=30, first_byte_s=30, total_s=60, min_bytes_per_s=0)
DETAIL = f"more than {MAX_MESSAGES} handshake messages"


@pytest.fixture
def ca_file(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(str(path))
    return str(path)


def to_port(port: int) -> FetchRequest:
    return FetchRequest(f"https://www.example.org:{port}/", "127.0.0.1", limits=LONG)


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("kind", [*BEFORE, *AFTER])
async def test_a_flood_of_handshake_messages_fails_its_request(
    world: World, ca_file: str, kind: str, http2: bool
) -> None:
    with flooding(kind, AUTHORITY.issue_cert("www.example.org")) as port:
        fetched = await world.fetcher(ca_file=ca_file, http2=http2).fetch(to_port(port))
    assert (fetched.reason, fetched.detail, fetched.status) == (Reason.TLS_FAILED, DETAIL, 0)


@pytest.mark.parametrize("kind", [*AFTER])
async def test_a_flood_on_a_kept_connection_ends_only_connections_to_that_server(
    world: World, ca_file: str, kind: str
) -> None:
    good = await world.serve(always(OK), tls=server_tls(AUTHORITY.issue_cert("www.example.org")))
    fetcher = world.fetcher(ca_file=ca_file)
    assert (await fetcher.fetch(to(good, scheme="https", limits=LONG))).status == 200
    with flooding(kind, AUTHORITY.issue_cert("www.example.org"), pages=1) as port:
        assert (await fetcher.fetch(to_port(port))).status == 200
        fetched = await fetcher.fetch(to_port(port))
    assert (fetched.reason, fetched.detail) == (Reason.TLS_FAILED, DETAIL)
    assert (await fetcher.fetch(to(good, scheme="https", limits=LONG))).status == 200
    assert good.connections == 1, "its connection is still the same"


async def test_a_handshake_and_many_requests_are_far_below_the_limit(
    world: World, ca_file: str
) -> None:
    server = await world.serve(always(OK), tls=server_tls(AUTHORITY.issue_cert("www.example.org")))
    fetcher = world.fetcher(ca_file=ca_file)
    for _ in range(2 * MAX_MESSAGES):
        assert (await fetcher.fetch(to(server, scheme="https", limits=LONG))).status == 200
    assert server.connections == 1
