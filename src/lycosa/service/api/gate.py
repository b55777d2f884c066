"""What a request must pass before any endpoint sees it.

    name of the server -> rate -> token or session -> origin -> size, form and time of the body

The gate is the outermost part of the application, so no endpoint can forget it. A page of another
site can neither read nor change anything: no header allows it to read, the name of the server must
be one that the operator chose (a foreign name may resolve to this address), and a request that
changes something must not come from another site.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from lycosa.service.api.access_log import AccessLog
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.open_connections import client_at
from lycosa.service.api.problems import Problem
from lycosa.service.api.quotas import HeldPlaces, Places, RequestQuota
from lycosa.service.api.tokens import AccessScope, Client, Tokens

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
Application = Callable[[AsgiMessage, Receive, Send], Awaitable[None]]

API = "/api/v1"
PUBLIC = ("/health/", "/login", "/static/", "/indexnow")
"""Paths that need no token.

Probes, the form that takes one, what that form looks like, and notices of sites, which prove
themselves by a key.
"""
_SESSION = ("/login", "/logout")  # they change only who the client is
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LEASING = f"{API}/frontier/next"  # it is a GET, and changes what is leased
_EVENTS = f"{API}/events"  # without an end
_LARGE = f"{API}/frontier/results"
_NOTICES = "/indexnow"
_SMALL_BYTES = 1_000_000
_NOTICE_BYTES = 4_000_000  # 10,000 URLs
_HELD_BYTES = 64_000_000  # of all bodies together
_BYTES_PER_S = 50_000  # the slowest body, after a pause
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
_LOGIN_RATE, _LOGIN_BURST = 0.5, 5.0
# Files of the page are asked for again with their ETag: an upgrade may have changed them.
_CACHING = (("/api/", b"no-store"), ("/static/", b"no-cache"))
_SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # "no-referrer" would make browsers send "Origin: null" with the forms of this very page
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class GateRules(msgspec.Struct, frozen=True):
    """Where the interface listens: ``host`` is the name in its address.

    ``cookie`` is the name of the cookie of a session.
    """

    host: str
    is_loopback: bool
    is_behind_proxy: bool
    limits: ApiLimits
    cookie: str = "lycosa_session"


class Gate:
    """The application ``inner`` behind the checks."""

    def __init__(
        self, inner: Application, rules: GateRules, tokens: Tokens, log: AccessLog
    ) -> None:
        self.inner, self._rules, self._tokens, self._log = inner, rules, tokens, log
        limits = rules.limits
        self._quota = RequestQuota(limits.rate, limits.rate * limits.burst_s)
        self._logins = RequestQuota(_LOGIN_RATE, _LOGIN_BURST)
        self._held = Places(_HELD_BYTES, "bytes of requests")

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        has_begun = False

        async def guarded(message: AsgiMessage) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = [*message["headers"], *_SECURITY]
                caching = next((c for path, c in _CACHING if scope["path"].startswith(path)), b"")
                if caching and not any(
                    name.lower() == b"cache-control" for name, _ in message["headers"]
                ):
                    message["headers"].append((b"cache-control", caching))
            await send(message)

        try:
            await self._admit(scope, receive, guarded)
        except Problem as problem:
            client = scope.get("state", {}).get("client")
            name = client.name if client is not None else ""
            self._log.note_refusal(problem.status, scope["method"], scope["path"], name)
            # A response that has begun cannot become another one; the connection just ends.
            if not has_begun:
                await send_problem(problem, scope, guarded)

    async def _admit(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        peer = self._peer(scope, headers)
        self._log.begin_request(peer)
        # From here on in the order of cost: what needs no memory first, the body last. A client
        # that is refused has cost nothing.
        _check_length(headers)
        self._check_size(scope)
        self._check_host(headers)
        # Before the token is looked at, so that guessing tokens is limited as well.
        if wait := self._quota.take(peer):
            raise Problem(429, f"more than {self._rules.limits.rate:g} requests a second", wait)
        path = scope["path"]
        if path == "/login" and scope["method"] == "POST" and (wait := self._logins.take(peer)):
            raise Problem(429, "there are too many attempts to log in", wait)
        client = self._client(scope, headers)
        scope.setdefault("state", {}).update(client=client, peer=peer)
        changes = scope["method"] not in _SAFE or path == _LEASING
        _check_origin(scope, headers, changes)
        if client is None and not path.startswith(PUBLIC):
            raise self._no_token(scope, headers)
        steers = changes and path not in _SESSION
        if client is not None and steers and client.scope < AccessScope.OPERATE:
            raise Problem(403, f"the token {client.name!r} may read and not change anything")
        if scope["method"] == "HEAD" and path not in (_LEASING, _EVENTS):
            # the server sends no body, because its own scope still has the method
            scope = {**scope, "method": "GET"}
        # A body of these is not read at all.
        if scope["method"] in _SAFE:
            await self.inner(scope, receive, send)
            return
        _check_form(path, headers)
        await self._with_body(scope, headers, peer, receive, send)

    # -- who asks

    def _check_size(self, scope: AsgiMessage) -> None:
        """A head that arrives in one piece is not limited by the parser."""
        size = len(scope["raw_path"]) + len(scope["query_string"])
        size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size > self._rules.limits.header_bytes:
            most = self._rules.limits.header_bytes
            raise Problem(431, f"a head has at most {most:,} bytes", headers=_CLOSE)

    def _check_host(self, headers: dict[str, str]) -> None:
        """A name that another site made resolve to this machine is not one of this server's."""
        rules = self._rules
        if not rules.is_loopback or rules.is_behind_proxy:
            return
        given = headers.get("host", "")
        name = given if given.endswith("]") else given.rpartition(":")[0] or given
        if name.lower() not in _LOCAL and name.lower() != rules.host.lower():
            raise Problem(421, "the header Host must name this machine, for example localhost")

    def _peer(self, scope: AsgiMessage, headers: dict[str, str]) -> str:
        """Whose requests are counted together."""
        if self._rules.is_behind_proxy and (chain := headers.get("x-forwarded-for")):
            return client_at(chain.rpartition(",")[2].strip()[:100])
        return client_at(str((scope.get("client") or ("",))[0]))

    def _client(self, scope: AsgiMessage, headers: dict[str, str]) -> Client | None:
        if self._tokens.are_none:
            return Client("local", AccessScope.OPERATE)
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._tokens.client_of(secret.strip())
        cookie = session_cookie(headers.get("cookie", ""), self._rules.cookie)
        return self._tokens.client_of_session(cookie, time.time())

    def _no_token(self, scope: AsgiMessage, headers: dict[str, str]) -> Problem:
        is_page = "text/html" in headers.get("accept", "") and not scope["path"].startswith("/api/")
        if is_page and scope["method"] == "GET":
            return Problem(303, "log in first", headers={"location": "/login"})
        if "authorization" in headers:
            detail = (
                "the header Authorization has no token of this interface; write it as Bearer"
                " SECRET, with the third word of a line of --api-tokens"
            )
        elif session_cookie(headers.get("cookie", ""), self._rules.cookie):
            detail = "the session is over: log in again"
        else:
            detail = "give a token of this interface: Authorization: Bearer SECRET"
        return Problem(401, detail, headers={"www-authenticate": 'Bearer realm="lycosa"'})

    # -- the body

    async def _with_body(
        self,
        scope: AsgiMessage,
        headers: dict[str, str],
        peer: str,
        receive: Receive,
        send: Send,
    ) -> None:
        limits = self._rules.limits
        sizes = {_LARGE: limits.body_bytes, _NOTICES: _NOTICE_BYTES}
        most = min(sizes.get(scope["path"], _SMALL_BYTES), limits.body_bytes)
        given = headers.get("content-length", "")
        size = int(given) if given.isascii() and given.isdigit() and len(given) < 16 else -1
        if size > most:
            raise Problem(413, f"a body here has at most {most:,} bytes", headers=_CLOSE)
        with self._held.hold(peer, 0) as held:
            body = await _body(receive, most, limits.request_s, held)
            is_given = False

            async def replayed() -> AsgiMessage:
                nonlocal is_given
                if is_given:
                    return await receive()
                is_given = True
                return {"type": "http.request", "body": body, "more_body": False}

            await self.inner(scope, replayed, send)


_CLOSE = {"connection": "close"}


async def _body(receive: Receive, most: int, silent_s: float, held: HeldPlaces) -> bytes:
    """The whole body. Raises ``Problem`` when it is too large or too slow.

    Only what has arrived is held. A client gains time with each piece, as much as the slowest body
    may take for it, but never has more than ``silent_s``: so one that sends much at once and then
    stops is not waited for longer than one that sends nothing.
    """
    loop, parts, size = asyncio.get_running_loop(), list[bytes](), 0
    try:
        async with asyncio.timeout(silent_s) as patience:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "the request broke off", headers=_CLOSE)
                parts.append(message.get("body", b""))
                held.add(len(parts[-1]))
                size += len(parts[-1])
                if size > most:
                    raise Problem(413, f"a body here has at most {most:,} bytes", headers=_CLOSE)
                if not message.get("more_body", False):
                    return b"".join(parts)
                # Each byte buys time at the slowest allowed rate, so a trickle ends however it is
                # divided.
                until = (patience.when() or 0.0) + len(parts[-1]) / _BYTES_PER_S
                patience.reschedule(min(until, loop.time() + silent_s))
    except TimeoutError:
        detail = f"the body is slower than {_BYTES_PER_S // 1000} kB a second"
        raise Problem(408, detail, headers=_CLOSE) from None


def _headers(scope: AsgiMessage) -> dict[str, str]:
    """The headers by name. Of a repeated one the last counts, except Host, which may be once."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        if name == "host" and name in found:
            raise Problem(400, "there are two headers Host")
        found[name] = value.decode("latin-1")
    return found


def _check_length(headers: dict[str, str]) -> None:
    """Refuse two lengths of one body: a proxy may have believed the other one (RFC 9112 6.3)."""
    if "transfer-encoding" in headers and "content-length" in headers:
        detail = "a request has either Transfer-Encoding or Content-Length"
        raise Problem(400, detail, headers=_CLOSE)


def session_cookie(header: str, name: str) -> str:
    """The value of the session's cookie in a header ``Cookie``; empty without one."""
    for cookie in header.split(";"):
        found, _, value = cookie.strip().partition("=")
        if found == name:
            return value
    return ""


def _check_origin(scope: AsgiMessage, headers: dict[str, str], changes: bool) -> None:
    """Refuse what a page of another site sends."""
    site = headers.get("sec-fetch-site", "none")
    is_api = scope["path"].startswith("/api/")
    if site not in ("same-origin", "none") and (changes or is_api):
        raise Problem(403, "a page of another site sent this request")
    origin = headers.get("origin")
    if origin is None or not changes:
        return
    try:
        netloc = urlsplit(origin).netloc
    except ValueError:
        # Not an origin. As an empty one it is refused below.
        netloc = ""
    if not netloc or netloc.lower() != headers.get("host", "").lower():
        raise Problem(403, "a page of another origin sent this request")


def _check_form(path: str, headers: dict[str, str]) -> None:
    """A form of another site cannot send JSON; pages of this one send forms."""
    if headers.get("content-length", "") in ("", "0") and "transfer-encoding" not in headers:
        return
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "a body with a Content-Encoding is not read here", headers=_CLOSE)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    allowed = ["application/json"]
    if not path.startswith("/api/"):
        allowed.append("application/x-www-form-urlencoded")
    if kind not in allowed:
        raise Problem(415, f"the Content-Type must be {' or '.join(allowed)}", headers=_CLOSE)


async def send_problem(problem: Problem, scope: AsgiMessage, send: Send) -> None:
    body = problem.body(scope.get("path", ""))
    lines = {**problem.header_lines(), "content-length": str(len(body))}
    headers = [(name.encode(), value.encode("latin-1")) for name, value in lines.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    is_head = scope.get("method") == "HEAD"
    await send({"type": "http.response.body", "body": b"" if is_head else body})
