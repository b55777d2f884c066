"""HTTP connections with limits that uvicorn lacks: their number, slow requests, answers not read.

uvicorn waits endlessly for the first byte and for the rest of a request's head, and for a client
that does not read its answer. Here a head must be complete within a time, and an answer must make
progress. A connection counts from the moment it is accepted (``connections``). It gets a protocol,
and a handshake of TLS, with its first byte, so that thousands without one cost little. Only some
are accepted in one turn of the loop, so that requests are answered between them.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from contextlib import suppress
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.open_connections import OpenConnection, OpenConnections, client_at
from lycosa.service.api.problems import Problem

_HANDSHAKE_S = 5.0
_KEEP_S = 15
_SPARE_FILES = 64
_AT_ONCE = 64  # connections accepted in one turn of the loop; each takes about 0.04 ms
_QUEUED = 4096  # those that the system keeps until they are accepted; in a shorter queue, a burst
# makes it drop the first packet of other clients, who try again after a second
_NO_FILES_S = 0.1


class BoundedProtocol(H11Protocol):
    """One connection, which has ``place`` among all. ``limits`` are the same for all."""

    limits = ApiLimits()

    def __init__(self, place: OpenConnection, everyone: OpenConnections, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._place, self._everyone = place, everyone
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether there is no complete request that waits for its answer."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered or self.conn.their_state is h11.SEND_BODY

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._place.close = transport.abort
        if self._place not in self._everyone:  # closed for another one meanwhile
            transport.abort()
        self._arm_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request, or whose head is too large, and close."""
        problem = Problem(400, f"this is no HTTP/1.1 request with a head below {self._head} bytes")
        body = problem.body("")
        lines = {
            **problem.header_lines(),
            "content-length": str(len(body)),
            "connection": "close",
        }
        headers = [(name.encode(), value.encode()) for name, value in lines.items()]
        with suppress(h11.LocalProtocolError):  # an answer is in progress
            response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def _head(self) -> int:
        return self.limits.header_bytes

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._read_timer is None:
            self._read_timer = self.loop.call_later(self.limits.answer_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_timer = _cancel(self._read_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._everyone.remove(self._place)
        self._head_timer = _cancel(self._head_timer)
        super().connection_lost(exc)
        self._read_timer = _cancel(self._read_timer)

    def _watch(self) -> None:
        """Follow what the connection waits for."""
        if not self.is_waiting:
            self._everyone.note_request(self._place)
        else:
            self._everyone.note_idle(self._place)
        # While a body arrives, the gate watches its speed. What a client sends after the answer,
        # such as the rest of a refused body, must end as a head must.
        is_over = self.cycle is None or self.cycle.response_complete
        if not is_over or self.transport.is_closing():
            self._head_timer = _cancel(self._head_timer)
        elif self._head_timer is None:
            self._arm_head()

    def _arm_head(self) -> None:
        self._head_timer = self.loop.call_later(self.limits.request_s, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """No timer any more."""
    if timer is not None:
        timer.cancel()
    return None


class BoundedServer(uvicorn.Server):
    """uvicorn's server, with bounds on connections; it leaves signals to the process."""

    def __init__(self, config: uvicorn.Config, limits: ApiLimits) -> None:
        super().__init__(config)
        self.connections, self._limits = OpenConnections(limits.connections), limits
        self._listeners: list[socket.socket] = []
        self._starting: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self.servers = []
        for listener in sockets or []:
            listener.setblocking(False)
            listener.listen(_QUEUED)
            self._listeners.append(listener)
            self._listen(listener)
        self.started = True

    def use_certificate(self, certificate: str, key: str) -> None:
        """Use these files for new connections. Raises ``OSError`` and ``ssl.SSLError``."""
        # A separate context: one that failed to load a key would have a certificate without it.
        # Without its logging, which would print a line for each request from then on.
        fresh = uvicorn.Config(
            self.config.app,
            access_log=False,
            log_config=None,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        fresh.load()
        self.config.ssl = fresh.ssl

    def close_all(self) -> None:
        """End listening and all connections at once."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener)
        self._listeners.clear()
        self.connections.close_all()

    def _listen(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_AT_ONCE):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptor or memory is left: those that wait stay in the queue
                loop.remove_reader(listener)
                loop.call_later(_NO_FILES_S, self._listen, listener)
                return
            sock.setblocking(False)
            place = OpenConnection(client_at(str(address[0]) if address else ""), sock.close)
            if not self.connections.admit(place):
                sock.close()
                continue
            late = loop.call_later(self._limits.request_s, self._give_up, place)
            place.close = partial(_drop, sock, late)
            loop.add_reader(sock, self._begin, sock, place, late)

    def _give_up(self, place: OpenConnection) -> None:
        self.connections.remove(place)
        place.close()

    def _begin(self, sock: socket.socket, place: OpenConnection, late: asyncio.TimerHandle) -> None:
        """Start to speak on a connection whose client has sent something."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(sock)
        late.cancel()
        place.close = partial(_shut, sock)
        task = loop.create_task(self._connect(sock, place))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _connect(self, sock: socket.socket, place: OpenConnection) -> None:
        """Speak on an accepted connection, after the handshake of TLS if there is a certificate."""
        config = self.config

        def protocol() -> BoundedProtocol:
            return BoundedProtocol(
                place,
                self.connections,
                config=config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        try:
            # What a client does wrong in a handshake ends its connection only.
            with suppress(OSError):
                await asyncio.get_running_loop().connect_accepted_socket(
                    protocol,
                    sock,
                    ssl=config.ssl,
                    ssl_handshake_timeout=_HANDSHAKE_S if config.ssl else None,
                )
                return
        except asyncio.CancelledError:
            _shut(sock)
            raise
        self.connections.remove(place)


def _drop(sock: socket.socket, late: asyncio.TimerHandle) -> None:
    """End a connection that has sent nothing."""
    asyncio.get_running_loop().remove_reader(sock)
    late.cancel()
    sock.close()


def _shut(sock: socket.socket) -> None:
    """End a connection whose transport is being made, which sees the end and closes the socket."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def http_server(app: Any, limits: ApiLimits, certificate: str, key: str) -> BoundedServer:
    """The server of the application, with TLS if there is a certificate.

    Raises ``OSError`` and ``ssl.SSLError`` for files that cannot be used.
    """
    BoundedProtocol.limits = limits
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_S,
        h11_max_incomplete_event_size=limits.header_bytes,
        ssl_certfile=certificate or None,
        ssl_keyfile=key or None,
    )
    config.load()
    return BoundedServer(config, limits)


def raise_file_limit(connections: int) -> None:
    """Allow this process as many open files as its connections need, if the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections * 2 + _SPARE_FILES
    if soft < wanted:
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def yield_to_crawl() -> None:
    """Let the crawl have the processor first."""
    os.nice(5)
