"""What a synthetic web is like: one frozen value, from which every host and page follows."""

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
    """The shape of a web. Shares and rates are in [0, 1].

    ``pages`` is the mean number of pages of a host, spread as ``distribution`` says: ``zipf``
    (Pareto with exponent 1.5, few giants), ``lognormal`` (sigma 1) or ``fixed``; ``page_counts``
    gives the first hosts' numbers outright. ``links`` is the mean number of links of a page,
    ``cross_links`` the share of them that lead to other hosts (0 = hosts do not know each other).
    ``page_bytes`` is the mean size of an HTML body. ``latency_s`` is the mean time to the first
    byte, over all hosts.

    ``error_rate`` is the share of first and second requests of a page that are answered with 503;
    the third always works, so that a crawler that tries three times misses nothing.
    ``changes_per_day`` is the mean for a page (0 = nothing ever changes). Shares of pages:
    ``redirects``, ``gone`` (404 or 410), ``duplicates`` (the bytes of another page),
    ``near_duplicates`` (a few words differ), ``noindex`` and ``nofollow`` (meta robots);
    ``nofollow_links`` and ``variants`` (``?view=print`` with a canonical link) are shares of links.
    ``gzip`` and ``chunked`` are shares of answers. ``dead_hosts`` is the share of hosts whose name
    does not resolve.

    ``robots`` is the share of hosts with one of ``robots_variants`` (see ``RobotsVariant``) instead
    of a file that allows everything. ``misbehaviours`` gives for a name (see ``Misbehaviour``) the
    share of pages that link to it; every one can be requested under ``/bad/`` on every host anyway.
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
