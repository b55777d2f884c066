"""HTTP connections with time limits that uvicorn lacks: slow requests, and answers not read.

uvicorn waits for ever for the first byte and for the rest of a request's head, and for a client
that does not read its answer. Here a head must be complete within a time, an answer must make
progress, and of too many connections the longest one without a request is closed, of the IP address
that has most of those. So a client that opens all connections mostly closes its own.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections import Counter
from contextlib import suppress
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lycosa.api.problems import Problem
from lycosa.serve.api_job import ApiLimits

_HANDSHAKE_S = 5.0
_KEEP_S = 15
_SPARE_FILES = 64


class BoundedProtocol(H11Protocol):
    """One connection. ``limits`` are the same for all."""

    limits = ApiLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<BoundedProtocol {self.client} waiting={self.is_waiting}>"

    @property
    def is_waiting(self) -> bool:
        """Whether no complete request is here."""
        return self.conn.their_state is h11.IDLE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm_head()
        if len(self.connections) > self.limits.connections:
            _close_one(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

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
        with suppress(h11.LocalProtocolError):  # an answer is under way
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
        self._head_timer = _cancel(self._head_timer)
        super().connection_lost(exc)
        self._read_timer = _cancel(self._read_timer)

    def _watch_head(self) -> None:
        if not self.is_waiting or self.transport.is_closing():
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


def _close_one(newest: BoundedProtocol) -> None:
    """Close a connection that has no request: the oldest of the client that has most of them."""
    waiting = [
        each
        for each in newest.connections
        if isinstance(each, BoundedProtocol) and each.is_waiting and each is not newest
    ]
    if not waiting:
        newest.transport.abort()
        return
    ((most, _),) = Counter(each.client and each.client[0] for each in waiting).most_common(1)
    theirs = [each for each in waiting if (each.client and each.client[0]) == most]
    oldest = min(theirs, key=lambda each: each._head_timer.when() if each._head_timer else 0.0)
    oldest.transport.abort()


class BoundedServer(uvicorn.Server):
    """uvicorn's server with limits on handshakes of TLS; it leaves signals to the process."""

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Listen at the given sockets."""
        config = self.config
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return BoundedProtocol(
                config=config, server_state=self.server_state, app_state=self.lifespan.state
            )

        self.servers = []
        for sock in sockets or []:
            server = await loop.create_server(
                protocol,
                sock=sock,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=_HANDSHAKE_S if config.ssl else None,
            )
            self.servers.append(server)
        self.started = True

    def close_all(self) -> None:
        """End listening and all connections at once."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            if isinstance(connection, BoundedProtocol):
                connection.transport.abort()


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
    return BoundedServer(config)


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
