"""One request on the wire: a reusable libcurl handle, its callbacks and what they observed.

A callback must never raise, because an exception inside some of them leaves the transfer waiting
endlessly. So each callback is wrapped, and an exception becomes a verdict and an abort. The verdict
is set once, by whichever ends the transfer first (guard, limits, timers). libcurl's error counts
only when there is no verdict.

One transfer is one request on the wire. libcurl would send some requests again by itself
(``repeats``). To do so it needs a connection, a new socket or a kept one, for the second time, and
either callback then ends the transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from lycosa.base.model.fetched import FetchRequest, Limits
from lycosa.base.ports import Clock
from lycosa.base.reasons import Reason
from lycosa.stages.fetch.body import IncomingBody, MemoryBudget
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.handshake_limit import MAX_MESSAGES, OpenSockets, is_handshake_message
from lycosa.stages.fetch.headers import HeaderBlock, plain_block, request_target
from lycosa.stages.fetch.libcurl import pycurl
from lycosa.stages.fetch.origin_connections import ORDINARY, Manner, connection_origin
from lycosa.stages.fetch.profile import Profile
from lycosa.stages.fetch.repeats import Sign, reason_of_repeat, sign_in

_ABORT = -1
_SOCKET_ACCEPTED, _SOCKET_REFUSED = 0, 1  # CURL_SOCKOPT_OK, CURL_SOCKOPT_ERROR
_TLS_TEXT = b"SSL connection using "
_R = TypeVar("_R")


class Transfer:
    """The state of one transfer after another on one handle; ``begin_transfer`` starts a new one.

    Times are seconds of ``clock.monotonic``, zero = not yet.
    """

    def __init__(
        self,
        curl: Any,
        guard: Guard,
        clock: Clock,
        budget: MemoryBudget,
        spool_folder: Path,
        sockets: OpenSockets,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        self.curl = curl
        self._sockets = sockets
        self._guard, self._clock, self._budget, self._folder = guard, clock, budget, spool_folder
        self._may_send = may_send
        for option, callback in (
            (pycurl.SOCKOPTFUNCTION, self._on_socket),
            (pycurl.PREREQFUNCTION, self._on_connected),
            (pycurl.HEADERFUNCTION, self._on_header),
            (pycurl.WRITEFUNCTION, self._on_body),
            (pycurl.DEBUGFUNCTION, self._on_debug),
        ):
            curl.setopt(option, callback)
        self._manner, self._http_version = Manner(-1), 0  # none yet
        self._url = ""
        self._target = ""  # the address that the request is for
        self.is_proxied = False
        """Whether requests of this handle go through a proxy."""
        self.begin_transfer(Limits())

    def begin_transfer(self, limits: Limits) -> None:
        """Reset everything for the next transfer."""
        self.limits = limits
        self._judges_type = bool(limits.accepts) or limits.media_bytes > 0
        self.headers = HeaderBlock(limits.header_bytes, limits.header_count)
        self.body = IncomingBody(limits.body_bytes, limits.spool_bytes, self._budget, self._folder)
        self.verdict = Reason.NONE
        self.detail = ""
        self.request_block = b""
        self.address = ""
        self.tls = ""
        self.signs = Sign.NONE
        self.socket = -1  # of the connection that was made for this transfer
        self.started = self._clock.monotonic()
        self.sent = 0.0
        self.first_byte = 0.0
        self.received = 0
        self._handshake_messages = 0
        self._plain_block = b""
        self._mark = (0.0, 0)  # start time and byte count of the speed measurement

    def release_buffers(self) -> None:
        """Drop what the transfer collected, so that a pooled handle does not keep it in memory."""
        self.body.discard()
        self.headers = HeaderBlock(0, 0)
        self.request_block = b""

    def set_request(
        self, request: FetchRequest, header_lines: list[bytes], *, is_plain: bool = True
    ) -> None:
        """Set the options that differ from request to request.

        Raises ``pycurl.error`` or ``UnicodeError`` for a URL that cannot be sent. ``is_plain`` says
        that libcurl adds nothing to ``header_lines``, that is, no cookies.
        """
        address = f"[{request.address}]" if ":" in request.address else request.address
        curl = self.curl
        self._url, self._target = request.url, request.address
        curl.setopt(pycurl.URL, request.url)
        curl.setopt(pycurl.REQUEST_TARGET, request_target(request.url))
        # connect for any host and port of this handle to this address, same port
        curl.setopt(pycurl.CONNECT_TO, [f"::{address}:"])
        curl.setopt(pycurl.HTTPHEADER, header_lines)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, max(1, int(request.limits.connect_s * 1000)))
        # The trace costs thirty callbacks per request. Without TLS it adds nothing: the request is
        # HTTP/1.1 with exactly these lines.
        is_plain = is_plain and request.url.startswith("http:")
        self._plain_block = plain_block(request.url, header_lines) if is_plain else b""
        curl.setopt(pycurl.VERBOSE, 0 if is_plain else 1)

    def dress(self, profile: Profile) -> None:
        """Use a proxy and a client certificate from now on: the handle is not used again.

        The proxy is given the address (``CONNECT_TO``), in a tunnel also without TLS, because it
        would replace the Host of a request that it forwards. It never sees a header of ours.
        """
        curl, proxy = self.curl, profile.proxy
        if profile.certificate:
            curl.setopt(pycurl.SSLCERT, profile.certificate)
            curl.setopt(pycurl.SSLKEY, profile.certificate)
        if proxy is None:
            return
        self.is_proxied = True
        curl.setopt(pycurl.NOPROXY, "")
        curl.setopt(pycurl.PROXY, proxy.url)
        curl.setopt(pycurl.HTTPPROXYTUNNEL, 1)
        curl.setopt(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE)
        if proxy.login:
            curl.setopt(pycurl.PROXYAUTH, pycurl.HTTPAUTH_BASIC)
            curl.setopt(pycurl.PROXYUSERPWD, proxy.login)
        if proxy.pin:
            curl.setopt(pycurl.RESOLVE, [proxy.pin])

    def connect_as(self, manner: Manner, http_version: int) -> None:
        """Set how the next transfer gets its connection.

        ``http_version`` is libcurl's constant for an origin that accepts HTTP/2.
        """
        if (manner, http_version) == (self._manner, self._http_version):
            return
        self._manner, self._http_version = manner, http_version
        curl = self.curl
        curl.setopt(
            pycurl.HTTP_VERSION, http_version if manner.http2 else pycurl.CURL_HTTP_VERSION_1_1
        )
        curl.setopt(pycurl.FRESH_CONNECT, int(manner.is_new or manner.idle_s == 0))
        curl.setopt(pycurl.FORBID_REUSE, int(manner.idle_s == 0))
        # for libcurl 0 means no limit
        curl.setopt(pycurl.MAXAGE_CONN, manner.idle_s or ORDINARY.idle_s)

    def end_with(self, reason: Reason, detail: str) -> None:
        """End the transfer with ``reason``, unless it already has a verdict."""
        if self.verdict is Reason.NONE:
            self.verdict, self.detail = reason, detail

    def overdue(self, now: float) -> tuple[Reason, float]:
        """The time limit that is exceeded, or ``NONE`` and the seconds until the next one could be.

        libcurl has no timeout for the first byte of a response, and measures its minimum speed from
        before that.
        """
        limits = self.limits
        if now >= self.started + limits.total_s:
            return (Reason.TOTAL_TIMEOUT if self.sent else Reason.CONNECT_TIMEOUT), 0.0
        # Another limit begins when the request leaves, and when the first byte arrives: it may be
        # long before the one that holds now.
        deadlines = [self.started + limits.total_s, now + limits.min_speed_window_s]
        if not self.sent:
            # libcurl's connect timeout comes first; this is a backstop
            deadlines.append(self.started + limits.connect_s + 1.0)
            if now >= deadlines[-1]:
                return Reason.CONNECT_TIMEOUT, 0.0
        elif not self.first_byte:
            deadlines.append(self.sent + limits.first_byte_s)
            if now >= deadlines[-1]:
                return Reason.FIRST_BYTE_TIMEOUT, 0.0
        elif limits.min_bytes_per_s:
            if self._is_too_slow(now):
                return Reason.TOO_SLOW, 0.0
            deadlines.append(self._mark[0] + limits.min_speed_window_s)
        return Reason.NONE, max(min(deadlines) - now, 0.001)

    def _is_too_slow(self, now: float) -> bool:
        since, received = self._mark
        elapsed = now - since
        if elapsed < self.limits.min_speed_window_s:
            return False
        self._mark = (now, self.received)
        return self.received - received < self.limits.min_bytes_per_s * elapsed

    def _on_connected(self, address: str, _own: str, _port: int, _own_port: int) -> int:
        aborts = int(pycurl.PREREQFUNC_ABORT)
        return self._safely(self._judge_connection, address, failed=aborts)

    def _judge_connection(self, address: str) -> int:
        if self.sent:
            self.end_with(*reason_of_repeat(self.signs))
            return int(pycurl.PREREQFUNC_ABORT)
        # A process that stood still sends nothing late: its slot may not count any more.
        late, _ = self.overdue(self._clock.monotonic())
        if late is not Reason.NONE:
            self.end_with(late, late.meaning)
            return int(pycurl.PREREQFUNC_ABORT)
        if self.is_proxied:
            # The address of the connection is the proxy's, and the header lines so far its own.
            address = self._target
            self.headers = HeaderBlock(self.limits.header_bytes, self.limits.header_count)
            self.first_byte, self.received = 0.0, 0
        self.address = address
        refusal = self._guard.refusal(address)
        if refusal:
            self.end_with(Reason.ADDRESS_FORBIDDEN, f"{address} is {refusal}")
            return int(pycurl.PREREQFUNC_ABORT)
        if not self._may_send():
            self.end_with(Reason.LEASE_EXPIRED, "broken off before it was sent")
            return int(pycurl.PREREQFUNC_ABORT)
        self.request_block = self._plain_block
        self.sent = self._clock.monotonic()
        return int(pycurl.PREREQFUNC_OK)

    def _on_socket(self, socket: int, _purpose: int) -> int:
        """Called before a connection is made.

        After the request was sent, libcurl needs a connection only to send it again.
        """
        return self._safely(self._judge_socket, socket, failed=_SOCKET_REFUSED)

    def _judge_socket(self, socket: int) -> int:
        if not self.sent:
            self.socket = socket
            self._sockets.note_made(socket, connection_origin(self._url))
            return _SOCKET_ACCEPTED
        self.end_with(*reason_of_repeat(self.signs))
        return _SOCKET_REFUSED

    def _on_header(self, line: bytes) -> int:
        try:  # ``_safely`` written inline, because a page has ten header lines
            size = len(line)
            if not self.first_byte:
                self._count(0)
            self.received += size
            reason = self.headers.add_line(line)
            if reason is Reason.NONE:
                return size
            limits = self.limits
            self.end_with(
                reason, f"more than {limits.header_bytes} bytes or {limits.header_count} lines"
            )
        except Exception as error:
            # Raised through libcurl's C code it would be printed and lost, and the transfer would
            # hang.
            self._fail(error)
        return _ABORT

    def _on_body(self, chunk: bytes) -> int:
        return self._safely(self._take_body, chunk, failed=_ABORT)

    def _take_body(self, chunk: bytes) -> int:
        self._count(len(chunk))
        if self._judges_type and not self.body.size and not self._take_type():
            return _ABORT
        self.body.add_chunk(chunk)
        if not self.body.is_cut:
            return len(chunk)
        full = self.body.size >= self.body.max_bytes
        self.end_with(
            Reason.BODY_TRUNCATED,
            f"more than {self.body.max_bytes} bytes" if full else "a few bytes at a time",
        )
        return _ABORT

    def _take_type(self) -> bool:
        """Bound the body by its type; return whether that is accepted."""
        status, content_type, disposition = self.headers.about_body()
        if status != 200:
            return True
        most = self.limits.body_bound(self._url, content_type, disposition)
        if most < 0:
            self.end_with(Reason.TYPE_REFUSED, content_type[:100])
            return False
        self.body.bound(most)
        return True

    def _count(self, size: int) -> None:
        if not self.first_byte:
            self.first_byte = self._clock.monotonic()
            self._mark = (self.first_byte, 0)
        self.received += size

    def _on_debug(self, kind: int, data: bytes) -> None:
        """Read libcurl's trace.

        Only the trace shows the request as sent over TLS, the TLS version, why there was no
        response, and each handshake message (``handshake_limit``).
        """
        if kind == pycurl.INFOTYPE_HEADER_OUT:
            self.request_block += data
        elif kind != pycurl.INFOTYPE_TEXT:
            return
        elif data.startswith(_TLS_TEXT):
            self.tls = data[len(_TLS_TEXT) :].split(None, 1)[0].decode("latin-1")
        elif is_handshake_message(data):
            self._handshake_messages += 1
            if self._handshake_messages == MAX_MESSAGES + 1:
                self._safely(self._end_handshake, self._url, failed=None)
        else:
            self.signs |= sign_in(data)

    def _end_handshake(self, url: str) -> None:
        self.end_with(Reason.TLS_FAILED, f"more than {MAX_MESSAGES} handshake messages")
        self._sockets.end_connections(connection_origin(url))

    def _safely(self, work: Callable[[Any], _R], argument: object, failed: _R) -> _R:
        try:
            return work(argument)
        except Exception as error:
            self._fail(error)
            return failed

    def _fail(self, error: Exception) -> None:
        self.end_with(Reason.INTERNAL, f"{type(error).__name__}: {error}")
