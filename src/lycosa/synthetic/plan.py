"""The description of a synthetic web: one frozen value that determines every host and page."""

from __future__ import annotations

from typing import Literal

import msgspec

BENIGN_ROBOTS = (
    "absent",
    "section",
    "wildcard",
    "delay",
    "other-agent",
    "byte-order-mark",
    "redirect",
)


class WebPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a web. Shares and rates are in [0, 1].

    ``pages`` is the mean number of pages of a host, distributed by ``distribution``: ``zipf``
    (Pareto with exponent 1.5, few giants), ``lognormal`` (sigma 1) or ``fixed``; ``page_counts``
    sets the numbers of the first hosts directly. ``links`` is the mean number of links of a page,
    ``cross_links`` the share of links to other hosts (0 = no links between hosts). ``page_bytes``
    is the mean size of an HTML body. ``latency_s`` is the mean time to the first byte, over all
    hosts.

    ``error_rate`` is the share of first and second requests of a page that get a 503. The third
    always succeeds, so a crawler that tries three times misses nothing. ``changes_per_day`` is the
    mean for a page (0 = nothing ever changes). Shares of pages: ``redirects``, ``gone`` (404 or
    410), ``duplicates`` (the bytes of another page), ``near_duplicates`` (a few words differ),
    ``noindex`` and ``nofollow`` (meta robots). Shares of links: ``nofollow_links`` and ``variants``
    (``?view=print`` with a canonical link). Shares of responses: ``gzip`` and ``chunked``.
    ``dead_hosts`` is the share of hosts whose name does not resolve.

    ``robots`` is the share of hosts with one of ``robots_variants`` (see ``RobotsVariant``) instead
    of a file that allows everything. ``misbehaviours`` gives for each name (see ``Misbehaviour``)
    the share of pages that link to it. Each of them can be requested under ``/bad/`` on every host
    in any case.
    """

    seed: int = 0
    hosts: int = 10
    pages: float = 20.0
    distribution: Literal["zipf", "lognormal", "fixed"] = "fixed"
    page_counts: tuple[int, ...] = ()
    page_bytes: int = 8000
    links: int = 12
    cross_links: float = 0.1
    nofollow_links: float = 0.02
    variants: float = 0.0
    redirects: float = 0.03
    gone: float = 0.0
    duplicates: float = 0.02
    near_duplicates: float = 0.03
    noindex: float = 0.02
    nofollow: float = 0.01
    gzip: float = 0.2
    chunked: float = 0.1
    latency_s: float = 0.1
    error_rate: float = 0.0
    changes_per_day: float = 0.0
    dead_hosts: float = 0.0
    robots: float = 0.0
    robots_variants: tuple[str, ...] = BENIGN_ROBOTS
    sitemaps: bool = False
    feeds: bool = False
    misbehaviours: dict[str, float] = {}

    def __post_init__(self) -> None:
        if self.hosts < 1 or self.pages < 1 or self.links < 1 or self.page_bytes < 0:
            raise ValueError("a web has at least one host, one page per host and one link per page")
        shares = (
            "cross_links",
            "nofollow_links",
            "variants",
            "gzip",
            "chunked",
            "error_rate",
            "dead_hosts",
            "robots",
        )
        species = ("redirects", "gone", "duplicates", "near_duplicates", "noindex", "nofollow")
        for name in (*shares, *species):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is a share between 0 and 1, not {getattr(self, name)}")
        if sum(getattr(self, name) for name in species) > 1.0:
            raise ValueError(
                f"{', '.join(species)} are shares of the same pages and add up to more than 1"
            )
