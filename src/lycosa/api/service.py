"""What callers can ask of a crawl and tell it: the endpoints and the operator's page use this.

The service is a caller of the coordinator and of the owners of partitions, as any other program
could be. It decides which partition a host belongs to, asks all owners at the same time where a
question is about all of them, and merges their lists. Every question has a deadline: an owner that
does not answer is reported, and nothing waits for it longer.
"""

from __future__ import annotations

from typing import Any, Protocol

from lycosa.api.answers import Listing, Rates
from lycosa.calls import (
    ActionsQuery,
    CapturesQuery,
    ContentFound,
    ContentQuery,
    DeadLetterDecision,
    DeadLettersQuery,
    DecisionAnswer,
    GivenUrl,
    GivenVerdict,
    HostDecision,
    HostsQuery,
    HostUrlsQuery,
    LeasedUrl,
    OutsideResult,
    ResultTaken,
)
from lycosa.cluster.messages import ClusterStatus


class CrawlService(Protocol):
    """The crawl, as its callers see it.

    All methods raise ``OwnerSilent`` when the one owner that can answer does not, ``ServiceBusy``,
    and ``ServiceRefusal``; those about the whole crawl raise ``CoordinatorSilent``. ``by`` names
    the operator or program for the log of actions.
    """

    # -- the whole crawl, by its coordinator

    async def status(self) -> ClusterStatus:
        """The last state that the coordinator gave, at most a second old while it answers."""
        ...

    async def counts(self) -> dict[str, Any]:
        """Counters of the whole crawl, rates, hosts and workers, as ``GET /stats`` shows them."""
        ...

    def rates(self) -> Rates:
        """Captures a second."""
        ...

    async def settings(self) -> dict[str, str]:
        """The live settings by name, with their present values as text."""
        ...

    async def change_settings(self, values: dict[str, str], by: str) -> None:
        """Change live settings; all owners receive them."""
        ...

    async def pause(self, is_paused: bool, by: str) -> None:
        """Start no request until the crawl is resumed (``is_paused`` false)."""
        ...

    async def stop(self, by: str, at_once: bool = False) -> None:
        """End the crawl; it can be resumed."""
        ...

    # -- what is stored, by the owners

    async def hosts(self, query: HostsQuery) -> Listing:
        """Hosts of all partitions; ``query.after`` is the cursor of the listing before."""
        ...

    async def host(self, host: str) -> dict[str, Any] | None:
        """One host; ``None`` when the crawl does not know it."""
        ...

    async def host_urls(self, query: HostUrlsQuery) -> Listing:
        """The URLs of one host."""
        ...

    async def url(self, url: str) -> dict[str, Any] | None:
        """One URL, as ``lycosa explain --json`` shows it; ``url`` may be a hash."""
        ...

    async def captures(self, query: CapturesQuery) -> Listing:
        """The captures of one URL, newest first."""
        ...

    async def content(self, query: ContentQuery) -> ContentFound:
        """A piece of a stored body."""
        ...

    async def dead_letters(self, query: DeadLettersQuery) -> Listing:
        """Dead letters of all partitions."""
        ...

    async def actions(self, query: ActionsQuery) -> Listing:
        """The log of operators' decisions of all partitions, newest first."""
        ...

    # -- decisions and other programs

    async def decide_host(self, decision: HostDecision) -> DecisionAnswer:
        """Apply a decision about a host; returns after the commit."""
        ...

    async def decide_dead_letters(self, decision: DeadLetterDecision) -> DecisionAnswer:
        """Apply a decision about dead letters of all partitions; returns after the commits."""
        ...

    async def seed(self, urls: list[str], by: str) -> list[GivenVerdict]:
        """Give seeds; returns a verdict for each, after the commits."""
        ...

    async def give_urls(self, urls: list[GivenUrl], by: str) -> list[GivenVerdict]:
        """Give URLs; returns a verdict for each, ``UNKNOWN`` for those of silent owners."""
        ...

    async def lease(self, holder: str, most: int, lease_s: float, wait_s: float) -> list[LeasedUrl]:
        """Lease URLs to an outside fetcher, waiting at most ``wait_s`` for the first one."""
        ...

    async def results(self, holder: str, results: list[OutsideResult]) -> list[ResultTaken]:
        """Take results of outside fetchers; ``UNKNOWN`` for those of silent owners."""
        ...
