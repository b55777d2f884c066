"""The first frames of a connection: each side proves that it has the token.

    client                                    server
    Greeting(version, nonce)        ->
                                    <-        Challenge(nonce, wants_token)
    Evidence(hello, proof)          ->
                                    <-        HandshakeVerdict(proof, refusal)

A proof is HMAC-SHA-256 with the token as key, over the side, both nonces and the hello. The token
is never sent. Nonces are 32 random bytes of each side, so a proof is valid on one connection only;
the side is part of it, so that a proof cannot be sent back to the side that made it. The client
proves itself first: a server is known to its clients by address, while any machine can connect to
it and would get a proof to guess tokens with. A client that has a token demands the server's proof,
whatever the server says. Without a token proofs are empty, and TLS or the loopback address is what
a side trusts.

Frames of the handshake are small, so a peer that has proved nothing uses little memory.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import TypeVar

import msgspec

from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import UNREADABLE, FrameError
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.endpoints import RefusedConnection

MAX_HELLO_BYTES = 16_384
"""Limit of the application's first message, which is part of the handshake."""

EARLY_BYTES = (MAX_HELLO_BYTES + 256,) * 2
"""Limits of the frames of the handshake: each side sends two."""

_VERSION = 1
_NONCE_BYTES = 32
_CLIENT, _SERVER = b"lycosa handshake 1 client", b"lycosa handshake 1 server"
_MAX_SHOWN = 300
_T = TypeVar("_T")


class Greeting(msgspec.Struct, array_like=True, tag="lycosa"):
    """The client's first message."""

    version: int
    nonce: bytes


class Challenge(msgspec.Struct, array_like=True, tag=1):
    """The server's nonce, and whether it has a token."""

    nonce: bytes
    wants_token: bool


class Evidence(msgspec.Struct, array_like=True, tag=2):
    """The application's first message, and the client's proof over it."""

    hello: bytes
    proof: bytes


class HandshakeVerdict(msgspec.Struct, array_like=True, tag=3):
    """The server's proof, or why it refuses the client."""

    proof: bytes
    refusal: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode_greeting = msgspec.msgpack.Decoder(Greeting).decode
_decode_evidence = msgspec.msgpack.Decoder(Evidence).decode
_decode_answer = msgspec.msgpack.Decoder(Challenge | HandshakeVerdict).decode


async def introduce_client(stream: FrameStream, credentials: Credentials, hello: bytes) -> None:
    """The client's side of the handshake.

    Raises ``RefusedConnection``, and ``OSError`` when the connection is lost.
    """
    if len(hello) > MAX_HELLO_BYTES:
        raise ValueError(f"a hello of {len(hello)} bytes; the limit is {MAX_HELLO_BYTES}")
    ours = secrets.token_bytes(_NONCE_BYTES)
    await stream.send(_encode(Greeting(_VERSION, ours)))
    challenge = await _answer(stream)
    if not isinstance(challenge, Challenge) or len(challenge.nonce) != _NONCE_BYTES:
        raise RefusedConnection("its answer is none of the handshake")
    if challenge.wants_token and not credentials.token:
        raise RefusedConnection("it wants a token, and cluster.toml here has no token_file")
    if credentials.token and not challenge.wants_token:
        raise RefusedConnection(
            "it has no token, and cluster.toml here has token_file: all machines need the same"
        )
    nonces = ours + challenge.nonce
    await stream.send(_encode(Evidence(hello, _proof(credentials, _CLIENT, nonces, hello))))
    verdict = await _answer(stream)
    if not isinstance(verdict, HandshakeVerdict) or not hmac.compare_digest(
        verdict.proof, _proof(credentials, _SERVER, nonces, hello)
    ):
        raise RefusedConnection("it could not prove that it has the token of this crawl")


async def _answer(stream: FrameStream) -> Challenge | HandshakeVerdict:
    try:
        payload = await stream.receive()
        if payload is None:
            raise ConnectionResetError("it closed the connection during the handshake")
        answer: Challenge | HandshakeVerdict = _decode_answer(payload)
    except (FrameError, *UNREADABLE) as error:
        raise RefusedConnection(
            "it does not answer like a machine of a crawl; either it is another program, or it"
            " wants TLS and cluster.toml here has no [tls]"
        ) from error
    if isinstance(answer, HandshakeVerdict) and answer.refusal:
        raise RefusedConnection(f"it refuses: {_shown(answer.refusal)}")
    return answer


async def admit_client(stream: FrameStream, credentials: Credentials) -> bytes:
    """The server's side of the handshake; returns the client's hello.

    Raises ``RefusedConnection``, whose text the client got too, if it could be told, and
    ``OSError`` when the connection is lost.
    """
    try:
        greeting = await _received(stream, _decode_greeting)
        if greeting.version != _VERSION:
            raise _Refusal(
                f"its handshake has version {greeting.version}, and version {_VERSION} is spoken"
                " here: the machines of a crawl need neighbouring releases of Lycosa"
            )
        # A short nonce could be chosen so that an old proof fits. No reason is sent: no release of
        # ours does this.
        if len(greeting.nonce) != _NONCE_BYTES:
            raise RefusedConnection("its nonce is not one")
        ours = secrets.token_bytes(_NONCE_BYTES)
        await stream.send(_encode(Challenge(ours, bool(credentials.token))))
        evidence = await _received(stream, _decode_evidence)
        nonces = greeting.nonce + ours
        # Before the proof, which costs time in proportion to the length.
        if len(evidence.hello) > MAX_HELLO_BYTES:
            raise _Refusal(f"a hello of {len(evidence.hello)} bytes is too long")
        if not hmac.compare_digest(
            evidence.proof, _proof(credentials, _CLIENT, nonces, evidence.hello)
        ):
            raise _Refusal("the token is not the one of this crawl: compare the token files")
    except _Refusal as refusal:
        await stream.send(_encode(HandshakeVerdict(b"", str(refusal))))
        raise RefusedConnection(str(refusal)) from None
    await stream.send(
        _encode(HandshakeVerdict(_proof(credentials, _SERVER, nonces, evidence.hello)))
    )
    return evidence.hello


class _Refusal(Exception):
    """A refusal with a reason that the client is told."""


async def _received(stream: FrameStream, decode: Callable[[bytes], _T]) -> _T:
    try:
        payload = await stream.receive()
        if payload is None:
            raise ConnectionResetError("it closed the connection during the handshake")
        return decode(payload)
    except (FrameError, *UNREADABLE) as error:
        raise RefusedConnection(
            "it does not speak like a machine of a crawl; either it is another program, or it uses"
            " TLS and cluster.toml here has no [tls]"
        ) from error


def _proof(credentials: Credentials, side: bytes, nonces: bytes, hello: bytes) -> bytes:
    if not credentials.token:
        return b""
    return hmac.new(credentials.token, side + nonces + hello, hashlib.sha256).digest()


def _shown(text: str) -> str:
    """Text of a peer that has proved nothing, for a message on a terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:_MAX_SHOWN])
