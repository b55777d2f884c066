"""What is added to one request, and how its secrets are hidden in what was sent and received."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from lycosa.base.model.fetched import Fetched, Privacy
from lycosa.stages.fetch.cookies import CookieJars

_SET_COOKIE = frozenset({b"set-cookie", b"set-cookie2"})


class Proxy(NamedTuple):
    """A proxy: its URL, its address, and its ``USER:PASSWORD`` or nothing.

    ``pin`` maps its name to the address, for libcurl, which resolves nothing.
    """

    url: str
    login: bytes = b""
    pin: str = ""

    @property
    def address(self) -> str:
        """The address that is connected to."""
        return self.pin.split(":", 2)[2] if self.pin else urlsplit(self.url).hostname or ""


class Profile(NamedTuple):
    """What is added to a request.

    ``hidden`` are the names of header fields, in lower case, whose values are not stored.
    """

    lines: tuple[bytes, ...] = ()
    jars: CookieJars | None = None
    certificate: str = ""
    proxy: Proxy | None = None
    hidden: frozenset[bytes] = frozenset()
    privacy: Privacy = Privacy.PUBLIC

    def without_secrets(self, fetched: Fetched) -> Fetched:
        """What was sent and received, with sizes in place of the secrets."""
        return msgspec.structs.replace(
            fetched,
            request_block=hide_values(fetched.request_block, self.hidden),
            header_block=hide_cookies(fetched.header_block),
            privacy=self.privacy,
        )


NO_PROFILE = Profile()


def hide_values(block: bytes, names: frozenset[bytes]) -> bytes:
    """A header block with ``[n bytes]`` in place of the values of these fields."""
    lines = block.split(b"\n")
    for number, line in enumerate(lines):
        name, colon, value = line.partition(b":")
        if colon and number and name.strip().lower() in names:
            end = b"\r" if line.endswith(b"\r") else b""
            lines[number] = name + b": [%d bytes]" % len(value.strip()) + end
    return b"\n".join(lines)


def hide_cookies(block: bytes) -> bytes:
    """The header block of an answer without the values of cookies, which may be a login."""
    return hide_values(block, _SET_COOKIE)
