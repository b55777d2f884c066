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
from lycosa.base.model.host_memory import OwnFinding

OWN_PATH = "/.well-known/lycosa-own-host"
FETCHED_EVERY_S = 3600.0
VALID_S = 3900.0
"""How long a file proves its host, in seconds from the start of its request."""
MOST_OWN_BYTES = 1000


def token_of(secret: bytes, host: str) -> str:
    """The token of a host, 64 hexadecimal digits."""
    return hmac.digest(secret, host.encode("ascii", "replace"), "sha256").hex()


def has_token(status: int, body: bytes, token: str) -> bool:
    """Whether a response for the file has the token, and nothing else but white space."""
    return finding_of(status, body, token) is OwnFinding.RIGHT


def finding_of(status: int, body: bytes, token: str) -> OwnFinding:
    """What a response for the file is; the status is 0 without one."""
    if status == 200:
        is_right = len(body) <= MOST_OWN_BYTES and hmac.compare_digest(body.strip(), token.encode())
        return OwnFinding.RIGHT if is_right else OwnFinding.WRONG_TOKEN
    if status in (404, 410):
        return OwnFinding.MISSING
    if not status:
        return OwnFinding.UNANSWERED
    return OwnFinding.REDIRECTED if 300 <= status < 400 else OwnFinding.REFUSED


def lifted(section: PolitenessSection) -> PolitenessSection:
    """The settings for a proved host: no delay but those that it asks for.

    Neither the delay of the settings, nor one because it answers slowly.

    What the host itself asks for stays: Crawl-delay, Retry-After, the pauses after 429 and 503. So
    does a delay that the operator decided for this host.
    """
    return msgspec.structs.replace(section, delay_s=0.0, adaptive_factor=0.0)


class OwnHosts:
    """Which hosts are proved. One per worker; times are wall time, as in the attempt log."""

    def __init__(self, tokens: dict[str, str]) -> None:
        self.tokens = tokens
        self._proved: dict[str, float] = {}
        self._stored: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._lifted: tuple[PolitenessSection, PolitenessSection] | None = None

    def is_proved(self, host: str, wall: float) -> bool:
        """Whether the host is proved now. A clock that was set back ends a proof."""
        at = self._proved.get(host)
        return at is not None and 0 <= wall - at < VALID_S

    def section_of(self, host: str, section: PolitenessSection, wall: float) -> PolitenessSection:
        """The settings in force for a host of the list."""
        if not self.is_proved(host, wall):
            return section
        if self._lifted is None or self._lifted[0] is not section:
            self._lifted = section, lifted(section)
        return self._lifted[1]

    def is_due(self, host: str, wall: float) -> bool:
        """Whether the file of the host is to be requested."""
        asked = self._asked.get(host)
        return host in self.tokens and (asked is None or not 0 <= wall - asked < FETCHED_EVERY_S)

    def note_asked(self, host: str, wall: float) -> None:
        """The file was requested, or may not be."""
        self._asked[host] = wall

    def note_file(self, host: str, at: float, is_right: bool) -> None:
        """Take in a response whose request began at ``at``. A wrong one ends the proof at once."""
        if is_right:
            self._stored[host] = at
        else:
            self._stored.pop(host, None)
            self._proved.pop(host, None)

    def cut(self) -> dict[str, float]:
        """The proofs whose responses are in the commit that is cut now."""
        cut, self._stored = self._stored, {}
        return cut

    def note_committed(self, cut: dict[str, float]) -> None:
        """Let the proofs of a commit count, unless a later response was wrong."""
        for host, at in cut.items():
            if self._asked.get(host, at) <= at:
                self._proved[host] = at
