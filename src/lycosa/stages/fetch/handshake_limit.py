"""Ends connections whose server sends TLS handshake messages without end.

OpenSSL reads some handshake messages in an inner loop, which ends only when no more bytes have
arrived: empty HelloRequest messages before the handshake is complete, and session tickets and key
updates at any time after it. libcurl runs on the event loop, so such a server stopped the loop for
as long as it sent, and no time limit could end that, because no timer ran.

OpenSSL reports each message, and libcurl writes the report into its trace, which calls Python code.
So each transfer counts the messages there, which blames exactly the connection that is being read.
Beyond the limit the socket is shut down and emptied: the next read of OpenSSL finds the end of the
connection and returns.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

MAX_MESSAGES = 100
"""Handshake messages that one transfer may receive.

A handshake has about ten, after it come a few session tickets, and a key update comes after
gigabytes.
"""
_MESSAGE = b" (IN), TLS handshake, "
_READ_BYTES = 65_536
_MAX_READS = 1024  # more than any receive buffer holds


def is_handshake_message(text: bytes) -> bool:
    """Whether a line of libcurl's trace reports a handshake message of the server."""
    return _MESSAGE in text


class OpenSockets:
    """The sockets that were made for the connections of one fetcher, by origin.

    libcurl does not say which socket a kept connection has, or when it closes one. So every socket
    is recorded when it is made, with its inode: a descriptor that now belongs to something else has
    another one. There are never more entries than descriptors.
    """

    def __init__(self) -> None:
        self._made: dict[int, tuple[int, str]] = {}

    def note_made(self, descriptor: int, origin: str) -> None:
        """Record the socket of a new connection to ``origin``."""
        self._made[descriptor] = (os.fstat(descriptor).st_ino, origin)

    def end_connections(self, origin: str) -> None:
        """Shut down every open connection to ``origin`` and discard what it has received."""
        for descriptor, (inode, its_origin) in self._made.items():
            if its_origin == origin and _inode(descriptor) == inode:
                _end(descriptor)


def _inode(descriptor: int) -> int:
    try:
        return os.fstat(descriptor).st_ino
    except OSError:  # libcurl has closed it
        return -1


def _end(descriptor: int) -> None:
    connection = socket.socket(fileno=descriptor)
    try:
        with suppress(OSError):  # the server may have reset the connection
            connection.shutdown(socket.SHUT_RDWR)
            # Shutting down keeps what has arrived, which can be megabytes. Whatever arrives from
            # now on is refused.
            for _ in range(_MAX_READS):
                if not connection.recv(_READ_BYTES, socket.MSG_DONTWAIT):
                    break
    finally:
        connection.detach()  # libcurl closes it
