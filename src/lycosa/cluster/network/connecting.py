"""Makes connections to other machines of the crawl."""

from __future__ import annotations

import asyncio
import socket
import ssl

from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import MAX_FRAME_BYTES
from lycosa.base.system.tls_end import TlsEnd
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.endpoints import (
    RefusedConnection,
    Resolved,
    resolve_address,
    tls_refusal,
    tune_socket,
)
from lycosa.cluster.network.handshake import EARLY_BYTES, introduce_client


async def connect(
    address: str,
    credentials: Credentials,
    hello: bytes,
    timeout_s: float = 10.0,
    max_bytes: int = MAX_FRAME_BYTES,
) -> FrameStream:
    """A connection to ``HOST:PORT`` on which both sides have proved themselves.

    The peer has ``hello``. Received frames have at most ``max_bytes``. Raises ``OSError``, of which
    two classes say more: ``RefusedConnection`` when an operator must change something, and
    ``TimeoutError`` after ``timeout_s``. Every text begins with the address.
    """
    stream: FrameStream | None = None
    try:
        async with asyncio.timeout(timeout_s):
            where = await resolve_address(address, credentials.is_loopback_only)
            sock = await _connected(where)
            tls = TlsEnd(credentials.tls.context(False), False) if credentials.tls else None
            stream = FrameStream(sock, max_bytes, early_bytes=EARLY_BYTES, tls=tls)
            await _open(stream)
            await introduce_client(stream, credentials, hello)
            return stream
    except BaseException as error:
        # Also at a cancellation: the socket is not in the hands of the caller yet.
        if stream is not None:
            stream.close()
        if isinstance(error, TimeoutError):
            raise TimeoutError(f"{address}: no answer within {timeout_s:g} s") from error
        if isinstance(error, ssl.SSLError):
            raise RefusedConnection(f"{address}: {tls_refusal(error)}") from error
        if isinstance(error, RefusedConnection):
            raise RefusedConnection(f"{address}: {error}") from error
        if isinstance(error, OSError):
            raise ConnectionError(f"{address}: {error.strerror or error}") from error
        raise


async def _connected(where: list[Resolved]) -> socket.socket:
    """A socket connected to the first address that accepts. Raises ``OSError``."""
    failure: OSError | None = None
    for family, address in where:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            tune_socket(sock)
            await asyncio.get_running_loop().sock_connect(sock, address)
            return sock
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
    raise failure or OSError("the name has no address")


async def _open(stream: FrameStream) -> None:
    """Open the stream, with TLS if it has that. Raises ``OSError``."""
    try:
        await stream.open()
    except ssl.SSLError:
        raise
    except ConnectionError as error:
        # A server without TLS closes when it sees the greeting of TLS, and only this tells the
        # operator why.
        raise ConnectionError(
            "it closed the connection during the handshake of TLS; it may have no [tls]"
        ) from error
