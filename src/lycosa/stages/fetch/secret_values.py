"""Reads the secrets that the settings of requests name, from files and variables of this machine.

They are read when a worker starts, and are in its memory only: in no setting, job, message, log or
file of a crawl. No message repeats one.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from lycosa.base.config.profile_texts import SecretPlace, read_secret_place

_MAX_BYTES = 1_000_000
_FIELD_VALUE = re.compile(
    rb"[\x21-\x7e\x80-\xff](?:[\x20\x09\x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?"
)
_BEARER = re.compile(rb"[A-Za-z0-9._~+/-]+=*")  # RFC 6750 section 2.1
_MAX_VALUE = 8192
_SHORTEST_OWN = 32


class SecretError(Exception):
    """A secret cannot be read or used on this machine; the message says what to do."""


def secret_content(place: SecretPlace, what: str) -> bytes:
    """The content of a file, or the value of a variable. Raises ``SecretError``."""
    if not place.is_file:
        value = os.environ.get(place.name, "")
        if not value:
            raise SecretError(
                f"{what}: the variable {place.name} is not set on this machine; each machine that"
                " sends requests needs it"
            )
        return os.fsencode(value)
    return _content(place.name, what)


def read_value(place: SecretPlace, what: str) -> bytes:
    """The value of a header: one line. Raises ``SecretError``."""
    value = secret_content(place, what).strip(b"\r\n\t ")
    if not _FIELD_VALUE.fullmatch(value) or len(value) > _MAX_VALUE:
        raise SecretError(
            f"{what}: {place.text} is not one line of text, of at most {_MAX_VALUE} bytes"
        )
    return value


def read_login(place: SecretPlace, what: str) -> bytes:
    """``USER:PASSWORD``. Raises ``SecretError``."""
    value = read_value(place, what)
    if b":" not in value:
        raise SecretError(f"{what}: {place.text} has no colon; write USER:PASSWORD into it")
    return value


def read_token(place: SecretPlace, what: str) -> bytes:
    """A bearer token. Raises ``SecretError``."""
    value = read_value(place, what)
    if not _BEARER.fullmatch(value):
        raise SecretError(
            f"{what}: {place.text} is no bearer token, which has letters, digits and -._~+/ only;"
            " leave out the word Bearer"
        )
    return value


def read_own_secrets(text: str) -> tuple[bytes, ...]:
    """The secret of own hosts and, on further lines, those that it has replaced, newest first.

    ``text`` is the setting that says where they are. White space around one is not a part of it.
    Raises ``SecretError``, and ``ValueError`` for a text that names no place.
    """
    place = read_secret_place(text)
    content = secret_content(place, "requests.own_secret")
    secrets = tuple(line.strip() for line in content.splitlines() if line.strip())
    if not secrets or min(map(len, secrets)) < _SHORTEST_OWN:
        where = f"a line of {place.text}" if len(secrets) > 1 else place.text
        raise SecretError(
            f"requests.own_secret: {where} has fewer than"
            f" {_SHORTEST_OWN} bytes; tokens are public, and a short secret could be found from"
            " one; run: openssl rand -hex 32"
        )
    return secrets


def _content(name: str, what: str) -> bytes:
    try:
        # Not blocking, because a named pipe would wait for its writer.
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise SecretError(
            f"{what}: there is no file {name} on this machine; each machine that sends requests"
            " needs it"
        ) from None
    except OSError as error:
        raise SecretError(f"{what}: {name} cannot be read: {error.strerror}") from None
    try:
        facts = os.fstat(file)  # of the open file, so that it is the one that is read
        if not stat.S_ISREG(facts.st_mode):
            raise SecretError(f"{what}: {name} is not a file")
        if facts.st_mode & 0o007:
            raise SecretError(
                f"{what}: {name} has the mode {stat.S_IMODE(facts.st_mode):04o}, so other users of"
                f" the machine may read or replace it; run: chmod o= {Path(name)}"
            )
        content = os.read(file, _MAX_BYTES + 1)
    finally:
        os.close(file)
    if not content.strip() or len(content) > _MAX_BYTES:
        raise SecretError(f"{what}: {name} is empty or has more than {_MAX_BYTES} bytes")
    return content
