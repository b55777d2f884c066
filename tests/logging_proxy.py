"""A proxy on loopback, HTTP CONNECT or SOCKS5, that notes what it was asked for."""

from __future__ import annotations

import base64
import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ProxyLog:
    """``asked`` are the targets, as the client wrote them; ``heads`` whole CONNECT requests.

    ``status`` is the answer to CONNECT (0: close without one), ``login`` what it must carry, and
    ``reply`` that of a SOCKS proxy.
    """

    port: int = 0
    is_socks: bool = False
    login: str = ""
    status: int = 200
    reply: int = 0
    asked: list[str] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{'socks5' if self.is_socks else 'http'}://127.0.0.1:{self.port}"


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        log: ProxyLog = self.server.log  # type: ignore[attr-defined]
        with contextlib.suppress(OSError):
            target = self._socks(log) if log.is_socks else self._connect(log)
            if target is not None:
                self._relay(target)

    def _connect(self, log: ProxyLog) -> socket.socket | None:
        head = b""
        while b"\r\n\r\n" not in head and (data := self.request.recv(4096)):
            head += data
        if not head:
            return None
        log.heads.append(head)
        host, _, port = head.split()[1].decode().rpartition(":")
        log.asked.append(f"{host}:{port}")
        wanted = base64.b64encode(log.login.encode())
        status = log.status
        if log.login and b"Proxy-Authorization: Basic " + wanted not in head:
            status = 407
        if status != 200:
            if status:
                self.request.sendall(b"HTTP/1.1 %d No\r\nContent-Length: 2\r\n\r\nno" % status)
            return None
        target = socket.create_connection((host.strip("[]"), int(port)))
        self.request.sendall(b"HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n")
        return target

    def _socks(self, log: ProxyLog) -> socket.socket | None:
        methods = self._exactly(self._exactly(2)[1])
        self.request.sendall(b"\x05\x02" if 2 in methods else b"\x05\x00")
        if 2 in methods:
            user = self._exactly(self._exactly(2)[1])
            password = self._exactly(self._exactly(1)[0])
            log.heads.append(user + b":" + password)
            is_known = (user + b":" + password).decode() == log.login
            self.request.sendall(b"\x01\x00" if is_known else b"\x01\x01")
            if not is_known:
                return None
        *_, kind = self._exactly(4)
        if kind == 3:
            host = self._exactly(self._exactly(1)[0]).decode()
        else:
            family = socket.AF_INET if kind == 1 else socket.AF_INET6
            host = socket.inet_ntop(family, self._exactly(4 if kind == 1 else 16))
        port = int.from_bytes(self._exactly(2), "big")
        log.asked.append(f"{host}:{port}")
        self.request.sendall(bytes([5, log.reply, 0, 1, 0, 0, 0, 0, 0, 0]))
        return None if log.reply else socket.create_connection((host, port))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.request.recv(size - len(data))
            if not piece:
                raise OSError("closed")
            data += piece
        return data

    def _relay(self, target: socket.socket) -> None:
        def pump(source: Any, sink: Any) -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)

        with target:
            back = threading.Thread(target=pump, args=(target, self.request), daemon=True)
            back.start()
            pump(self.request, target)
            back.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False


@contextlib.contextmanager
def logging_proxy(**how: Any) -> Iterator[ProxyLog]:
    """A proxy until the end of the block; the fields of ``ProxyLog`` say how it behaves."""
    log = ProxyLog(**how)
    with _Server(("127.0.0.1", 0), _Handler) as server:
        log.port = server.server_address[1]
        server.log = log  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield log
        finally:
            server.shutdown()
            thread.join()
