"""What a host answers to a path that does not exist."""

from __future__ import annotations

import msgspec


class MissingPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The answer to the last question, and whether a newer one is wanted.

    ``asked_at`` is crawl time (0 = never asked). ``status`` is that of the answer (0 = none).
    ``digest`` is the SHA-1 of its payload and ``simhash`` the fingerprint of its text (0 = none).
    ``target`` is the URL to which the answer redirects. ``copies`` counts pages of the host that
    were copies of others of it since the last question.
    """

    asked_at: float = 0.0
    is_wanted: bool = False
    status: int = 0
    digest: bytes = b""
    simhash: int = 0
    target: str = ""
    copies: int = 0
