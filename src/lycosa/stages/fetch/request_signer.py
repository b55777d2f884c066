"""Signs the requests that leave a worker, if the settings name a key (Web Bot Auth).

A signature is made when the request is given to libcurl: after every wait for politeness and for
slots, with a new nonce. On a kept connection that is the moment of sending; a new connection
takes at most ``connect_s`` longer, which is added to the lifetime. libcurl repeats nothing
(``repeats``), so a nonce is sent at most once. While this machine's clock is wrong by more than
30 s, requests are sent unsigned: a verifier would take a signature of another time for a forged
one, and an unsigned request for what it is.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from lycosa.base.config.sections import AgentSection
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.ports import Clock
from lycosa.base.signing.message_signature import NONCE_BYTES, MessageSigner
from lycosa.base.signing.signing_key import KeyFileError, load_key
from lycosa.stages.fetch.server_clocks import ServerClocks

LIFETIME_S = 60
"""Seconds from the creation of a signature to its end, besides those of connecting.

The draft permits a day. A minute is enough for a request on its way, and short for an attacker who
copies the signature.
"""
MAX_SKEW_S = 30.0


class RequestSigner:
    """One per fetcher. It counts what it signed, and what it did not."""

    def __init__(self, signer: MessageSigner, clock: Clock) -> None:
        self._signer, self._clock = signer, clock
        self._clocks = ServerClocks()
        self.counts = {"signed": 0, "clock": 0}
        """Requests: signed, and unsigned because of the clock."""

    def header_lines(self, request: FetchRequest) -> list[bytes]:
        """The header lines that sign a request which leaves now; none if the clock is wrong.

        Raises ``ValueError`` for a URL that cannot be sent.
        """
        if abs(self.skew_s()) > MAX_SKEW_S:
            self.counts["clock"] += 1
            return []
        created = int(self._clock.wall())
        expires = created + math.ceil(request.limits.connect_s) + LIFETIME_S
        lines = self._signer.header_lines(request.url, created, expires, os.urandom(NONCE_BYTES))
        self.counts["signed"] += 1
        return lines

    def note_answer(self, fetched: Fetched, began: float) -> None:
        """Note the server's clock. The answer began at ``began`` (monotonic)."""
        if fetched.header_block:
            date, age = fetched.header("date"), fetched.header("age")
            self._clocks.note_date(fetched.address, date, age, began)

    def skew_s(self) -> float:
        """Seconds by which the clock is ahead of those of servers; 0 if that is unknown."""
        return self._clocks.ahead_s(self._clock.wall(), self._clock.monotonic())

    def __repr__(self) -> str:
        return f"<RequestSigner {self.counts}, clock ahead by {self.skew_s():.0f} s>"


def request_signer(agent: AgentSection, clock: Clock) -> RequestSigner | None:
    """The signer by the settings; ``None`` without a key. Raises ``KeyFileError``."""
    if not agent.key_file:
        return None
    if not agent.key_directory:
        raise KeyFileError(
            "agent.key_file signs requests, and a signed request must name the directory with the"
            " public key; set agent.key_directory, as"
            " https://crawler.example/.well-known/http-message-signatures-directory"
        )
    return RequestSigner(MessageSigner(load_key(Path(agent.key_file)), agent.key_directory), clock)
