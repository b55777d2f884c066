"""A web, as far as it decides how long a crawl takes: sizes, speed, errors, changes, robots.txt.

A ``Web`` describes hundreds of millions of hosts by a few numbers. ``host_sizes`` converts it to
the pages of each of ``n`` hosts that represent all of them: the hosts in the order of their sizes,
divided into ``n`` equal shares, and of each share the mean. So the sum is right for every ``n``,
and a smaller sample loses only the differences of sizes within a share.
"""

from __future__ import annotations

from enum import Enum
from statistics import NormalDist
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

_PARETO = 1.5  # exponent of the sizes of sites, as in the synthetic web
_SIGMA = 1.0  # of the lognormal spread
_STEPS = 4000  # of the integral, from the largest host of 10^12 to all of them
_MIN = 1e-12
_LARGEST = 1000.0  # times the mean, by default


class Sizes(Enum):
    """How pages are distributed over hosts."""

    ZIPF = "zipf"  # Pareto with exponent 1.5: few giants
    LOGNORMAL = "lognormal"  # sigma 1
    FIXED = "fixed"  # all the same


class Web(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shape of a web.

    A page links to pages of the same host; every host's first page is known from the start.
    """

    hosts: Annotated[int, Meta(description="Hosts.", ge=1)] = 4_500_000
    pages: Annotated[int, Meta(description="Pages of all hosts together.", ge=1)] = 100_000_000
    sizes: Annotated[
        Sizes,
        Meta(
            description=(
                "How pages are distributed over hosts: zipf (exponent 1.5), lognormal (sigma 1) or"
                " fixed."
            )
        ),
    ] = Sizes.ZIPF
    largest: Annotated[
        int,
        Meta(
            description="Maximum number of pages of one host; 0 is a thousand times the mean.", ge=0
        ),
    ] = 0
    page_bytes: Annotated[
        int, Meta(description="Mean body of a page as sent, compressed or not.", ge=0)
    ] = 20_000
    latency_s: Annotated[
        float,
        Meta(
            description=(
                "Mean time of a host to its first byte; exponential, at least a tenth of it."
            ),
            ge=0,
        ),
    ] = 0.3
    server_bytes_per_s: Annotated[
        int, Meta(description="Speed of the body of one answer.", ge=1)
    ] = 2_500_000
    errors: Annotated[
        float,
        Meta(
            description="Share of requests answered with 500 or 503, both equally often.",
            ge=0,
            le=1,
        ),
    ] = 0.01
    dead: Annotated[
        float, Meta(description="Share of hosts whose name does not resolve.", ge=0, le=1)
    ] = 0.05
    changes_per_day: Annotated[
        float,
        Meta(
            description=(
                "Mean changes of a page per day; pages differ exponentially, times are random."
            ),
            ge=0,
        ),
    ] = 0.05
    validators: Annotated[
        float,
        Meta(description="Share of hosts that answer 304 when a page has not changed.", ge=0, le=1),
    ] = 0.4
    robots_delay: Annotated[
        float, Meta(description="Share of hosts whose robots.txt asks for a delay.", ge=0, le=1)
    ] = 0.03
    robots_delay_s: Annotated[
        float, Meta(description="The delay in these robots.txt files.", ge=0)
    ] = 10.0
    hosts_per_address: Annotated[int, Meta(description="Hosts that share an address.", ge=1)] = 4
    branches: Annotated[
        int, Meta(description="New pages that a page links to, as long as its host has any.", ge=1)
    ] = 10

    def __post_init__(self) -> None:
        if self.pages < self.hosts:
            raise ValueError(
                f"{self.pages:,} pages on {self.hosts:,} hosts: each host needs at least one page"
            )
        if 0 < self.largest < self.pages / self.hosts:
            raise ValueError(
                f"the largest host cannot have {self.largest:,} pages, fewer than the mean of"
                f" {self.pages / self.hosts:,.1f}"
            )


def host_sizes(web: Web, count: int) -> NDArray[np.int64]:
    """Pages of ``count`` hosts that represent all, the largest first.

    Their mean is the web's, up to the rounding of one host.
    """
    mean = web.pages / web.hosts
    edges = np.concatenate([[0.0], np.geomspace(_MIN, 1.0, _STEPS)])
    middles = np.sqrt(np.maximum(edges[1:], _MIN / 10) * np.maximum(edges[:-1], _MIN / 10))
    upto = np.concatenate([[0.0], np.cumsum(_sizes_at(web, middles) * np.diff(edges))])
    shares = np.diff(np.interp(np.linspace(0.0, 1.0, count + 1), edges, upto))
    shares = np.clip(shares * mean / shares.mean(), 1.0, max(web.largest or mean * _LARGEST, 1.0))
    # clipped pages are redistributed in proportion
    shares = 1.0 + (shares - 1.0) * ((mean - 1.0) / max(shares.mean() - 1.0, 1e-12))
    return np.diff(np.round(np.cumsum(shares)), prepend=0.0).astype(np.int64).clip(1)


def _sizes_at(web: Web, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """The size, in means, of the host that is smaller than a share ``ranks`` of all hosts."""
    if web.sizes is Sizes.FIXED:
        return np.ones_like(ranks)
    largest = web.largest / (web.pages / web.hosts) if web.largest else _LARGEST
    if web.sizes is Sizes.ZIPF:
        sizes = ranks ** (-1.0 / _PARETO) / 3.0  # the mean is three times the minimum
    else:
        normal = NormalDist()
        sizes = np.exp(
            _SIGMA
            * np.array(
                [normal.inv_cdf(1.0 - min(max(rank, _MIN), 1 - _MIN)) for rank in ranks.tolist()]
            )
            - _SIGMA**2 / 2
        )
    return np.minimum(sizes, largest)
