"""Addresses as ``HOST:PORT`` or ``unix:PATH``, and the sockets for them.

Sockets notice a peer whose machine is gone within about half a minute: the kernel probes an idle
connection, and ends one whose data is not acknowledged.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")
_GONE_S = 30
_PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
Resolved = tuple[socket.AddressFamily, tuple[str, int] | str]
UNIX = "unix:"
"""The beginning of the address of a Unix socket, which the programs of one user share."""


def split_address(address: str) -> tuple[str, int]:
    """Host and port; an IPv6 address has brackets. Raises ``RefusedConnection``."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise RefusedConnection(f"{address!r} is not HOST:PORT")
    if int(found[3]) > 65535:
        raise RefusedConnection(f"{address!r}: a port is at most 65535")
    return found[1] or found[2], int(found[3])


def join_address(host: str, port: int) -> str:
    """``HOST:PORT``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def resolve_address(address: str, loopback_only: bool) -> list[Resolved]:
    """The IP addresses of ``HOST:PORT``, at least one, or the path of a Unix socket.

    Raises ``OSError`` when the name has none now, and ``RefusedConnection`` for text that is no
    address, and for an address of another machine with ``loopback_only``.
    """
    if address.startswith(UNIX):
        return [(socket.AF_UNIX, address.removeprefix(UNIX))]
    host, port = split_address(address)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # an empty label, or one of more than 63 bytes
        raise RefusedConnection(f"{address!r} is not HOST:PORT") from error
    resolved: list[Resolved] = [(family, (str(where[0]), port)) for family, _, _, _, where in found]
    for ip in (str(where[0]) for _, _, _, _, where in found):
        if loopback_only and not ipaddress.ip_address(ip.partition("%")[0]).is_loopback:
            raise RefusedConnection(
                f"{address} is not a loopback address, and cluster.toml has neither token_file nor"
                " [tls]: give one of them, so that machines can prove themselves to each other"
            )
    return resolved


def tune_socket(sock: socket.socket) -> None:
    """Small frames leave at once, and a peer that is gone is noticed."""
    if sock.family is socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if hasattr(socket, name):  # macOS and Linux have different ones
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_S * 1000)


class RefusedConnection(ConnectionError):
    """The peer was reached, or could have been, but one side refuses the other.

    The text says what is wrong and what to do. Trying again helps only after an operator has
    changed something.
    """


def tls_refusal(error: ssl.SSLError) -> str:
    """What is wrong with the peer, or with this machine in the peer's eyes."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not valid here ({error.verify_message}): tls.authority must have"
            " the authority of all machines' certificates"
        )
    why = (error.reason or str(error)).lower().replace("_", " ")
    if "alert" in why:
        return f"it does not accept the certificate of this machine ({why})"
    if "did not return a certificate" in why:
        return "it showed no certificate: its cluster.toml needs [tls]"
    return f"it does not use TLS ({why}): all machines need [tls], or none"
