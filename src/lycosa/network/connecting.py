"""Makes connections to other machines of the crawl."""

from __future__ import annotations

import asyncio
import socket
import ssl

from lycosa.network.addresses import Resolved, resolve_address, tune_socket
from lycosa.network.credentials import Credentials
from lycosa.network.errors import RefusedConnection
from lycosa.network.handshake import EARLY_BYTES, introduce_client
from lycosa.system.frame_stream import FrameStream, TlsEnd
from lycosa.system.wire import MAX_FRAME_BYTES


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
            tls = credentials.tls and TlsEnd(credentials.tls.context(False), False, timeout_s)
            stream = FrameStream(sock, max_bytes, early_bytes=EARLY_BYTES, tls=tls or None)
            await _open(stream, bool(tls))
            await introduce_client(stream, credentials, hello)
            return stream
    except BaseException as error:
        if stream is not None:
            stream.close()
        if isinstance(error, RefusedConnection):
            raise RefusedConnection(f"{address}: {error}") from error
        if isinstance(error, TimeoutError):
            raise TimeoutError(f"{address}: no answer within {timeout_s:g} s") from error
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


async def _open(stream: FrameStream, is_tls: bool) -> None:
    try:
        await stream.open()
    except ssl.SSLCertVerificationError as error:
        raise RefusedConnection(
            f"its certificate is not valid here ({error.verify_message}); tls.authority must be the"
            " authority of all machines' certificates"
        ) from error
    except ssl.SSLError as error:
        raise RefusedConnection(
            f"it does not use TLS as [tls] here demands ({error.reason or error}); all machines"
            " need [tls], or none"
        ) from error
    except OSError as error:
        if is_tls:
            raise RefusedConnection(_BROKEN_OFF) from error
        raise


_BROKEN_OFF = (
    "it closed the connection during the handshake of TLS. Either it has no [tls], or it did not"
    " accept the certificate of this machine; its own messages say why"
)
