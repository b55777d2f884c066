"""Who may use the interface: tokens with a scope, and sessions of the page that follow from them.

A token is a line ``NAME SCOPE SECRET`` of a file, or of the environment variable
``LYCOSA_API_TOKENS``. A secret is kept as its SHA-256 only, is compared with all tokens in constant
time, and never appears in a log, a message or a process list. A session is a cookie that contains
its time of expiry and a keyed hash under the token's, so it survives a restart of this process and
ends when the token is removed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from enum import IntEnum
from pathlib import Path

import msgspec

from lycosa.config.sources import SettingsError
from lycosa.system.environment import TOKENS_VARIABLE

SESSION_S = 12 * 3600.0
"""How long a session of the page lasts, in seconds."""
_MIN_SECRET = 16
_KEY = b"lycosa api session 1"


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
    """All tokens. Without any, everyone who reaches the interface may do everything."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens

    def __repr__(self) -> str:
        return f"<Tokens {self._tokens}>"

    @property
    def are_none(self) -> bool:
        """Whether no token is needed."""
        return not self._tokens

    def client_of(self, secret: str) -> Client | None:
        """The client with that secret."""
        digest = hashlib.sha256(secret.encode()).digest()
        found = None
        for token in self._tokens:  # all of them: the time must not tell which one is near
            if hmac.compare_digest(token.digest, digest):
                found = token.client
        return found

    def begin_session(self, secret: str, now: float) -> str:
        """The cookie of a new session, for a secret that ``client_of`` knows."""
        expires = int(now + SESSION_S)
        return f"{expires}.{_proof(hashlib.sha256(secret.encode()).digest(), expires)}"

    def client_of_session(self, cookie: str, now: float) -> Client | None:
        """The client whose session this cookie is, while it lasts."""
        head, _, proof = cookie.partition(".")
        if not (head.isascii() and head.isdigit() and len(head) < 16 and int(head) > now):
            return None
        found = None
        for token in self._tokens:
            expected = _proof(token.digest, int(head)).encode()
            if hmac.compare_digest(expected, proof.encode()):
                found = token.client
        return found


def _proof(digest: bytes, expires: int) -> str:
    key = hmac.new(digest, _KEY, hashlib.sha256).digest()
    return hmac.new(key, str(expires).encode(), hashlib.sha256).hexdigest()


def read_tokens(file: str) -> Tokens:
    """The tokens of a file, else those of the environment. Raises ``SettingsError``."""
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
    return Tokens(tokens)


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
