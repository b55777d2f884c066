"""Outside fetchers: programs that lease URLs from the frontier and return what they fetched.

A lease is a row of the owner's table. It is answered only after the commit that holds it, so it
survives restarts and moves. Its id contains the partition, so that a result finds its owner. The
host of a leased URL counts as busy until the result arrives, or else until the lease has expired,
plus a tolerance for the fetcher's clock; then its delay follows.
"""

from __future__ import annotations

from enum import Enum

import msgspec

MOST_LENT, LONGEST_LEASE_S = 100, 3600.0
"""Bounds of a call: URLs or results, and seconds for which URLs are lent."""


class LeaseUrls(msgspec.Struct, frozen=True, tag=True):
    """Ask for at most ``most`` URLs, each of another host, for ``lease_s`` seconds.

    ``call`` is an id that the caller chose: a repeated call gets the same leases. ``holder`` names
    the fetcher.
    """

    call: str
    holder: str
    most: int
    lease_s: float


class LeasedUrl(msgspec.Struct, frozen=True):
    """A URL that its holder may request once, before ``expires`` (wall time in seconds).

    ``address`` is the IP address to connect to. ``robots`` says which rule of robots.txt allows the
    URL. ``etag`` and ``last_modified`` are validators for a conditional request. ``priority`` is
    that in the queue, 0 to 1.
    """

    lease: str
    url: str
    host: str
    address: str
    robots: str
    crawl_delay_s: float
    expires: float
    etag: str = ""
    last_modified: str = ""
    priority: float = 0.0


class UrlsLeased(msgspec.Struct, frozen=True, tag=True):
    """The leases. Without any, another may be possible in ``next_in_s`` (negative = unknown)."""

    urls: list[LeasedUrl]
    next_in_s: float = -1.0


class OutsideResult(msgspec.Struct, frozen=True):
    """What became of a leased URL.

    Either ``warc`` has a response record of WARC 1.1, or ``status``, ``headers`` and ``body`` have
    the answer, or ``error`` says why there is none. ``retry_after_s`` is what the host asked for
    (negative = nothing). ``lease`` is the id of the lease, or that of its call behind those of
    partition and URL. ``missing_bytes`` is the size of a body that is not given.
    """

    lease: str
    status: int = 0
    headers: list[tuple[str, str]] = []
    body: bytes = b""
    warc: bytes = b""
    error: str = ""
    retry_after_s: float = -1.0
    began: float = 0.0
    ended: float = 0.0
    missing_bytes: int = 0


class GiveResults(msgspec.Struct, frozen=True, tag=True):
    """Results of leases of one partition; a lease is settled once, so a call may be repeated."""

    holder: str
    results: list[OutsideResult]


class ResultVerdict(Enum):
    """What became of a result."""

    TAKEN = "taken"  # committed
    LATE = "late"  # the lease has expired, and the URL returned to its queue
    UNKNOWN = "unknown"  # there was never such a lease, or its shard did not answer
    REFUSED = "refused"  # the result cannot be read; the lease still holds


class ResultTaken(msgspec.Struct, frozen=True):
    """A lease and what became of its result."""

    lease: str
    verdict: ResultVerdict
    reason: str = ""


class ResultsTaken(msgspec.Struct, frozen=True, tag=True):
    """The verdicts, in the order of the results."""

    verdicts: list[ResultTaken]
