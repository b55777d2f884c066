"""Accepts connections of other processes, and lets in those that authenticate themselves.

Whatever a peer does ends its own connection only. A connection that is not admitted within the
handshake's time limit is closed. At most ``unproved`` connections are in the handshake; when one
more arrives, the oldest of the IP address with most of them is closed, so that a machine that
floods the port mostly closes its own connections.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import MAX_FRAME_BYTES, UNREADABLE, FrameError
from lycosa.base.system.tls_end import TlsEnd
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.endpoints import (
    RefusedConnection,
    join_address,
    resolve_address,
    split_address,
    tls_refusal,
    tune_socket,
)
from lycosa.cluster.network.handshake import EARLY_BYTES, admit_client

_NO_FILES_S = 0.2  # the wait before accepting again when this process has no file number left
_MAX_LINES, _LINES_S = 20, 10.0
OnConnection = Callable[[FrameStream, bytes, str], Awaitable[None]]
"""Serves one connection: its stream, the client's hello, and the client's address.

The connection is closed when it returns. Errors that a bad peer causes end the connection only.
"""


class FrameServer:
    """A port at which other machines of the crawl connect, or a Unix socket for other processes.

    ``on_refusal`` gets a line for each connection that was not admitted: the peer and the reason.
    When there are many, most are only counted.
    """

    def __init__(
        self,
        credentials: Credentials,
        on_connection: OnConnection,
        max_bytes: int = MAX_FRAME_BYTES,
        handshake_s: float = 10.0,
        unproved: int = 64,
        on_refusal: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._credentials, self._on_connection = credentials, on_connection
        self._max_bytes, self._handshake_s, self._max_unproved = max_bytes, handshake_s, unproved
        self._on_refusal = on_refusal
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._unproved: dict[asyncio.Task[None], str] = {}  # with IP addresses, oldest first
        self._refusals = 0
        self._lines, self._lines_until = 0, 0.0

    async def open(self, address: str) -> str:
        """Listen at ``HOST:PORT``; port 0 is any that is free. Returns the address with its port.

        ``unix:PATH`` is a Unix socket, which must be in a folder that is private to the user.
        Raises ``RefusedConnection`` for an address of other machines without credentials, and
        ``OSError``.
        """
        family, where = (await resolve_address(address, self._credentials.is_loopback_only))[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            _bind(listener, where)
            listener.listen(128)
        except OSError as error:
            listener.close()
            raise OSError(error.errno, f"cannot listen at {address}: {error.strerror}") from error
        listener.setblocking(False)
        self._listener = listener
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listener))
        if family is socket.AF_UNIX:
            return address
        return join_address(split_address(address)[0], listener.getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and end all connections and what serves them."""
        tasks = [*self._connections, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            _unbind(self._listener)
            self._listener = self._accepting = None

    def snapshot(self) -> dict[str, int]:
        """The numbers of connections, of those in the handshake, and of those refused so far."""
        return {
            "connections": len(self._connections) - len(self._unproved),
            "unproved": len(self._unproved),
            "refused": self._refusals,
        }

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, where = await loop.sock_accept(listener)
            except OSError:
                # No descriptor is free. Accepting again at once would be a busy loop; the pause
                # lets connections end.
                await asyncio.sleep(_NO_FILES_S)
                continue
            # A flood of connections that prove nothing: the oldest of the address with the most of
            # them makes room.
            if len(self._unproved) >= self._max_unproved:
                self._close_one()
            if sock.family is socket.AF_UNIX:
                self._begin(sock, "", "this machine")
            else:
                self._begin(sock, where[0], join_address(where[0], where[1]))

    def _begin(self, sock: socket.socket, ip: str, peer: str) -> None:
        tls = self._credentials.tls
        stream = FrameStream(
            sock,
            self._max_bytes,
            early_bytes=EARLY_BYTES,
            tls=TlsEnd(tls.context(True), True) if tls else None,
        )
        task = asyncio.get_running_loop().create_task(self._serve(stream, sock, peer))
        self._connections.add(task)
        self._unproved[task] = ip
        # also when the task is cancelled before it runs
        task.add_done_callback(lambda task: stream.close())
        task.add_done_callback(self._forget)

    def _close_one(self) -> None:
        ((most, _),) = Counter(self._unproved.values()).most_common(1)
        oldest = next(task for task, ip in self._unproved.items() if ip == most)
        del self._unproved[oldest]
        oldest.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._unproved.pop(task, None)

    async def _serve(self, stream: FrameStream, sock: socket.socket, peer: str) -> None:
        try:
            hello = await self._admitted(stream, sock, peer)
            if hello is None:
                return
            task = asyncio.current_task()
            assert task is not None
            self._unproved.pop(task, None)
            await self._on_connection(stream, hello, peer)
        except (OSError, FrameError, *UNREADABLE):
            pass  # the peer is gone or faulty
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"serving {peer} failed", "exception": error}
            )

    async def _admitted(self, stream: FrameStream, sock: socket.socket, peer: str) -> bytes | None:
        """The client's hello, ``None`` for a connection that is not admitted."""
        try:
            async with asyncio.timeout(self._handshake_s):
                tune_socket(sock)
                await stream.open()
                return await admit_client(stream, self._credentials)
        except TimeoutError:
            # A peer that is silent, or trickles bytes, holds a place among the unproved ones only
            # so long.
            why = f"the handshake was not done within {self._handshake_s:g} s"
        except RefusedConnection as error:
            why = str(error)
        except ssl.SSLError as error:
            why = tls_refusal(error)
        except OSError as error:
            why = f"the connection was lost during the handshake: {error.strerror or error}"
        self._note_refusal(f"{peer}: {why}")
        return None

    def _note_refusal(self, line: str) -> None:
        """Report a refusal, at most ``_MAX_LINES`` in ``_LINES_S``: a port scan has thousands."""
        self._refusals += 1
        now = asyncio.get_running_loop().time()
        if now >= self._lines_until:
            more = self._lines - _MAX_LINES
            self._lines, self._lines_until = 0, now + _LINES_S
            if more > 0:
                line += f" ({more} others were refused before)"
        self._lines += 1
        if self._lines <= _MAX_LINES:
            self._on_refusal(line)


def _bind(listener: socket.socket, where: tuple[str, int] | str) -> None:
    if isinstance(where, str):
        Path(where).unlink(missing_ok=True)  # left by a process that was killed
    else:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(where)


def _unbind(listener: socket.socket) -> None:
    if listener.family is socket.AF_UNIX:
        Path(listener.getsockname()).unlink(missing_ok=True)
    listener.close()
