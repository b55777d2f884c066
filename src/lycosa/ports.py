"""What the pipeline is given from outside: clock, offload, fetcher, resolver, parser, address
slots.

Each is small enough that the real one, the one for virtual time, and a test's own read alike.
Everything that takes time or depends on chance comes through here, so that one seed gives one
history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from lycosa.model.fetched import Fetched, FetchRequest
from lycosa.model.parsed import Document, Parsed, ParserHealth
from lycosa.reasons import Reason

_T = TypeVar("_T")


class Clock(Protocol):
    """Two clocks (seconds) and a pause. ``monotonic`` counts suspension where the system can."""

    def monotonic(self) -> float: ...
    def wall(self) -> float: ...
    async def sleep(self, delay_s: float) -> None: ...


class Offload(Protocol):
    """Runs blocking and long work away from the loop: fsync, commits, refills of back queues, long
    robots.txt files, large bodies, Parquet.
    """

    async def run(self, work: Callable[[], _T]) -> _T: ...


class Fetcher(Protocol):
    """Sends one request. Never raises for what a server or network does; cancelling ends the
    transfer.

    At the moment before a request leaves, the lease on its shard is asked once more: a request that
    may not leave ends as ``LEASE_EXPIRED``, and the server has not heard of it.
    """

    async def fetch(self, request: FetchRequest) -> Fetched: ...
    async def close(self) -> None: ...


class Addresses(Protocol):
    """How often an address may be asked and how many requests to it may be open, over all workers
    that share its slots.

    Times are ``Clock.monotonic``. ``take_slot`` gives 0.0 when the request may start now: a slot is
    taken then. Else it gives the seconds after which to ask again, and nothing is taken, nor when
    it is cancelled. ``record_start`` says that the request left at ``at`` and its answer began at
    ``answered``: the next start counts from there. ``release_slot`` says that the request has
    ended. Both raise ``KeyError`` when no slot of the address is held. ``close`` gives all slots
    back, without waiting.
    """

    async def take_slot(self, address: str, now: float) -> float: ...
    async def record_start(self, address: str, at: float, answered: float = 0.0) -> None: ...
    async def release_slot(self, address: str, now: float) -> None: ...
    def close(self) -> None: ...


class Resolver(Protocol):
    """Gives the addresses of a host name (text, most preferred first).

    Raises ``ResolveError`` when there are none. Implementations cache by TTL and remember failures.
    """

    async def resolve(self, name: str) -> Sequence[str]: ...
    async def close(self) -> None: ...


class Parser(Protocol):
    """Parses one document; a document that kills or stalls the parser comes back with a reason. One
    that the parser is not there for waits, and ``health`` says why.
    """

    async def parse(self, document: Document) -> Parsed: ...
    def health(self) -> ParserHealth: ...
    async def close(self) -> None: ...


class ResolveError(Exception):
    """A name has no address; ``reason`` is one of the ``DNS_*`` reasons.

    ``is_outage``: no other name has one either just now, so nothing is known about this one.
    """

    def __init__(
        self, name: str, reason: Reason, detail: str = "", is_outage: bool = False
    ) -> None:
        super().__init__(f"{name}: {detail or reason.meaning}")
        self.name, self.reason, self.detail, self.is_outage = name, reason, detail, is_outage
