"""Who may use the interface: tokens with a scope, and sessions of the page that follow from them.

A token is a line ``NAME SCOPE SECRET`` of a file, or of the environment variable
``LYCOSA_API_TOKENS``. A secret is kept as its SHA-256 only, is compared with all tokens in constant
time, and never appears in a log, a message or a process list. A session is a cookie that contains
its time of expiry, a random number and a keyed hash of both under the token's, so it survives a
restart of this process and ends when the token is removed. One that was ended before its expiry is
on a list, which the process that started this one keeps.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import Path

import msgspec

from lycosa.base.config.sources import SettingsError
from lycosa.base.system.environment import TOKENS_VARIABLE
from lycosa.service.api.api_job import session_expiry

SESSION_S = 12 * 3600.0
"""How long a session of the page lasts, in seconds."""
_MIN_SECRET = 16
_KEY = b"lycosa api session 2"


class AccessScope(IntEnum):
    """What a client may do; a greater one includes the lower."""

    READ = 1
    OPERATE = 2


class Client(msgspec.Struct, frozen=True):
    """Who makes a request, for the log of actions, and what that client may do."""

    name: str
    scope: AccessScope


class Token(msgspec.Struct, frozen=True):
    """One token; ``digest`` is the SHA-256 of its secret."""

    client: Client
    digest: bytes

    def __repr__(self) -> str:
        return f"<Token {self.client.name} {self.client.scope.name.lower()}>"


class Tokens:
    """All tokens. Without any, everyone who reaches the interface may do everything.

    Sessions are valid for one run of the ``service``. Those in ``ended`` are over; ``on_ended`` is
    called with one more.
    """

    def __init__(self, tokens: list[Token], service: str = "", ended: Iterable[str] = ()) -> None:
        self._tokens, self._service = tokens, service
        self._ended = set(ended)
        self.on_ended: Callable[[str], None] = lambda session: None

    @property
    def are_none(self) -> bool:
        """Whether no token is needed."""
        return not self._tokens

    def client_of(self, secret: str) -> Client | None:
        digest = hashlib.sha256(secret.encode()).digest()
        found = None
        for token in self._tokens:  # all of them: the time must not tell which one is near
            if hmac.compare_digest(token.digest, digest):
                found = token.client
        return found

    def follow(self, other: Tokens) -> None:
        """Use other tokens from now on. Sessions of those that remain continue."""
        self._tokens = other._tokens

    def begin_session(self, secret: str, now: float) -> str:
        """The cookie of a new session, for a secret that ``client_of`` knows."""
        facts = f"{int(now + SESSION_S)}.{secrets.token_hex(8)}"
        return f"{facts}.{self._proof(hashlib.sha256(secret.encode()).digest(), facts)}"

    def client_of_session(self, cookie: str, now: float) -> Client | None:
        """The client whose session this cookie is, while it lasts."""
        facts, _, proof = cookie.rpartition(".")
        expires = facts.partition(".")[0]
        if not (expires.isascii() and expires.isdigit() and len(expires) < 16):
            return None
        if int(expires) <= now or cookie in self._ended:
            return None
        found = None
        for token in self._tokens:
            expected = self._proof(token.digest, facts).encode()
            if hmac.compare_digest(expected, proof.encode()):
                found = token.client
        return found

    def end_session(self, cookie: str, now: float) -> Client | None:
        """End a session before its expiry; returns whose it was."""
        client = self.client_of_session(cookie, now)
        if client is not None:
            self._ended = {each for each in self._ended if session_expiry(each) > now} | {cookie}
            self.on_ended(cookie)
        return client

    def _proof(self, digest: bytes, facts: str) -> str:
        key = hmac.new(digest, _KEY, hashlib.sha256).digest()
        return hmac.new(key, f"{self._service} {facts}".encode(), hashlib.sha256).hexdigest()


def cookie_name(crawl: str, is_secure: bool) -> str:
    """The name of the session's cookie.

    Cookies know no ports, so interfaces of several crawls on one machine need several names. With
    the prefix, a browser takes it only from this host and by TLS (RFC 6265bis 4.1.3.2).
    """
    name = f"lycosa_session_{hashlib.sha256(crawl.encode()).hexdigest()[:8]}"
    return f"__Host-{name}" if is_secure else name


def read_tokens(file: str, service: str = "", ended: Iterable[str] = ()) -> Tokens:
    """The tokens of a file, else those of the environment; the rest as for ``Tokens``.

    Raises ``SettingsError``.
    """
    if file:
        try:
            text, where = Path(file).read_text("utf-8"), file
        except OSError as error:
            raise SettingsError([f"--api-tokens {file}: {error.strerror}"]) from error
        except UnicodeDecodeError as error:
            raise SettingsError([f"--api-tokens {file}: it is not UTF-8 text"]) from error
    else:
        text, where = os.environ.get(TOKENS_VARIABLE, ""), TOKENS_VARIABLE
    tokens = [
        _token(line, f"{where}, line {number}")
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if file and not tokens:
        raise SettingsError([f"{file} has no token: give lines of NAME SCOPE SECRET"])
    return Tokens(tokens, service, ended)


def warning_about(file: str) -> str:
    """Why the file of tokens is not as safe as it should be; empty when it is."""
    if file and Path(file).stat().st_mode & 0o004:
        return f"every user of this machine can read the tokens in {file}: chmod 600 {file}"
    return ""


def _token(line: str, where: str) -> Token:
    parts = line.split()
    scopes = {scope.name.lower(): scope for scope in AccessScope}
    if len(parts) != 3 or parts[1] not in scopes:
        raise SettingsError(
            [f"{where}: give NAME SCOPE SECRET, with the scope read or operate (secret not shown)"]
        )
    if len(parts[2]) < _MIN_SECRET:
        raise SettingsError(
            [
                f"{where}: the secret has fewer than {_MIN_SECRET} characters; make one with"
                " `openssl rand -hex 32`"
            ]
        )
    client = Client(parts[0][:100], scopes[parts[1]])
    return Token(client, hashlib.sha256(parts[2].encode()).digest())
