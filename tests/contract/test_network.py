"""What a connection between machines promises: both sides prove themselves, or it is refused with
the reason.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
import uvloop

from lycosa.base.config.cluster_file import ClusterFile, KafkaSection, TlsSection
from lycosa.base.config.sources import SettingsError
from lycosa.base.system.frame_stream import FrameStream
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.credentials import Credentials, TlsFiles, credentials_of
from lycosa.cluster.network.endpoints import RefusedConnection, split_address
from lycosa.cluster.network.frame_server import FrameServer
from lycosa.cluster.network.handshake import MAX_HELLO_BYTES
from tls_server import AUTHORITY, tls_files

TOKEN, OTHER_TOKEN = b"a" * 32, b"b" * 32
OTHER_AUTHORITY = trustme.CA()


async def echo(stream: FrameStream, hello: bytes, peer: str) -> None:
    """Sends the hello, then each frame back."""
    await stream.send(hello)
    while (payload := await stream.receive()) is not None:
        await stream.send(payload)


class Port:
    """An open server, with the lines about connections that it refused."""

    def __init__(self, server: FrameServer, address: str, refused: list[str]) -> None:
        self.server, self.address, self.refused = server, address, refused


@asynccontextmanager
async def serving(
    credentials: Credentials,
    on_connection: Callable[[FrameStream, bytes, str], Awaitable[None]] = echo,
    handshake_s: float = 10.0,
    unproved: int = 64,
) -> AsyncIterator[Port]:
    refused: list[str] = []
    server = FrameServer(
        credentials,
        on_connection,
        handshake_s=handshake_s,
        unproved=unproved,
        on_refusal=refused.append,
    )
    address = await server.open("127.0.0.1:0")
    try:
        yield Port(server, address, refused)
    finally:
        await server.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


@pytest.fixture
def known(tmp_path: Path) -> dict[str, Credentials]:
    ours = tls_files(tmp_path / "ours")
    theirs = tls_files(tmp_path / "theirs", OTHER_AUTHORITY)
    # it accepts our servers, which do not accept it
    stranger = tls_files(tmp_path / "stranger", OTHER_AUTHORITY, AUTHORITY)
    return {
        "nothing": Credentials(),
        "token": Credentials(TOKEN),
        "other token": Credentials(OTHER_TOKEN),
        "TLS": Credentials(tls=TlsFiles(ours)),
        "TLS and token": Credentials(TOKEN, TlsFiles(ours)),
        "TLS and other token": Credentials(OTHER_TOKEN, TlsFiles(ours)),
        "other authority": Credentials(tls=TlsFiles(theirs)),
        "stranger": Credentials(tls=TlsFiles(stranger)),
    }


GOOD = ["nothing", "token", "TLS", "TLS and token"]
LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


@LOOPS
@pytest.mark.parametrize("name", GOOD)
def test_equal_credentials_connect_and_carry_frames_of_all_sizes(
    known: dict[str, Credentials], name: str, run: Callable[[Awaitable[None]], None]
) -> None:
    async def scenario() -> None:
        async with serving(known[name]) as port:
            stream = await connect(port.address, known[name], b"hello")
            assert await stream.receive() == b"hello"
            payloads = [os.urandom(size) for size in (0, 1, 16_000, 70_000, 300_000, 3_000_000)]
            sending = asyncio.gather(*map(stream.send, payloads))
            assert [await stream.receive() for _ in payloads] == payloads
            await sending
            assert port.server.snapshot() == {"connections": 1, "unproved": 0, "refused": 0}
            stream.close()
            await until(lambda: port.server.snapshot()["connections"] == 0)

    run(scenario())


NO_TOKEN = "it has no token, and cluster.toml here has token_file"
WANTS_TOKEN = "it wants a token, and cluster.toml here has no token_file"
WRONG_TOKEN = "the token is not the one of this crawl: compare the token files"
WANTS_TLS = "it wants TLS and cluster.toml here has no"
NO_TLS = "it may have no"
NOT_VALID = "its certificate is not valid here"
NOT_ACCEPTED = "it does not accept the certificate of this machine .*unknown ca"
REASONS = {
    ("nothing", "token"): NO_TOKEN,
    ("nothing", "TLS"): NO_TLS,
    ("token", "nothing"): WANTS_TOKEN,
    ("token", "other token"): WRONG_TOKEN,
    ("token", "TLS"): NO_TLS,
    ("TLS", "nothing"): WANTS_TLS,
    ("TLS", "token"): WANTS_TLS,
    ("TLS", "TLS and token"): NO_TOKEN,
    ("TLS", "other authority"): NOT_VALID,
    ("TLS", "stranger"): NOT_ACCEPTED,
    ("TLS and token", "TLS"): WANTS_TOKEN,
    ("TLS and token", "TLS and other token"): WRONG_TOKEN,
    ("other authority", "TLS"): NOT_VALID,
}


@LOOPS
def test_other_credentials_are_refused_with_the_reason(
    known: dict[str, Credentials], run: Callable[[Awaitable[None]], None]
) -> None:
    async def scenario() -> None:
        for served in known:
            async with serving(known[served]) as port:
                for name in known.keys() - {served}:
                    with pytest.raises(ConnectionError, match=r"^127\.0\.0\.1:") as refused:
                        await connect(port.address, known[name], b"hello")
                    reason = REASONS.get((served, name), "")
                    assert re.search(reason, str(refused.value)), (served, name)
                    is_sure = isinstance(refused.value, RefusedConnection)
                    assert is_sure != (NO_TLS in str(refused.value))
                await until(lambda: port.server.snapshot()["refused"] == len(known) - 1)
                assert port.server.snapshot()["connections"] == 0
                assert len(port.refused) == len(known) - 1

    run(scenario())


async def test_each_side_says_what_is_wrong_with_the_other(known: dict[str, Credentials]) -> None:
    async def line(served: str, name: str) -> str:
        async with serving(known[served]) as port:
            with pytest.raises(OSError):
                await connect(port.address, known[name], b"hello")
            await until(lambda: bool(port.refused))
            return re.sub(r"127.0.0.1:\d+: ", "", port.refused[0])

    assert await line("token", "other token") == WRONG_TOKEN
    assert "does not use TLS" in await line("TLS", "token")
    assert "it uses TLS and cluster.toml here has no [tls]" in await line("token", "TLS")
    assert "its certificate is not valid here" in await line("TLS", "stranger")
    assert "does not accept the certificate of this machine" in await line("TLS", "other authority")


@pytest.mark.parametrize("change", ["no certificate", "expired", "of TLS 1.2"])
async def test_tls_of_a_client_that_does_not_prove_itself_is_refused(
    known: dict[str, Credentials], change: str, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    AUTHORITY.configure_trust(context)
    if change == "expired":
        yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        AUTHORITY.issue_cert("old.test", not_after=yesterday).configure_cert(context)
    elif change == "of TLS 1.2":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        AUTHORITY.issue_cert("old.test").configure_cert(context)
    async with serving(known["TLS"]) as port:
        host, number = split_address(port.address)
        with pytest.raises(OSError):
            reader, writer = await asyncio.open_connection(host, number, ssl=context)
            writer.write(bytes(100))
            if await reader.read() == b"":
                raise ConnectionResetError
        await until(lambda: bool(port.refused))
        wanted = {
            "no certificate": "it showed no certificate",
            "expired": "its certificate is not valid here .*expired",
            "of TLS 1.2": "does not use TLS .*unsupported protocol",
        }
        assert re.search(wanted[change], port.refused[0])


async def test_without_credentials_only_loopback_addresses_are_used() -> None:
    for address in ("10.0.0.1:7070", "0.0.0.0:0", "[::]:0", "192.0.2.7:1"):
        with pytest.raises(RefusedConnection, match=r"not a loopback address.*token_file"):
            await connect(address, Credentials(), b"hello")
        with pytest.raises(RefusedConnection, match=r"not a loopback address.*token_file"):
            await FrameServer(Credentials(), echo).open(address)


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:", ":1", "host:x", "host:99999", "[::1", "a b:1", "a..b:1", f"{'a' * 70}:1"],
)
async def test_text_that_is_no_address_is_refused(address: str) -> None:
    said = "a port is at most 65535" if address == "host:99999" else "is not HOST:PORT"
    with pytest.raises(RefusedConnection, match=said):
        await connect(address, Credentials(TOKEN), b"hello")


async def test_an_address_where_nothing_listens_is_an_error_with_the_address() -> None:
    async with serving(Credentials()) as port:
        address = port.address
    with pytest.raises(ConnectionError, match=f"^{address}: "):
        await connect(address, Credentials(), b"hello")


async def test_an_address_in_use_is_an_error_with_the_address() -> None:
    async with serving(Credentials()) as port:
        with pytest.raises(OSError, match=f"cannot listen at {port.address}"):
            await FrameServer(Credentials(), echo).open(port.address)


async def test_the_hello_has_a_limit() -> None:
    async with serving(Credentials(TOKEN)) as port:
        stream = await connect(port.address, Credentials(TOKEN), bytes(MAX_HELLO_BYTES))
        assert await stream.receive() == bytes(MAX_HELLO_BYTES)
        stream.close()
        with pytest.raises(ValueError, match="limit"):
            await connect(port.address, Credentials(TOKEN), bytes(MAX_HELLO_BYTES + 1))


async def test_large_frames_directly_after_the_handshake_arrive() -> None:
    async def speak(stream: FrameStream, hello: bytes, peer: str) -> None:
        await stream.send(bytes(500_000))
        await stream.receive()

    for credentials in (Credentials(), Credentials(TOKEN)):
        async with serving(credentials, speak) as port:
            stream = await connect(port.address, credentials, b"")
            assert await stream.receive() == bytes(500_000)
            stream.close()


async def test_an_error_of_the_peer_ends_its_connection_only() -> None:
    async def strict(stream: FrameStream, hello: bytes, peer: str) -> None:
        if hello == b"bad":
            raise ConnectionResetError
        await echo(stream, hello, peer)

    async with serving(Credentials(), strict) as port:
        good = await connect(port.address, Credentials(), b"good")
        bad = await connect(port.address, Credentials(), b"bad")
        assert await bad.receive() is None
        assert await good.receive() == b"good"
        await good.send(b"still here")
        assert await good.receive() == b"still here"
        good.close()
        bad.close()


async def test_an_error_of_the_program_is_reported_and_the_server_continues() -> None:
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: reported.append(repr(context["exception"]))
    )

    async def wrong(stream: FrameStream, hello: bytes, peer: str) -> None:
        raise KeyError("a mistake")

    async with serving(Credentials(), wrong) as port:
        for _ in range(2):
            stream = await connect(port.address, Credentials(), b"")
            assert await stream.receive() is None
            stream.close()
    assert reported == ["KeyError('a mistake')"] * 2


async def test_closing_the_server_ends_all_connections(known: dict[str, Credentials]) -> None:
    for name in GOOD:
        async with serving(known[name]) as port:
            streams = [await connect(port.address, known[name], b"x") for _ in range(3)]
            assert [await stream.receive() for stream in streams] == [b"x"] * 3
            await port.server.close()
            assert [await stream.receive() for stream in streams] == [None] * 3
            with pytest.raises(ConnectionError):
                await connect(port.address, known[name], b"x")
            for stream in streams:
                stream.close()


async def test_a_renewed_certificate_is_used_without_a_new_start(tmp_path: Path) -> None:
    ours = tls_files(tmp_path / "server")
    server, client = Credentials(tls=TlsFiles(ours)), Credentials(tls=TlsFiles(ours))
    async with serving(server) as port:
        (await connect(port.address, client, b"")).close()
        tls_files(tmp_path / "server", OTHER_AUTHORITY)
        after = Credentials(tls=TlsFiles(tls_files(tmp_path / "other", OTHER_AUTHORITY)))
        (await connect(port.address, after, b"")).close()
        (await connect(port.address, client, b"")).close()
        # while files are replaced, those before them are used
        ours.key.write_bytes(b"half a k")
        (await connect(port.address, client, b"")).close()


def test_changed_files_that_cannot_be_read_are_reported_once_for_each_change(
    tmp_path: Path,
) -> None:
    lines: list[str] = []
    ours = tls_files(tmp_path / "server")
    files = TlsFiles(ours, lines.append)
    key, first = ours.key.read_bytes(), files.context(True)
    ours.key.write_bytes(b"half a k")
    assert files.context(True) is files.context(True) is first
    assert len(lines) == 1 and str(ours.key) in lines[0] and "half" not in lines[0]
    ours.key.unlink()
    assert files.context(True) is files.context(True) is first
    assert len(lines) == 2 and str(ours.key) in lines[1]
    ours.key.write_bytes(key)
    assert files.context(True) is not first and len(lines) == 2
    ours.key.unlink()
    files.context(True)
    assert len(lines) == 3


# -- what cluster.toml says


def cluster_file(
    tmp_path: Path, token_file: Path | None = None, tls: TlsSection | None = None
) -> ClusterFile:
    return ClusterFile(
        tmp_path / "cluster.toml", "news", KafkaSection(("a:1",)), token_file=token_file, tls=tls
    )


def test_credentials_are_those_of_the_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_bytes(TOKEN + b"\n")
    tls = tls_files(tmp_path / "tls")
    for token_file, files in itertools.product((None, token), (None, tls)):
        credentials = credentials_of(cluster_file(tmp_path, token_file, files))
        assert credentials.token == (TOKEN if token_file else b"")
        assert (credentials.tls is None) == (files is None)
        assert credentials.is_loopback_only == (token_file is None and files is None)
        assert TOKEN.decode() not in repr(credentials)


def test_credentials_that_cannot_be_used_stop_the_start_with_the_reason(tmp_path: Path) -> None:
    def problem(token_file: Path | None = None, tls: TlsSection | None = None) -> str:
        with pytest.raises(SettingsError) as error:
            credentials_of(cluster_file(tmp_path, token_file, tls))
        return str(error.value)

    short = tmp_path / "short"
    short.write_bytes(b"secret\n")
    assert "at least 16 are needed" in problem(short) and "secret" not in problem(short)
    assert "No such file" in problem(tmp_path / "none")
    good = tls_files(tmp_path / "tls")
    text = tmp_path / "text"
    text.write_text("not PEM")
    assert "tls.authority" in problem(None, TlsSection(good.certificate, good.key, text))
    assert "tls.certificate" in problem(None, TlsSection(text, good.key, good.authority))
    assert "tls.key" in problem(None, TlsSection(good.certificate, text, good.authority))
    other = tls_files(tmp_path / "other")
    assert "tls.key" in problem(None, TlsSection(good.certificate, other.key, good.authority))
    assert "No such file" in problem(None, TlsSection(good.certificate, good.key, tmp_path / "no"))
