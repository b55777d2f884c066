"""A server that sends TLS handshake messages without end, before the handshake or after it.

No TLS library sends them, so the records of TLS 1.3 are written here (RFC 8446 section 5). It runs
in a thread of its own, because the loop of the client is what it stops, and sends a bounded number
of bytes, so that a client without any defence fails its test instead of stopping it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import trustme
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tls_server import server_tls

_T = TypeVar("_T")
FLOOD_BYTES = 8 << 20
_HANDSHAKE, _DATA = 22, 23
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
_HELLO_REQUESTS = b"\x16\x03\x03\x40\x00" + b"\0" * 16384  # 4,096 messages in one record
_SINGLE_HELLO_REQUESTS = b"\x16\x03\x03\x00\x04\0\0\0\0" * 400
_TICKET_BODY = struct.pack("!II", 3600, 0) + b"\x01\0" + b"\0\x01A" + b"\0\0"
_TICKET = b"\x04" + len(_TICKET_BODY).to_bytes(3, "big") + _TICKET_BODY
_KEY_UPDATE = b"\x18\0\0\x01"


class _Records:
    """Encrypts the server's records, once the handshake is complete."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._take_keys()

    def write(self, kind: int, data: bytes) -> bytes:
        head = struct.pack("!BHH", _DATA, 0x0303, len(data) + 17)
        nonce = bytes(
            a ^ b for a, b in zip(self._vector, self._number.to_bytes(12, "big"), strict=True)
        )
        self._number += 1
        return head + self._cipher.encrypt(nonce, data + bytes([kind]), head)

    def update_key(self, asks: bytes) -> bytes:
        record = self.write(_HANDSHAKE, _KEY_UPDATE + asks)
        self._secret = self._derived(b"traffic upd", 48)
        self._take_keys()
        return record

    def _take_keys(self) -> None:
        self._cipher, self._vector = AESGCM(self._derived(b"key", 32)), self._derived(b"iv", 12)
        self._number = 0

    def _derived(self, label: bytes, size: int) -> bytes:
        label = b"tls13 " + label
        info = struct.pack("!HB", size, len(label)) + label + b"\0"
        return HKDFExpand(hashes.SHA384(), size, info).derive(self._secret)


def _tickets(records: _Records) -> bytes:
    return records.write(_HANDSHAKE, _TICKET * (16_000 // len(_TICKET)))


def _key_updates(records: _Records) -> bytes:
    return b"".join(records.update_key(b"\0") for _ in range(100))


def _asking_key_updates(records: _Records) -> bytes:
    return b"".join(records.update_key(b"\1") for _ in range(100))


BEFORE: dict[str, bytes] = {
    "hello requests": _HELLO_REQUESTS,
    "single hello requests": _SINGLE_HELLO_REQUESTS,
}
"""Floods in place of the handshake."""
AFTER: dict[str, Callable[[_Records], bytes]] = {
    "tickets": _tickets,
    "key updates": _key_updates,
    "key updates that ask for one": _asking_key_updates,
}
"""Floods after the handshake, in place of a response."""


@contextlib.contextmanager
def flooding(
    kind: str, issued: trustme.LeafCert, host: str = "127.0.0.1", pages: int = 0
) -> Iterator[int]:
    """A server at the port that it yields. It answers ``pages`` requests of each connection before
    the flood, if it comes after the handshake.
    """
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):  # the listener is shut at the end
            while True:
                connections.append(listener.accept()[0])
                threads.append(threading.Thread(target=serve, args=connections[-1:]))
                threads[-1].start()

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the client ends it
            connection.settimeout(60)
            if kind in BEFORE:
                connection.recv(65_536)
                _flood(connection, lambda: BEFORE[kind])
            else:
                records = _Connection(connection, issued).answered(pages)
                _flood(connection, partial(AFTER[kind], records))

    with socket.create_server((host, 0)) as listener:
        threads.append(threading.Thread(target=accept))
        threads[0].start()
        yield listener.getsockname()[1]
        for each in (listener, *connections):
            with contextlib.suppress(OSError):  # it is closed
                each.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(30)


def _flood(connection: socket.socket, write: Callable[[], bytes]) -> None:
    left = FLOOD_BYTES
    while left > 0:
        data = write()
        connection.sendall(data)
        left -= len(data)


class _Connection:
    """One client, up to the flood."""

    def __init__(self, connection: socket.socket, issued: trustme.LeafCert) -> None:
        self._connection = connection
        self._context = server_tls(issued)
        self._context.num_tickets = 0  # the first record of ours has the number 0
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()

    def answered(self, pages: int) -> _Records:
        """Shake hands, answer ``pages`` requests and read one more."""
        with tempfile.NamedTemporaryFile("r") as secrets:
            self._context.keylog_filename = secrets.name
            self._tls = self._context.wrap_bio(self._received, self._to_send, server_side=True)
            self._until_done(self._tls.do_handshake)
            self._connection.sendall(self._to_send.read())
            line = next(each for each in secrets if each.startswith("SERVER_TRAFFIC_SECRET_0"))
        records = _Records(bytes.fromhex(line.split()[2]))
        for _ in range(pages):
            self._read_request()
            self._connection.sendall(records.write(_DATA, _ANSWER))
        self._read_request()
        return records

    def _read_request(self) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += self._until_done(lambda: self._tls.read(65_536))

    def _until_done(self, act: Callable[[], _T]) -> _T:
        while True:
            try:
                return act()
            except ssl.SSLWantReadError:
                self._connection.sendall(self._to_send.read())
                data = self._connection.recv(65_536)
                if not data:
                    raise ConnectionResetError from None
                self._received.write(data)
