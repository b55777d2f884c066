"""What peers do that prove nothing, lie or hang: it costs them their connection, and others
nothing.

The handshake is spoken here from its description, without the code that is tested.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from test_network import OTHER_TOKEN, TOKEN, serving, until

from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.credentials import Credentials, TlsFiles
from lycosa.cluster.network.endpoints import RefusedConnection, split_address
from tls_server import tls_files

encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def framed(*message: object) -> bytes:
    payload = encode(message)
    return len(payload).to_bytes(4, "big") + payload


async def received(reader: asyncio.StreamReader) -> list[object]:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return list(decode(await reader.readexactly(size)))


def proof(side: bytes, nonces: bytes, hello: bytes, token: bytes = TOKEN) -> bytes:
    text = b"lycosa handshake 1 " + side + nonces + hello
    return hmac.new(token, text, hashlib.sha256).digest()


async def raw(address: str, source: str = "127.0.0.1") -> Streams:
    host, port = split_address(address)
    return await asyncio.open_connection(host, port, local_addr=(source, 0))


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the server closes, which it must do without anything else from this side."""
    async with asyncio.timeout(60):
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        return True


@asynccontextmanager
async def answering(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server that is not one of ours."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
            await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


# -- clients


async def test_the_handshake_is_as_described() -> None:
    async with serving(Credentials(TOKEN)) as port:
        reader, writer = await raw(port.address)
        ours = os.urandom(32)
        writer.write(framed("lycosa", 1, ours))
        tag, theirs, wants_token = await received(reader)
        assert (tag, wants_token) == (1, True)
        assert isinstance(theirs, bytes) and len(theirs) == 32
        writer.write(framed(2, b"hello", proof(b"client", ours + theirs, b"hello")))
        assert await received(reader) == [3, proof(b"server", ours + theirs, b"hello"), ""]
        assert await reader.readexactly(9) == b"\0\0\0\5hello"
        writer.close()


async def test_what_was_said_on_one_connection_proves_nothing_on_another() -> None:
    async with serving(Credentials(TOKEN)) as port:
        ours = os.urandom(32)
        evidence = b""
        for attempt in range(3):
            reader, writer = await raw(port.address)
            writer.write(framed("lycosa", 1, ours))
            _, theirs, _ = await received(reader)
            assert isinstance(theirs, bytes)
            evidence = evidence or framed(2, b"", proof(b"client", ours + theirs, b""))
            writer.write(evidence)
            answer = await received(reader)
            assert (answer[1] != b"", answer[2] == "") == (attempt == 0, attempt == 0)
            writer.close()
            await writer.wait_closed()
        await until(lambda: port.server.snapshot()["refused"] == 2)


@pytest.mark.parametrize(
    "wrong",
    [
        "no proof",
        "another token",
        "the server's side",
        "another hello",
        "one bit",
        "a longer proof",
    ],
)
async def test_a_wrong_proof_is_refused(wrong: str) -> None:
    async with serving(Credentials(TOKEN)) as port:
        reader, writer = await raw(port.address)
        ours = os.urandom(32)
        writer.write(framed("lycosa", 1, ours))
        _, theirs, _ = await received(reader)
        assert isinstance(theirs, bytes)
        nonces = ours + theirs
        good = proof(b"client", nonces, b"a")
        sent = {
            "no proof": b"",
            "another token": proof(b"client", nonces, b"a", OTHER_TOKEN),
            "the server's side": proof(b"server", nonces, b"a"),
            "another hello": proof(b"client", nonces, b"b"),
            "one bit": bytes([good[0] ^ 1]) + good[1:],
            "a longer proof": good + b"\0",
        }
        writer.write(framed(2, b"a", sent[wrong]))
        tag, answer, reason = await received(reader)
        assert (tag, answer) == (3, b"") and "compare the token files" in str(reason)
        assert await is_closed(reader)
        writer.close()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_a_silent_or_slow_client_is_closed_after_the_time_limit(
    tls: bool, tmp_path: Path
) -> None:
    files = TlsFiles(tls_files(tmp_path)) if tls else None
    first = b"\x16\x03\x01" if tls else framed("lycosa", 1, os.urandom(32))[:7]
    async with serving(Credentials(TOKEN, files), handshake_s=0.2) as port:
        began = time.monotonic()
        for beginning in (b"", first):
            reader, writer = await raw(port.address)
            writer.write(beginning)
            assert await is_closed(reader)
            writer.close()
        assert 0.3 < time.monotonic() - began < 20
        assert "not done within 0.2 s" in port.refused[0]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_bytes_of_all_kinds_are_refused(tls: bool, tmp_path: Path) -> None:
    files = TlsFiles(tls_files(tmp_path)) if tls else None
    chance = random.Random(7)
    greeting = framed("lycosa", 1, bytes(32))
    texts = [
        b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        b"\xff\xff\xff\xff" + bytes(1000),
        (1 << 20).to_bytes(4, "big") + bytes(200_000),
        b"\0\0\0\0",
        framed("lycosa", 2, bytes(32)),
        framed("lycosa", 1, bytes(31)),
        framed("lycosa", 1),
        framed("nothing", 1, bytes(32)),
        b"\0\0\0\3\xdd\xff\xff",
        greeting + framed(2, bytes(17_000), b""),
        greeting + framed(2, "text", b""),
        greeting + framed(3, b"", ""),
        greeting + greeting,
        *(chance.randbytes(chance.randrange(1, 400)) for _ in range(50)),
    ]
    async with serving(Credentials(TOKEN, files), handshake_s=1.0) as port:
        connections = [await raw(port.address) for _ in texts]
        for text, (_, writer) in zip(texts, connections, strict=True):
            writer.write(text)
        assert all(await asyncio.gather(*(is_closed(reader) for reader, _ in connections)))
        for _, writer in connections:
            writer.close()
        await until(lambda: port.server.snapshot()["refused"] == len(texts))
        assert port.server.snapshot()["connections"] == 0
        assert len(port.refused) == 20, "most refusals of a flood are only counted"
        stream = await connect(port.address, Credentials(TOKEN, files), b"fine")
        assert await stream.receive() == b"fine"
        stream.close()


async def test_a_huge_length_is_refused_before_anything_is_kept() -> None:
    async with serving(Credentials(TOKEN)) as port:
        reader, writer = await raw(port.address)
        writer.write(framed("lycosa", 1, bytes(32)))
        await received(reader)
        writer.write((200_000_000).to_bytes(4, "big"))
        assert await is_closed(reader)
        writer.close()
        await until(lambda: bool(port.refused))


async def test_a_flood_of_connections_is_bounded_and_others_still_get_in() -> None:
    async with serving(Credentials(TOKEN), unproved=8) as port:
        flood = [await raw(port.address) for _ in range(60)]
        stream = await connect(port.address, Credentials(TOKEN), b"fine")
        assert await stream.receive() == b"fine"
        assert port.server.snapshot()["unproved"] <= 8
        for reader, _ in flood[:50]:
            assert await is_closed(reader)
        stream.close()
        for _, writer in flood:
            writer.close()


async def test_a_machine_that_floods_the_port_closes_its_own_connections() -> None:
    async with serving(Credentials(TOKEN), unproved=8) as port:
        ours = os.urandom(32)
        reader, writer = await raw(port.address, "127.0.0.2")
        writer.write(framed("lycosa", 1, ours))
        _, theirs, _ = await received(reader)
        assert isinstance(theirs, bytes)
        flood = [await raw(port.address, "127.0.0.3") for _ in range(60)]
        await until(lambda: port.server.snapshot()["unproved"] == 8)
        assert await is_closed(flood[0][0])
        writer.write(framed(2, b"fine", proof(b"client", ours + theirs, b"fine")))
        assert (await received(reader))[2] == ""
        writer.close()
        for _, other in flood:
            other.close()


async def test_a_client_that_does_not_read_delays_no_other_and_closing_does_not_wait_for_it() -> (
    None
):
    async def pour(stream: object, hello: bytes, peer: str) -> None:
        while True:
            await stream.send(hello + bytes(100_000))  # type: ignore[attr-defined]

    async with serving(Credentials(), pour) as port:
        deaf = await connect(port.address, Credentials(), b"deaf", max_bytes=1_000_000)
        stream = await connect(port.address, Credentials(), b"")
        for _ in range(50):
            assert await stream.receive() == bytes(100_000)
        began = time.monotonic()
        await port.server.close()
        assert time.monotonic() - began < 20
        deaf.close()
        stream.close()


# -- servers


async def refusal(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> str:
    async with answering(answer) as address:
        with pytest.raises(RefusedConnection) as refused:
            await connect(address, Credentials(TOKEN), b"secret hello", 5.0)
    return str(refused.value)


@pytest.mark.parametrize("claim", ["nothing", "the client's proof", "another token", "no token"])
async def test_a_server_without_the_token_is_refused_and_told_nothing(claim: str) -> None:
    heard = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, _, ours = await received(reader)
        assert isinstance(ours, bytes)
        # its nonce is the client's, so that a proof could be sent back
        writer.write(framed(1, ours, claim != "no token"))
        _, hello, theirs = await received(reader)
        heard.extend(hello)  # type: ignore[arg-type]
        sent = {
            "nothing": b"",
            "the client's proof": theirs,
            "another token": proof(b"server", ours + ours, b"secret hello", OTHER_TOKEN),
        }
        writer.write(framed(3, sent[claim], ""))

    if claim == "no token":
        assert "it has no token" in await refusal(answer)
        assert not heard
    else:
        assert "could not prove that it has the token" in await refusal(answer)


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46",
        b"\xff\xff\xff\xff",
        (1 << 20).to_bytes(4, "big") + bytes(100_000),
        framed(1, bytes(31), True),
        framed(2, b"", b""),
        framed(3, b"", ""),
        b"\0\0\0\1\xc1",
    ],
)
async def test_a_server_of_another_kind_is_refused(text: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)

    assert "answer" in await refusal(answer)


async def test_what_a_server_says_is_cut_and_has_no_control_characters() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(3, b"", "\x1b[2Jcome back\n" + "x" * 5000))

    reason = await refusal(answer)
    assert "it refuses: ?[2Jcome back?xxx" in reason and len(reason) < 400


async def test_a_server_that_hangs_costs_the_time_limit() -> None:
    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client gives up: Server.wait_closed waits for this

    async with answering(nothing) as address:
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=f"^{address}: no answer within 0.2 s"):
            await connect(address, Credentials(TOKEN), b"", 0.2)
        assert time.monotonic() - began < 20


async def test_an_address_that_accepts_nothing_costs_the_time_limit() -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    waiting = []
    for _ in range(3):  # the kernel's queue is full
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
        waiting.append(sock)
    with pytest.raises(TimeoutError, match=r"no answer within 0\.2 s"):
        await connect(address, Credentials(TOKEN), b"", 0.2)
    for sock in (*waiting, listener):
        sock.close()


async def test_the_token_is_never_sent() -> None:
    passed = bytearray()
    async with serving(Credentials(TOKEN)) as port:

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            target, out = await raw(port.address)

            async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                while data := await source.read(65536):
                    passed.extend(data)
                    sink.write(data)
                sink.close()

            await asyncio.gather(copy(reader, out), copy(target, writer))

        async with answering(relay) as address:
            stream = await connect(address, Credentials(TOKEN), b"hello")
            assert await stream.receive() == b"hello"
            stream.close()
            with pytest.raises(RefusedConnection):
                await connect(address, Credentials(OTHER_TOKEN), b"hello")
    assert b"hello" in passed
    assert TOKEN not in passed and OTHER_TOKEN not in passed
