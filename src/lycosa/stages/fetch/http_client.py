"""Sends one request and returns the response byte for byte, within limits for any server.

It is built on libcurl's event-driven interface (``pycurl.AsyncCurlMulti``). Of the clients
compared, only libcurl gives the header block as received, the body undecoded and the connected
address before the request is sent, and is as tolerant as a browser. libcurl's automatic functions
are disabled: it sends no request twice (``repeats``), never resolves a name (every request is
pinned to one address), follows no redirect, uses no proxy from the environment, keeps no cookies
(``cookies`` lends it some), reads no .netrc, and undoes no content encoding. Its per-host limit is
unused, because the connect timeout of handles that it queues keeps running; who may fetch when is
decided before. Only two things are not byte for byte: HTTP/2 header lines, which libcurl writes as
text, and folded HTTP/1 lines, which it unfolds.

Handles are pooled, because setting up a new one costs more than a request on a kept connection.
Every transfer has a timer in addition to libcurl's, so ``fetch`` always returns, whatever a server,
libcurl or a callback does. Timers need a loop that runs: ``handshake_limit`` ends what would keep
OpenSSL busy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lycosa.base.config.sections import FetchSection
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.ports import Clock
from lycosa.base.reasons import Reason
from lycosa.stages.fetch.body import MemoryBudget
from lycosa.stages.fetch.cookies import CookieJars, Lent, empty
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.handshake_limit import OpenSockets
from lycosa.stages.fetch.headers import common_lines, protocol_of, request_lines
from lycosa.stages.fetch.libcurl import default_ca_file, pycurl
from lycosa.stages.fetch.open_transfer import OpenTransfer
from lycosa.stages.fetch.origin_connections import Connections, connection_origin
from lycosa.stages.fetch.profile import NO_PROFILE
from lycosa.stages.fetch.repeats import Sign, reason_of_repeat
from lycosa.stages.fetch.result_codes import is_of_two_targets, reason_of, reason_of_proxy
from lycosa.stages.fetch.transfer import Transfer

if TYPE_CHECKING:
    # What has to do with secrets is loaded only where there are some.
    from lycosa.stages.fetch.request_profiles import RequestProfiles
    from lycosa.stages.fetch.request_signer import RequestSigner

# one buffer for all transfers: fewer system calls for large bodies, and the limit of what one step
# of the loop receives
_RECEIVE_BYTES = 65_536
_POOLED_HANDLES = 256
_REDIRECTS = range(300, 400)
_NO_RESPONSE = (
    Reason.INTERNAL,
    Reason.ADDRESS_FORBIDDEN,
    Reason.LEASE_EXPIRED,
    Reason.TLS_FAILED,
    Reason.PROXY_FAILED,
)
_TRUNCATED = {
    Reason.NONE: "",
    Reason.BODY_TRUNCATED: "length",
    Reason.HEADERS_TOO_LARGE: "length",  # in the trailers
    Reason.TOTAL_TIMEOUT: "time",
    Reason.TOO_SLOW: "time",
    Reason.TYPE_REFUSED: "unspecified",
}


@dataclass(frozen=True, slots=True)
class FetcherSnapshot:
    """Current state of the fetcher, and the number of connections made since the start."""

    open_transfers: int
    open_bytes: int
    spooled: int
    idle_handles: int
    connections_made: int


class RequestHooks(NamedTuple):
    """What a process adds to the requests of its fetcher.

    Cookies are sent and stored only with ``cookies`` or by a profile, and those of ``cookies``
    never with a robots.txt, which is the same for all clients. ``may_send`` is called when the
    connection is ready, directly before the request is sent: if it returns false, the request is
    not sent and ends as ``LEASE_EXPIRED``. ``signer`` signs every request. ``profiles`` say what
    some requests carry.
    """

    cookies: CookieJars | None = None
    may_send: Callable[[], bool] = lambda: True
    signer: RequestSigner | None = None
    profiles: RequestProfiles | None = None


NO_HOOKS = RequestHooks()


class CurlFetcher:
    """The fetcher of one worker process, bound to the event loop of its first request.

    ``spool_folder`` receives bodies that are too large for memory; the next process must delete the
    files that a killed one leaves there. Raises ``ValueError`` when ``section.ca_file`` is not a
    file or ``contact`` is not valid in a header.
    """

    def __init__(
        self,
        section: FetchSection,
        user_agent: str,
        contact: str,
        guard: Guard,
        clock: Clock,
        spool_folder: Path,
        hooks: RequestHooks = NO_HOOKS,
    ) -> None:
        if section.ca_file and not Path(section.ca_file).is_file():
            raise ValueError(f"fetch.ca_file: no such file: {section.ca_file}")
        self._section, self._guard, self._clock, self._spool_folder = (
            section,
            guard,
            clock,
            spool_folder,
        )
        self._ca_file = section.ca_file or default_ca_file()
        self._cookies = hooks.cookies
        self._header_lines = common_lines(section, user_agent, contact)
        self._http_version = (
            pycurl.CURL_HTTP_VERSION_2TLS if section.http2 else pycurl.CURL_HTTP_VERSION_1_1
        )
        self._connections = Connections(
            keeps=section.connections > 0, size=2 * section.connections + 1024
        )
        self._sockets = OpenSockets()
        self._budget = MemoryBudget(section.open_bytes)
        self._multi: Any = None
        self._idle: list[Transfer] = []
        self._open: set[OpenTransfer] = set()
        self._tls_versions: dict[int, str] = {}
        self._connections_made = 0
        self._is_closed = False
        self._may_send, self.signer = hooks.may_send, hooks.signer
        self._profiles = hooks.profiles

    async def fetch(self, request: FetchRequest) -> Fetched:
        """The result of ``request``. Never raises for anything that a server or the network does.

        Cancelling ends the transfer.
        """
        wall = self._clock.wall()
        # The connected address is judged again, directly before the request is sent.
        if refusal := self._guard.refusal(request.address):
            detail = f"{request.address} is {refusal}"
            return _unsent(request, wall, Reason.ADDRESS_FORBIDDEN, detail)
        if self._is_closed:
            return _unsent(request, wall, Reason.INTERNAL, "the fetcher is closed")
        profile = self._profiles.profile_of(request) if self._profiles is not None else NO_PROFILE
        is_dressed = bool(profile.proxy or profile.certificate)
        # A handle with a proxy or a certificate is used once, so that no other request has them.
        transfer = self._idle.pop() if self._idle and not is_dressed else self._new_transfer()
        transfer.begin_transfer(request.limits)
        origin = connection_origin(request.url)
        try:
            manner = self._connections.manner(origin, self._clock.monotonic())
            transfer.connect_as(manner, self._http_version)
            # A session that began with credentials is never continued by a request without.
            jars = profile.jars if profile.privacy else self._cookies
            lent = self._lend_cookies(transfer, request, jars)
            # Last, as the signature has the time at which the request leaves.
            signature = self.signer.header_lines(request) if self.signer is not None else []
            lines = [*request_lines(self._header_lines, request), *signature, *profile.lines]
            if is_dressed:
                transfer.dress(profile)
            transfer.set_request(request, lines, is_plain=not (lent or is_dressed))
        except (pycurl.error, UnicodeError, ValueError) as error:
            # libcurl refuses the URL before anything was sent; the handle has half of the options,
            # and is reset.
            self._put_back(transfer, not is_dressed)
            return _unsent(request, wall, Reason.UNPARSABLE, str(error))
        wait = OpenTransfer(transfer, self._running_multi(), self._clock.monotonic)
        self._open.add(wait)
        try:
            code, message = await wait.done()
            if jars is not None and lent is not None:
                jars.take_back(transfer.curl, request.url, lent)
            fetched = self._fetched(request, wall, transfer, code, message)
            if profile.privacy:
                fetched = profile.without_secrets(fetched)
            self._note_connection(origin, fetched, transfer)
            if self.signer is not None:
                self.signer.note_answer(fetched, transfer.first_byte)
            return fetched
        finally:
            self._open.discard(wait)
            transfer.release_buffers()
            # libcurl has not finished with a handle that was removed in the middle of a transfer
            self._put_back(transfer, wait.is_whole and not self._is_closed and not is_dressed)

    async def close(self) -> None:
        """End open transfers (they return ``INTERNAL``) and close all connections.

        May be called again.
        """
        self._is_closed = True
        for wait in list(self._open):
            wait.stop(Reason.INTERNAL, "the fetcher was closed")
        for transfer in self._idle:
            transfer.curl.close()
        self._idle.clear()
        if self._multi is not None:
            await self._multi.aclose()

    def snapshot(self) -> FetcherSnapshot:
        return FetcherSnapshot(
            len(self._open),
            self._budget.held,
            self._budget.spooled,
            len(self._idle),
            self._connections_made,
        )

    def __repr__(self) -> str:
        return f"CurlFetcher({self.snapshot()})"

    def _lend_cookies(
        self, transfer: Transfer, request: FetchRequest, jars: CookieJars | None
    ) -> Lent | None:
        """Give the handle the cookies of the request's site; ``None`` if it gets none."""
        is_ordinary = jars is self._cookies
        if jars is not None and not (is_ordinary and request.kind.is_of_origin):
            return jars.lend(transfer.curl, request.url)
        if self._cookies is not None or self._profiles is not None:
            empty(transfer.curl)  # the handle may have been used with a jar
        return None

    def _running_multi(self) -> Any:
        if self._multi is None:
            self._multi = pycurl.AsyncCurlMulti()
            # no multiplexing: there is only one request at a time per host
            self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_NOTHING)
            if self._section.connections:
                self._multi.setopt(pycurl.M_MAXCONNECTS, self._section.connections)
        return self._multi

    def _new_transfer(self) -> Transfer:
        curl = pycurl.Curl()
        section = self._section
        options = {
            pycurl.NOPROXY: "*",
            # Each of these turns off something that libcurl would otherwise do by itself.
            pycurl.PROXY: "",  # otherwise libcurl reads the environment
            pycurl.NETRC: pycurl.NETRC_IGNORED,
            pycurl.HTTPAUTH: pycurl.HTTPAUTH_NONE,
            pycurl.FOLLOWLOCATION: 0,
            pycurl.PATH_AS_IS: 1,
            pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
            pycurl.HTTP_CONTENT_DECODING: 0,
            pycurl.HTTP09_ALLOWED: 0,
            pycurl.SSL_VERIFYPEER: int(section.verify_tls),
            pycurl.SSL_VERIFYHOST: 2 if section.verify_tls else 0,
            pycurl.BUFFERSIZE: _RECEIVE_BYTES,
            pycurl.NOSIGNAL: 1,
            pycurl.VERBOSE: 1,
        }
        for option, value in options.items():
            curl.setopt(option, value)
        if self._ca_file:
            curl.setopt(pycurl.CAINFO, self._ca_file)
        return Transfer(
            curl,
            self._guard,
            self._clock,
            self._budget,
            self._spool_folder,
            self._sockets,
            self._may_send,
        )

    def _put_back(self, transfer: Transfer, is_reusable: bool) -> None:
        if is_reusable and len(self._idle) < _POOLED_HANDLES:
            self._idle.append(transfer)
        else:
            transfer.curl.close()

    def _fetched(
        self, request: FetchRequest, wall: float, transfer: Transfer, code: int, message: str
    ) -> Fetched:
        ended = self._clock.monotonic()
        reason, detail = _verdict(transfer, code, message)
        self._connections_made += transfer.curl.getinfo(pycurl.NUM_CONNECTS)
        # An incomplete header block is no response, nor is what was received before an error of
        # ours or a refusal.
        has_two_targets = is_of_two_targets(code, message)
        is_whole = transfer.headers.is_complete or has_two_targets
        if transfer.is_proxied and not transfer.sent:
            is_whole = False  # what arrived is the proxy's
        is_response = is_whole and reason not in _NO_RESPONSE and not transfer.headers.flaw()
        block = (
            transfer.headers.joined() + (b"\r\n" if has_two_targets else b"")
            if is_response
            else b""
        )
        size = transfer.body.size if is_response else 0
        body, spool = transfer.body.take_body() if is_response else (b"", "")
        return Fetched(
            request.url,
            reason,
            detail,
            _status(block),
            transfer.request_block,
            block,
            body,
            spool,
            size,
            _truncation(reason, has_two_targets) if is_response else "",
            transfer.address or request.address,
            protocol_of(block),
            self._tls_version(request.url, transfer),
            wall,
            max(transfer.first_byte - transfer.started, 0.0) if transfer.first_byte else 0.0,
            ended - transfer.started,
            max(transfer.sent - transfer.started, 0.0) if transfer.sent else 0.0,
        )

    def _note_connection(self, origin: str, fetched: Fetched, transfer: Transfer) -> None:
        """Store what the request showed about connections to its origin."""
        if transfer.socket >= 0:
            self._connections.note_opened(origin, transfer.socket)
        if fetched.status:
            self._connections.note_announced(origin, fetched.header("keep-alive"))
        elif fetched.reason is Reason.REQUEST_UNANSWERED:
            learn = (
                self._connections.note_http1
                if Sign.WANTS_HTTP1 in transfer.signs
                else self._connections.note_closed
            )
            learn(origin, self._clock.monotonic())

    def _tls_version(self, url: str, transfer: Transfer) -> str:
        """The TLS version; libcurl reports it only for a new connection, so it is remembered."""
        if not url.startswith("https:"):
            return ""
        connection = transfer.curl.getinfo(pycurl.CONN_ID)
        if transfer.tls:
            if len(self._tls_versions) > 2 * self._section.connections + 1024:
                del self._tls_versions[next(iter(self._tls_versions))]
            self._tls_versions[connection] = transfer.tls
        return transfer.tls or self._tls_versions.get(connection, "")


def _verdict(transfer: Transfer, code: int, message: str) -> tuple[Reason, str]:
    """Why the transfer ended: our verdict, libcurl's error, or a flaw in its success."""
    if transfer.is_proxied and not transfer.sent:
        curl = transfer.curl
        answered, is_there = (
            curl.getinfo(pycurl.HTTP_CONNECTCODE),
            curl.getinfo(pycurl.CONNECT_TIME),
        )
        if found := reason_of_proxy(transfer.verdict, code, message, answered, is_there > 0):
            return found
    if transfer.verdict is not Reason.NONE:
        return transfer.verdict, transfer.detail
    if is_of_two_targets(code, message):
        is_redirect = _status(transfer.headers.joined()) in _REDIRECTS
        return (
            Reason.BAD_REDIRECT if is_redirect else Reason.MALFORMED_RESPONSE
        ), "two different Location fields; the rest is not read"
    if code:
        if Sign.REFUSED in transfer.signs and not transfer.first_byte:
            return reason_of_repeat(transfer.signs)
        os_error = transfer.curl.getinfo(pycurl.OS_ERRNO)
        return (
            reason_of(code, message, os_error, bool(transfer.sent), bool(transfer.first_byte)),
            message,
        )
    if not transfer.headers.is_complete:
        return Reason.MALFORMED_RESPONSE, "the answer ends within the header lines"
    flaw = transfer.headers.flaw()
    if flaw:
        return Reason.MALFORMED_RESPONSE, flaw
    if transfer.headers.is_length_beyond_counting():
        return Reason.CONNECTION_LOST, "fewer bytes than Content-Length says"
    return Reason.NONE, ""


def _truncation(reason: Reason, has_two_targets: bool) -> str:
    return "unspecified" if has_two_targets else _TRUNCATED.get(reason, "disconnect")


def _status(block: bytes) -> int:
    words = block[:64].split(None, 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _unsent(request: FetchRequest, wall: float, reason: Reason, detail: str) -> Fetched:
    return Fetched(request.url, reason, detail, address=request.address, started=wall)
