"""No request leaves without the lease: libcurl asks before each one, on new connections and kept
ones, over TLS and HTTP/2.

What the servers received is the judge.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from http2_server import Shed, shedding
from lycosa.base.config.sections import FetchSection
from lycosa.base.model.fetched import Limits
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.http_client import CurlFetcher, RequestHooks
from raw_server import OK, PATIENCE_S, RawServer, World, always, to
from tls_server import AUTHORITY, server_tls

LIMITS = Limits(connect_s=50, first_byte_s=50, total_s=100, min_bytes_per_s=0)


@pytest.fixture
def ca_file(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(str(path))
    return str(path)


async def _serve(world: World, protocol: str) -> RawServer:
    if protocol == "http":
        return await world.serve(always(OK))
    offered = ("h2", "http/1.1") if protocol == "h2" else ("http/1.1",)
    talk = shedding(Shed.CLOSE) if protocol == "h2" else always(OK)
    return await world.serve(talk, tls=server_tls(AUTHORITY.issue_cert("www.example.org"), offered))


@pytest.mark.parametrize("protocol", ["http", "https", "h2"])
async def test_a_request_is_broken_off_before_it_leaves_on_a_new_connection_and_on_a_kept_one(
    world: World, ca_file: str, protocol: str
) -> None:
    server, is_held = await _serve(world, protocol), [False]
    fetcher = world.fetcher(hooks=RequestHooks(may_send=lambda: is_held[0]), ca_file=ca_file)
    scheme = "http" if protocol == "http" else "https"
    fetched = await fetcher.fetch(to(server, "/1", scheme=scheme, limits=LIMITS))
    assert (fetched.reason, fetched.status, fetched.request_block) == (Reason.LEASE_EXPIRED, 0, b"")
    assert server.requests == []
    is_held[0] = True
    fetched = await fetcher.fetch(to(server, "/2", scheme=scheme, limits=LIMITS))
    assert (fetched.reason, fetched.status) == (Reason.NONE, 200)
    assert fetched.protocol == ("h2" if protocol == "h2" else "http/1.1")
    made = server.connections
    is_held[0] = False
    fetched = await fetcher.fetch(to(server, "/3", scheme=scheme, limits=LIMITS))
    assert (fetched.reason, fetched.status) == (Reason.LEASE_EXPIRED, 0)
    assert len(server.requests) == 1 and server.connections == made, "the connection was a kept one"
    is_held[0] = True
    fetched = await fetcher.fetch(to(server, "/4", scheme=scheme, limits=LIMITS))
    assert (fetched.reason, fetched.status) == (Reason.NONE, 200)
    assert len(server.requests) == 2


PROGRAM = """
import asyncio, sys
from pathlib import Path
from lycosa.state.commit import ShardLease
from lycosa.base.config.sections import FetchSection
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.http_client import CurlFetcher, RequestHooks
from lycosa.base.model.fetched import FetchRequest, Limits
from lycosa.base.system.clock import SystemClock

async def main(port: str, ca_file: str, lease_s: str, spool: str) -> None:
    clock, lease = SystemClock(), ShardLease(float(lease_s))
    fetcher = CurlFetcher(
        FetchSection(ca_file=ca_file), "lycosa/0.1", "", Guard(["127.0.0.0/8"]), clock, Path(spool),
        RequestHooks(may_send=lambda: lease.holds(clock.monotonic())),
    )
    lease.renew(clock.monotonic())
    limits = Limits(connect_s=20, first_byte_s=20, total_s=60, min_bytes_per_s=0)
    fetched = await fetcher.fetch(FetchRequest(f"https://www.example.org:{port}/", "127.0.0.1", limits=limits))
    print(fetched.reason.name, flush=True)
    await fetcher.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        yield server


@pytest.mark.parametrize("lease_s", [0.8, 3600.0])
def test_a_process_that_was_stopped_while_it_connected_sends_nothing_when_its_lease_has_run_out(
    listening: socket.socket, ca_file: str, tmp_path: Path, lease_s: float
) -> None:
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        str(listening.getsockname()[1]),
        ca_file,
        str(lease_s),
        str(tmp_path / "spool"),
    ]
    clock = SystemClock()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        connection, _ = listening.accept()
        assert connection.recv(1, socket.MSG_PEEK), "it has begun the handshake, and waits"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        until = clock.monotonic() + 1.0
        # the other side of the lease is a process of its own: only time ends it
        while clock.monotonic() < until:
            os.sched_yield()
        process.send_signal(signal.SIGCONT)
        received = _received(
            connection, server_tls(AUTHORITY.issue_cert("www.example.org"), ("http/1.1",))
        )
        assert process.stdout is not None
        outcome = process.stdout.read().strip()
    if lease_s > 10:
        assert (received[:5], outcome) == (b"GET /", "NONE")
    else:
        assert (received, outcome) == (b"", "LEASE_EXPIRED")


def _received(connection: socket.socket, context: ssl.SSLContext) -> bytes:
    """The server's side: shakes hands and reads the request, if there is one; answers it."""
    connection.settimeout(PATIENCE_S)
    with context.wrap_socket(connection, server_side=True) as secured:
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            try:
                piece = secured.recv(65536)
            except (ssl.SSLEOFError, ConnectionResetError):
                break
            if not piece:
                break
            data += piece
        if data:
            secured.sendall(OK)
        return data


async def test_what_the_lease_broke_off_says_so_without_an_answer(world: World) -> None:
    server, fetcher = (
        await world.serve(always(OK)),
        world.fetcher(hooks=RequestHooks(may_send=lambda: False)),
    )
    fetched = await asyncio.wait_for(fetcher.fetch(to(server, limits=LIMITS)), PATIENCE_S)
    assert fetched.detail == "broken off before it was sent"
    assert (fetched.header_block, fetched.body, fetched.sent_s) == (b"", b"", 0.0)


class SkippingClock(SystemClock):
    """A clock that skips time, as that of a process which stood still does."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.skipped_s


@pytest.mark.parametrize(
    ("stood_still_s", "is_sent"), [(40.0, True), (70.0, False), (3600.0, False)]
)
async def test_a_process_that_stood_still_while_it_connected_sends_nothing_late(
    world: World, ca_file: str, tmp_path: Path, stood_still_s: float, is_sent: bool
) -> None:
    """The slot of the address counts no more, so another request may be open in its place."""
    clock, context = SkippingClock(), server_tls(AUTHORITY.issue_cert("www.example.org"))

    def stand_still(*_: object) -> None:
        clock.skipped_s = stood_still_s

    context.sni_callback = stand_still
    server = await world.serve(always(OK), tls=context)
    section, guard = FetchSection(ca_file=ca_file), Guard(["127.0.0.0/8"])
    fetcher = CurlFetcher(section, "lycosa/0.1", "", guard, clock, tmp_path / "spool")
    fetched = await fetcher.fetch(to(server, scheme="https", limits=LIMITS))
    await fetcher.close()
    assert fetched.reason is (Reason.NONE if is_sent else Reason.CONNECT_TIMEOUT)
    assert len(server.requests) == is_sent
