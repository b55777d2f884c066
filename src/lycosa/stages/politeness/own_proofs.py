"""What proves that a host belongs to the operator of the crawl, and what such a host is spared.

The operator puts the host's token at ``OWN_PATH``. It is the HMAC-SHA256 (RFC 2104) of the host's
name under a secret of the operator, in hexadecimal: the key is the secret without spaces and line
ends around it, the message is the name as URLs of the crawl have it (``www.example.org``,
``www.example.org:8443``) in ASCII. A copy of the file on another host proves nothing there.
"""

from __future__ import annotations

import hmac

import msgspec

from lycosa.base.config.sections import PolitenessSection

OWN_PATH = "/.well-known/lycosa-own-host"
FETCHED_EVERY_S = 3600.0
VALID_S = 3900.0
"""How long a file proves its host, in seconds from the start of its request."""
MOST_BYTES = 1000


def token_of(secret: bytes, host: str) -> str:
    """The token of a host, 64 hexadecimal digits."""
    return hmac.digest(secret, host.encode("ascii", "replace"), "sha256").hex()


def has_token(status: int, body: bytes, token: str) -> bool:
    """Whether a response for the file has the token, and nothing else but white space."""
    return (
        status == 200
        and len(body) <= MOST_BYTES
        and hmac.compare_digest(body.strip(), token.encode())
    )


def lifted(section: PolitenessSection) -> PolitenessSection:
    """The settings for a proved host: no delay of its own, and none because it answers slowly.

    What the host itself asks for stays: Crawl-delay, Retry-After, the pauses after 429 and 503. So
    does a delay that the operator decided for this host.
    """
    return msgspec.structs.replace(section, delay_s=0.0, adaptive_factor=0.0)
