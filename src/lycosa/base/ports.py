"""The ports of the pipeline: clock, offload, fetcher, resolver, parser, address slots, seeds.

Each is so small that its real implementation, the one in virtual time, and a test's own are alike.
Everything that takes time or depends on chance goes through a port, so that one seed gives one
history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.model.parsed import Parsed, ParseInput, ParserHealth
from lycosa.base.model.rendered_page import (
    ArchiveQuery,
    MissingAnswer,
    Rendered,
    RenderTask,
    StoredAnswer,
)
from lycosa.base.reasons import Reason

_T = TypeVar("_T")


class Clock(Protocol):
    """Two clocks (seconds) and a pause. ``monotonic`` counts suspension where the system can."""

    def monotonic(self) -> float: ...
    def wall(self) -> float: ...
    async def sleep(self, delay_s: float) -> None: ...


class Offload(Protocol):
    """Runs blocking and long work outside the event loop.

    Examples are fsync, commits, refills of back queues, long robots.txt files, large bodies,
    Parquet.
    """

    async def run(self, work: Callable[[], _T]) -> _T: ...


class Fetcher(Protocol):
    """Sends one request; does not raise for faults of a server or network.

    Cancelling ends the transfer. At the moment before a request leaves, the lease on its shard is
    checked once more: a request that may not leave ends as ``LEASE_EXPIRED``, and nothing of it
    reached the server.
    """

    async def fetch(self, request: FetchRequest) -> Fetched: ...
    async def close(self) -> None: ...


class SlotNote(NamedTuple):
    """What holds for a slot of an address.

    Its request must start within ``late_s`` after the slot was taken, or take another slot.
    ``text`` is for the attempt log: by which limits the slot was given, where that is not always
    the same.
    """

    late_s: float
    text: str = ""


class Addresses(Protocol):
    """The rate limit of addresses, shared by all workers that use the same slots.

    It limits the time between requests to an address and the number of open ones. Times are
    ``Clock.monotonic``. ``take_slot`` returns 0.0 when the request may start now, and then a slot
    is taken. Otherwise it returns the seconds after which to ask again, and takes nothing; a
    cancelled call takes nothing either. ``record_start`` notes that the request left at ``at`` and
    its answer began at ``answered``: the next start counts from there. ``release_slot`` notes that
    the request has ended. Both raise ``KeyError`` when no slot of the address is held.
    ``describe_slot`` says what holds for a slot if its request starts at ``at``. ``holder`` is the
    request among several of this worker to one address, and holds one slot at a time. ``close``
    releases all slots without waiting.
    """

    async def take_slot(self, address: str, now: float, holder: object = None) -> float: ...
    async def record_start(
        self, address: str, at: float, answered: float = 0.0, holder: object = None
    ) -> None: ...
    async def release_slot(self, address: str, now: float, holder: object = None) -> None: ...
    def describe_slot(self, address: str, at: float, holder: object = None) -> SlotNote: ...
    def close(self) -> None: ...


class Resolver(Protocol):
    """Returns the addresses of a host name (text, most preferred first).

    Raises ``ResolveError`` when there are none. Implementations cache by TTL and remember failures.
    """

    async def resolve(self, name: str) -> Sequence[str]: ...
    async def close(self) -> None: ...


class Parser(Protocol):
    """Parses one document.

    A document that kills or stalls the parser is answered with a reason. A document waits while
    there is no parser, and ``health`` has the cause.
    """

    async def parse(self, document: ParseInput) -> Parsed: ...
    def health(self) -> ParserHealth: ...

    def judge_scripts(self, is_wanted: bool) -> None:
        """Say from now on which pages need their scripts, or no longer."""
        ...

    async def close(self) -> None: ...


class Archive(Protocol):
    """Answers the requests of a page that is rendered, from what the crawl has stored.

    The answers are in the order of the requests. It does not raise for what a page asks, and
    answers a URL with the same record in all rounds of a render.
    """

    async def find(
        self, requests: Sequence[ArchiveQuery]
    ) -> Sequence[StoredAnswer | MissingAnswer]: ...


class Renderer(Protocol):
    """Runs the scripts of a stored page in a browser that opens no connection.

    Whatever the page does is a result with its reason, never an exception. Cancelling ends the page
    or the browser. ``describe`` names the browser, or says why there is none.
    """

    async def render(self, task: RenderTask, archive: Archive) -> Rendered: ...
    def describe(self) -> str: ...
    async def close(self) -> None: ...


class ResolveError(Exception):
    """A name has no address; ``reason`` is one of the ``DNS_*`` reasons.

    ``outage_s`` is for how long no other name has got an address either, so that nothing is known
    about this one; 0 when others do.
    """

    def __init__(self, name: str, reason: Reason, detail: str = "", outage_s: float = 0.0) -> None:
        super().__init__(f"{name}: {detail or reason.meaning}")
        self.name, self.reason, self.detail, self.outage_s = name, reason, detail, outage_s


class SeedFeed(Protocol):
    """The source of the seeds of a crawl."""

    def take_seeds(self, most: int) -> list[str]:
        """The next seeds; fewer than ``most`` only at the end."""
        ...

    def note_committed(self) -> None:
        """Note that the last seeds that were taken are committed."""
        ...
